"""Export all items in one snapshot of the database, streamed in the order of their keys.

The unique index has this order already, so nothing is sorted and nothing accumulates. Duplicates across portals are
computed by the server in temporary tables of the transaction.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from rowen.model import datasets
from rowen.store.database import Connection, Database
from rowen.store.items.duplicates import MAKE_LISTING, STEPS, group_of, listing
from rowen.store.items.items import FACTS_JSON, RECORD_KIND, whole_json
from rowen.store.rows import affected, all_rows, number
from rowen.store.runs import BEYOND_LIMIT, LAST_WHOLE

# Rows in memory at a time, some MB with their texts and records; with more, memory is freed and allocated repeatedly.
_BATCH = 100
_RECORD_AT = 5  # behind key, URL, title, text and tags


@dataclass(frozen=True, slots=True)
class Exported:
    """A source of exported items, and how fresh and complete its items are."""

    id: int
    name: str
    kind: str
    url: str
    state: str
    options: dict[str, Any]
    schedule: str | None
    deletions_held: int
    run_id: int | None
    run_status: str | None
    run_complete: bool | None
    run_started_at: datetime | None
    last_complete_at: datetime | None
    quarantined: int
    truncated: int


class Snapshot:
    """The index at one moment, read in a transaction that sees no later change."""

    def __init__(self, connection: Connection) -> None:
        self._c = connection

    async def last_change(self) -> int:
        """Return the number of the newest line of the change log."""
        return await number(self._c, "select coalesce(max(number), 0) from change")

    async def sources(self) -> list[Exported]:
        """Return all sources, sorted by name in the order of code points."""
        query = f"""
            select source.id, name, kind, url, state, options, schedule,
                   (select count(*) from item_held where item_held.source_id = source.id and kept_at is null),
                   last.id, last.status, last.complete, last.started_at, {LAST_WHOLE},
                   (select count(*) from quarantine where quarantine.source_id = source.id), {BEYOND_LIMIT}
              from source
              left join lateral (select * from run where source_id = source.id order by id desc limit 1) last
                   on true
        """  # noqa: S608 (constants)
        rows = await all_rows(self._c, query)
        return sorted((Exported(*row) for row in rows), key=lambda source: source.name)

    async def changes(self, after: int) -> AsyncGenerator[list[tuple[Any, ...]]]:
        """Yield the net changes of items after a number of the log, ordered by source and key, in batches.

        Each row contains the source's name, the item's key, URL, title and hashes, and whether the item is new, exists
        now, and has other content.
        """
        async with self._c.cursor(name="changes", binary=True) as cursor:
            await cursor.execute(_CHANGES, {"after": after})
            while rows := await cursor.fetchmany(_BATCH):
                yield rows

    async def rows(self, source_id: int, *, record_kinds: Sequence[str] = ()) -> AsyncGenerator[list[tuple[Any, ...]]]:
        """Yield the items of a source by key, in batches; with `record_kinds`, only items of these kinds.

        Call `find_twins` before.
        """
        await self._c.execute("set local enable_sort = off")
        async with self._c.cursor(name="export", binary=True) as cursor:
            query = f"""
                select item.key, item.url, item.title, item.text, item.tags, {FACTS_JSON}, item.language,
                       item.media_type, item.created_at, item.updated_at, item.content_hash, item.record_hash,
                       twin_of.original_key, twin_of.original_url, item.source_record
                  from item left join twin_of on twin_of.item_id = item.id
                 where item.source_id = %(source)s and (%(kinds)s::text[] is null or {RECORD_KIND} = any(%(kinds)s))
                 order by item.key
            """  # noqa: S608 (constants)
            await cursor.execute(query, {"source": source_id, "kinds": list(record_kinds) or None})
            while rows := await cursor.fetchmany(_BATCH):
                yield [_with_record(row) for row in rows]

    async def withdrawn(self, source_id: int, *, days: float) -> AsyncGenerator[list[tuple[Any, ...]]]:
        """Yield the copies of items deleted in the last `days`: the columns of `rows`, with the time of deletion."""
        async with self._c.cursor(name="withdrawn", binary=True) as cursor:
            query = f"""
                select key, url, title, text, tags, {FACTS_JSON}, language, media_type,
                       created_at, updated_at, content_hash, record_hash, null::bytea, null::text, at, source_record
                  from withdrawn where source_id = %s and at > now() - make_interval(secs => %s) order by key
            """  # noqa: S608 (constants)
            await cursor.execute(query, [source_id, days * 86_400])
            while rows := await cursor.fetchmany(_BATCH):
                yield [_with_record(row) for row in rows]

    async def find_twins(self) -> int:
        """Find the items that are duplicates across portals; return how many."""
        for statement in (_SHARED, _HOLDERS, _LABELS, _TWIN_OF):
            await self._c.execute(statement)
        for _ in range(STEPS):
            if not await affected(self._c, _SPREAD):
                break
        count = 0
        async with self._c.cursor(name="twins") as cursor:
            await cursor.execute(
                MAKE_LISTING.format(
                    more=", label", join="join twin_label on item_id = item.id order by label, item.id"
                ).encode()
            )
            last_group: list[tuple[Any, ...]] = []
            while rows := await cursor.fetchmany(_BATCH):
                # The last group may continue in the next batch.
                groups = [list(group) for _, group in groupby(last_group + rows, key=lambda row: row[-1])]
                last_group = groups.pop()
                count += await self._store_originals(groups)
            count += await self._store_originals([last_group])
        await self._c.execute("create unique index on twin_of (item_id)")
        await self._c.execute("analyze twin_of")
        return count

    async def _store_originals(self, groups: Sequence[Sequence[tuple[Any, ...]]]) -> int:
        """Store the original of each item in some groups of duplicates; return the number of items."""
        originals = []
        for rows in groups:
            if rows:
                group = group_of([listing(row[:-1]) for row in rows])
                originals += [(member.id, group.original.key, group.original.url) for member in group.members]
        if originals:
            await self._c.execute(
                "insert into twin_of select * from unnest(%b::bigint[], %b::bytea[], %b::text[])",
                [list(column) for column in zip(*originals, strict=True)],
            )
        return len(originals)


@asynccontextmanager
async def snapshot(database: Database) -> AsyncIterator[Snapshot]:
    """Open a snapshot of the database in its present state."""
    async with database.transaction() as c:
        await c.execute("set transaction isolation level repeatable read")
        yield Snapshot(c)


def _with_record(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row of an item with its whole record; the last column of `row` is the compressed part."""
    *columns, own = row
    columns[_RECORD_AT] = whole_json(columns[_RECORD_AT], own)
    return tuple(columns)


