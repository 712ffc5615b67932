"""What is due becomes jobs: once, whoever looks and however late; jobs of dead workers are taken back."""

import asyncio
from contextlib import AsyncExitStack
from random import Random

import pytest

from rowen.errors import RefusedError
from rowen.jobs.queue import POKED, put
from rowen.jobs.ticks import tick, tidy
from rowen.jobs.worker import TASKS
from rowen.store import queue
from rowen.store.locks import Lock, hold_session_shared
from tests.conftest import ScratchDatabase
from tests.jobs.conftest import Opened, Yard, nothing


async def look(y: Yard) -> bool:
    async with await y.engine.database.connect() as c:
        return await tick(y.engine, c, tasks=TASKS, random=Random(1))


def queued(database: ScratchDatabase) -> list[str]:
    """The sources that have a job which waits, in the order of the queue."""
    rows = database.query(
        "select name from procrastinate_jobs join source on source.id = (args ->> 'source_id')::bigint"
        " where status = 'todo' order by priority desc, procrastinate_jobs.id"
    )
    return [name for (name,) in rows]


def add(
    database: ScratchDatabase, name: str, *, due: str | None = "now()", every: str = "every 1h", host: str = ""
) -> None:
    """A source that is due at some time."""
    url = f"https://{host or name}.example/{name}"
    database.execute(
        f"insert into source (name, kind, url, schedule) values ('{name}', 'datajson', '{url}', '{every}');"
        f"insert into source_due (source_id, due_at) select id, {due} from source where name = '{name}'"
    )


async def test_a_due_source_becomes_one_job_and_is_due_again_after_its_interval(
    yard: Opened, database: ScratchDatabase
) -> None:
    add(database, "hay")
    add(database, "oats", due="now() + interval '5 min'")
    async with yard() as y:
        await look(y)
        await look(y)

    assert queued(database) == ["hay"]
    [(again_s,)] = database.query("select extract(epoch from due_at - now()) from source_due where source_id = 1")
    assert 3200 < again_s < 4000


async def test_two_concurrent_ticks_make_one_job_for_each_source(yard: Opened, database: ScratchDatabase) -> None:
    for number in range(20):
        add(database, f"field{number}")
    async with yard() as y:
        await asyncio.gather(*(look(y) for _ in range(6)))

    assert sorted(queued(database)) == sorted(f"field{number}" for number in range(20))


async def test_times_that_were_missed_for_a_year_make_one_job(yard: Opened, database: ScratchDatabase) -> None:
    add(database, "hay", due="now() - interval '1 year'")
    async with yard() as y:
        await look(y)

    assert queued(database) == ["hay"]
    [(ahead,)] = database.query("select due_at > now() from source_due")
    assert ahead


async def test_no_job_is_made_of_a_source_that_has_one_or_is_being_read_or_is_paused(
    yard: Opened, database: ScratchDatabase
) -> None:
    for name in ("running", "live", "paused", "free"):
        add(database, name)
    async with yard() as y:
        await y.r.sources.pause("paused")
        database.execute("insert into run (source_id, mode, lease_until) values (2, 'full', now() + interval '1 min')")
        database.execute(
            "insert into procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args, status)"
            " values ('sync', 'sync', 'source:1', 'sync:1', '{\"source_id\": 1}', 'doing')"
        )
        database.execute(
            "insert into procrastinate_workers default values; update procrastinate_jobs set worker_id = 1"
        )
        await look(y)

    assert queued(database) == ["free"]


async def test_nothing_is_made_while_the_queue_is_paused(yard: Opened, database: ScratchDatabase) -> None:
    add(database, "hay")
    async with yard() as y:
        await y.r.queue.pause()
        await look(y)
        assert queued(database) == []
        await y.r.queue.resume()
        await look(y)

    assert queued(database) == ["hay"]


async def test_many_sources_of_one_host_do_not_block_others(yard: Opened, database: ScratchDatabase) -> None:
    for number in range(400):
        add(database, f"crowd{number}", due="now() - interval '1 day'", host="crowd")
    add(database, "alone")
    async with yard() as y:
        await look(y)

    assert len(queued(database)) == 4
    assert "alone" in queued(database)


