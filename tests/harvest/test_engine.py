"""One engine a process: it runs for weeks, and what it is asked for is stopped, cancelled and bounded one by one."""

import asyncio
import gc
import resource
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowen import Checkpoint, Complete, Fetched, Known, Observation
from rowen.harvest.engine import Engine
from rowen.harvest.run import Order
from rowen.store.database import Connections
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows

ADDRESS = "scripted:one"
TINY_RUNS = 2_000


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


class Waiting(Scripted):
    """Shows one item and then nothing more until it is cancelled."""

    kind = "waiting"
    begun: asyncio.Event

    @classmethod
    def recognise(cls, address: str) -> str | None:
        return address if address.startswith("waiting:") else None

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        yield Fetched(page(1))
        yield Checkpoint("here")
        Waiting.begun.set()
        await asyncio.Event().wait()


@pytest.fixture
def waiting(kinds: Callable[[Any], None]) -> type[Waiting]:
    Waiting.begun = asyncio.Event()
    kinds(Waiting)
    return Waiting


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def _held(engine: Engine) -> dict[str, int]:
    """What a process holds, by what it is."""
    gc.collect()
    return {
        "tasks": len(asyncio.all_tasks()),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "connections": _pool_size(engine),
    }


def _pool_size(engine: Engine) -> int:
    pool = engine.database._pool
    assert pool is not None
    return int(pool.get_stats()["pool_size"])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_two_thousand_runs_leave_nothing_behind_in_their_process(database: ScratchDatabase) -> None:
    shows(Fetched(page(1)), Complete())
    async with database.open() as r:
        engine = r._engine
        source = await r.sources.add(ADDRESS)
        for _ in range(100):
            await engine.run(source, Order())
        before, before_mb = _held(engine), _resident_mb()
        for _ in range(TINY_RUNS):
            await engine.run(source, Order())

        assert _held(engine) == before
        # A kilobyte a run that nobody lets go would be 2 MB; what is left is the allocator's own.
        assert _resident_mb() - before_mb < 8


async def test_work_requested_after_a_stop_is_done(database: ScratchDatabase, waiting: type[Waiting]) -> None:
    async with database.open() as r:
        live = asyncio.create_task(r.sync("waiting:one"))
        await waiting.begun.wait()
        r.stop()
        assert (await live).status == "cancelled"

        shows(Fetched(page(1)), Complete())
        assert (await r.sync(ADDRESS)).status == "completed"
        assert [run.status for run in await r.runs.sync_all([ADDRESS])] == ["completed"]  # type: ignore[union-attr]


async def test_a_stop_skips_runs_that_have_not_started(database: ScratchDatabase, waiting: type[Waiting]) -> None:
    async with database.open(side_by_side=1) as r:
        live = asyncio.create_task(r.runs.sync_all(["waiting:one", "waiting:two", "waiting:three"]))
        await waiting.begun.wait()
        r.stop()

        assert len(await live) == 1


async def test_a_run_is_cancelled_by_another_process(database: ScratchDatabase, waiting: type[Waiting]) -> None:
    async with database.open(lease_s=6) as worker, database.open() as elsewhere:
        live = asyncio.create_task(worker.sync("waiting:one"))
        await waiting.begun.wait()
        asked = await elsewhere.runs.cancel("one")
        run = await asyncio.wait_for(live, 60)

        assert asked.status == "running"
        assert (run.status, run.stats.created) == ("cancelled", 1)
        assert (await elsewhere.sources.get("one")).cursor == "here"


async def test_only_the_run_that_was_meant_is_cancelled(database: ScratchDatabase, waiting: type[Waiting]) -> None:
    async with database.open(lease_s=6) as r:
        one = asyncio.create_task(r.sync("waiting:one"))
        await waiting.begun.wait()
        waiting.begun = asyncio.Event()
        two = asyncio.create_task(r.sync("waiting:two"))
        await waiting.begun.wait()
        [number] = [run.id for run in await r.runs.list("one")]
        await r.runs.cancel(str(number))

        assert (await asyncio.wait_for(one, 60)).status == "cancelled"
        assert not two.done()
        r.stop()
        await two


