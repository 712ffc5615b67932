"""A worker: what it claims, in which order, how many at a time, and what becomes of jobs that go wrong."""

import asyncio
import itertools
import math
from random import Random
from typing import Any

import pytest

from rowen.errors import BusyError, CircuitOpenError, ConnectError, SourceError, UsageError
from rowen.jobs import worker as worker_module
from rowen.jobs.tasks import ActiveJob, JobCancelledError, JobReleasedError
from rowen.jobs.ticks import tick
from rowen.jobs.worker import Worker
from rowen.store import queue
from rowen.store.database import Connection
from rowen.store.locks import Lock
from tests.conftest import ScratchDatabase
from tests.jobs.conftest import PATIENCE_S, Opened, nothing


async def test_jobs_of_higher_priority_come_first_and_then_the_oldest(yard: Opened) -> None:
    async with yard() as y:
        done: list[int] = []

        async def note(active: ActiveJob) -> None:
            done.append(active.job.id)

        y.task(note)
        first, second = await y.put(), await y.put()
        urgent = await y.put(priority=10)
        await y.work(sync=1)

        assert done == [urgent, first, second]
        assert [(await y.job(job)).state for job in done] == ["done"] * 3


async def test_each_kind_of_work_has_places_of_its_own(yard: Opened) -> None:
    async with yard() as y:
        live: dict[str, int] = {"sync": 0, "deliver": 0}
        most = dict(live)

        async def count(active: ActiveJob) -> None:
            kind = active.job.queue
            live[kind] += 1
            most[kind] = max(most[kind], live[kind])
            await asyncio.sleep(0.05)
            live[kind] -= 1

        y.task(count)
        for kind in ("sync", "deliver"):
            for _ in range(6):
                await y.put(kind=kind)
        await y.work(sync=1, deliver=3)

        assert most == {"sync": 1, "deliver": 3}


async def test_a_worker_leaves_alone_the_kinds_that_it_has_no_places_for(yard: Opened) -> None:
    async with yard() as y:
        y.task(nothing)
        other = await y.put(kind="extract")
        await y.work(sync=2)

        assert (await y.job(other)).state == "waiting"


async def test_two_jobs_with_one_lock_never_run_at_once(yard: Opened) -> None:
    async with yard() as y:
        live = most = 0

        async def count(active: ActiveJob) -> None:
            nonlocal live, most
            live += 1
            most = max(most, live)
            await asyncio.sleep(0.02)
            live -= 1

        y.task(count)
        for _ in range(5):
            await y.put(lock="source:1")
        async with asyncio.timeout(30):
            await asyncio.gather(*(y.worker(sync=4).run(until_idle=True) for _ in range(2)))

        assert most == 1
        assert len(y.ends) == 5


async def test_several_workers_share_jobs_and_do_each_once(yard: Opened) -> None:
    async with yard() as y:
        done: list[int] = []

        async def note(active: ActiveJob) -> None:
            done.append(active.job.id)
            await asyncio.sleep(0)

        y.task(note)
        wanted = [await y.put() for _ in range(60)]
        async with asyncio.timeout(60):
            await asyncio.gather(*(y.worker(sync=3).run(until_idle=True) for _ in range(3)))

        assert sorted(done) == wanted


async def test_temporary_errors_are_tried_four_times_and_then_fail_with_their_reason(yard: Opened) -> None:
    async with yard() as y:

        async def fail(active: ActiveJob) -> None:
            raise ConnectError("No route to the meadow.")

        y.task(fail)
        job = await y.put()
        async with y.working(sync=1):
            failed = await y.until_state(job, "failed")

        assert (failed.tries, failed.waits, failed.error_code) == (4, 0, "connect")
        assert failed.error == "No route to the meadow."
        assert [end.state for end in y.ends] == ["waiting", "waiting", "waiting", "failed"]
        waits = [end.wait_s or 0 for end in y.ends[:3]]
        assert waits == sorted(waits)


