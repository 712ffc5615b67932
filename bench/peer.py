"""Beside the best harvester of portals there is: `python -m bench.peer [--records 50000]`.

A CKAN portal of large records is harvested, looked at again, edited and exported, each by one call of the program, as a
user would. CPU is that of the program and of the database together. The peer is no dependency: what it cost stands here
with its date, for 50,000 records. With fewer, all but the incremental runs is scaled, less what it costs to begin. The
incremental runs take less than a second: each is made five times, and the one in the middle counts.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from bench.catalog_portal import Portal, portal
from bench.large_records import large_records
from bench.meter import database_s
from rowen.store.server.embedded import EmbeddedServer

MEASURED = "2026-11"
"""When the peer was measured: a harvester in Rust, on two cores, with the same records and a PostgreSQL of its own."""

RECORDS = 50_000
EDITED = 50
MOST_TIMES_PARSED = 3.0
SHORT_RUNS = 5


class Row(NamedTuple):
    """One line of the table: what the peer took, and what is wanted of us."""

    what: str
    peer: str
    wanted: float
    scales: bool = True


ROWS = {
    "first": Row("first harvest, CPU s", "39-43, no index of words, no history", 90),
    "wal": Row("  write-ahead log, MB", "340", 800),
    "requests": Row("  requests", "51", 60),
    "memory": Row("  peak memory, MB", "170", 220, scales=False),
    "walked": Row("walked whole, nothing changed, CPU s", "10-13", 12),
    "quiet": Row("incremental, nothing changed, CPU s", "0.11-0.16", 0.4, scales=False),
    "edited": Row(f"{EDITED} titles edited, CPU s", "0.15-0.23", 0.6, scales=False),
    "rows": Row("  rows a record", "1", 4, scales=False),
    "parquet": Row("export Parquet, CPU s", "14-19, fewer columns", 15),
    "jsonl": Row("export JSONL, CPU s", "15.5", 15),
    "csv": Row("export CSV, CPU s", "12", 20),
}


class Cost(NamedTuple):
    """What one call of the program took."""

    own_s: float
    database_s: float
    wall_s: float
    peak_mb: float
    wal_bytes: int

    @property
    def cpu_s(self) -> float:
        """Of program and database together."""
        return self.own_s + self.database_s


class Beginning(NamedTuple):
    """What a harvest takes however small it is."""

    cpu_s: float
    requests: int


class Bench:
    """One portal, one home, and calls of the program."""

    def __init__(self, base: Path, served: Portal, database: psycopg.Connection[Any]) -> None:
        self.base, self.portal = base, served
        self._database = database
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("ROWEN_")}
        # As installed packages are: compiled once, and found so by every process.
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._environment |= {
            "ROWEN_HOME": str(base / "home"),
            "ROWEN_CONFIG": os.devnull,
            "ROWEN_EMBEDDER": "none",
            "ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8",
            "ROWEN_HOST_DELAY_S": "0",
            "PYTHONPYCACHEPREFIX": str(base / "compiled"),
        }

    def call(self, *arguments: str) -> Cost:
        """Run the program once."""
        command = [sys.executable, "-m", "rowen", *arguments, "--quiet"]
        wal, busy_s, begun = self._wal(), database_s(self.base / "home"), time.perf_counter()
        process = subprocess.Popen(command, env=self._environment, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.perf_counter() - begun
        assert process.returncode == 0, command
        spent_s = database_s(self.base / "home") - busy_s
        own_s = usage.ru_utime + usage.ru_stime
        return Cost(own_s, spent_s, wall_s, usage.ru_maxrss / 1024, self._wal() - wal)

    def warm_up(self) -> Beginning:
        """Compile all that will be imported, and tell what it costs to begin."""
        with portal(5) as small:
            self.call("sync", small.url)
            requests = self.stats()["requests"]
            begin_s = self.call("sync", small.url).cpu_s
        [(name,)] = self._ask("select name from rowen.source")
        self.call("remove", str(name), "--yes")
        for form in ("parquet", "jsonl", "csv"):
            self.call("export", form, "--to", str(self.base / form))
            shutil.rmtree(self.base / form)
        return Beginning(begin_s, requests)

    def stats(self) -> dict[str, int]:
        """What the last run counted."""
        [(stats,)] = self._ask("select tally from rowen.run order by id desc limit 1")
        return dict(stats)

    def settle(self) -> None:
        """Do now what the server would do by itself after a load, lest it be counted to the next call."""
        self._ask("vacuum analyze")
        self._ask("checkpoint")

    def _wal(self) -> int:
        [(wal,)] = self._ask("select (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint")
        return int(wal)

    def _ask(self, statement: str) -> list[tuple[Any, ...]]:
        answer = self._database.execute(statement.encode())
        return answer.fetchall() if answer.description else []


class Table:
    """The lines as they are measured, each beside the peer's."""

    def __init__(self, records: int) -> None:
        self._share = records / RECORDS
        print(f"{'':38}{'peer, ' + MEASURED:>40}{'here':>9}{'wanted':>9}")

    def add(self, name: str, found: float, cost: Cost | None = None, *, begun: float = 0.0) -> None:
        row = ROWS[name]
        if row.scales:
            found = begun + (found - begun) / self._share
        digits = 2 if row.wanted < 10 else 0
        ours = (
            "" if cost is None else f"   own {cost.own_s:.2f}, database {cost.database_s:.2f}, wall {cost.wall_s:.1f}"
        )
        miss = "" if found <= row.wanted else "  more than wanted"
        print(f"{row.what:38}{row.peer:>40}{found:9,.{digits}f}{row.wanted:9g}{ours}{miss}", flush=True)


