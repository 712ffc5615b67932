"""Datasets that several portals list: who else has an item, and which of them is the original."""

from collections.abc import Iterable, Sequence
from typing import Any

from rowen.model import twins
from rowen.model.twins import Families, TwinGroup, TwinItem
from rowen.store.database import Connection, Database
from rowen.store.packed import whole
from rowen.store.rows import all_rows

__all__ = ["MAKE_LISTING", "fill", "group_of", "groups", "listing"]

# City, region, nation, union: a dataset has few stations. The bound is for those who would make a long chain.
_STEPS = 8
# As many as a group of a harvest: a transaction of a moment.
_FILLED_AT_ONCE = 500


async def groups(c: Connection, item_ids: Sequence[int]) -> dict[int, TwinGroup]:
    """The group of each of these items, and of every other member; items that nobody else lists are left out."""
    families = [family for family in await _families(c, item_ids) if not set(item_ids).isdisjoint(family)]
    listings = await _read(c, [item for family in families for item in family])
    found: dict[int, TwinGroup] = {}
    for family in families:
        members = [listings[item] for item in family if item in listings]
        if len(members) > 1:
            found |= dict.fromkeys((one.id for one in members), group_of(members))
    return found


def group_of(members: Sequence[TwinItem]) -> TwinGroup:
    """The group of listings that belong together."""
    first = twins.original(members)
    return TwinGroup(
        first, tuple(sorted((m for m in members if m is not first), key=lambda one: (one.source, one.url)))
    )


async def _families(c: Connection, item_ids: Sequence[int]) -> Families:
    rows = await all_rows(c, "select distinct unnest(twins) from item where id = any(%s)", [list(item_ids)])
    families = Families()
    asked: set[int] = set()
    marks = {mark for (mark,) in rows}
    for _ in range(_STEPS):
        if not marks:
            break
        asked |= marks
        marks = await _join(c, families, sorted(marks)) - asked
    return families


async def _join(c: Connection, families: Families, marks: list[int]) -> set[int]:
    """Join the holders of marks; returns all marks of those that were joined."""
    rows = await all_rows(
        c,
        """
            select mark, found.id, found.source_id, found.twins
              from unnest(%s::bigint[]) as mark,
                   lateral (select id, source_id, twins from item where twins @> array[mark] limit %s) found
             order by mark
            """,
        [marks, twins.MOST_HOLDERS + 1],
    )
    holders: dict[int, list[tuple[int, int]]] = {}
    for mark, item, source, _ in rows:
        holders.setdefault(mark, []).append((item, source))
    joined = {mark for mark, those in holders.items() if families.join(mark, those)}
    return {other for mark, _, _, others in rows if mark in joined for other in others}


MAKE_LISTING = """
select item.id, source.name, item.url, item.title, item.key, source.url, item.created_at,
       item.record - 'resources', item.source_record{more}
  from item join source on source.id = item.source_id {join}
"""


def listing(row: Sequence[Any]) -> TwinItem:
    """A row of `MAKE_LISTING`."""
    item, source, url, title, key, portal, created_at, facts, own = row
    record = whole(facts, own)
    issued = str(record.get("issued") or "")
    return TwinItem(
        *(item, source, url, title, key, twins.host_of(portal), issued, created_at, twins.named_hosts(record))
    )


async def _read(c: Connection, item_ids: Sequence[int]) -> dict[int, TwinItem]:
    if not item_ids:
        return {}
    statement = MAKE_LISTING.format(more="", join="where item.id = any(%s)")
    rows = await all_rows(c, statement.encode(), [list(item_ids)])
    return {row[0]: listing(row) for row in rows}


async def fill(database: Database, source_id: int) -> int:
    """Give marks to the datasets of a source that have none yet; returns how many there were.

    Only datasets of a database that is older than marks have none. Which sources have such is asked once a process.
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
        (item, twins.as_array(twins.marks_of(whole(facts, own), url=url, text=text, content_hash=content)))
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
