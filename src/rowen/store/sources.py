"""Store sources, and the notes of their connectors, which have a room and a name."""

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from psycopg import errors
from psycopg.types.json import Jsonb

from rowen.errors import Hint, NotFoundError, UsageError, action
from rowen.model.hashes import canonical_json
from rowen.model.items import Cursor, NoteName
from rowen.model.sources import Source, SourceState
from rowen.store import changes
from rowen.store.database import Connection
from rowen.store.locks import Lock, hold
from rowen.store.rows import all_rows, first_of, list_of
from rowen.store.runs import BEYOND_LIMIT, LAST_WHOLE

_COLUMNS = f"""
source.id, source.name, source.kind, source.url, source.options, source.schedule, source.state, source.cursor,
source.version, source.created_at, {BEYOND_LIMIT} as truncated, {LAST_WHOLE} as last_complete_at,
(select started_at from run where run.source_id = source.id order by id desc limit 1) as last_run_at,
source_due.due_at, coalesce(source_due.failures, 0) as failures, source_due.failing_since
"""  # noqa: S608 (constants)
# One source; its items are counted on request, since a million take a tenth of a second.
_ONE = f"""
select {_COLUMNS},
       (select count(*) from item_held where item_held.source_id = source.id and kept_at is null) as deletions_held,
       case when %(counted)s then (select count(*) from item where item.source_id = source.id) else 0 end as items,
       case when %(counted)s then (select stale from source_stale where source_stale.source_id = source.id) end as stale
  from source left join source_due on source_due.source_id = source.id
"""  # noqa: S608 (constants)
# Many sources, whose items are counted at once: if one source has most of them, the planner would otherwise read these
# for each source.
_EVERY = f"""
select {_COLUMNS}, coalesce(pending.items, 0) as deletions_held, coalesce(counted.items, 0) as items,
       null::float8 as stale
  from source left join source_due on source_due.source_id = source.id
  left join (select source_id, count(*) as items from item where %(counted)s group by source_id) counted
       on counted.source_id = source.id
  left join (select source_id, count(*) as items from item_held where kept_at is null group by source_id) pending
       on pending.source_id = source.id
"""  # noqa: S608 (constants)


async def add(
    c: Connection, name: str, *, kind: str, url: str, options: Mapping[str, Any], schedule: str | None
) -> Source:
    """Store a new source."""
    try:
        await c.execute(
            "insert into source (name, kind, url, options, schedule) values (%s, %s, %s, %s, %s)",
            [name, kind, url, Jsonb(dict(options)), schedule],
        )
    except errors.UniqueViolation:
        raise UsageError(
            f"There is a source named {name!r} already.",
            hint=Hint("Choose another name, or see ", action("show", name), "."),
        ) from None
    return await get(c, name)


async def every(
    c: Connection, *, after: str | None = None, limit: int | None = None, counted: bool = False
) -> list[Source]:
    """Return the sources by name; with `after`, only sources after this name. Items are counted only if `counted`."""
    where = "" if after is None else "where source.name > %(after)s"
    statement = f"{_EVERY} {where} order by source.name limit %(limit)s"
    return await list_of(c, Source, statement.encode(), {"after": after, "limit": limit, "counted": counted})


async def listed(c: Connection) -> list[Source]:
    """Return id, name, kind, URL and version of all sources, by name."""
    rows = await all_rows(c, "select id, name, kind, url, version from source order by name")
    return [Source(number, name, kind, url, version=version) for number, name, kind, url, version in rows]


async def by_kind(c: Connection) -> dict[str, int]:
    """Return the number of sources of each kind."""
    return dict(await all_rows(c, "select kind, count(*) from source group by kind order by kind"))


async def exist_any(c: Connection) -> bool:
    """Return whether there is any source."""
    return bool(await all_rows(c, "select 1 from source limit 1"))


async def get(c: Connection, name: str, *, counted: bool = False) -> Source:
    """Return the source of this name; its items are counted only if `counted`."""
    source = await first_of(c, Source, _ONE + " where source.name = %(name)s", {"name": name, "counted": counted})
    if source is None:
        raise NotFoundError(f"There is no source named {name!r}.", hint=Hint(action("sources"), " lists them."))
    return source


async def need(c: Connection, name: str) -> None:
    """Raise `NotFoundError` unless there is a source of this name."""
    if not await ids(c, [name]):
        raise NotFoundError(f"There is no source named {name!r}.", hint=Hint(action("sources"), " lists them."))


async def ids(c: Connection, names: Sequence[str]) -> dict[str, int]:
    """Return the ids of the sources with these names, by name; missing sources are left out."""
    return dict(await all_rows(c, "select name, id from source where name = any(%s)", [list(names)]))


async def by_id(c: Connection, source_id: int) -> Source | None:
    """Return the source with this id; None if it was removed. Its items are not counted."""
    return await first_of(c, Source, _ONE + " where source.id = %(id)s", {"id": source_id, "counted": False})