async def test_a_refusal_and_a_bug_fail_at_once_with_any_message(yard: Opened) -> None:
    async with yard() as y:

        async def refuse(active: ActiveJob) -> None:
            raise UsageError("Timeout, try again later: 503.")

        async def stumble(active: ActiveJob) -> None:
            raise ZeroDivisionError("connection reset")

        y.task(refuse, name="refuse")
        y.task(stumble, name="stumble")
        refused, stumbled, unknown = [await y.put(task=task) for task in ("refuse", "stumble", "unknown")]
        await y.work(sync=1)

        told = [await y.job(job) for job in (refused, stumbled, unknown)]
        assert [(job.state, job.tries) for job in told] == [("failed", 1)] * 3
        assert told[1].error == "ZeroDivisionError: connection reset"
        assert "has no task 'unknown'" in (told[2].error or "")


async def test_an_open_circuit_burns_no_try_and_the_job_waits_until_it_may_be_probed(yard: Opened) -> None:
    async with yard() as y:
        times: list[float] = []

        async def probe(active: ActiveJob) -> None:
            times.append(asyncio.get_running_loop().time())
            if len(times) < 7:
                raise CircuitOpenError("The circuit of the meadow is open.", retry_in_s=0.1)

        y.task(probe)
        job = await y.put()
        async with y.working(sync=1) as worker:
            worker._random.random = lambda: 0.0
            done = await y.until_state(job, "done")

        assert (done.tries, done.waits) == (1, 6)
        assert min(after - before for before, after in itertools.pairwise(times)) >= 0.1


async def test_waiting_for_a_busy_source_counts_no_attempt(yard: Opened) -> None:
    async with yard() as y:

        async def busy(active: ActiveJob) -> None:
            raise BusyError("Somebody syncs it by hand.")

        y.task(busy)
        job = await y.put()
        await y.work(sync=1)

        waiting = await y.job(job)
        assert (waiting.state, waiting.tries, waiting.waits, waiting.error_code) == ("waiting", 0, 1, "busy")


async def test_a_job_is_retried_although_another_one_with_its_queueing_lock_was_added(yard: Opened) -> None:
    begun: list[int] = []
    async with yard() as y:

        async def fail_once(active: ActiveJob) -> None:
            begun.append(active.job.id)
            if len(begun) == 1:
                second.append(await y.put(queueing_lock="sync:1"))
                raise ConnectError("No route to the meadow.")

        second: list[int] = []
        y.task(fail_once)
        first = await y.put(queueing_lock="sync:1")
        async with y.working(sync=1):
            await y.until_state(first, "done")
            await y.until_state(second[0], "done")

        assert sorted(begun) == sorted([first, first, *second])


async def test_poison_jobs_do_not_hold_up_the_others(yard: Opened) -> None:
    async with yard() as y:

        async def poison(active: ActiveJob) -> None:
            raise SourceError("Poison.")

        y.task(poison, name="poison")
        y.task(nothing)
        for _ in range(10):
            await y.put(task="poison", priority=5)
        good = [await y.put() for _ in range(10)]
        async with y.working(sync=2):
            for job in good:
                await y.until_state(job, "done")


async def test_a_waiting_job_is_cancelled_and_a_running_one_ends_at_once(yard: Opened) -> None:
    async with yard() as y:

        async def obey(active: ActiveJob) -> None:
            while not active.work.stopped:
                await asyncio.sleep(0.01)
            raise JobCancelledError

        y.task(obey)
        running = await y.put()
        async with y.working(sync=1):
            await y.until_state(running, "running")
            waiting = await y.put()
            cancelled = await y.r.queue.cancel(waiting)
            await y.r.queue.cancel(running)
            ended = await y.until_state(running, "cancelled")

        assert cancelled.state == "cancelled"
        assert ended.tries == 1


async def test_a_cancelled_or_failed_job_can_be_retried(yard: Opened) -> None:
    async with yard() as y:
        y.task(nothing)
        job = await y.put()
        await y.r.queue.cancel(job)
        revived = await y.r.queue.retry(job)
        await y.work(sync=1)

        assert (revived.state, revived.tries) == ("waiting", 0)
        assert (await y.job(job)).state == "done"


async def test_nothing_begins_while_the_queue_is_paused(yard: Opened) -> None:
    async with yard() as y:
        y.task(nothing)
        async with y.working(sync=1) as worker:
            await y.r.queue.pause()
            await y.until(lambda: worker._is_paused)
            job = await y.put()
            await asyncio.sleep(0.2)
            assert (await y.job(job)).state == "waiting"
            assert (await y.r.queue.depth()).paused

            await y.r.queue.resume()
            await y.until_state(job, "done")