async def test_no_more_runs_are_made_than_may_be_live_at_a_time(yard: Opened, database: ScratchDatabase) -> None:
    for number in range(6):
        add(database, f"field{number}", due=f"now() - interval '{number} min'")
    async with yard(runs_at_once=2) as y:
        await look(y)
        await look(y)

    assert queued(database) == ["field5", "field4"]


async def test_jobs_of_dead_workers_are_retried_and_fail_after_too_many_deaths(
    yard: Opened, database: ScratchDatabase
) -> None:
    add(database, "hay", due="null")
    async with yard(job_retry_s=0, failing_after=1) as y:
        await y.r.queue.enqueue("hay")
        states = []
        for _ in range(4):
            database.execute("update procrastinate_jobs set status = 'doing', worker_id = null")
            await look(y)
            states.append((await y.job(1)).state)

        assert states == ["waiting", "waiting", "waiting", "failed"]
        job = await y.job(1)
        assert (job.tries, job.error_code) == (4, "worker_lost")
        assert (await y.r.sources.get("hay")).failures == 1
        [line] = await y.r.changes()
        assert (line.kind, line.title) == ("failing", "hay: its workers died while they synced it")


async def test_a_job_of_a_dead_worker_is_retried_although_another_sync_of_its_source_waits(
    yard: Opened, database: ScratchDatabase
) -> None:
    add(database, "hay", due="null")
    async with yard(job_retry_s=0) as y:
        lost = await y.r.queue.enqueue("hay")
        database.execute("update procrastinate_jobs set status = 'doing', worker_id = null")
        waiting = await y.r.queue.enqueue("hay", full=True)
        await look(y)

        assert lost.id != waiting.id
        assert [(await y.job(job.id)).state for job in (lost, waiting)] == ["waiting", "waiting"]
        assert database.query("select args ? 'full' from procrastinate_jobs order by id") == [(False,), (True,)]


async def test_a_job_that_lost_its_worker_twice_is_retried_after_a_delay(
    yard: Opened, database: ScratchDatabase
) -> None:
    async with yard(job_retry_s=60) as y:
        job = await y.put()
        waits = []
        for _ in range(3):
            database.execute("update procrastinate_jobs set status = 'doing', worker_id = null")
            await look(y)
            [(wait_s,)] = database.query(
                "select extract(epoch from scheduled_at - now())::float from procrastinate_jobs"
            )
            waits.append(wait_s)

        assert (await y.job(job)).tries == 3
    assert waits == [pytest.approx(0, abs=5), pytest.approx(60, rel=0.3), pytest.approx(300, rel=0.3)]


async def test_a_silent_worker_loses_its_jobs_and_its_number(yard: Opened, database: ScratchDatabase) -> None:
    async with yard() as y:
        y.task(nothing)
        job = await y.put()
        database.execute("insert into procrastinate_workers (last_heartbeat) values (now() - interval '5 s')")
        database.execute("update procrastinate_jobs set status = 'doing', worker_id = 1")
        await look(y)

        assert (await y.job(job)).state == "waiting"
        assert database.query("select count(*) from procrastinate_workers") == [(0,)]


WORKER = """
insert into procrastinate_workers (last_heartbeat) values (now() - make_interval(secs => {silent_s}));
insert into worker (id, host, pid, version, places, locked_at, gone_at)
     values (1, 'barn', 1, '1', '{{}}', {locked_at}, {gone_at});
update procrastinate_jobs set status = 'doing', worker_id = 1
"""
EARLIER, JUST_NOW, LONG_AGO = "now() - interval '1 h'", "now()", "now() - interval '6 s'"


