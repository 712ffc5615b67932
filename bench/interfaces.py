"""What the interfaces cost: `python -m bench.interfaces [--passages 20000] [--home folder]`.

A server of its own over made-up passages (those of `bench.search`): how long it takes to start, searches a second and
how long the slow ones take, answers 304 a second, and the server's own CPU for each, which says more on a busy machine.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import psutil

from bench.search import World, asks, load
from rowen.settings import Settings
from rowen.store.database import Database
from rowen.store.search import words as store_words

PORT = 8499
ADDRESS = f"http://127.0.0.1:{PORT}"
# As many as a browser opens, twice: beyond, requests wait for the processors.
CLIENTS = 8
PATIENCE_S = 60.0


@contextmanager
def server(home: Path, settings: Mapping[str, str] | None = None) -> Iterator[tuple[psutil.Process, float]]:
    """`rowen serve`, and how long it took until the first answer."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "rowen", "serve", "--port", str(PORT), "--no-worker", "--quiet"]
    environment = {"ROWEN_HOME": str(home), "ROWEN_EMBEDDER": "none", "ROWEN_CONFIG": "/dev/null", "PATH": "/usr/bin"}
    environment |= settings or {}
    with subprocess.Popen(command, env=environment) as process:
        try:
            asyncio.run(_answers())
            yield psutil.Process(process.pid), time.perf_counter() - began
        finally:
            process.terminate()


async def _answers() -> None:
    async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"{ADDRESS}/readyz") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                await asyncio.sleep(0.01)


async def measured(
    name: str, process: psutil.Process, count: int, request: Callable[[int], tuple[str, dict[str, str]]]
) -> None:
    """Ask so often, from several clients, and say what it took."""
    spent: list[float] = []
    statuses: set[int] = set()
    numbers = iter(range(count))

    async def client(session: aiohttp.ClientSession) -> None:
        for number in numbers:
            path, headers = request(number)
            began = time.perf_counter()
            async with session.get(ADDRESS + path, headers=headers) as answer:
                await answer.read()
            spent.append((time.perf_counter() - began) * 1000)
            statuses.add(answer.status)

    cpu_s, began = sum(process.cpu_times()[:2]), time.perf_counter()
    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(client(session) for _ in range(CLIENTS)))
    wall_s = time.perf_counter() - began
    cpu_ms = (sum(process.cpu_times()[:2]) - cpu_s) * 1000 / count
    spent.sort()
    p50, p95 = spent[count // 2], spent[int(count * 0.95)]
    told = f"{count / wall_s:7.0f}/s  p50 {p50:6.1f}  p95 {p95:6.1f} ms  CPU of the process {cpu_ms:5.2f} ms"
    print(f"{name:<28}{told}  status {sorted(statuses)}", flush=True)


async def _etag(path: str) -> dict[str, str]:
    async with aiohttp.ClientSession() as session, session.get(ADDRESS + path) as answer:
        return {"If-None-Match": answer.headers["ETag"]}


async def ask(world: World, process: psutil.Process) -> None:
    """All that is measured while the server runs."""
    questions = [words.replace(" ", "+") for words, _ in asks(world)]
    searches = [f"/api/v1/search?q={words}&meaning=false" for words in questions]
    await measured("searches, warming up", process, len(searches), lambda n: (searches[n], {}))
    await measured("searches by words", process, 4 * len(searches), lambda n: (searches[n % len(searches)], {}))
    one, source = "/api/v1/items?url=file:///1", "/api/v1/sources/fifth"
    known = {path: await _etag(path) for path in (one, source)}
    await measured("an item", process, 1000, lambda _: (one, {}))
    await measured("an item, 304", process, 1000, lambda _: (one, known[one]))
    await measured("a source, 304", process, 1000, lambda _: (source, known[source]))
    await measured("healthz", process, 1000, lambda _: ("/healthz", {}))


async def fill(home: Path, world: World) -> None:
    """Load what is not there."""
    database = Database(Settings(home=home, embedder="none"))
    await database.open()
    try:
        async with database.connection() as c:
            row = await (await c.execute("select count(*) from chunk")).fetchone()
            if row is None or row[0] != world.passages:
                await load(c, world)
                await store_words.count_words(database)
                await c.execute("update item set key = sha256(convert_to(url, 'UTF8'))")
    finally:
        await database.close()


def main(home: Path, passages: int) -> None:
    """Load, start, ask."""
    world = World(passages)
    asyncio.run(fill(home, world))
    with server(home) as (process, seconds):
        cpu_s = sum(process.cpu_times()[:2])
        print(f"cold start {seconds:.2f} s until it is ready, {cpu_s:.2f} s of CPU; the database starts with it")
        asyncio.run(ask(world, process))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    # A tenth of the time to load that 100,000 take; the figures of both are in the docs.
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--home", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rowen-doors-") as passing:
        Path(passing).chmod(0o755)
        main(chosen.home or Path(passing), chosen.passages)