async def test_a_worker_that_stops_gives_its_jobs_back_without_a_try(yard: Opened) -> None:
    async with yard() as y:

        async def obey(active: ActiveJob) -> None:
            while not active.work.stopped:
                await asyncio.sleep(0.01)
            raise JobReleasedError

        y.task(obey)
        job = await y.put()
        async with y.working(sync=1):
            await y.until_state(job, "running")

        given_back = await y.job(job)
        assert (given_back.state, given_back.tries, given_back.error) == ("waiting", 0, None)
        assert await y.r.queue.list_workers() == []


async def test_a_job_that_does_not_end_is_cut_off_when_its_worker_stops(
    yard: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "GRACE_S", 0.1)
    async with yard(lease_s=0.4) as y:

        async def deaf(active: ActiveJob) -> None:
            await asyncio.sleep(3600)

        y.task(deaf)
        job = await y.put()
        async with y.working(sync=1):
            await y.until_state(job, "running")

        assert (await y.job(job)).state == "waiting"


def breaking(monkeypatch: pytest.MonkeyPatch, name: str, *, times: float) -> list[None]:
    """End the session of a statement before it, so many times; the list that is returned grows with each time."""
    statement, broken = getattr(queue, name), []

    async def break_first(c: Connection, *args: Any, **more: Any) -> Any:
        if len(broken) < times:
            broken.append(None)
            await c.execute("select pg_terminate_backend(pg_backend_pid())")
        return await statement(c, *args, **more)

    monkeypatch.setattr(queue, name, break_first)
    return broken


async def obey(active: ActiveJob) -> None:
    while not active.work.stopped:
        await asyncio.sleep(0.01)
    raise JobReleasedError


async def test_a_worker_whose_connections_break_as_it_leaves_gives_its_jobs_back(
    yard: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "backoff_s", lambda *_: 0.01)
    async with yard() as y:
        y.task(obey)
        job = await y.put()
        async with y.working(sync=1):
            await y.until_state(job, "running")
            broken = [breaking(monkeypatch, name, times=1) for name in ("put_off", "release_unknown", "unregister")]

        assert [len(one) for one in broken] == [1, 1, 1]
        given_back = await y.job(job)
        assert (given_back.state, given_back.tries) == ("waiting", 0)
        assert await y.r.queue.list_workers() == []


@pytest.mark.parametrize("has_session", [False, True], ids=["its session is gone", "its heartbeat is late"])
async def test_the_jobs_of_a_worker_that_left_without_the_database_are_taken_by_another(
    yard: Opened, database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch, has_session: bool
) -> None:
    monkeypatch.setattr(worker_module, "backoff_s", lambda *_: 0.01)
    async with yard() as y:
        broken: dict[str, list[None]] = {}

        def has_left() -> bool:
            is_noted = database.query("select from worker where locked_at is null")
            return bool(is_noted if has_session else broken.get("leave"))

        async def until_it_leaves(active: ActiveJob) -> None:
            await y.until(has_left)
            raise JobReleasedError

        y.task(until_it_leaves)
        job = await y.put()
        with monkeypatch.context() as outage:
            async with y.working(sync=1):
                await y.until_state(job, "running")
                for name in ("put_off", "release_unknown", *([] if has_session else ["leave"])):
                    broken[name] = breaking(outage, name, times=math.inf)
        left = await y.job(job)
        database.execute(
            "update worker set gone_at = now() - interval '1 min' where locked_at is not null;"
            " update procrastinate_workers set last_heartbeat = now() - interval '1 min' where id in"
            " (select id from worker where locked_at is null)"
        )
        y.task(nothing, name="do")
        async with y.working(sync=1):
            done = await y.until_state(job, "done")

        assert all(broken.values())
        assert left.state == "running"
        assert done.tries == 2


async def test_a_worker_that_is_cancelled_again_as_it_leaves_leaves_no_job_behind(yard: Opened) -> None:
    async with yard() as y:
        cut_off: list[int] = []

        async def deaf(active: ActiveJob) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cut_off.append(active.job.id)

        y.task(deaf)
        job = await y.put()
        worker = y.worker(sync=1)
        working = asyncio.create_task(worker.run())
        await y.until_state(job, "running")
        working.cancel()
        await y.until(lambda: worker._stopping.is_set())
        kept_on = not cut_off
        working.cancel()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait({working})

        assert (kept_on, cut_off, working.cancelled()) == (True, [job], True)
        assert (await y.job(job)).state == "waiting"
        assert await y.r.queue.list_workers() == []