# The net effect of the log on each key. An item that moved to another address existed before, and the item at the old
# address was not deleted.
_CHANGES = """
select coalesce(source.name, latest.source) as name, latest.key, latest.url, latest.title,
       coalesce(item.content_hash, latest.content_hash, ''), coalesce(item.record_hash, latest.record_hash, ''),
       latest.is_new, item.id is not null as is_there, latest.is_updated
  from (select source_id, key, (array_agg(source order by number desc))[1] as source,
               (array_agg(url order by number desc))[1] as url, (array_agg(title order by number desc))[1] as title,
               (array_agg(content_hash order by number desc))[1] as content_hash,
               (array_agg(record_hash order by number desc))[1] as record_hash,
               (array_agg(kind order by number))[1] = 'created' and not bool_or(kind = 'moved') as is_new,
               bool_or(kind in ('updated', 'deleted')) as is_updated, bool_or(kind = 'deleted') as was_deleted
          from change
         where number > %(after)s and kind in ('created', 'updated', 'amended', 'deleted', 'moved')
         group by source_id, key) latest
  left join source on source.id = latest.source_id
  left join item on item.source_id = latest.source_id and item.key = latest.key
 where case when item.id is null then latest.was_deleted and not latest.is_new else true end
 order by name collate "C", latest.key
"""
# The marks that show duplicates, by the rule of model/datasets.py: several sources have the mark, none of them often.
_SHARED = f"""
create temporary table twin_mark on commit drop as
select mark from (
    select mark, source_id, count(*) as times
      from (select unnest(twins) as mark, source_id from item where twins is not null) marked group by mark, source_id
) counted
 group by mark
having count(*) > 1 and sum(times) <= {datasets.MOST_HOLDERS}
   and max(times) <= case when mark > 0 then {datasets.MOST_OF_ONE[True]} else {datasets.MOST_OF_ONE[False]} end
"""  # noqa: S608 (constants)
# The items that have these marks.
_HOLDERS = """
create temporary table twin_holder on commit drop as
select holder.mark, holder.item_id
  from (select unnest(twins) as mark, id as item_id from item where twins is not null) holder
  join twin_mark using (mark)
"""
# A label for each of these items, at first its own id; `_SPREAD` gives items that share a mark their smallest label.
_LABELS = """
create temporary table twin_label on commit drop as
select item_id, min(item_id) as label from twin_holder group by item_id;
"""
_SPREAD = """
with least_of as (
    select mark, min(label) as label from twin_holder join twin_label using (item_id) group by mark
), better as (
    select item_id, min(label) as label from twin_holder join least_of using (mark) group by item_id
)
update twin_label set label = better.label from better
 where twin_label.item_id = better.item_id and better.label < twin_label.label
"""
_TWIN_OF = "create temporary table twin_of (item_id bigint, original_key bytea, original_url text) on commit drop"