@pytest.mark.parametrize(
    ("silent_s", "locked_at", "gone_at", "holds", "state"),
    [
        pytest.param(1, EARLIER, "null", False, "running", id="its session was seen to be gone only now"),
        pytest.param(1, EARLIER, JUST_NOW, False, "running", id="it may still come back"),
        pytest.param(1, EARLIER, LONG_AGO, False, "waiting", id="it did not come back"),
        pytest.param(1, EARLIER, LONG_AGO, True, "running", id="it came back"),
        pytest.param(1, EARLIER, "now() + interval '1 d'", False, "waiting", id="the clock was set back since"),
        pytest.param(100, EARLIER, "null", False, "running", id="the database was away for longer than a lease"),
        pytest.param(100, EARLIER, "null", True, "waiting", id="it hangs"),
        pytest.param(1, "null", "null", False, "running", id="it is of an earlier release"),
        pytest.param(100, "null", "null", False, "waiting", id="it is of an earlier release and silent"),
    ],
)
async def test_a_job_is_taken_back_from_a_worker_whose_session_is_gone_for_some_seconds_or_that_hangs(
    yard: Opened, database: ScratchDatabase, silent_s: int, locked_at: str, gone_at: str, holds: bool, state: str
) -> None:
    async with yard(lease_s=60) as y, AsyncExitStack() as stack:
        job = await y.put()
        database.execute(WORKER.format(silent_s=silent_s, locked_at=locked_at, gone_at=gone_at))
        if holds:
            session = await stack.enter_async_context(await y.engine.database.connect())
            await hold_session_shared(session, Lock.WORKER, 1)
        await look(y)

        assert (await y.job(job)).state == state
        assert database.query("select count(*) from procrastinate_workers") == [(1 if state == "running" else 0,)]


async def test_a_tick_notes_since_when_a_session_is_gone_and_comes_back_when_its_time_is_over(
    yard: Opened, database: ScratchDatabase
) -> None:
    async with yard(lease_s=60) as y, await y.engine.database.connect() as c:
        await y.put()
        database.execute(WORKER.format(silent_s=1, locked_at=EARLIER, gone_at="null"))
        before = await queue.sees_loss(c)
        await look(y)
        noted = await queue.sees_loss(c)
        [(gone_s,)] = database.query("select extract(epoch from now() - gone_at)::float from worker")
        next_s = await queue.seconds_to_next(c)
        database.execute(f"update worker set gone_at = {LONG_AGO}")
        after = await queue.sees_loss(c)

    assert (before, noted, after) == (True, False, True)
    assert gone_s < queue.GONE_S
    assert next_s is not None
    assert 0 < next_s < queue.GONE_S


async def test_a_worker_locks_its_id_and_clears_marks_of_its_absence(yard: Opened, database: ScratchDatabase) -> None:
    async with yard(lease_s=60) as y:
        database.execute("insert into procrastinate_workers default values")
        database.execute(
            "insert into worker (id, host, pid, version, places, gone_at) values (1, '', 1, '', '{}', now())"
        )
        async with await y.engine.database.connect() as c:
            await queue.lock_worker(c, 1)
            held = database.query(HELD)
            noted = database.query("select locked_at is not null, gone_at from worker")
            database.execute("update worker set gone_at = now()")
            pulse = await queue.pulse(c, 1, silence_s=60)
            cleared = database.query("select gone_at from worker")
            await queue.leave(c, 1)
            left = database.query("select locked_at, gone_at from worker")

    assert held == [(1,)]
    assert noted == [(True, None)]
    assert pulse.is_known
    assert not pulse.has_work
    assert cleared == [(None,)]
    assert left == [(None, None)]


HELD = f"""
select objid::int from pg_locks join pg_database on pg_database.oid = pg_locks.database
 where locktype = 'advisory' and classid = {Lock.WORKER.class_key} and mode = 'ShareLock'
   and datname = current_database()
"""


async def test_a_clock_that_was_set_back_keeps_nothing_waiting_for_years(
    yard: Opened, database: ScratchDatabase
) -> None:
    add(database, "hay", due="now() + interval '3 years'")
    add(database, "rye", due="now() + interval '3 years'", every="cron 0 3 * * *")
    add(database, "oats", due="now() + interval '20 days'", every="every 4w")
    add(database, "barley", due="now() + interval '20 days'")
    add(database, "wheat", due="now() + interval '20 days'", every="every auto")
    async with yard() as y:
        job = await y.put()
        database.execute("update procrastinate_jobs set scheduled_at = now() + interval '3 years'")
        database.execute("insert into procrastinate_workers (last_heartbeat) values (now() + interval '3 years')")
        async with await y.engine.database.connect() as c:
            await tidy(c, y.engine.settings)
        await look(y)

        assert (await y.job(job)).starts_at is not None
        assert database.query("select scheduled_at <= now() from procrastinate_jobs") == [(True,)]
    found = dict(
        database.query("select name, due_at - now() < interval '25 h' from source_due join source on id = source_id")
    )
    assert found == {"hay": True, "rye": True, "oats": False, "barley": True, "wheat": False}
    assert database.query("select count(*) from procrastinate_workers") == [(0,)]