async def test_workers_are_registered_with_their_places(yard: Opened, database: ScratchDatabase) -> None:
    async with yard() as y, y.working(sync=2, deliver=1):
        await y.until(lambda: bool(database.query("select from worker")))
        [one] = await y.r.queue.list_workers()

        assert (one.places, one.running) == ({"sync": 2, "deliver": 1}, 0)


END_SESSION = """
select pg_terminate_backend(pid) from pg_locks join pg_database on pg_database.oid = pg_locks.database
 where locktype = 'advisory' and classid = {lock} and objid = {worker} and datname = current_database()
"""


def end_session(database: ScratchDatabase, worker: Worker) -> None:
    """End the connection on which a worker hears of news, and no other one."""
    database.execute(END_SESSION.format(lock=Lock.WORKER.class_key, worker=worker._id))


async def test_a_job_that_was_claimed_without_hearing_of_it_is_given_back(
    yard: Opened, database: ScratchDatabase
) -> None:
    async with yard() as y:
        y.task(nothing)
        async with y.working(sync=1) as worker:
            await y.until(lambda: worker._id is not None)
            database.execute("insert into queue_pause default values; notify rowen_due")
            await y.until(lambda: worker._is_paused)
            job = await y.put()
            database.execute(
                f"update procrastinate_jobs set status = 'doing', worker_id = {worker._id} where id = {job}"
            )
            end_session(database, worker)
            given_back = await y.until_state(job, "waiting")
            await y.r.queue.resume()
            await y.until_state(job, "done")

        assert given_back.tries == 0


async def test_a_worker_that_loses_its_connection_keeps_its_jobs_beside_one_that_watches(
    yard: Opened, database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_WATCH_S", 0.05)
    async with yard(lease_s=60) as y:
        begun: list[int] = []
        end = asyncio.Event()

        async def wait(active: ActiveJob) -> None:
            begun.append(active.job.id)
            await end.wait()

        y.task(wait)
        async with y.working(sync=1) as first, y.working(sync=1):
            jobs = [await y.put() for _ in range(2)]
            await y.until(lambda: len(begun) == 2)
            for _ in range(2):
                database.execute("update worker set locked_at = null")
                end_session(database, first)
                # It has a session again, and the other one has looked since.
                await y.until(lambda: bool(database.query("select from worker where locked_at is not null")))
            end.set()
            for job in jobs:
                await y.until_state(job, "done")

        assert sorted(begun) == jobs
        assert {(await y.job(job)).tries for job in jobs} == {1}
        assert database.query("select count(*) from job_note") == [(0,)]


async def test_a_leaving_worker_does_not_count_as_dead_while_its_last_job_ends(
    yard: Opened, database: ScratchDatabase
) -> None:
    # A quarter of it is longer than a test waits: that it leaves is noted at once, not with the next heartbeat.
    async with yard(lease_s=600) as y:
        end = asyncio.Event()

        async def slow(active: ActiveJob) -> None:
            await end.wait()

        y.task(slow)
        job = await y.put()
        async with y.working(sync=1) as leaving:
            await y.until_state(job, "running")
            leaving.stop()
            await y.until(lambda: database.query("select locked_at from worker") == [(None,)])
            async with await y.engine.database.connect() as c:
                assert not await queue.sees_loss(c)
                await tick(y.engine, c, tasks=y.tasks, random=Random(1))
            assert (await y.job(job)).state == "running"
            end.set()

        assert (await y.job(job)).state == "done"


async def test_workers_check_other_workers_only_while_those_have_jobs(
    yard: Opened, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_WATCH_S", 0.02)
    async with yard(lease_s=0.4) as y:
        end = asyncio.Event()

        async def wait(active: ActiveJob) -> None:
            await end.wait()

        def looks() -> int:
            return sum("gone_at is null" in one and "last_heartbeat" not in one for one in statements)

        def pulses() -> int:
            return sum("queue_pause" in one and "last_heartbeat" in one for one in statements)

        y.task(wait)
        async with y.working(sync=1), y.working(sync=1):
            await y.until(lambda: pulses() > 8)
            idle = looks()
            job = await y.put()
            await y.until(lambda: looks() > 8)
            end.set()
            await y.until_state(job, "done")

        assert idle == 0
