"""The worker: claims jobs from the queue and runs them, with a limit for each kind of job.

Procrastinate's own worker has one limit for all kinds, stops for good when it loses the database, and ends a job that
another worker took over. This worker uses its queue. One task has its own connection, on which it receives
notifications, sends heartbeats and ticks; another task claims jobs. An idle worker waits for a notification or the
next due time. It releases its jobs when it stops; if it dies, other workers take them over. Jobs without progress,
jobs that use too much memory and jobs that block the process are ended.
"""

import asyncio
import faulthandler
import logging
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from random import Random
from typing import Self

import psutil  # type: ignore[import-untyped] # its stubs are another package
from procrastinate.manager import JobManager

from rowen.errors import JobLimitError, JobSilentError, RowenError, StoreError
from rowen.harvest.engine import Engine
from rowen.jobs import schedules
from rowen.jobs.rdf import push_job
from rowen.jobs.tasks import (
    ActiveJob,
    JobCancelledError,
    JobReleasedError,
    JobTrouble,
    JobTroubledError,
    Retry,
    Task,
    count_sync_failure,
    decide_retry,
    extract,
    subscribe,
    sync,
)
from rowen.jobs.ticks import tick, tidy
from rowen.jobs.webhooks import deliver_job
from rowen.model.queue import SIDE_PLACES, JobEnd, JobState
from rowen.net.politeness import backoff_s
from rowen.settings import Settings
from rowen.store import queue
from rowen.store.database import Connection, translate_database_errors
from rowen.store.queue import Ending, JobClaim
from rowen.version import __version__

log = logging.getLogger(__name__)

TASKS: Mapping[str, Task] = {
    "deliver": Task(deliver_job),
    "extract": Task(extract),
    "statements": Task(push_job),
    "subscribe": Task(subscribe),
    "sync": Task(sync, count_sync_failure),
}

# How often running jobs are checked: a leak of 100 MB a second is caught within half a gigabyte.
LOOK_S = 5.0
# A job that does not end within this time is cancelled: a transaction takes a fraction of it.
GRACE_S = 60.0
# Our own code blocks the event loop for less than a second; a machine that swaps may take longer.
_BLOCKED_CHECKS = 60
_BLOCKED = 70  # what sysexits(3) calls an internal software error
_MB = 1 << 20


