"""Datasets that several portals publish: their groups, and the catalog in which each dataset stands once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rowen.model import datasets
from rowen.model.datasets import DATASET, CatalogPage, CatalogPlace, Families, ListedDataset, TwinGroup, TwinItem
from rowen.store.database import Connection, Database
from rowen.store.items.items import whole
from rowen.store.rows import all_rows

# City, region, nation, union: a dataset passes few portals. The bound is against artificial chains.
_STEPS = 8
# As many as a group of a harvest: a short transaction.
_FILLED_AT_ONCE = 500


async def groups(c: Connection, item_ids: Sequence[int]) -> dict[int, TwinGroup]:
    """Return the group of each of these items, and of every other member; items in no group are left out."""
    families = [family for family in await _families(c, item_ids) if not set(item_ids).isdisjoint(family)]
    listings = await _read(c, [item for family in families for item in family])
    by_item: dict[int, TwinGroup] = {}
    for family in families:
        members = [listings[item] for item in family if item in listings]
        if len(members) > 1:
            by_item |= dict.fromkeys((member.id for member in members), group_of(members))
    return by_item


def group_of(members: Sequence[TwinItem]) -> TwinGroup:
    """Return the group of listings that belong together."""
    first = datasets.original(members)
    return TwinGroup(
        first, tuple(sorted((m for m in members if m is not first), key=lambda member: (member.source, member.url)))
    )


async def _families(c: Connection, item_ids: Sequence[int]) -> Families:
    rows = await all_rows(c, "select distinct unnest(twins) from item where id = any(%s)", [list(item_ids)])
    families = Families()
    seen: set[int] = set()
    marks = {mark for (mark,) in rows}
    for _ in range(_STEPS):
        if not marks:
            break
        seen |= marks
        marks = await _join(c, families, sorted(marks)) - seen
    return families


async def _join(c: Connection, families: Families, marks: list[int]) -> set[int]:
    """Join the items that have these marks; return all marks of the joined items."""
    rows = await all_rows(
        c,
        """
            select mark, found.id, found.source_id, found.twins
              from unnest(%s::bigint[]) as mark,
                   lateral (select id, source_id, twins from item where twins @> array[mark] limit %s) found
             order by mark
            """,
        [marks, datasets.MOST_HOLDERS + 1],
    )
    holders: dict[int, list[tuple[int, int]]] = {}
    for mark, item, source, _ in rows:
        holders.setdefault(mark, []).append((item, source))
    joined = {mark for mark, items in holders.items() if families.join(mark, items)}
    return {other for mark, _, _, others in rows if mark in joined for other in others}


MAKE_LISTING = """
select item.id, source.name, item.url, item.title, item.key, source.url, item.created_at,
       item.record - 'resources', item.source_record{more}
  from item join source on source.id = item.source_id {join}
"""


def listing(row: Sequence[Any]) -> TwinItem:
    """Return the listing of a row of `MAKE_LISTING`."""
    item, source, url, title, key, portal, created_at, facts, own = row
    record = whole(facts, own)
    issued = str(record.get("issued") or "")
    return TwinItem(
        *(item, source, url, title, key, datasets.host_of(portal), issued, created_at, datasets.named_hosts(record))
    )


async def _read(c: Connection, item_ids: Sequence[int]) -> dict[int, TwinItem]:
    if not item_ids:
        return {}
    statement = MAKE_LISTING.format(more="", join="where item.id = any(%s)")
    rows = await all_rows(c, statement.encode(), [list(item_ids)])
    return {row[0]: listing(row) for row in rows}


async def fill_marks(database: Database, source_id: int) -> int:
    """Compute the marks of datasets of a source that have none yet; return how many there were.

    Only databases older than marks have such datasets. Which sources do is read once per process.
    """
    if database.unmarked_sources is None:
        async with database.connection() as c:
            database.unmarked_sources = {source for (source,) in await all_rows(c, _SOURCES_UNMARKED)}
    if source_id not in database.unmarked_sources:
        return 0
    filled = await _fill(database, source_id)
    database.unmarked_sources.discard(source_id)
    return filled


async def _fill(database: Database, source_id: int) -> int:
    filled = 0
    while True:
        async with database.transaction() as c:
            rows = await _unmarked(c, source_id)
            await _mark(c, rows)
        filled += len(rows)
        if len(rows) < _FILLED_AT_ONCE:
            return filled


_UNMARKED = "twins is null and media_type = 'application/vnd.rowen.dataset+json'"
_SOURCES_UNMARKED = f"select distinct source_id from item where {_UNMARKED}"  # noqa: S608 (a constant)


async def _unmarked(c: Connection, source_id: int) -> list[tuple[int, str]]:
    rows = await all_rows(
        c,
        "select id, record, source_record, url, text, content_hash from item"  # noqa: S608 (a constant)
        f" where source_id = %s and {_UNMARKED} order by id limit %s for update",
        [source_id, _FILLED_AT_ONCE],
    )
    return [
        (item, datasets.as_array(datasets.marks_of(whole(facts, own), url=url, text=text, content_hash=content)))
        for item, facts, own, url, text, content in rows
    ]


async def _mark(c: Connection, rows: Iterable[tuple[int, str]]) -> None:
    ids, marks = [item for item, _ in rows], [written for _, written in rows]
    if ids:
        await c.execute(
            "update item set twins = new.twins::bigint[] from unnest(%s::bigint[], %s::text[]) as new(id, twins)"
            " where item.id = new.id",
            [ids, marks],
        )


# Written out, since the index of datasets has this very condition.
_IS_DATASET = f"item.media_type = '{DATASET}'"


async def count_datasets(c: Connection) -> dict[int, int]:
    """Return how many datasets each source with datasets lists, in the order of their ids.

    Those in several portals count as often as they are listed.
    """
    rows = await all_rows(c, f"select source_id, count(*) from item where {_IS_DATASET} group by 1 order by 1".encode())  # noqa: S608 (a constant)
    return dict(rows)


# A page full of datasets of each source, and the first page of these: each source has its datasets in order.
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
    """Return a page of datasets, source by source; `held` are the numbers of datasets of the sources.

    If `merged`, the original stands for all listings of a dataset. The catalog of one source keeps its own listings.
    """
    first, key = after or CatalogPlace(0, b"")
    sources = list(_enough(counts, first, limit))
    rows = await all_rows(c, _PAGE.encode(), {"sources": sources, "first": first, "key": key, "limit": limit + 1})
    kept, more = rows[:limit], len(rows) > limit
    copies: set[int] = set()
    if merged:
        listed = await groups(c, [row[0] for row in kept])
        copies = {number for number, group in listed.items() if group.original.id != number}
    datasets = tuple(
        ListedDataset(key, name, url, title, text, tuple(tags), language, updated_at, _facts(record, packed))
        for number, _, key, name, url, title, text, tags, language, updated_at, record, packed in kept
        if number not in copies
    )
    return CatalogPage(datasets, CatalogPlace(*kept[-1][1:3]) if more else None)


def _facts(record: Mapping[str, Any], packed: bytes | None) -> dict[str, Any]:
    """Return a record without the source record that it was made from."""
    return {name: value for name, value in whole(record, packed).items() if name != "source"}


def _enough(counts: Mapping[int, int], first: int, limit: int) -> Iterator[int]:
    """Yield the sources from one on that fill a page together; some of the first one may be on earlier pages."""
    wanted = limit + 1
    for source_id, count in counts.items():
        if source_id >= first and wanted > 0:
            wanted -= count if source_id > first else 0
            yield source_id