def harvests(bench: Bench, table: Table, records: int, beginning: Beginning) -> None:
    """The first harvest, and what later ones cost."""
    first = bench.call("sync", bench.portal.url)
    assert bench.stats()["created"] == records, bench.stats()
    table.add("first", first.cpu_s, first, begun=beginning.cpu_s)
    table.add("wal", first.wal_bytes / 1e6)
    table.add("requests", bench.stats()["requests"], begun=beginning.requests)
    table.add("memory", first.peak_mb)
    bench.settle()
    bench.call("sync", bench.portal.url)
    quiet = middle([bench.call("sync", bench.portal.url) for _ in range(SHORT_RUNS)])
    walked = bench.call("sync", bench.portal.url, "--full-sync")
    assert bench.stats()["rows_written"] == 0, bench.stats()
    table.add("walked", walked.cpu_s, walked, begun=beginning.cpu_s)
    table.add("quiet", quiet.cpu_s, quiet)
    edits: list[Cost] = []
    for _ in range(SHORT_RUNS):
        bench.portal.edit(max(1, records // EDITED))
        edits.append(bench.call("sync", bench.portal.url))
        changed = bench.stats()["updated"]
        assert changed >= min(records, EDITED), bench.stats()
    edited = middle(edits)
    table.add("edited", edited.cpu_s, edited)
    table.add("rows", bench.stats()["rows_written"] / changed)
    parsed_s, unchanged_s = parsing_s(), (walked.own_s - quiet.own_s) / records
    print(
        f"\nunchanged record: {unchanged_s * 1e6:.0f} µs, {unchanged_s / parsed_s:.2f} times json.loads and SHA-256",
        end="",
    )
    print(f" ({parsed_s * 1e6:.0f} µs; at most {MOST_TIMES_PARSED:g} times)\n")


def middle(costs: list[Cost]) -> Cost:
    """The one that takes as long as the others do."""
    return sorted(costs, key=lambda cost: cost.cpu_s)[len(costs) // 2]


def parsing_s() -> float:
    """What it takes to read a record and hash it, with the standard library: the least of some rounds."""
    bodies = [json.dumps(record, ensure_ascii=False).encode() for record in large_records()]

    def round_s(work: Callable[[bytes], object]) -> float:
        begun = time.process_time()
        for body in bodies:
            work(body)
        return (time.process_time() - begun) / len(bodies)

    return min(round_s(lambda body: (json.loads(body), hashlib.sha256(body).digest())) for _ in range(5))


def exports(bench: Bench, table: Table, beginning: Beginning) -> None:
    """All items in files, format by format."""
    for form in ("parquet", "jsonl", "csv"):
        cost = bench.call("export", form, "--to", str(bench.base / form))
        table.add(form, cost.cpu_s, cost, begun=beginning.cpu_s)
        print(f"{'  peak memory, MB':38}{'':40}{cost.peak_mb:9.0f}")
        shutil.rmtree(bench.base / form)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, default=RECORDS)
    arguments.add_argument("--corpus", type=Path, help="a folder with recorded answers in its folder ckan")
    arguments.add_argument("--skip-exports", action="store_true", help="harvest only")
    chosen = arguments.parse_args()
    print(f"{chosen.records:,} records; load {' '.join(f'{load:.2f}' for load in os.getloadavg())}\n")
    with (
        tempfile.TemporaryDirectory(prefix="rowen-bench-") as folder,
        portal(chosen.records, chosen.corpus, large=True) as served,
    ):
        base = Path(folder)
        base.chmod(0o755)
        with EmbeddedServer(base / "home") as conninfo, psycopg.connect(conninfo, autocommit=True) as database:
            bench = Bench(base, served, database)
            beginning, table = bench.warm_up(), Table(chosen.records)
            harvests(bench, table, chosen.records, beginning)
            if not chosen.skip_exports:
                exports(bench, table, beginning)
    print(f"\nload {' '.join(f'{load:.2f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()