async def edit(
    c: Connection, source_id: int, *, name: str, options: Mapping[str, Any], schedule: str | None, keep_cursor: bool
) -> None:
    """Change a source; unless `keep_cursor`, delete its cursor, so that it is read from the beginning."""
    try:
        statement = """
            update source set name = %s, schedule = %s, options = %s, cursor = case when %s then cursor end
             where id = %s
        """
        await c.execute(statement, [name, schedule, Jsonb(dict(options)), keep_cursor, source_id])
    except errors.UniqueViolation:
        raise UsageError(f"There is a source named {name!r} already.") from None


async def set_state(c: Connection, source_id: int, state: SourceState) -> None:
    """Pause or resume a source."""
    await c.execute("update source set state = %s where id = %s", [state, source_id])


async def take_turns(c: Connection) -> None:
    """Wait until no other process applies declarations of sources, and block others until the transaction ends."""
    await hold(c, Lock.SOURCES)


async def remove(c: Connection, sources: Sequence[Source]) -> int:
    """Remove sources with all their items and return the number of items.

    The deletions are logged last, so that the log's lock is held only briefly.
    """
    removed: list[tuple[Source, list[changes.LogLine]]] = []
    for source in sources:
        await c.execute("select from source where id = %s for update", [source.id])
        query = """
            select key, url, title, case when record ? 'rdfa'
                   then array(select jsonb_array_elements_text(record -> 'rdfa' -> 'statements')) end
              from item where source_id = %s
        """
        rows = await all_rows(c, query, [source.id])
        await c.execute("delete from source where id = %s", [source.id])
        removed.append((source, [changes.removal("deleted", *item, stated=stated) for *item, stated in rows]))
    for source, lines in removed:
        await changes.append(c, source, None, lines)
    return sum(len(lines) for _, lines in removed)


async def move_cursor(c: Connection, source_id: int, cursor: Cursor, *, version: str | None = None) -> None:
    """Store the cursor of a source; if `version` is given, also the version of the source that was read."""
    await c.execute(
        "update source set cursor = %s::jsonb, version = coalesce(%s, version) where id = %s",
        [canonical_json(cursor).decode(), version, source_id],
    )


_NOTES_BATCH = 2_000  # rows in memory: a page of a feed has fewer, and each takes some hundred bytes


def _note_key(name: str) -> bytes:
    """Return the key of a note, a hash of its name, which may be too long for an index."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()


async def recall_notes(c: Connection, source_id: int, room: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the notes with these names; missing notes are left out."""
    by_key = {_note_key(name): name for name in names}
    query = "select key, value from source_note where source_id = %s and room = %s and key = any(%b::bytea[])"
    rows = await all_rows(c, query, [source_id, room, list(by_key)])
    return {by_key[bytes(key)]: value for key, value in rows}


async def all_notes(c: Connection, source_id: int, room: str) -> AsyncIterator[dict[str, Any]]:
    """Yield all notes of a room, in batches."""
    query = """
        select key, name, value from source_note where source_id = %s and room = %s and key > %b
         order by key limit %s
    """
    after = b""
    while rows := await all_rows(c, query, [source_id, room, after, _NOTES_BATCH]):
        after = bytes(rows[-1][0])
        yield {name: value for _, name, value in rows}


async def count_notes(c: Connection, source_ids: Sequence[int]) -> dict[int, dict[str, int]]:
    """Return the number of notes in each room, by source."""
    select = "select source_id, room, count(*) from source_note where source_id = any(%s) group by 1, 2"
    counts: dict[int, dict[str, int]] = {}
    for source_id, room, number in await all_rows(c, select, [list(source_ids)]):
        counts.setdefault(source_id, {})[room] = number
    return counts


async def forget_notes(c: Connection, source_id: int) -> None:
    """Delete all notes of a source, as when its cursor is reset."""
    await c.execute("delete from source_note where source_id = %s", [source_id])


async def write_notes(
    c: Connection, source_id: int, notes: Mapping[NoteName, Any], *, run_id: int | None = None
) -> None:
    """Store the notes of a run; a note whose value is None is deleted."""
    stored = [
        (source_id, room, _note_key(name), name, Jsonb(value), run_id)
        for (room, name), value in notes.items()
        if value is not None
    ]
    deleted = [(room, _note_key(name)) for (room, name), value in notes.items() if value is None]
    if stored:
        async with c.cursor() as cursor:
            await cursor.executemany(
                "insert into source_note (source_id, room, key, name, value, run_id) values (%s, %s, %s, %s, %s, %s)"
                " on conflict (source_id, room, key) do update set value = excluded.value, run_id = excluded.run_id",
                stored,
            )
    if deleted:
        statement = """
            delete from source_note using unnest(%b::text[], %b::bytea[]) as deleted (room, key)
             where source_id = %s and source_note.room = deleted.room and source_note.key = deleted.key
        """
        await c.execute(statement, [*(list(column) for column in zip(*deleted, strict=True)), source_id])
