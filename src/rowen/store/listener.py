"""The change log as it grows: all readers of a process share one connection that listens for new lines.

Nothing is handed to a reader. Each reads the log from its own number, one batch at a time, on a connection that goes
back to the pool before the batch is looked at: a slow reader holds nothing up, and misses nothing.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from random import Random

from rowen.errors import StoreError, StoreUnavailableError
from rowen.fetch.politeness import backoff_s
from rowen.model.run import Change
from rowen.store import changes
from rowen.store.database import Database, in_our_words

__all__ = ["BATCH", "Listener"]

log = logging.getLogger(__name__)

BATCH = 500
"""Lines that are read at once: some 100 kB, a few milliseconds. A reader that ends loses no more than that."""

# How long the connection may be silent before it is asked whether it still lives: a cut cable says nothing by itself.
_PING_S = 30.0
# Reads at the same time, however many readers wake up: they share the pool with searches and runs.
_READS_AT_ONCE = 2
# A server that is restarted is back within seconds, one that recovers from a crash within a minute or two. Whoever is
# gone for longer is missed by somebody, and readers are told.
_GIVE_UP_S = 300.0


class Listener:
    """Follows the change log for all readers of a process, over one connection, as long as there are any."""

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
        self._ear: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._reads = asyncio.Semaphore(_READS_AT_ONCE)

    async def follow(
        self, since: int, *, source: str | None = None, batch: int = BATCH
    ) -> AsyncGenerator[list[Change]]:
        """The lines after a number in batches, then new ones as they are committed, until the listener is closed.

        An outage of the server is waited out; `StoreUnavailableError` is raised if it lasts.
        """
        self._join()
        try:
            async with aclosing(self._batches(since, source, batch)) as batches:
                async for lines in batches:
                    yield lines
        finally:
            await self._leave()

    async def close(self) -> None:
        """End all readers, and the connection."""
        self._closed = True
        self._announce()
        await self._stop()

    async def _batches(self, after: int, source: str | None, batch: int) -> AsyncGenerator[list[Change]]:
        where, values = changes.of_source(source)
        down_since: float | None = None
        failures = 0
        while not self._closed:
            # Taken before the look: what is committed after it is news.
            news = self._news
            try:
                async with self._reads, self._database.connection() as c:
                    lines, after, is_all = await changes.read_after(c, after, limit=batch, where=where, values=values)
            except StoreUnavailableError:
                down_since, failures = down_since if down_since is not None else self._clock(), failures + 1
                if self._clock() - down_since > self._give_up_s:
                    raise
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), backoff_s(failures, self._random))
                continue
            down_since, failures = None, 0
            if lines:
                yield lines
            if is_all:
                await news.wait()

    def _join(self) -> None:
        self._readers += 1
        if self._ear is None and not self._closed:
            self._ear = asyncio.create_task(self._listen())

    async def _leave(self) -> None:
        self._readers -= 1
        if not self._readers:
            await self._stop()

    async def _stop(self) -> None:
        ear, self._ear = self._ear, None
        if ear is not None:
            ear.cancel()
            await asyncio.gather(ear, return_exceptions=True)

    def _announce(self) -> None:
        """Wake all readers that wait."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _listen(self) -> None:
        """Hear of every commit; whatever was missed while the connection was lost is announced with the next one."""
        failures = 0
        while True:
            try:
                async with await self._database.connect() as connection:
                    with in_our_words(self._database.place):
                        await connection.execute(changes.LISTEN)
                        failures = 0
                        while True:
                            self._announce()
                            await self._hear(connection)
            except StoreError as problem:
                failures += 1
                log.warning("lost the connection that listens to the change log: %s", problem)
            await self._sleep(backoff_s(failures, self._random))

    async def _hear(self, connection: changes.Connection) -> None:
        """Return at the next notification."""
        while True:
            async for _ in connection.notifies(timeout=self._ping_s, stop_after=1):
                return
            await connection.execute("select")
