"""What connectors remember beside their cursors, by room and name."""

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from psycopg.types.json import Jsonb

from rowen.model.item import NoteName
from rowen.store.database import Connection
from rowen.store.rows import all_rows

__all__ = ["counts", "every", "forget", "recall", "write"]

_BATCH = 2_000  # rows that are held at a time: a page of a feed has fewer, and each takes some hundred bytes


def _key(name: str) -> bytes:
    """Names may be longer than an index takes."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()


async def recall(c: Connection, source_id: int, room: str, names: Sequence[str]) -> dict[str, Any]:
    """The notes of these names; those that there are none of are left out."""
    by_key = {_key(name): name for name in names}
    rows = await all_rows(
        c,
        "select key, value from source_note where source_id = %s and room = %s and key = any(%b::bytea[])",
        [source_id, room, list(by_key)],
    )
    return {by_key[bytes(key)]: value for key, value in rows}


async def every(c: Connection, source_id: int, room: str) -> AsyncIterator[dict[str, Any]]:
    """All notes of a room, in batches."""
    after = b""
    while True:
        rows = await all_rows(
            c,
            "select key, name, value from source_note where source_id = %s and room = %s and key > %b"
            " order by key limit %s",
            [source_id, room, after, _BATCH],
        )
        if not rows:
            return
        after = bytes(rows[-1][0])
        yield {name: value for _, name, value in rows}


async def counts(c: Connection, source_ids: Sequence[int]) -> dict[int, dict[str, int]]:
    """How many notes of each of these sources stand in each room."""
    select = "select source_id, room, count(*) from source_note where source_id = any(%s) group by 1, 2"
    found: dict[int, dict[str, int]] = {}
    for source_id, room, number in await all_rows(c, select, [list(source_ids)]):
        found.setdefault(source_id, {})[room] = number
    return found


async def forget(c: Connection, source_id: int) -> None:
    """Forget all of them, since their cursor is no more."""
    await c.execute("delete from source_note where source_id = %s", [source_id])


async def write(c: Connection, source_id: int, notes: Mapping[NoteName, Any], *, run_id: int | None = None) -> None:
    """Write the notes of a run; one that is None is forgotten."""
    kept = [
        (source_id, room, _key(name), name, Jsonb(value), run_id)
        for (room, name), value in notes.items()
        if value is not None
    ]
    dropped = [(room, _key(name)) for (room, name), value in notes.items() if value is None]
    if kept:
        async with c.cursor() as cursor:
            await cursor.executemany(
                "insert into source_note (source_id, room, key, name, value, run_id) values (%s, %s, %s, %s, %s, %s)"
                " on conflict (source_id, room, key) do update set value = excluded.value, run_id = excluded.run_id",
                kept,
            )
    if dropped:
        await c.execute(
            "delete from source_note using unnest(%b::text[], %b::bytea[]) as gone (room, key)"
            " where source_id = %s and source_note.room = gone.room and source_note.key = gone.key",
            [[room for room, _ in dropped], [key for _, key in dropped], source_id],
        )