async def test_a_run_of_the_future_keeps_no_source_from_being_due(yard: Opened, database: ScratchDatabase) -> None:
    add(database, "hay")
    database.execute(
        "insert into run (source_id, mode, started_at, lease_until)"
        " values (1, 'full', now() + interval '1 year', now() + interval '1 year')"
    )
    async with yard() as y:
        await look(y)

    assert queued(database) == ["hay"]


async def test_jobs_that_ended_weeks_ago_are_forgotten(yard: Opened, database: ScratchDatabase) -> None:
    async with yard() as y:
        y.task(nothing)
        old, newer, new = [await y.put() for _ in range(3)]
        await y.work(sync=1)
        waiting = await y.put(task="later", kind="later")
        for job, days in ((old, 15), (newer, 13), (waiting, 15)):
            database.execute(f"update procrastinate_events set at = at - interval '{days} days' where job_id = {job}")
        async with await y.engine.database.connect() as c:
            await tidy(c, y.engine.settings)

        assert database.query("select id from procrastinate_jobs order by id") == [(newer,), (new,), (waiting,)]


async def test_a_cancelled_job_is_not_retried_after_its_worker_died(yard: Opened, database: ScratchDatabase) -> None:
    async with yard() as y:
        job = await y.put()
        database.execute("update procrastinate_jobs set status = 'doing', worker_id = null, abort_requested = true")
        await look(y)

        assert (await y.job(job)).state == "cancelled"


async def test_a_job_is_given_back_only_by_the_worker_and_the_try_that_have_it(
    yard: Opened, database: ScratchDatabase
) -> None:
    async with yard() as y, y.engine.database.connection() as c:
        job = await y.put()
        database.execute(
            "insert into procrastinate_workers default values; insert into procrastinate_workers default values"
        )
        database.execute("update procrastinate_jobs set status = 'doing', worker_id = 1, attempts = 2")
        mine = queue.JobClaim(job, 1, "sync", "do", {}, 2, 0)
        for other in (mine._replace(worker_id=2), mine._replace(attempts=1)):
            assert not await queue.finish(c, other, "succeeded")
            assert not await queue.put_off(c, other, wait_s=0, counted=True)
        assert (await y.job(job)).state == "running"

        assert await queue.put_off(c, mine, wait_s=0, counted=False)
        assert database.query("select status::text, attempts from procrastinate_jobs") == [("todo", 2)]


async def test_requested_jobs_precede_scheduled_ones_and_announced_ones_precede_both(
    yard: Opened, database: ScratchDatabase
) -> None:
    for name in ("due", "asked", "announced"):
        add(database, name, due="now()" if name == "due" else "null")
    async with yard() as y:
        await look(y)
        await y.r.queue.enqueue("asked", accept_deletions=True)
        async with y.engine.database.transaction() as c:
            await put(c, y.engine.database, 3, priority=POKED)
        asked = database.query("select args from procrastinate_jobs where queueing_lock = 'sync:2'")

    assert queued(database) == ["announced", "asked", "due"]
    assert asked == [({"source_id": 2, "accept_deletions": True},)]


async def test_only_a_job_that_failed_or_was_cancelled_can_be_retried_and_none_that_is_over_cancelled(
    yard: Opened, database: ScratchDatabase
) -> None:
    async with yard() as y:
        job = await y.put()
        for status in ("todo", "doing", "succeeded"):
            database.execute(f"update procrastinate_jobs set status = '{status}'")
            with pytest.raises(RefusedError, match=f"Job {job} did not fail"):
                await y.r.queue.retry(job)
        with pytest.raises(RefusedError, match=f"Job {job} has ended: done"):
            await y.r.queue.cancel(job)
        database.execute("update procrastinate_jobs set status = 'failed'")

        assert (await y.r.queue.retry(job)).state == "waiting"
