"""Several workers: how polite they are to one host together, how many slow portals they read in which time, and how
much sooner one portal is read when its pages are asked for ahead."""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import rowen
from bench.slow_portals import SlowPortals, slow_portals
from rowen.settings import Settings
from rowen.store.server.embedded import EmbeddedServer

ROWS = 4  # a page has three records of its own, and begins with the last of the one before
LOOPBACK = "127.0.0.0/8"


class Fleet:
    """Worker processes on one embedded database."""

    def __init__(self, home: Path, portals: SlowPortals, **settings: object) -> None:
        self.portals = portals
        self.settings = {"home": home, "embedder": "none", "workers": 0, "allow_addresses": LOOPBACK, **settings}

    async def add(self, count: int) -> None:
        """Add portals and put each into the queue."""
        async with rowen.open(Settings(**self.settings)) as r:
            for number in range(count):
                source = await r.sources.add(self.portals.address(number), options={"page_size": ROWS, "delay_s": None})
                await r.queue.enqueue(source.name, full=True)

    async def again(self) -> None:
        """Put all into the queue again, to be walked whole."""
        async with rowen.open(Settings(**self.settings)) as r:
            for source in await r.sources.list():
                await r.queue.enqueue(source.name, full=True)

    def work(self, workers: int, places: int) -> int:
        """Let so many workers do all there is to do; tells how often the database did not answer for the pace."""
        environment = {f"ROWEN_{name.upper()}": str(value) for name, value in self.settings.items()}
        environment |= {"ROWEN_CONFIG": os.devnull, "ROWEN_SIDE_BY_SIDE": str(places)}
        command = [sys.executable, "-m", "rowen", "worker", "--until-idle", "--places", str(places)]
        self.portals.log()
        with tempfile.TemporaryFile("w+") as said:
            live = [
                subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=said)
                for _ in range(workers)
            ]
            assert [one.wait() for one in live] == [0] * workers
            said.seek(0)
            return said.read().count("cannot be shared")


def scaling(base: Path, count: int, pages: int, answer_s: float, most: int) -> None:
    """Slow portals by the number of places in one worker, and by the number of workers."""
    records = (ROWS - 1) * (pages - 1) + 1
    print(f"\n{count} portals of {pages} pages, {answer_s * 1000:.0f} ms an answer, one request to a host at a time")
    print(f"{'':24}{'s':>8}{'ideal s':>9}{'ratio':>7}{'requests':>10}")
    with slow_portals(records, answer_s) as portals:
        fleet = Fleet(base, portals, host_delay_s=0, host_concurrency=1)
        asyncio.run(fleet.add(count))
        for workers, places in [*((1, n) for n in _doubled(most)), *((n, 4) for n in _doubled(most)[1:])]:
            fleet.work(workers, places)
            log = portals.log()
            took_s, ideal_s = log[-1] - log[0] + answer_s, len(log) * answer_s / min(count, workers * places)
            name = f"{workers} × {places} places"
            print(f"{name:24}{took_s:8.1f}{ideal_s:9.1f}{took_s / ideal_s:7.2f}{len(log):10,}", flush=True)
            asyncio.run(fleet.again())


def politeness(base: Path, workers: int, gap_s: float, portals_of_one_host: int, pages: int) -> None:
    """Several sources on one host, a worker for each: the gaps in the log of the host."""
    records = (ROWS - 1) * (pages - 1) + 1
    with slow_portals(records, 0.005) as portals:
        fleet = Fleet(base, portals, host_delay_s=gap_s, host_concurrency=3)
        asyncio.run(_same_host(fleet, portals_of_one_host))
        alone = fleet.work(workers, 1)
        log = portals.log()
    gaps_ms = sorted(1000 * (later - earlier) for earlier, later in pairwise(log))
    print(f"\n{workers} workers on one host, {gap_s * 1000:.0f} ms apart: {len(log)} requests")
    print(f"  the database did not answer in time {alone} times, and a worker went on by itself for a while")
    print(f"  least gaps      {' '.join(f'{gap:.1f}' for gap in gaps_ms[:5])} ms")
    print(f"  largest gaps    {' '.join(f'{gap:.0f}' for gap in gaps_ms[-5:])} ms")
    print(f"  time / ideal    {(log[-1] - log[0]) / ((len(log) - 1) * gap_s):.3f}")
    middle = log[len(log) // 8 : -len(log) // 8]
    print(f"  of the middle   {(middle[-1] - middle[0]) / ((len(middle) - 1) * gap_s):.3f} (all workers are there)")


async def _same_host(fleet: Fleet, count: int) -> None:
    async with rowen.open(Settings(**fleet.settings)) as r:
        for number in range(count):
            address = f"{fleet.portals.address(0)}/{number}"
            source = await r.sources.add(address, name=f"n{number}", options={"page_size": ROWS})
            await r.queue.enqueue(source.name, full=True)


def one_portal(base: Path, pages: int, answer_s: float) -> None:
    """One portal, by how many requests its host may be asked for at a time."""
    records = (ROWS - 1) * (pages - 1) + 1
    print(f"\none portal of {pages} pages, {answer_s * 1000:.0f} ms an answer, no gap")
    with slow_portals(records, answer_s) as portals:
        for concurrency in (1, 2, 4, 8):
            fleet = Fleet(base, portals, host_delay_s=0, host_concurrency=concurrency)
            asyncio.run(fleet.add(1) if concurrency == 1 else fleet.again())
            fleet.work(1, 1)
            log = portals.log()
            print(
                f"  host_concurrency {concurrency}  {log[-1] - log[0] + answer_s:6.2f} s, {len(log)} requests",
                flush=True,
            )


def _doubled(most: int) -> list[int]:
    return [n for n in (1, 2, 4, 8) if n <= most]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--portals", type=int, default=200)
    arguments.add_argument("--pages", type=int, default=50)
    arguments.add_argument("--answer-ms", type=float, default=200)
    arguments.add_argument("--workers", type=int, default=8, help="the most workers and places")
    arguments.add_argument("--gap-ms", type=float, default=100)
    arguments.add_argument("--only", choices=["politeness", "scaling", "one"])
    chosen = arguments.parse_args()
    print(f"load {' '.join(f'{load:.2f}' for load in os.getloadavg())}, {os.cpu_count()} cores")
    for name, part in {
        "politeness": lambda base: politeness(base, chosen.workers, chosen.gap_ms / 1000, chosen.workers, 30),
        "one": lambda base: one_portal(base, chosen.pages, chosen.answer_ms / 1000),
        "scaling": lambda base: scaling(base, chosen.portals, chosen.pages, chosen.answer_ms / 1000, chosen.workers),
    }.items():
        if chosen.only in (None, name):
            with tempfile.TemporaryDirectory(prefix="rowen-bench-") as folder:
                Path(folder).chmod(0o755)
                server = EmbeddedServer(Path(folder))
                server.join()
                try:
                    part(Path(folder))
                finally:
                    server.leave()
    print(f"\nload {' '.join(f'{load:.2f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()
