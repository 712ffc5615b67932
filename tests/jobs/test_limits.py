"""Jobs that go wrong in the worst ways: they hang, ignore their end, eat memory, or block the whole process."""

import asyncio
import subprocess
import sys
from typing import Any

import psutil  # type: ignore[import-untyped] # its stubs are another package
import pytest

from rowen.jobs import worker as worker_module
from rowen.jobs.tasks import ActiveJob, JobTrouble, JobTroubledError
from rowen.jobs.worker import GRACE_S, Watch
from rowen.store.queue import JobClaim
from tests.jobs.conftest import Opened, nothing


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs are looked at often, and cut off soon."""
    monkeypatch.setattr(worker_module, "LOOK_S", 0.05)
    monkeypatch.setattr(worker_module, "GRACE_S", 0.2)


async def obey(active: ActiveJob) -> None:
    """Does nothing at all until it is told to end."""
    while not active.work.stopped:
        await asyncio.sleep(0.01)
    assert active.stopped is not None
    raise JobTroubledError(JobTrouble.of(active.stopped))


async def deaf(active: ActiveJob) -> None:
    """Hangs, and does not hear that it is to end."""
    await asyncio.sleep(3600)


@pytest.mark.parametrize("hanging", [obey, deaf])
async def test_a_job_that_hangs_ends_as_failed_with_the_reason(yard: Opened, quick_looks: None, hanging: Any) -> None:
    async with yard(job_silence_s=0.2, job_retry_s=0) as y:
        y.task(hanging)
        job = await y.put()
        async with y.working(sync=1):
            failed = await y.until_state(job, "failed")

        assert (failed.tries, failed.error_code) == (4, "job_silent")
        assert "showed no progress for 0 s" in (failed.error or "")


async def test_a_job_that_shows_progress_may_take_as_long_as_it_likes(yard: Opened, quick_looks: None) -> None:
    async with yard(job_silence_s=0.3) as y:

        async def crawl(active: ActiveJob) -> None:
            for _ in range(20):
                active.progress += 1
                await asyncio.sleep(0.05)

        y.task(crawl)
        job = await y.put()
        async with y.working(sync=1):
            done = await y.until_state(job, "done")

        assert done.tries == 1


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_silence_is_counted_from_the_last_progress_and_a_job_that_does_not_end_is_cut_off_after_its_grace(
    yard: Opened,
) -> None:
    async with yard(job_silence_s=100) as y:
        clock = Clock()
        watch = Watch(y.engine.settings, memory=lambda: 0, clock=clock)
        job = ActiveJob(y.engine, JobClaim(1, 1, "sync", "do", {}, 0, 0))
        told = []
        for at, progress in ((0, 0), (90, 1), (180, 1), (191, 1), (191 + GRACE_S, 1), (192 + GRACE_S, 1)):
            clock.now, job.progress = at, progress
            cut_off = watch.check([job])
            told.append((job.stopped is not None, bool(cut_off)))

    assert told == [(False, False)] * 3 + [(True, False)] * 2 + [(True, True)]


async def test_one_of_three_jobs_at_a_time_is_released_for_memory(yard: Opened) -> None:
    async with yard(worker_memory_mb=1) as y:
        watch = Watch(y.engine.settings, memory=lambda: 2 << 20, clock=Clock())
        jobs = [ActiveJob(y.engine, JobClaim(number, 1, "sync", "do", {}, 0, 0)) for number in range(3)]
        for _ in range(2):
            watch.check(jobs)
        first = [job.leaving for job in jobs]
        watch.check(jobs[:2])

    assert first == [False, False, True]
    assert [job.leaving for job in jobs] == [False, True, True]


async def test_no_job_is_released_for_memory_while_another_one_is_ending(yard: Opened) -> None:
    async with yard(worker_memory_mb=1, job_silence_s=100) as y:
        clock, used = Clock(), [0]
        watch = Watch(y.engine.settings, memory=lambda: used[0], clock=clock)
        silent, busy = [ActiveJob(y.engine, JobClaim(number, 1, "sync", "do", {}, 0, 0)) for number in range(2)]
        watch.check([silent, busy])
        clock.now, busy.progress = 101, 1
        watch.check([silent, busy])
        used[0] = 2 << 20
        watch.check([silent, busy])

    assert silent.stopped is not None
    assert not busy.is_ending


async def test_a_worker_is_full_above_its_limit_which_is_half_of_the_memory_if_none_is_set(yard: Opened) -> None:
    async with yard(worker_memory_mb=3) as y:
        limit = 3 << 20
        full = [Watch(y.engine.settings, memory=lambda used=used: used).is_full for used in (limit, limit + 1)]  # type: ignore[misc]
    async with yard() as y:
        half = Watch(y.engine.settings).limit_bytes

    assert full == [False, True]
    assert half == pytest.approx(psutil.virtual_memory().total / 2, rel=0.01)


async def test_a_job_that_eats_memory_alone_fails_at_once_with_the_reason(yard: Opened, quick_looks: None) -> None:
    async with yard() as y:
        y.task(obey)
        job = await y.put()
        async with y.working(sync=1) as worker:
            await y.until_state(job, "running")
            worker._watch._memory = lambda: worker._watch.limit_bytes + 1
            failed = await y.until_state(job, "failed")
            worker._watch._memory = lambda: 0

        assert (failed.tries, failed.error_code) == (1, "job_limit")
        assert "ROWEN_WORKER_MEMORY_MB" in (failed.error or "")


async def test_of_several_jobs_the_newest_makes_room_and_keeps_its_tries(yard: Opened, quick_looks: None) -> None:
    async with yard() as y:
        y.task(deaf)
        old, new = await y.put(), await y.put()
        async with y.working(sync=2) as worker:
            await y.until_state(old, "running")
            await y.until_state(new, "running")
            worker._watch._memory = lambda: worker._watch.limit_bytes + 1
            waiting = await y.until_state(new, "waiting")
            worker._watch._memory = lambda: 0

        assert waiting.tries == 0


async def test_a_worker_with_too_much_memory_and_no_job_is_restarted(yard: Opened) -> None:
    async with yard() as y:
        y.task(nothing)
        worker = y.worker(sync=1)
        worker._watch._memory = lambda: worker._watch.limit_bytes + 1
        await worker.run()

        assert worker.is_worn_out


BLOCKS = """
import asyncio, time
from rowen.jobs.worker import BlockedLoop

async def main():
    with BlockedLoop(limit=10, pause_s=0.05):
        await asyncio.sleep(1)
        print("still here", flush=True)
        time.sleep(3)
        print("too late", flush=True)

asyncio.run(main())
"""


def test_a_job_that_blocks_its_whole_process_ends_it_with_a_traceback() -> None:
    ended = subprocess.run([sys.executable, "-c", BLOCKS], capture_output=True, text=True, timeout=50)

    assert (ended.returncode, ended.stdout) == (70, "still here\n")
    assert "a job blocks this worker" in ended.stderr
    assert "in main" in ended.stderr
