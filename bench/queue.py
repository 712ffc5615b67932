"""What the queue costs: `python -m bench.queue [--jobs 10000] [--idle-s 60]`.

Trivial jobs with 1, 2 and 4 workers, each a process; how long a job waits for an idle worker that hears of it; what an
idle worker costs. The database is an embedded one of its own.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

import psutil
import psycopg

import rowen
from rowen.jobs.tasks import ActiveJob, Task
from rowen.jobs.worker import Worker
from rowen.store.server.embedded import EmbeddedServer

WORKERS = (1, 2, 4)
# As many jobs at a time in each worker as it has by default: beyond, claims wait for the connections of the pool.
PLACES = 4
# One at a time, to an idle worker: enough for a median and a 99th percentile that do not jump.
LATENCIES = 300
# Of the sources of an idle worker, all due in a day.
SOURCES = 200
# What a worker does when it begins is not what it costs, and backends that idle report their counts after ten seconds.
SETTLED_S = 15
PATIENCE_S = 600

FILL = """
insert into procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args)
select 'sync', 'nothing', 'source:' || n, 'sync:' || n, jsonb_build_object('number', n) from generate_series(1, %s) as n
"""


async def nothing(active: ActiveJob, number: int) -> None:
    """A job that costs nothing itself."""


async def work(url: str) -> None:
    """A worker that knows the trivial task, until it is killed."""
    async with rowen.open(database_url=url, workers=0, embedder="none") as r:
        tasks = {"nothing": Task(nothing)}
        await Worker(r._engine, places={"sync": PLACES}, tasks=tasks).run()  # noqa: SLF001 (the service has sync alone)


class Bench:
    """One database, and workers on it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = psycopg.connect(url, autocommit=True, options="-c search_path=rowen,public")

    def ask(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        """What the database says."""
        done = self._connection.execute(statement.encode(), values or None)
        return done.fetchall() if done.description else []

    @contextmanager
    def workers(self, number: int) -> Iterator[list[psutil.Process]]:
        """So many workers, each a process, all of them ready."""
        command = [sys.executable, "-m", "bench.queue", "--work", self._url]
        started = [subprocess.Popen(command) for _ in range(number)]
        try:
            self.until(lambda: self.ask("select count(*) from worker") == [(number,)])
            yield [psutil.Process(one.pid) for one in started]
        finally:
            for one in started:
                one.terminate()
            for one in started:
                one.wait()

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something, and not for ever."""
        end = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError("it did not happen")
            time.sleep(0.05)

    def throughput(self, workers: int, jobs: int) -> tuple[float, float, float]:
        """Jobs a second, with all of them in the queue at the start; and CPU ms a job, of workers and of the server."""
        self.ask("delete from procrastinate_jobs")
        self.ask("insert into queue_pause default values")
        with self.workers(workers) as processes:
            self.ask(FILL, jobs)
            self.ask("vacuum analyze procrastinate_jobs")
            began, own_s, server_s = time.perf_counter(), sum(map(cpu_s, processes)), self.server_s()
            self.ask("delete from queue_pause")
            self.ask("notify rowen_due")
            left = "select not exists (select from procrastinate_jobs where status in ('todo', 'doing'))"
            self.until(lambda: self.ask(left) == [(True,)])
            rate = jobs / (time.perf_counter() - began)
            own_s, server_s = sum(map(cpu_s, processes)) - own_s, self.server_s() - server_s
            return rate, own_s / jobs * 1000, server_s / jobs * 1000

    def server_s(self) -> float:
        """CPU of the sessions that are open."""
        rows = self.ask("select pid from pg_stat_activity where backend_type = 'client backend'")
        return sum(cpu_s(psutil.Process(int(str(pid)))) for (pid,) in rows)

    def latencies_ms(self) -> list[float]:
        """How long single jobs waited for an idle worker, by the database's clock."""
        self.ask("delete from procrastinate_jobs")
        with self.workers(1):
            for _ in range(LATENCIES):
                self.ask(FILL, 1)
                self.until(lambda: self.ask("select count(*) from procrastinate_jobs where status = 'todo'") == [(0,)])
        rows = self.ask(
            "select extract(epoch from max(at) filter (where type = 'started') - min(at))::float8 * 1000"
            " from procrastinate_events group by job_id"
        )
        return [float(str(row[0])) for row in rows if row[0] is not None]

    def idle(self, seconds: float) -> tuple[float, float]:
        """CPU seconds an hour and transactions a minute of a worker that has nothing to do."""
        self.ask(
            "insert into source (name, kind, url, schedule)"
            " select 'idle' || n, 'web', 'https://' || n || '.example/', 'every 1d' from generate_series(1, %s) n",
            SOURCES,
        )
        self.ask("insert into source_due (source_id, due_at) select id, now() + interval '1 day' from source")
        # Cleaning up after the jobs before is not a worker's cost either.
        self.ask("alter system set autovacuum = off")
        self.ask("select pg_reload_conf()")
        with self.workers(1) as [process]:
            time.sleep(SETTLED_S)
            before_s, before = cpu_s(process), self.transactions()
            time.sleep(seconds)
            spent_s, sent = cpu_s(process) - before_s, self.transactions() - before
        # One of them is our own first question.
        return spent_s / seconds * 3600, (sent - 1) / seconds * 60

    def transactions(self) -> int:
        """How many transactions the server has counted."""
        counted = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
        return int(str(self.ask(counted)[0][0]))


def cpu_s(process: psutil.Process) -> float:
    """CPU of a process so far."""
    return float(sum(process.cpu_times()[:2]))


async def prepared(url: str) -> None:
    """Bring the schema up to date."""
    async with rowen.open(database_url=url, workers=0, embedder="none"):
        pass


def measure(url: str, *, jobs: int, idle_s: float) -> None:
    """Print what it costs."""
    asyncio.run(prepared(url))
    bench = Bench(url)
    alone = 0.0
    for number in WORKERS:
        rate, own_ms, server_ms = bench.throughput(number, jobs)
        alone = alone or rate
        print(f"{jobs:,} jobs, {number} workers: {rate:,.0f} jobs/s, {rate / alone:.2f} times one worker,", end=" ")
        print(f"CPU a job {own_ms:.1f} ms, and {server_ms:.1f} ms of the server")
    waits = bench.latencies_ms()
    print(f"claim of a new job: p50 {median(waits):.1f} ms, p99 {quantiles(waits, n=100)[98]:.1f} ms")
    spent_s, sent = bench.idle(idle_s)
    print(f"an idle worker: {spent_s:.1f} s of CPU an hour, {sent:.1f} transactions a minute")


def main() -> None:
    """Measure, or be a worker that is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--idle-s", type=float, default=60.0)
    parser.add_argument("--work", metavar="URL", help="be a worker on this database")
    options = parser.parse_args()
    if options.work:
        asyncio.run(work(options.work))
        return
    with tempfile.TemporaryDirectory(prefix="rowen-bench-") as folder:
        Path(folder).chmod(0o755)
        server = EmbeddedServer(Path(folder) / "home")
        try:
            measure(server.join(), jobs=options.jobs, idle_s=options.idle_s)
        finally:
            server.leave()


if __name__ == "__main__":
    main()
