"""The index of words, set aside while a first harvest fills the passages.

Built at once, it costs less than half of what it costs passage by passage, and where the server keeps no log for that
(the embedded one does not), a fifth of all that a first harvest writes is not written. Searches look at each passage in
the meantime. A run that is killed leaves it missing: the next one of any source makes it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rowen.errors import StoreError
from rowen.store.database import Database
from rowen.store.locks import Lock, hold
from rowen.store.rows import scalar

__all__ = ["WordIndex", "restore"]

ENOUGH_PASSAGES = 1_000
"""So many take a second or two; of a source with fewer, two changes of the schema would be what costs."""

LONGEST_S = 300.0
"""A harvest that takes longer waits for its portal, not for the index; and whoever searches has waited enough."""

_LOCK_PATIENCE = "2s"  # longer than groups take that are on their way; a reader that takes longer is not kept waiting

# Asked of the catalog itself: what a session has looked up by name it may go on believing.
_IS_MISSING = """
select not exists (select from pg_indexes where indexname = 'chunk_tsv' and schemaname = current_schema())
"""


@dataclass(slots=True)
class WordIndex:
    """Follows one run, and sets the index aside if most of the passages that there are come from it."""

    database: Database
    clock: Callable[[], float] = time.monotonic
    _is_decided: bool = False
    _aside_since: float | None = field(default=None)

    async def grown(self, passages: int) -> None:
        """The run has stored so many passages by now."""
        if self._aside_since is not None and self.clock() > self._aside_since + LONGEST_S:
            self._aside_since = None
            await restore(self.database)
        if not self._is_decided and passages >= ENOUGH_PASSAGES:
            self._is_decided = True
            if await _set_aside(self.database, passages):
                self._aside_since = self.clock()


async def _set_aside(database: Database, passages: int) -> bool:
    """Drop the index, unless others have stored as much as this run, or read for long, or it is not ours."""
    counted = "select count(*) from (select from chunk limit %s) found"
    try:
        async with database.transaction() as c:
            if await scalar(c, counted, [2 * passages]) >= 2 * passages:
                return False
            await c.execute(f"set local lock_timeout to '{_LOCK_PATIENCE}'".encode())
            await c.execute("drop index if exists chunk_tsv")
    except StoreError:
        return False
    return True


async def restore(database: Database) -> bool:
    """Make the index if it is missing; tells whether it was."""
    async with database.transaction() as c:
        if not await scalar(c, _IS_MISSING):
            return False
        # Of runs that end together one makes it: the server would let both begin, and fail the second.
        await hold(c, Lock.WORDS)
        if not await scalar(c, _IS_MISSING):
            return False
        await c.execute("create index if not exists chunk_tsv on chunk using gin (tsv)")
    return True