class Watch:
    """Checks the progress and memory of a worker's jobs."""

    def __init__(
        self,
        settings: Settings,
        *,
        memory: Callable[[], int] = lambda: psutil.Process().memory_info().rss,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.limit_bytes = (settings.worker_memory_mb or psutil.virtual_memory().total // (2 * _MB)) * _MB
        self._silence_s = settings.job_silence_s
        self._memory = memory
        self._clock = clock or asyncio.get_running_loop().time
        self._seen: dict[ActiveJob, tuple[int, float]] = {}
        self._stopped: dict[ActiveJob, float] = {}

    @property
    def is_full(self) -> bool:
        """Whether this process has reached its memory limit."""
        return self._memory() > self.limit_bytes

    def check(self, jobs: Iterable[ActiveJob]) -> list[ActiveJob]:
        """Stop jobs that exceed their limits, the newest first; return stopped jobs that did not end in time."""
        live = list(jobs)
        now = self._clock()
        self._seen = {job: self._seen.get(job, (job.progress, now)) for job in live}
        self._stopped = {job: at for job, at in self._stopped.items() if job in self._seen}
        for job, (progress, since) in self._seen.items():
            if job.progress != progress:
                self._seen[job] = (job.progress, now)
            elif now - since > self._silence_s:
                self._stop(job, JobSilentError(f"It showed no progress for {self._silence_s:.0f} s."), now)
        if live and self.is_full and not self._stopped:
            # The newest job is released for later; a single job that needs too much memory has failed.
            used, most = self._memory() // _MB, self.limit_bytes // _MB
            alone = JobLimitError(f"Its worker used {used:,} MB, and may use {most:,} MB (ROWEN_WORKER_MEMORY_MB).")
            self._stop(live[-1], alone if len(live) == 1 else None, now)
        return [job for job, at in self._stopped.items() if now - at > GRACE_S]

    def _stop(self, job: ActiveJob, why: JobLimitError | JobSilentError | None, now: float) -> None:
        if job not in self._stopped:
            log.warning("stopped job %s: %s", job.job.id, why or "memory is short, and other jobs started earlier")
            self._stopped[job] = now
            job.stop(why)


class BlockedLoop:
    """Ends the process if its event loop is blocked for minutes, so that other workers take over its jobs.

    It counts checks, not time, so that a process that was suspended may continue.
    """

    def __init__(self, *, limit: int = _BLOCKED_CHECKS, pause_s: float = LOOK_S) -> None:
        self._limit, self._pause_s = limit, pause_s
        self._missed = 0
        self._over = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._watch, name="rowen-blocked-loop", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(self._pause_s):
            self._missed += 1
            if self._missed > self._limit:
                sys.stderr.write("rowen: a job blocks this worker. It ends; others take its jobs. It was here:\n")
                faulthandler.dump_traceback(sys.stderr)
                os._exit(_BLOCKED)
            self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._missed = 0


# The number of missed heartbeats after which a worker counts as dead: with a lease of a minute, a heartbeat every 15 s.
_HEARTBEATS = 4
# The shortest sleep, for a job that has just become due by the database's clock.
_SHORTEST_SLEEP_S = 0.02
# The interval of deleting old rows and of finding texts that a dead process left without vectors; neither is urgent.
_TIDY_S = 3600.0
# After this time a connection counts as good, so that its failure starts a new sequence of retries.
_GOOD_S = 60.0
# From the second failure on, a new connection is tried every one to two seconds, however long the outage: afterwards a
# worker must be connected before others take its jobs over (`queue.GONE_S`). Results of jobs are stored as soon.
_SLOWEST_RECONNECT = 2
# The number of tries, within four seconds, to release the jobs of a leaving worker: a broken connection costs one try.
# With 1, jobs would wait until other workers miss this worker; with many, the process ends late during an outage.
_GOODBYES = 3
# How often a worker checks for lost sessions of other workers with jobs, in a fraction of a millisecond of the server.
# At twice of it, a killed worker is noticed three seconds later.
_WATCH_S = 3.0


class Worker:
    """Runs jobs in this process."""

    def __init__(
        self,
        engine: Engine,
        *,
        places: Mapping[str, int] | None = None,
        tasks: Mapping[str, Task] = TASKS,
        random: Random | None = None,
        ended: Callable[[JobEnd], None] | None = None,
    ) -> None:
        self._engine = engine
        self._database = engine.database
        self._places = dict(places or {"sync": engine.places, **SIDE_PLACES})
        self._tasks = tasks
        self._silence_s = engine.settings.lease_s
        self._heartbeat_s = self._silence_s / _HEARTBEATS
        self._random = random or Random()  # noqa: S311 - jitter, not a secret
        self._ended = ended
        self._manager = JobManager(queue.QueueConnector(engine.database))
        self._watch = Watch(engine.settings)
        self._id: int | None = None
        self._jobs: dict[asyncio.Task[None], ActiveJob] = {}
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._is_paused = self._until_idle = self._others_work = self._is_hurried = False
        self.is_worn_out = False

    def stop(self) -> None:
        """Leave: running jobs end at their next checkpoint and are released."""
        self._stopping.set()
        self._wake.set()
        for active in self._jobs.values():
            active.stop()

    async def run(self, *, until_idle: bool = False) -> None:
        """Work until stopped, through outages of the database; with `until_idle`, until no job is ready.

        `is_worn_out` is set if the worker ended because it uses too much memory and should be restarted.
        """
        self._until_idle = until_idle

        async def cancel_stuck_jobs() -> None:
            """Cancel jobs that do not end when they are stopped."""
            while True:
                await asyncio.sleep(LOOK_S)
                active = {job: task for task, job in self._jobs.items() if not job.over}
                for stuck in self._watch.check(active) if active else ():
                    active[stuck].cancel()

        with BlockedLoop():
            async with self._engine.work():
                watching = asyncio.create_task(cancel_stuck_jobs())
                try:
                    await self._work()
                finally:
                    await self._left(watching)

    async def _work(self) -> None:
        """Serve until stopped; after a failure of the database, reconnect."""
        failures = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                await self._serve()
                if self._until_idle:
                    return
                failures = 0
            except StoreError as problem:
                failures = 1 if time.monotonic() - began > _GOOD_S else failures + 1
                # This logs an outage of an hour a dozen times, not two thousand times.
                if not failures & (failures - 1):
                    log.error("lost the database connection; retrying: %s", problem)
                await self._pause(failures)

    async def _pause(self, failures: int) -> None:
        """Wait before the next try, or until the worker leaves."""
        with suppress(TimeoutError):
            wait_s = backoff_s(min(failures, _SLOWEST_RECONNECT), self._random)
            await asyncio.wait_for(self._stopping.wait(), wait_s)

    async def _serve(self) -> None:
        """Work while the connection for notifications is open."""
        async with await self._database.connect() as c:
            with translate_database_errors(self._database.place):
                worker_id = await self._register(c)
                await queue.listen(c, list(self._places))
                pulse = asyncio.create_task(self._beat(c, worker_id))
                taking = asyncio.create_task(self._take_jobs(worker_id))
                try:
                    await asyncio.wait({pulse, taking}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for task in (pulse, taking):
                        task.cancel()
                    ended = await asyncio.gather(pulse, taking, return_exceptions=True)
                for end in ended:
                    if isinstance(end, Exception):
                        raise end

    async def _register(self, c: Connection) -> int:
        """Lock this worker's id in the session; register again if other workers removed it as dead."""
        if self._id is not None:
            # The lock is taken first, since other workers wait for it only briefly.
            await queue.lock_worker(c, self._id)
            if await queue.heartbeat(c, self._id):
                # Release jobs that were claimed by a statement whose answer was lost.
                known = [active.job.id for active in self._jobs.values()]
                if number := await queue.release_unknown(c, self._id, known):
                    log.warning("released %d jobs whose claim was lost with a connection", number)
                return self._id
        self._id = await queue.register(
            c, self._manager, host=socket.gethostname(), pid=os.getpid(), version=__version__, places=self._places
        )
        await queue.lock_worker(c, self._id)
        return self._id

    async def _beat(self, c: Connection, worker_id: int) -> None:
        """Send heartbeats, enqueue due work and wait for notifications."""
        tidy_at = time.monotonic()
        with translate_database_errors(self._database.place):
            while not self._stopping.is_set():
                beat_at = time.monotonic() + self._heartbeat_s
                pulse = await queue.pulse(c, worker_id, silence_s=self._silence_s)
                if not pulse.is_known:
                    log.warning("other workers removed this worker, which sent no heartbeat for too long")
                    return
                self._cancel_jobs(pulse.aborted)
                self._is_paused, self._others_work, next_s = pulse.is_paused, pulse.others_work, pulse.next_s
                if pulse.has_work and await tick(self._engine, c, tasks=self._tasks, random=self._random):
                    next_s = await queue.seconds_to_next(c)
                if time.monotonic() >= tidy_at:
                    tidy_at = time.monotonic() + _TIDY_S
                    await tidy(c, self._engine.settings)
                    self._engine.embedding.wake()
                if pulse.has_jobs or self._until_idle:
                    self._wake.set()
                await self._wait(c, beat_at if next_s is None else min(beat_at, time.monotonic() + next_s))

    async def _wait(self, c: Connection, until: float) -> None:
        """Wait for changed due times, the next heartbeat, the next due time or the loss of a worker.

        Notifications of new jobs only wake the task that claims jobs.
        """
        watch_at = time.monotonic() + _WATCH_S
        while not self._stopping.is_set():
            wake_at = min(until, watch_at) if self._others_work else until
            sleep_s = max(wake_at - time.monotonic(), _SHORTEST_SLEEP_S)
            notices = [notice async for notice in c.notifies(timeout=sleep_s, stop_after=1)]
            if any(notice.channel == queue.DUE_CHANNEL for notice in notices):
                return
            if notices:
                self._cancel_jobs([queue.aborted_job(notice.payload) for notice in notices])
                # Another worker may have claimed the job of this notification.
                self._others_work = True
                self._wake.set()
            if time.monotonic() >= until:
                return
            if time.monotonic() >= watch_at:
                if await queue.sees_loss(c):
                    return
                watch_at = time.monotonic() + _WATCH_S

    def _cancel_jobs(self, ids: Iterable[int | None]) -> None:
        wanted = set(ids)
        for active in self._jobs.values():
            if active.job.id in wanted:
                active.cancel()

    async def _take_jobs(self, worker_id: int) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            if self._watch.is_full and not self._jobs:
                log.warning("restarting this worker, which uses too much memory without a job")
                self.is_worn_out = True
                self.stop()
                return
            job = None
            busy = Counter(active.job.queue for active in self._jobs.values())
            free = [name for name, places in self._places.items() if busy[name] < places]
            if free and not self._is_paused and not self._watch.is_full:
                job = await queue.claim(self._manager, free, worker_id)
            if job is not None:
                active = ActiveJob(self._engine, job)
                if self._stopping.is_set():
                    active.stop()
                task = asyncio.create_task(self._do(active))
                self._jobs[task] = active
                task.add_done_callback(self._done)
            elif self._until_idle and not self._jobs and await self._is_idle():
                return
            else:
                await self._wake.wait()

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._jobs[task]
        self._wake.set()
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("could not release a job; another worker will run it", exc_info=problem)

    async def _do(self, active: ActiveJob) -> None:
        """Run a job and store its outcome."""
        try:
            ending = await self._attempt(active)
        except asyncio.CancelledError:
            # The job did not end in time, or this process ends at once. The cancellation is cleared, since a cancelled
            # task gets no connection from the pool.
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            ending = JobTrouble.of(active.stopped) if active.stopped else Retry(0.0, counted=False)
        active.over = True
        failures = 0
        while not await self._store_end(active, ending):
            failures += 1
            await self._pause(failures)
            if self._stopping.is_set():
                return

    async def _store_end(self, active: ActiveJob, ending: Ending | Retry | JobTrouble) -> bool:
        """Store the outcome of a job; return False if the database fails."""
        job = active.job
        decided: Ending | Retry
        try:
            async with self._database.connection() as c:
                if isinstance(ending, JobTrouble):
                    # The class of the error decides whether the job is retried or has failed.
                    again_s = self._engine.settings.job_retry_s
                    decided = decide_retry(ending, job.attempts + 1, self._random, first_s=again_s) or "failed"
                    async with c.transaction():
                        was_ours = await _end(c, job, decided)
                        if was_ours:
                            log.warning("job %s: %s", job.id, ending.words)
                            waited = isinstance(decided, Retry) and not decided.counted
                            await queue.note(c, job.id, ending.words, ending.code, waited=waited)
                            task = self._tasks.get(job.task)
                            if decided == "failed" and task is not None and task.on_failure is not None:
                                line = await task.on_failure(self._engine, c, job.arguments, ending.words)
                                await schedules.append(c, line)
                else:
                    decided = ending
                    was_ours = await _end(c, job, decided)
        except StoreError as problem:
            log.warning("could not store the end of job %s: %s", job.id, problem)
            return False
        if not was_ours:
            log.warning("another worker took job %s over meanwhile; the work done so far is kept", job.id)
        elif self._ended is not None:
            state = "waiting" if isinstance(decided, Retry) else _STATES[decided]
            wait_s = decided.wait_s if isinstance(decided, Retry) else None
            error = ending.words if isinstance(ending, JobTrouble) else None
            self._ended(JobEnd(job.id, job.task, state, active.run, error, wait_s))
        return True

    async def _attempt(self, active: ActiveJob) -> Ending | Retry | JobTrouble:
        job = active.job
        task = self._tasks.get(job.task)
        if task is None:
            return JobTrouble(
                f"This worker has no task {job.task!r}: it may be older than the process that enqueued the job."
            )
        try:
            await task.do(active, **job.arguments)
        except JobReleasedError:
            return Retry(0.0, counted=False)
        except JobCancelledError:
            return "aborted"
        except JobTroubledError as problem:
            return problem.trouble
        except RowenError as problem:
            return JobTrouble.of(problem)
        except Exception as problem:
            log.exception("job %s failed with a bug", job.id)
            return JobTrouble(f"{type(problem).__name__}: {problem}")
        return "succeeded"

    async def _is_idle(self) -> bool:
        async with self._database.connection() as c:
            looked = await tick(self._engine, c, tasks=self._tasks, random=self._random)
            return looked and (self._is_paused or await queue.is_idle(c, list(self._places)))

    async def _left(self, watching: asyncio.Task[None]) -> None:
        """Leave and wait for the end, even if this task is cancelled again, which cancels all jobs at once."""
        leaving = asyncio.create_task(self._leave(watching))
        cancelled: asyncio.CancelledError | None = None
        while not leaving.done():
            try:
                await asyncio.wait({leaving})
            except asyncio.CancelledError as problem:
                cancelled = problem
                self._is_hurried = True
                self._cut_off()
        if cancelled is not None:
            _ = leaving.cancelled() or leaving.exception()
            raise cancelled
        leaving.result()

    async def _leave(self, watching: asyncio.Task[None]) -> None:
        """Release the jobs and unregister this worker; cancel jobs that do not end in time."""
        self._stopping.set()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        for active in self._jobs.values():
            active.stop()
        until = time.monotonic() + GRACE_S
        if self._jobs:
            await self._unregister(is_last=False)
        while self._jobs:
            await asyncio.wait(set(self._jobs), timeout=self._heartbeat_s)
            await self._unregister(is_last=False)
            if self._is_hurried or time.monotonic() > until:
                self._cut_off()
        for failures in range(1, _GOODBYES + 1):
            if await self._unregister(is_last=True) or self._is_hurried:
                return
            await asyncio.sleep(backoff_s(min(failures, _SLOWEST_RECONNECT), self._random))
        log.warning("left without the database; other workers will take its jobs over")

    def _cut_off(self) -> None:
        for task, active in self._jobs.items():
            if not active.over:
                task.cancel()

    async def _unregister(self, *, is_last: bool) -> bool:
        """Mark this worker as leaving, or unregister it if `is_last`; return False if the database fails."""
        if self._id is None:
            return True
        try:
            async with self._database.connection() as c:
                if is_last:
                    await queue.release_unknown(c, self._id, ())
                    await queue.unregister(c, self._id)
                else:
                    await queue.leave(c, self._id)
        except StoreError:
            return False
        return True


async def _end(c: Connection, job: JobClaim, decided: Ending | Retry) -> bool:
    if isinstance(decided, Retry):
        return await queue.put_off(c, job, wait_s=decided.wait_s, counted=decided.counted)
    return await queue.finish(c, job, decided)


_STATES: Mapping[Ending, JobState] = {"succeeded": "done", "failed": "failed", "aborted": "cancelled"}
