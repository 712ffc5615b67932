"""What a run found missing, in a table of its last transaction: from there it moves, is deleted or is held back.

All functions must run inside that transaction; nothing of the table outlives it.
"""

from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import NamedTuple

from rowen.model.hashes import Hash
from rowen.model.statements import StatementDelta
from rowen.store import changes, withdrawn
from rowen.store.database import Connection
from rowen.store.rows import all_rows, scalar

__all__ = [
    "Dropped",
    "begin",
    "delete",
    "deleted",
    "doom",
    "mark_deleted",
    "note_marked",
    "note_unseen",
    "unmark_unconfirmed",
]

# Ids in one statement: an array of 400 kB.
_IDS_AT_ONCE = 50_000
# Deletions are announced in steps: as many lines are held in memory at a time, some megabytes.
_LINES_AT_ONCE = 5000


class Dropped(NamedTuple):
    """An item that was deleted, with what it stated."""

    key: Hash
    url: str
    title: str
    stated: list[str] | None = None

    @property
    def line(self) -> changes.LogLine:
        """The line of the change log that announces it."""
        gone = StatementDelta([], self.stated, 0) if self.stated else None
        return changes.LogLine("deleted", self.key, self.url, self.title, statements=gone)


async def note_unseen(c: Connection, source_id: int, seen: Iterable[int], *, told: Iterable[int]) -> int:
    """Note the items of a source that are not among the seen ones; `told` are those that it calls gone itself."""
    await begin(c)
    await c.execute("create temporary table seen (id bigint) on commit drop")
    for batch in _batches(seen):
        await c.execute("insert into seen select unnest(%b::bigint[])", [batch])
    await c.execute("analyze seen")
    await c.execute(
        "insert into missing (id) select id from item where source_id = %s"
        " and not exists (select from seen where seen.id = item.id)",
        [source_id],
    )
    for batch in _batches(told):
        await c.execute("update missing set told = true where id = any(%b::bigint[])", [batch])
    await c.execute("analyze missing")
    return await _count(c)


async def note_marked(c: Connection, source_id: int, told: Iterable[int]) -> int:
    """Note the items that the source calls gone."""
    await begin(c)
    for batch in _batches(told):
        await c.execute(
            "insert into missing (id, told) select id, true from item where source_id = %s and id = any(%b::bigint[])",
            [source_id, batch],
        )
    await c.execute("analyze missing")
    return await _count(c)


async def _count(c: Connection) -> int:
    return int(await scalar(c, "select count(*) from missing") or 0)


async def doom(c: Connection) -> None:
    """Let all go that is noted."""
    await c.execute("update missing set doomed = true where not doomed")


async def mark_deleted(c: Connection, ids: Iterable[int]) -> int:
    """Let these go, as far as they are noted; returns how many do."""
    doomed = 0
    for batch in _batches(ids):
        gone = await c.execute("update missing set doomed = true where id = any(%b::bigint[])", [batch])
        doomed += gone.rowcount
    return doomed


async def unmark_unconfirmed(c: Connection) -> int:
    """Let nothing go that only vanished; returns how many go."""
    await c.execute("update missing set doomed = false where doomed and not told")
    return int(await scalar(c, "select count(*) from missing where doomed") or 0)


async def delete(c: Connection, *, copies: bool) -> None:
    """Delete what is to go, with passages, checks and revisions; `copies` says whether last ones are kept."""
    if copies:
        await withdrawn.copy(c)
    await c.execute(
        "create temporary table dropped (id bigint primary key, key bytea, url text, title text, stated text[])"
        " on commit drop"
    )
    await c.execute(
        """
        with gone as (
            delete from item where id in (select id from missing where doomed) returning id, key, url, title,
                   case when record ? 'rdfa'
                        then array(select jsonb_array_elements_text(record -> 'rdfa' -> 'statements')) end
        )
        insert into dropped select * from gone
        """
    )


async def deleted(c: Connection) -> AsyncIterator[list[Dropped]]:
    """What was deleted, in batches in the order of ids."""
    after = 0
    while rows := await all_rows(
        c,
        "select id, key, url, title, stated from dropped where id > %s order by id limit %s",
        [after, _LINES_AT_ONCE],
    ):
        after = rows[-1][0]
        yield [Dropped(*item) for _, *item in rows]


async def begin(c: Connection) -> None:
    """Make the table: `told` is what the source called gone itself, `doomed` what is to be deleted."""
    await c.execute(
        "create temporary table missing (id bigint primary key, told boolean not null default false,"
        " doomed boolean not null default false) on commit drop"
    )


def _batches(ids: Iterable[int]) -> Iterable[list[int]]:
    left = iter(ids)
    while batch := list(islice(left, _IDS_AT_ONCE)):
        yield batch
