"""Follow the change log: all readers of a process share one connection that listens for new lines.

Readers at the same position also share the next read. A slow reader continues from its own number, one batch at a
time. The connection is returned to the pool before the batch is processed, so a slow reader blocks no other, holds one
batch, and misses nothing.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from random import Random
from typing import NamedTuple

from rowen.errors import StoreError, StoreUnavailableError
from rowen.model.changes import Change
from rowen.net.politeness import backoff_s
from rowen.store import changes
from rowen.store.database import Connection, Database, translate_database_errors

log = logging.getLogger(__name__)

BATCH = 500
"""Lines that are read at once: some 100 kB, a few milliseconds."""

# How long the connection may be silent before it is probed: a cut cable sends nothing.
_PING_S = 30.0
# Concurrent reads, however many readers wake up: they share the pool with searches and runs.
_READS_AT_ONCE = 2
# A restarted server is available within seconds, a crashed server after a recovery of a minute or two. A longer outage
# is reported to the readers.
_GIVE_UP_S = 300.0


class _Read(NamedTuple):
    """One read of the log with its parameters; readers with the same notification, position and source share it."""

    news: asyncio.Event
    after: int
    source: str | None
    limit: int
    batch: "asyncio.Task[changes.LogBatch]"


class Listener:
    """Follows the change log for all readers of a process, over one connection that is open while there are readers."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Random | None = None,
        ping_s: float = _PING_S,
        give_up_s: float = _GIVE_UP_S,
    ) -> None:
        self._database = database
        self._clock = clock
        self._sleep = sleep
        self._random = random or Random()  # noqa: S311 - jitter, not a secret
        self._ping_s = ping_s
        self._give_up_s = give_up_s
        self._readers = 0
        self._closed = False
        self._listening: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._reads = asyncio.Semaphore(_READS_AT_ONCE)
        self._reading: set[asyncio.Task[changes.LogBatch]] = set()
        self._last_read: _Read | None = None

    async def follow(
        self, since: int, *, source: str | None = None, batch: int = BATCH
    ) -> AsyncGenerator[list[Change]]:
        """Yield the lines after the number `since` in batches, then new lines, until the listener is closed.

        A short outage of the server is waited out; after a long one `StoreUnavailableError` is raised.
        """
        self._readers += 1
        if self._listening is None and not self._closed:
            self._listening = asyncio.create_task(self._listen())
        try:
            async with aclosing(self._batches(since, source, batch)) as batches:
                async for lines in batches:
                    yield lines
        finally:
            self._readers -= 1
            if not self._readers:
                await self._stop()

    async def close(self) -> None:
        """End all readers, and close the connection."""
        self._closed = True
        self._wake_readers()
        await self._stop()
        await asyncio.gather(*self._reading, return_exceptions=True)

    async def _batches(self, after: int, source: str | None, batch: int) -> AsyncGenerator[list[Change]]:
        down_since: float | None = None
        failures = 0
        # Readers that have seen everything get the next lines of all sources, so that they share one read.
        is_all = False
        while not self._closed:
            # Taken before the read: lines committed after the read set it.
            news = self._news
            try:
                lines, after, is_all = await self._read(news, after, None if is_all else source, batch)
            except StoreUnavailableError:
                down_since, failures = down_since if down_since is not None else self._clock(), failures + 1
                if self._clock() - down_since > self._give_up_s:
                    raise
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), backoff_s(failures, self._random))
                continue
            down_since, failures = None, 0
            if source is not None:
                lines = [line for line in lines if line.source == source]
            if lines:
                yield lines
            if is_all:
                await news.wait()

    async def _read(self, news: asyncio.Event, after: int, source: str | None, limit: int) -> changes.LogBatch:
        """Return the next lines; join the read of another reader if it has the same parameters."""
        last = self._last_read
        if last is None or last[:-1] != (news, after, source, limit):
            batch = asyncio.create_task(self._read_batch(after, source, limit))
            self._reading.add(batch)
            batch.add_done_callback(self._note_read)
            last = _Read(news, after, source, limit, batch)
            # The read of a reader that is behind replaces no read of readers further on.
            if self._last_read is None or self._last_read.after <= after or self._last_read.batch.done():
                self._last_read = last
        # A reader that leaves does not cancel the read that other readers share.
        return await asyncio.shield(last.batch)

    async def _read_batch(self, after: int, source: str | None, limit: int) -> changes.LogBatch:
        where, values = changes.of_source(source), {"source": source}
        async with self._reads, self._database.connection() as c:
            return await changes.read_after(c, after, limit=limit, where=where, values=values)

    def _note_read(self, batch: "asyncio.Task[changes.LogBatch]") -> None:
        self._reading.discard(batch)
        failed = batch.cancelled() or batch.exception() is not None
        if failed and self._last_read is not None and self._last_read.batch is batch:
            self._last_read = None

    async def _stop(self) -> None:
        # Without the listening connection, lines may have been committed since.
        self._last_read = None
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    def _wake_readers(self) -> None:
        """Wake all waiting readers."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _listen(self) -> None:
        """Wake the readers at each commit, and after each reconnection, since notifications may have been missed."""
        failures = 0
        while True:
            try:
                async with await self._database.connect() as connection:
                    with translate_database_errors(self._database.place):
                        await connection.execute(changes.LISTEN)
                        failures = 0
                        while True:
                            self._wake_readers()
                            await self._wait_for_news(connection)
            except StoreError as problem:
                failures += 1
                log.warning("lost the connection that listens to the change log: %s", problem)
            await self._sleep(backoff_s(failures, self._random))

    async def _wait_for_news(self, connection: Connection) -> None:
        """Return at the next notification."""
        while True:
            async for _ in connection.notifies(timeout=self._ping_s, stop_after=1):
                return
            await connection.execute("select")
