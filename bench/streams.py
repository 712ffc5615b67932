"""What readers of streams cost the others: `python -m bench.streams [--streams 50 500] [--home folder]`.

A server of its own over made-up passages (those of `bench.search`). With no streams and with many: how long 95 of 100
probes and searches by words take at most, CPU of the server and of its database for a second in which nothing happens,
CPU of both for a change that half of the streams hear of, and memory for each stream.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import aiohttp
import psutil
import psycopg

from bench.interfaces import ADDRESS, fill, server
from bench.meter import database_s
from bench.search import World, asks
from rowen.settings import Settings
from rowen.store.database import Database

# Half of the streams follow the change log, half the runs that the front page shows.
STREAMS = ("/api/v1/changes/events", "/live")
# No caller and no process is refused: what is measured is the cost.
UNLIMITED = {
    f"ROWEN_{name}": "100000"
    for name in ("STREAMS_AT_ONCE", "STREAMS_PER_CALLER", "CONNECTIONS_AT_ONCE", "CONNECTIONS_PER_ADDRESS")
}
REST_S = 10.0
PROBES = 200
SEARCHES = 100
CHANGES = 20
PATIENCE_S = 120.0
PAUSE_S = 0.02


class Figures(NamedTuple):
    """What was measured with so many streams."""

    streams: int
    probe_ms: float
    search_ms: float
    rest_cpu_ms: float
    rest_database_ms: float
    change_ms: float
    memory_mb: float


class Streams:
    """Open streams, and how many events they were sent."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._tasks: list[asyncio.Task[None]] = []
        self.begun = 0
        self.events = 0

    async def open(self, count: int) -> None:
        """Open so many, and wait until each of them has begun."""
        for number in range(count):
            self._tasks.append(asyncio.create_task(self._read(STREAMS[number % len(STREAMS)])))
        await until(lambda: self.begun == count)

    def heard(self, events: int) -> bool:
        """Whether so many events came."""
        return self.events >= events

    async def close(self) -> None:
        """Close all."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self, path: str) -> None:
        async with self._session.get(ADDRESS + path) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                if line.startswith(b":"):
                    self.begun += 1
                    break
            async for line in answer.content:
                self.events += line.startswith(b"id:")


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


async def spent_ms(session: aiohttp.ClientSession, paths: Sequence[str]) -> float:
    """Nineteen of twenty requests take no longer than this."""
    spent = []
    for path in paths:
        # Spread over time, so that they meet what streams do once a second.
        await asyncio.sleep(PAUSE_S)
        began = time.perf_counter()
        async with session.get(ADDRESS + path) as answer:
            await answer.read()
            answer.raise_for_status()
        spent.append((time.perf_counter() - began) * 1000)
    return sorted(spent)[int(len(spent) * 0.95)]


async def measured(home: Path, process: psutil.Process, world: World, count: int) -> Figures:
    """Open so many streams, and ask."""
    searches = [f"/api/v1/search?q={words.replace(' ', '+')}&meaning=false" for words, _ in asks(world)]
    async with AsyncExitStack() as opened:
        asking = await opened.enter_async_context(aiohttp.ClientSession())
        await spent_ms(asking, searches)
        memory = process.memory_info().rss
        reading = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
        )
        streams = Streams(await opened.enter_async_context(reading))
        opened.push_async_callback(streams.close)
        await streams.open(count)
        memory = process.memory_info().rss - memory
        cpu_s, busy_s = sum(process.cpu_times()[:2]), database_s(home)
        await asyncio.sleep(REST_S)
        rest_s, database_rest_s = sum(process.cpu_times()[:2]) - cpu_s, database_s(home) - busy_s
        probe_ms = await spent_ms(asking, ["/healthz"] * PROBES)
        search_ms = await spent_ms(asking, [searches[number % len(searches)] for number in range(SEARCHES)])
        cpu_s = sum(process.cpu_times()[:2]) + database_s(home)
        followers = (count + 1) // 2
        for number in range(CHANGES):
            await change(home, number)
            wanted = (number + 1) * followers
            await until(partial(streams.heard, wanted))
        change_s = sum(process.cpu_times()[:2]) + database_s(home) - cpu_s
    per_change_ms = change_s * 1000 / CHANGES
    per_second = 1000 / REST_S
    return Figures(
        *(count, probe_ms, search_ms, rest_s * per_second, database_rest_s * per_second, per_change_ms, memory / 2**20)
    )


async def change(home: Path, number: int) -> None:
    """Commit one line of the change log."""
    database = Database(Settings(home=home, embedder="none"))
    await database.open()
    try:
        async with database.connection() as c:
            await log_line(c, number)
    finally:
        await database.close()


async def log_line(c: psycopg.AsyncConnection[tuple[object, ...]], number: int) -> None:
    """Write a line as a run does, and tell who listens."""
    await c.execute(
        "insert into change (number, source_id, source, kind, key, url, title, at)"
        " select coalesce((select max(number) from change), 0) + 1, id, name, 'created', sha256(%s::bytea), %s,"
        " 'A page', now() from source order by id limit 1",
        [b"%d" % number, f"file:///page-{number}"],
    )
    await c.execute("select pg_notify('rowen_change', '')")


def main(home: Path, passages: int, counts: Sequence[int]) -> None:
    """Load, start, ask."""
    world = World(passages)
    asyncio.run(fill(home, world))
    for count in (0, *counts):
        with server(home, UNLIMITED) as (process, _):
            told = asyncio.run(measured(home, process, world, count))
        each_kb = told.memory_mb * 1024 / count if count else 0.0
        print(
            f"{told.streams:4} streams: probe {told.probe_ms:6.1f} ms, search {told.search_ms:6.1f} ms, at rest"
            f" {told.rest_cpu_ms:6.1f} ms of CPU a second and {told.rest_database_ms:6.1f} in the database,"
            f" a change {told.change_ms:7.1f} ms of both, memory of a stream {each_kb:5.0f} kB",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--streams", type=int, nargs="+", default=(50, 500))
    parser.add_argument("--home", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rowen-streams-") as passing:
        Path(passing).chmod(0o755)
        main(chosen.home or Path(passing), chosen.passages, chosen.streams)
