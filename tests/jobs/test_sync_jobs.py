"""Jobs that sync: what a run means for its source, and what is left to the next job."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from rowen import Checkpoint, Complete, Fetched, Incomplete, Known, Observation, SourceError
from rowen.errors import CircuitOpenError
from rowen.jobs.worker import TASKS
from tests.conftest import ScratchDatabase
from tests.jobs.conftest import Opened, Yard
from tests.logical import contents, replayed
from tests.portals.scripted import Scripted, page, shows


@pytest.fixture(autouse=True)
def scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


def fails(problem: Exception) -> None:
    def script(known: Known) -> Any:
        raise problem

    Scripted.script = script


async def enqueued(y: Yard, every: str | None = None) -> int:
    y.tasks.update(TASKS)
    await y.r.sources.add("scripted:one", name="one", every=every)
    return (await y.r.queue.enqueue("one")).id


async def test_a_job_syncs_its_source_and_reports_its_result(yard: Opened, database: ScratchDatabase) -> None:
    async with yard() as y:
        job = await enqueued(y)
        shows(Fetched(page(1)), Fetched(page(2)), Complete())
        await y.work(sync=1)

        done = await y.job(job)
        assert (done.state, done.source, done.seen) == ("done", "one", 2)
        assert (await y.r.runs.get(done.run)).job == job
        assert y.ends[0].run is not None
        assert y.ends[0].run.stats.created == 2


async def test_a_second_wish_for_the_same_source_hastens_the_first(yard: Opened) -> None:
    async with yard() as y:
        job = await enqueued(y)
        again = await y.r.queue.enqueue("one", full=True)

        assert again.id == job
        assert again.arguments == {"source_id": 1, "full": True}
        assert (await y.r.queue.depth()).ready == 1


async def test_a_source_that_fails_in_three_jobs_is_announced_backs_off_and_recovers(
    yard: Opened, database: ScratchDatabase
) -> None:
    async with yard(job_retry_s=0) as y:
        fails(SourceError("The gate is shut."))
        await enqueued(y, every="1min")
        for _ in range(3):
            await y.r.queue.enqueue("one")
            async with y.working(sync=1):
                await y.until(lambda: bool(y.ends) and y.ends[-1].state == "failed")
            y.ends.clear()

        failing = await y.r.sources.get("one")
        assert failing.failures == 3
        assert failing.due_at is not None
        assert failing.failing_since is not None
        assert 1700 < (failing.due_at - failing.failing_since).total_seconds() < 1900
        assert database.query("select count(*) from run") == [(12,)]

        shows(Fetched(page(1)), Complete())
        await y.r.sync("one")
        lines = await y.r.changes()
        assert [line.kind for line in lines] == ["failing", "created", "recovered"]
        assert lines[0].title == "one: The gate is shut."
        assert (await y.r.sources.get("one")).failures == 0
        assert replayed(database) == contents(database)


@pytest.mark.parametrize(("before", "hours"), [(3, 1), (5, 4), (8, 24), (400, 24)])
async def test_a_failing_source_is_retried_with_doubled_delays_and_at_least_daily(
    yard: Opened, database: ScratchDatabase, before: int, hours: int
) -> None:
    async with yard() as y:
        fails(SourceError("The gate is shut."))
        await enqueued(y, every="1min")
        database.execute(f"update source_due set failures = {before}, failing_since = '2026-01-01 00:00Z'")
        await y.r.sync("one")

        failing = await y.r.sources.get("one")
    [(wait_s,)] = database.query("select extract(epoch from due_at - now())::float from source_due")
    assert wait_s == pytest.approx(hours * 3600, abs=120)
    assert failing.failures == before + 1
    assert failing.failing_since == datetime(2026, 1, 1, tzinfo=UTC)


async def test_a_failing_source_with_a_longer_interval_keeps_its_interval(
    yard: Opened, database: ScratchDatabase
) -> None:
    async with yard() as y:
        fails(SourceError("The gate is shut."))
        await enqueued(y, every="4w")
        database.execute("update source_due set failures = 9, failing_since = now()")
        await y.r.sync("one")

    [(days,)] = database.query("select extract(day from due_at - now()) from source_due")
    assert days >= 20


async def test_a_cancelled_run_changes_neither_the_due_time_nor_the_failures_of_its_source(
    yard: Opened, database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    kinds(Slow)
    async with yard() as y:
        await y.r.sources.add("slow:one", name="one", every="1h")
        held = "update source_due set due_at = '2020-01-01', failures = 5, failing_since = '2020-01-01'"
        database.execute(held)
        syncing = asyncio.create_task(y.r.sync("one"))
        await y.until(lambda: bool(database.query("select from item limit 1")))
        y.r.stop()
        run = await syncing

    assert run.status == "cancelled"
    [(due_at, failures, since)] = database.query("select due_at, failures, failing_since from source_due")
    assert (due_at, failures, since) == (datetime(2020, 1, 1, tzinfo=UTC), 5, datetime(2020, 1, 1, tzinfo=UTC))
    assert database.query("select count(*) from change where kind in ('failing', 'recovered')") == [(0,)]


async def test_an_open_circuit_counts_neither_as_a_try_nor_as_a_failure(yard: Opened) -> None:
    async with yard() as y:
        fails(CircuitOpenError("Open.", retry_in_s=3600))
        job = await enqueued(y, every="1h")
        await y.work(sync=1)

        waiting = await y.job(job)
        assert (waiting.state, waiting.tries, waiting.waits) == ("waiting", 0, 1)
        [circuit] = (await y.r.status.health()).circuits
        assert (circuit.source, circuit.job) == ("one", job)
        assert (await y.r.sources.get("one")).failures == 0


async def test_a_run_that_was_partial_is_no_failure(yard: Opened) -> None:
    async with yard() as y:
        shows(Fetched(page(1)), Incomplete("The rest is behind a hedge."))
        job = await enqueued(y, every="1h")
        await y.work(sync=1)

        assert (await y.job(job)).state == "done"
        assert (await y.r.sources.get("one")).failures == 0


async def test_a_schedule_that_was_edited_while_the_source_was_read_holds(
    yard: Opened, database: ScratchDatabase
) -> None:
    async with yard() as y:

        def script(known: Known) -> Any:
            database.execute("update source set schedule = 'every 4w'")
            return [Fetched(page(1)), Complete()]

        Scripted.script = script
        await enqueued(y, every="1min")
        await y.work(sync=1)

        [(days,)] = database.query("select extract(day from due_at - now()) from source_due")
        assert days >= 27


async def test_a_source_that_was_removed_while_it_was_read_fails_its_job_and_nothing_else(
    yard: Opened, database: ScratchDatabase
) -> None:
    async with yard() as y:

        def script(known: Known) -> Any:
            database.execute("delete from source")
            return [Fetched(page(1)), Complete()]

        Scripted.script = script
        job = await enqueued(y, every="1min")
        await y.work(sync=1)

        assert (await y.job(job)).state in {"failed", "waiting"}
        assert database.query("select count(*) from source_due") == [(0,)]


class Slow(Scripted):
    """Shows a page every now and then, for ever."""

    kind = "slow"

    @classmethod
    def recognise(cls, address: str) -> str | None:
        return address if address.startswith("slow:") else None

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        for number in range(10_000):
            yield Fetched(page(number))
            yield Checkpoint({"at": number})
            await asyncio.sleep(0.01)


async def running(y: Yard, database: ScratchDatabase) -> int:
    """A job whose run has stored something and goes on for ever."""
    y.tasks.update(TASKS)
    await y.r.sources.add("slow:one", name="one")
    job = (await y.r.queue.enqueue("one")).id
    await y.until(lambda: bool(database.query("select from item limit 1")))
    return job


async def test_a_worker_that_stops_ends_the_run_at_a_checkpoint_and_the_next_one_goes_on(
    yard: Opened, database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    kinds(Slow)
    async with yard() as y:
        async with y.working(sync=1):
            job = await running(y, database)

        given_back = await y.job(job)
        assert (given_back.state, given_back.tries) == ("waiting", 0)
        [run] = await y.r.runs.list()
        assert run.status == "cancelled"
        assert (await y.r.sources.get("one")).cursor is not None
        assert len(contents(database)) == run.stats.created


async def test_cancelling_a_job_ends_its_run_and_shows_progress_before(
    yard: Opened, database: ScratchDatabase, kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds(Slow)
    monkeypatch.setattr("rowen.harvest.run.RENEWAL_S", 0.05)
    async with yard() as y, y.working(sync=1):
        job = await running(y, database)

        async def seen() -> bool:
            return ((await y.job(job)).seen or 0) > 0

        await y.until(seen)
        await y.r.queue.cancel(job)
        await y.until_state(job, "cancelled")

        assert (await y.r.runs.list())[0].status == "cancelled"


async def test_a_large_source_is_read_in_portions_each_a_job_of_its_own(
    yard: Opened, database: ScratchDatabase
) -> None:
    def script(known: Known) -> Any:
        start = known.cursor["at"] if known.cursor else 0
        for number in range(start, 25):
            yield Fetched(page(number))
            yield Checkpoint({"at": number + 1})
        yield Complete()

    Scripted.script = script
    async with yard(job_items=1) as y:
        await enqueued(y)
        await y.work(sync=1)

        runs = await y.r.runs.list(limit=100)
        assert len(contents(database)) == 25
        assert len({run.job for run in runs}) == len(runs) > 1
        assert [run.status for run in runs] == ["completed", *["partial"] * (len(runs) - 1)]
        assert {run.error_code for run in runs[1:]} == {"portion_read"}
        assert (await y.r.queue.depth()).ready == 0


async def test_a_source_without_checkpoints_is_read_in_one_job(yard: Opened, database: ScratchDatabase) -> None:
    shows(*(Fetched(page(number)) for number in range(25)), Complete())
    async with yard(job_items=1) as y:
        await enqueued(y)
        await y.work(sync=1)

        assert [run.status for run in await y.r.runs.list()] == ["completed"]


async def test_a_full_sync_is_never_cut_into_portions(yard: Opened) -> None:
    shows(*(one for number in range(9) for one in (Fetched(page(number)), Checkpoint(number))), Complete())
    async with yard(job_items=1) as y:
        await enqueued(y)
        await y.r.queue.enqueue("one", full=True)
        await y.work(sync=1)

        assert [run.status for run in await y.r.runs.list()] == ["completed"]
