"""What a catalog costs: `python -m bench.catalogs [--records 50000] [--corpus FOLDER] [--million]`.

A CKAN portal in a process of its own is harvested whole, then again: unchanged, unchanged but walked whole, after a
thousandth was edited, and while one record fails. Our CPU, that of the worker processes, of the database and of the
portal stand apart.
"""

import argparse
import asyncio
import os
import tempfile
from ipaddress import ip_network
from pathlib import Path

import psycopg

import rowen
from bench.catalog_portal import Portal, portal
from bench.meter import Meter
from rowen.model.runs import Run
from rowen.settings import Settings
from rowen.store.server.embedded import EmbeddedServer

COLUMNS = (
    *(("records", 9), ("asked", 6), ("rows", 11), ("WAL kB", 12), ("wall s", 8), ("rec/s", 8)),
    *(("own s", 7), ("workers s", 10), ("DB s", 7), ("portal s", 9), ("MB", 6)),
)


class Bench:
    """One portal and one home."""

    def __init__(self, base: Path, portal: Portal) -> None:
        self.home = base / "home"
        self._portal = portal

    def settings(self) -> Settings:
        loopback = (ip_network("127.0.0.0/8"),)
        return Settings(home=self.home, host_delay_s=0, allow_addresses=loopback, proxy=None, embedder="none")

    async def measure(self, what: str, *, full: bool = False) -> Run:
        """Sync, and print what it cost."""
        async with rowen.open(self.settings()) as r:
            meter, portal_s, wal = Meter(self.home), self._portal.cpu_s, self._wal()
            with meter.running():
                run = await r.sync(self._portal.url, full=full)
            wal = self._wal() - wal
        assert run.status == "completed", run
        stats, wall_s = run.stats, meter.wall_s
        own_s = meter.own_s - meter.workers_s
        cells = (
            *(f"{stats.seen:,}", stats.requests, f"{stats.rows_written:,}", f"{wal / 1e3:,.0f}"),
            *(f"{wall_s:.2f}", f"{stats.seen / wall_s:,.0f}", f"{own_s:.2f}", f"{meter.workers_s:.2f}"),
            *(f"{meter.database_s:.2f}", f"{self._portal.cpu_s - portal_s:.2f}", f"{meter.peak_mb:.0f}"),
        )
        _print(what, cells)
        return run

    async def settle(self) -> None:
        """Do now what the server would do by itself after a load, lest it be counted to the next run."""
        self._ask("vacuum analyze", "checkpoint")
        async with rowen.open(self.settings()) as r:
            await r.sync(self._portal.url)

    def _wal(self) -> int:
        """How far the write-ahead log of the server has come, in bytes."""
        [(wal,)] = self._ask("select (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint")
        return int(wal)

    def _ask(self, *statements: str) -> list[tuple[int]]:
        server = EmbeddedServer(self.home)
        try:
            with psycopg.connect(server.join(), autocommit=True) as connection:
                for statement in statements:
                    answer = connection.execute(statement.encode())
                return answer.fetchall() if answer.description else []
        finally:
            server.leave()


def _print(what: str, cells: tuple[object, ...]) -> None:
    told = "".join(f"{cell!s:>{width}}" for cell, (_, width) in zip(cells, COLUMNS, strict=True))
    print(f"{what:30}{told}", flush=True)


async def all_cases(bench: Bench, portal: Portal, records: int) -> None:
    _print("", tuple(name for name, _ in COLUMNS))
    first = await bench.measure("first harvest", full=True)
    assert first.stats.created == records, first
    await bench.settle()
    quiet = await bench.measure("nothing changed")
    walked = await bench.measure("nothing changed, walked whole", full=True)
    portal.edit(1000)
    edited = await bench.measure("one in 1,000 edited")
    changed = edited.stats.updated + edited.stats.amended
    print(f"\n  {first.stats.chunks_written:,} passages, {first.stats.bytes / 1e6:,.0f} MB of answers")
    print(f"  rows an edited record       {edited.stats.rows_written / max(1, changed):.2f}")
    assert quiet.stats.rows_written == walked.stats.rows_written == 0
    await failing(bench, portal)


async def failing(bench: Bench, portal: Portal) -> None:
    """One edited record cannot be read, in this run and the next two, while another is edited; then it can."""
    portal.edit(25_000)
    portal.toggle(25_000)
    await bench.measure("one record fails")
    portal.edit(10**9)
    for _ in range(2):
        await bench.measure("it still fails")
    portal.toggle(25_000)
    healed = await bench.measure("it has recovered")
    print(f"\n  read again after it recovered: {healed.stats.updated + healed.stats.amended}")


async def memory(bench: Bench) -> None:
    _print("", tuple(name for name, _ in COLUMNS))
    await bench.measure("first harvest", full=True)
    await bench.settle()
    await bench.measure("nothing changed, walked whole", full=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, default=50_000)
    arguments.add_argument("--corpus", type=Path, help="a folder with recorded answers in its folder ckan")
    arguments.add_argument("--million", action="store_true", help="a million records, for the memory")
    chosen = arguments.parse_args()
    records = 1_000_000 if chosen.million else chosen.records
    print(f"load {' '.join(f'{load:.2f}' for load in os.getloadavg())}, {os.cpu_count()} cores\n")
    with tempfile.TemporaryDirectory(prefix="rowen-bench-") as folder, portal(records, chosen.corpus) as served:
        base = Path(folder)
        base.chmod(0o755)
        bench = Bench(base, served)
        asyncio.run(memory(bench) if chosen.million else all_cases(bench, served, records))
    print(f"\nload {' '.join(f'{load:.2f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()
