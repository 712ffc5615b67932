"""Group datasets that several portals publish, and read the catalog, which lists each dataset once."""

from collections.abc import Mapping, Sequence
from typing import Any

from rowen.model import datasets
from rowen.model.datasets import DATASET, CatalogPage, CatalogPlace, Families, ListedDataset, TwinGroup, TwinItem
from rowen.store.database import Connection, Database
from rowen.store.items.items import whole
from rowen.store.rows import all_rows, column

STEPS = 8
"""Maximum number of portals from the original to a copy (city, region, nation, union); stops artificial chains."""
# Datasets that are marked in one transaction: as many as a group of a harvest, so that it is short.
_MARKED_AT_ONCE = 500


async def groups(c: Connection, item_ids: Sequence[int]) -> dict[int, TwinGroup]:
    """Return the group of each of these items and of every other member; items without a group are left out."""
    families = Families()
    seen: set[int] = set()
    marks = set(await column(c, "select distinct unnest(twins) from item where id = any(%s)", [list(item_ids)]))
    for _ in range(STEPS):
        if not marks:
            break
        seen |= marks
        query = """
            select mark, holder.id, holder.source_id, holder.twins
              from unnest(%s::bigint[]) as mark,
                   lateral (select id, source_id, twins from item where twins @> array[mark] limit %s) holder
             order by mark
        """
        rows = await all_rows(c, query, [sorted(marks), datasets.MOST_HOLDERS + 1])
        holders: dict[int, list[tuple[int, int]]] = {}
        for mark, item, source, _ in rows:
            holders.setdefault(mark, []).append((item, source))
        joined = {mark for mark, items in holders.items() if families.join(mark, items)}
        marks = {other for mark, _, _, others in rows if mark in joined for other in others} - seen
    chosen = [family for family in families if not set(item_ids).isdisjoint(family)]
    members = [item for family in chosen for item in family]
    statement = MAKE_LISTING.format(more="", join="where item.id = any(%s)").encode()
    listings = {row[0]: listing(row) for row in await all_rows(c, statement, [members])} if members else {}
    by_item: dict[int, TwinGroup] = {}
    for family in chosen:
        listed = [listings[item] for item in family if item in listings]
        if len(listed) > 1:
            by_item |= dict.fromkeys((member.id for member in listed), group_of(listed))
    return by_item


def group_of(members: Sequence[TwinItem]) -> TwinGroup:
    """Return the group of these listings, with its original."""
    first = datasets.original(members)
    return TwinGroup(
        first, tuple(sorted((m for m in members if m is not first), key=lambda member: (member.source, member.url)))
    )


MAKE_LISTING = """
select item.id, source.name, item.url, item.title, item.key, source.url, item.created_at,
       item.record - 'resources', item.source_record{more}
  from item join source on source.id = item.source_id {join}
"""


def listing(row: Sequence[Any]) -> TwinItem:
    """Return the listing of a row of `MAKE_LISTING`."""
    item, source, url, title, key, portal, created_at, facts, packed = row
    record = whole(facts, packed)
    rest = datasets.host_of(portal), str(record.get("issued") or ""), created_at, datasets.named_hosts(record)
    return TwinItem(item, source, url, title, key, *rest)


async def fill_marks(database: Database, source_id: int) -> int:
    """Compute the missing duplicate marks of a source's datasets; return how many datasets had none.

    Only databases older than duplicate marks have such datasets. Which sources have some is read once per process.
    """
    unmarked = "twins is null and media_type = 'application/vnd.rowen.dataset+json'"
    if database.unmarked_sources is None:
        async with database.connection() as c:
            statement = f"select distinct source_id from item where {unmarked}"  # noqa: S608 (a constant)
            database.unmarked_sources = set(await column(c, statement))
    if source_id not in database.unmarked_sources:
        return 0
    filled = 0
    while True:
        async with database.transaction() as c:
            query = f"""
                select id, record, source_record, url, text, content_hash from item
                 where source_id = %s and {unmarked} order by id limit %s for update
            """  # noqa: S608 (a constant)
            rows = await all_rows(c, query, [source_id, _MARKED_AT_ONCE])
            marks = [
                datasets.as_array(datasets.marks_of(whole(facts, packed), url=url, text=text, content_hash=content))
                for _, facts, packed, url, text, content in rows
            ]
            await c.execute(
                "update item set twins = new.twins::bigint[] from unnest(%s::bigint[], %s::text[]) as new(id, twins)"
                " where item.id = new.id",
                [[row[0] for row in rows], marks],
            )
        filled += len(rows)
        if len(rows) < _MARKED_AT_ONCE:
            break
    database.unmarked_sources.discard(source_id)
    return filled


# Written out, since the index of datasets has this very condition.
_IS_DATASET = f"item.media_type = '{DATASET}'"


async def count_datasets(c: Connection) -> dict[int, int]:
    """Return the number of datasets of each source that has some, in the order of source ids.

    A dataset in several portals counts once for each of them.
    """
    rows = await all_rows(c, f"select source_id, count(*) from item where {_IS_DATASET} group by 1 order by 1".encode())  # noqa: S608 (a constant)
    return dict(rows)


# The next page of datasets in the order of source and key: of each source a page full, and of these the first page.
_PAGE = f"""
select item.id, item.source_id, item.key, source.name, item.url, item.title, item.text, item.tags, item.language,
       item.updated_at, item.record - 'source', item.source_record
  from (select listed.* from unnest(%(sources)s::bigint[]) as holder(source_id)
         cross join lateral (
               select id, source_id, key from item
                where item.source_id = holder.source_id and {_IS_DATASET}
                  and key > case when holder.source_id = %(first)s then %(key)s::bytea else '' end
                order by key limit %(limit)s) listed
         order by source_id, key limit %(limit)s) place
  join item on item.id = place.id
  join source on source.id = item.source_id
 order by item.source_id, item.key
"""  # noqa: S608 (a constant)


async def page_of_datasets(
    c: Connection, counts: Mapping[int, int], *, after: CatalogPlace | None, limit: int, merged: bool = True
) -> CatalogPage:
    """Return a page of datasets, source by source; `counts` are the numbers of datasets of the sources.

    If `merged`, only the original of each group of duplicates is listed. The catalog of one source lists all its
    datasets.
    """
    first, key = after or CatalogPlace(0, b"")
    # The sources that fill a page together; some datasets of the first source may be on earlier pages.
    sources: list[int] = []
    wanted = limit + 1
    for source_id, count in counts.items():
        if source_id >= first and wanted > 0:
            wanted -= count if source_id > first else 0
            sources.append(source_id)
    rows = await all_rows(c, _PAGE.encode(), {"sources": sources, "first": first, "key": key, "limit": limit + 1})
    page, more = rows[:limit], len(rows) > limit
    copies: set[int] = set()
    if merged:
        twins = await groups(c, [row[0] for row in page])
        copies = {item_id for item_id, group in twins.items() if group.original.id != item_id}
    datasets = []
    for item_id, _, key, name, url, title, text, tags, language, updated_at, record, packed in page:
        if item_id not in copies:
            facts = {field: value for field, value in whole(record, packed).items() if field != "source"}
            datasets.append(ListedDataset(key, name, url, title, text, tuple(tags), language, updated_at, facts))
    return CatalogPage(tuple(datasets), CatalogPlace(*page[-1][1:3]) if more else None)