async def test_a_run_whose_process_is_dead_is_closed_when_it_is_cancelled(database: ScratchDatabase) -> None:
    async with database.open() as r:
        source = await r.sources.add(ADDRESS)
        database.query(
            f"insert into run (source_id, mode, lease_until) values ({source.id}, 'full', now()) returning id"
        )
        run = await r.runs.cancel("one")

        assert run.status == "failed"
        assert run.error is not None


async def test_a_run_that_is_not_live_cannot_be_cancelled(database: ScratchDatabase) -> None:
    async with database.open() as r:
        shows(Fetched(page(1)), Complete())
        run = await r.sync(ADDRESS)

        for target in ("one", str(run.id), "nobody", "4711"):
            with pytest.raises(Exception, match=r"no live run|ended already|no source|no run"):
                await r.runs.cancel(target)


async def test_an_embedder_that_gave_up_is_tried_again_by_the_next_piece_of_work(database: ScratchDatabase) -> None:
    async with database.open() as r:
        background = r._engine.embedding
        async with r._engine.work():
            background.stop()
            assert background._gave_up
            async with r._engine.work():
                assert not background._gave_up


def test_connections_are_limited_by_the_server_but_suffice_for_a_run() -> None:
    assert Connections.budget(100, 0, runs=4).runs == 4
    assert Connections.budget(57, 0, runs=64).runs == 7
    assert Connections.budget(57, 50, runs=64).runs == 1
    assert Connections.budget(3, 3, runs=64).runs == 1


class Counting(Scripted):
    """Counts the server's sessions of its database while it is read."""

    kind = "counting"
    database: ScratchDatabase
    most = 0

    @classmethod
    def recognise(cls, address: str) -> str | None:
        return address if address.startswith("counting:") else None

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        yield Fetched(page(1))
        [(sessions,)] = await asyncio.to_thread(
            Counting.database.query, "select count(*) - 1 from pg_stat_activity where datname = current_database()"
        )
        Counting.most = max(Counting.most, sessions)
        yield Complete()


async def test_more_runs_than_there_are_connections_for_wait_for_each_other(
    database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    kinds(Counting)
    Counting.database, Counting.most = database, 0
    async with database.open(side_by_side=64) as r:
        facts = await r.database.status()
        runs = await r.runs.sync_all([f"counting:{n}" for n in range(2 * facts.runs_at_once + 1)])

        assert {getattr(run, "status", run) for run in runs} == {"completed"}
        assert facts.runs_at_once < Counting.most <= facts.connections_taken < facts.connections_allowed


async def test_a_source_may_have_a_number_as_its_name(database: ScratchDatabase, waiting: type[Waiting]) -> None:
    async with database.open(lease_s=6) as r:
        await r.sources.add("waiting:one", name="1")
        await r.sources.add("waiting:two", name="2")
        live = asyncio.create_task(r.sync("2"))
        await waiting.begun.wait()
        asked = await r.runs.cancel("2")

        assert (asked.source, asked.status) == ("2", "running")
        assert (await asyncio.wait_for(live, 60)).status == "cancelled"


async def test_waiting_for_another_task_of_the_process_has_no_time_limit(database: ScratchDatabase) -> None:
    shows(Fetched(page(1)), Complete())
    async with database.open(database_patience_s=5) as r:
        await r.sync(ADDRESS)
        pool = r._engine.database
        pool._places = asyncio.Semaphore(1)
        async with pool.connection():
            searching = asyncio.create_task(r.search("text"))
            await asyncio.sleep(5.5)
            assert not searching.done()

        assert len(await searching) == 1


async def test_a_server_without_a_free_connection_is_waited_for(database: ScratchDatabase) -> None:
    async with database.open(database_patience_s=20) as r:
        taken: list[psycopg.Connection[Any]] = []
        try:
            while len(taken) < 500:
                taken.append(psycopg.connect(database.conninfo))
        except psycopg.OperationalError:
            pass
        shows(Fetched(page(1)), Complete())
        run = asyncio.create_task(r.sync(ADDRESS))
        await asyncio.sleep(0.5)
        assert taken
        assert not run.done()
        for connection in taken:
            connection.close()

        assert (await run).status == "completed"
