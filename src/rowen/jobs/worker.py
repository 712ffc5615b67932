"""What holds a job that goes wrong: one that shows no progress, eats memory, or blocks its whole process.

A worker: takes jobs from the queue and does them, as many of each kind at a time as it has places for.

Procrastinate's own worker has one limit for all kinds, stops for good when the database goes away, and ends a job that
was taken from it. So this is ours, on its queue. Two tasks serve it. One has a connection of its own, on which it hears
of new jobs and due times, says that it lives, and ticks; the other claims jobs. An idle worker waits for a notification
or for the next due time. Jobs are given back in good order when it is asked to stop, and taken back by others when it
dies.
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
from rowen.jobs.tasks import (
    TASKS,
    Again,
    AtWork,
    JobCancelledError,
    JobReleasedError,
    JobTrouble,
    JobTroubledError,
    Task,
    again,
)
from rowen.jobs.ticks import tick, tidy
from rowen.model.queue import SIDE_PLACES, JobEnd, JobState
from rowen.net.politeness import backoff_s
from rowen.settings import Settings
from rowen.store import queue
from rowen.store.database import Connection, translate_database_errors
from rowen.store.queue import Ending, JobClaim
from rowen.version import __version__

__all__ = ["BlockedLoop", "Watch", "Worker"]

log = logging.getLogger(__name__)

# How often running jobs are looked at: a leak of 100 MB a second is caught within half a gigabyte.
LOOK_S = 5.0
# A job that was told to end, and has not, is cut off: a transaction ends in a fraction of it.
GRACE_S = 60.0
# Nothing of ours keeps the event loop busy for longer than a second; a machine that swaps may.
_BLOCKED_LOOKS = 60
_BLOCKED = 70  # what sysexits(3) calls an internal software error
_MB = 1 << 20


class Watch:
    """Looks after the jobs of one worker."""

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
        self._seen: dict[AtWork, tuple[int, float]] = {}
        self._told: dict[AtWork, float] = {}

    @property
    def is_full(self) -> bool:
        """Whether this process has all the memory that it may have."""
        return self._memory() > self.limit_bytes

    def look(self, jobs: Iterable[AtWork]) -> list[AtWork]:
        """Tell jobs to end that went too far, the newest first; returns those that were told and did not."""
        live = list(jobs)
        now = self._clock()
        self._seen = {job: self._seen.get(job, (job.progress, now)) for job in live}
        self._told = {job: at for job, at in self._told.items() if job in self._seen}
        for job, (progress, since) in self._seen.items():
            if job.progress != progress:
                self._seen[job] = (job.progress, now)
            elif now - since > self._silence_s:
                self._tell(job, JobSilentError(f"It showed no progress for {self._silence_s:.0f} s."), now)
        if live and self.is_full and not self._told:
            self._make_room(live, now)
        return [job for job, at in self._told.items() if now - at > GRACE_S]

    def _make_room(self, live: list[AtWork], now: float) -> None:
        """Let the newest job go, for later; one that takes too much when it is alone has failed."""
        used, most = self._memory() // _MB, self.limit_bytes // _MB
        alone = JobLimitError(f"Its worker used {used:,} MB, and may use {most:,} MB (ROWEN_WORKER_MEMORY_MB).")
        self._tell(live[-1], alone if len(live) == 1 else None, now)

    def _tell(self, job: AtWork, why: JobLimitError | JobSilentError | None, now: float) -> None:
        if job not in self._told:
            log.warning("job %s is stopped: %s", job.job.id, why or "memory is short, and others began before it")
            self._told[job] = now
            job.stop(why)


class BlockedLoop:
    """Ends the process when its event loop is blocked for minutes: nothing else can, and its jobs are taken back.

    Looks are counted, not time: a process that was stopped and goes on has lost no look.
    """

    def __init__(self, *, looks: int = _BLOCKED_LOOKS, pause_s: float = LOOK_S) -> None:
        self._looks, self._pause_s = looks, pause_s
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
            if self._missed > self._looks:
                sys.stderr.write("rowen: a job blocks this worker. It ends; others take its jobs. It was here:\n")
                faulthandler.dump_traceback(sys.stderr)
                os._exit(_BLOCKED)
            self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._missed = 0


# So many are missed before a worker is taken for dead: with a lease of a minute, one statement in 15 s each.
_HEARTBEATS = 4
# A job that has just come due by the database's clock.
_SHORTEST_SLEEP_S = 0.02
# What is long over is forgotten, and texts that a dead process left without vectors are found: nobody waits for either.
_TIDY_S = 3600.0
# A connection that held for so long was a good one: what breaks it is not the next failure in a row.
_GOOD_S = 60.0
# From the second failure on a new connection is tried every one to two seconds, however long the database is away: once
# it is back, a worker must have one before others take its jobs (`queue.GONE_S`). What became
# of a job is written down as soon.
_SLOWEST_RECONNECT = 2
# A worker that leaves tries so often to give its jobs back, within four seconds: a connection that broke costs one try.
# With one, a job would wait for other workers to miss its own; with many, a process whose database is away ends late.
_GOODBYES = 3
# How often a worker looks whether the session of another one is gone, while others have jobs: a fraction of a
# millisecond for the server. At twice of it a killed worker is missed for three seconds longer.
_WATCH_S = 3.0


class Worker:
    """One process that takes jobs."""

    def __init__(
        self,
        engine: Engine,
        *,
        places: Mapping[str, int] | None = None,
        tasks: Mapping[str, Task] = TASKS,
        random: Random | None = None,
        told: Callable[[JobEnd], None] | None = None,
    ) -> None:
        self._engine = engine
        self._database = engine.database
        self._places = dict(places or {"sync": engine.places, **SIDE_PLACES})
        self._tasks = tasks
        self._silence_s = engine.settings.lease_s
        self._heartbeat_s = self._silence_s / _HEARTBEATS
        self._random = random or Random()  # noqa: S311 - jitter, not a secret
        self._told = told
        self._manager = JobManager(queue.QueueConnector(engine.database))
        self._watch = Watch(engine.settings)
        self._id: int | None = None
        self._jobs: dict[asyncio.Task[None], AtWork] = {}
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._is_paused = self._until_idle = self._others_work = self._is_hurried = False
        self.is_worn_out = False

    def stop(self) -> None:
        """Leave: jobs at work end at their next checkpoint and are given back."""
        self._stopping.set()
        self._wake.set()
        for at_work in self._jobs.values():
            at_work.stop()

    async def run(self, *, until_idle: bool = False) -> None:
        """Work until told to stop, whatever happens to the database; or until there is nothing left to do now.

        `is_worn_out` tells afterwards that it ended because it has too much memory, and should be begun anew.
        """
        self._until_idle = until_idle
        with BlockedLoop():
            async with self._engine.work():
                watching = asyncio.create_task(self._look_after())
                try:
                    await self._live()
                finally:
                    await self._left(watching)

    async def _live(self) -> None:
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
                # An outage of an hour is told of a dozen times, not two thousand.
                if not failures & (failures - 1):
                    log.error("lost the database; trying again until it is back: %s", problem)
                await self._rest(backoff_s(min(failures, _SLOWEST_RECONNECT), self._random))

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _serve(self) -> None:
        """Work as long as the connection holds on which we hear of news."""
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
        """Lock our number among the workers in this session; a new one if others took us for dead."""
        if self._id is not None:
            # This comes first: other workers wait for it, and only briefly.
            await queue.lock_worker(c, self._id)
            if await queue.heartbeat(c, self._id):
                await self._release_unknown(c, self._id)
                return self._id
        self._id = await queue.register(
            c, self._manager, host=socket.gethostname(), pid=os.getpid(), version=__version__, places=self._places
        )
        await queue.lock_worker(c, self._id)
        return self._id

    async def _release_unknown(self, c: Connection, worker_id: int) -> None:
        """Give back what was claimed in a statement whose answer never came."""
        known = [at_work.job.id for at_work in self._jobs.values()]
        if number := await queue.release_unknown(c, worker_id, known):
            log.warning("%d claimed without hearing of it: given back", number)

    async def _beat(self, c: Connection, worker_id: int) -> None:
        """Say that we live, look what is due, and wait for news."""
        tidy_at = time.monotonic()
        with translate_database_errors(self._database.place):
            while not self._stopping.is_set():
                beat_at = time.monotonic() + self._heartbeat_s
                pulse = await queue.pulse(c, worker_id, silence_s=self._silence_s)
                if not pulse.is_known:
                    log.warning("this worker was silent for so long that others took it for dead")
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
                await self._hear(c, beat_at if next_s is None else min(beat_at, time.monotonic() + next_s))

    async def _hear(self, c: Connection, until: float) -> None:
        """Wait for other due times, the next heartbeat, the next due time, or the loss of a worker.

        New jobs only wake who takes them.
        """
        watch_at = time.monotonic() + _WATCH_S
        while not self._stopping.is_set():
            wake_at = min(until, watch_at) if self._others_work else until
            sleep_s = max(wake_at - time.monotonic(), _SHORTEST_SLEEP_S)
            heard = [notice async for notice in c.notifies(timeout=sleep_s, stop_after=1)]
            if any(notice.channel == queue.DUE_CHANNEL for notice in heard):
                return
            if heard:
                self._cancel_jobs([queue.aborted_job(notice.payload) for notice in heard])
                # Another worker may claim the job that woke this one.
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
        for at_work in self._jobs.values():
            if at_work.job.id in wanted:
                at_work.cancel()

    async def _take_jobs(self, worker_id: int) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            if self._watch.is_full and not self._jobs:
                log.warning("this worker keeps too much memory without a job, and is begun anew")
                self.is_worn_out = True
                return self.stop()
            job = await self._claim(worker_id)
            if job is not None:
                self._begin(job)
            elif self._until_idle and not self._jobs and await self._is_idle():
                return None
            else:
                await self._wake.wait()
        return None

    async def _claim(self, worker_id: int) -> JobClaim | None:
        taken = Counter(at_work.job.queue for at_work in self._jobs.values())
        free = [name for name, places in self._places.items() if taken[name] < places]
        if not free or self._is_paused or self._watch.is_full:
            return None
        return await queue.claim(self._manager, free, worker_id)

    def _begin(self, job: JobClaim) -> None:
        at_work = AtWork(self._engine, job)
        if self._stopping.is_set():
            at_work.stop()
        task = asyncio.create_task(self._do(at_work))
        self._jobs[task] = at_work
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._jobs[task]
        self._wake.set()
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("a job could not be given back; others will take it", exc_info=problem)

    async def _do(self, at_work: AtWork) -> None:
        """Do a job, and say how it ended."""
        try:
            ending = await self._tried(at_work)
        except asyncio.CancelledError:
            # It was told to end and did not, or this process ends at once. That it was cancelled is no longer of use:
            # a connection is not lent to a task that is about to end.
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            ending = JobTrouble.of(at_work.stopped) if at_work.stopped else Again(0.0, counted=False)
        at_work.over = True
        failures = 0
        while not await self._give_back(at_work, ending):
            failures += 1
            await self._rest(backoff_s(min(failures, _SLOWEST_RECONNECT), self._random))
            if self._stopping.is_set():
                return

    async def _give_back(self, at_work: AtWork, ending: Ending | Again | JobTrouble) -> bool:
        """Write down how a job ended; False if the database does not take it."""
        job = at_work.job
        try:
            async with self._database.connection() as c:
                if isinstance(ending, JobTrouble):
                    async with c.transaction():
                        kept, decided = await self._end_badly(c, job, ending)
                else:
                    kept, decided = await _end(c, job, ending), ending
        except StoreError as problem:
            log.warning("job %s cannot be given back: %s", job.id, problem)
            return False
        if not kept:
            log.warning("job %s was taken from this worker meanwhile; what it did is kept", job.id)
        elif self._told is not None:
            self._told(_end_of(at_work, decided, ending.words if isinstance(ending, JobTrouble) else None))
        return True

    async def _tried(self, at_work: AtWork) -> Ending | Again | JobTrouble:
        job = at_work.job
        task = self._tasks.get(job.task)
        if task is None:
            return JobTrouble(
                f"This worker knows no task {job.task!r}: it may be older than the one that asked for it."
            )
        try:
            await task.do(at_work, **job.arguments)
        except JobReleasedError:
            return Again(0.0, counted=False)
        except JobCancelledError:
            return "aborted"
        except JobTroubledError as problem:
            return problem.trouble
        except RowenError as problem:
            return JobTrouble.of(problem)
        except Exception as problem:
            log.exception("job %s failed over a bug", job.id)
            return JobTrouble(f"{type(problem).__name__}: {problem}")
        return "succeeded"

    async def _end_badly(self, c: Connection, job: JobClaim, trouble: JobTrouble) -> tuple[bool, Ending | Again]:
        """Decide by the class of the trouble, and keep its reason; whether the job was still ours, and what it was."""
        again_s = self._engine.settings.job_retry_s
        failed: Ending = "failed"
        decided = again(trouble, job.attempts + 1, self._random, first_s=again_s) or failed
        kept = await _end(c, job, decided)
        if kept:
            log.warning("job %s: %s", job.id, trouble.words)
            waited = isinstance(decided, Again) and not decided.counted
            await queue.note(c, job.id, trouble.words, trouble.code, waited=waited)
            task = self._tasks.get(job.task)
            if decided == "failed" and task is not None and task.given_up is not None:
                await schedules.tell(c, await task.given_up(self._engine, c, job.arguments, trouble.words))
        return kept, decided

    async def _look_after(self) -> None:
        """Hold jobs that go too far."""
        while True:
            await asyncio.sleep(LOOK_S)
            at_work = {one: task for task, one in self._jobs.items() if not one.over}
            for stuck in self._watch.look(at_work) if at_work else ():
                at_work[stuck].cancel()

    async def _is_idle(self) -> bool:
        async with self._database.connection() as c:
            looked = await tick(self._engine, c, tasks=self._tasks, random=self._random)
            return looked and (self._is_paused or await queue.is_idle(c, list(self._places)))

    async def _left(self, watching: asyncio.Task[None]) -> None:
        """Leave, also when cancelled again: that cuts off the jobs at once, but none of them is left behind."""
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
        """Give the jobs back, and the number; who does not end in time is cut off."""
        self._stopping.set()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        for at_work in self._jobs.values():
            at_work.stop()
        until = time.monotonic() + GRACE_S
        if self._jobs:
            await self._say_goodbye(is_last=False)
        while self._jobs:
            await asyncio.wait(set(self._jobs), timeout=self._heartbeat_s)
            await self._say_goodbye(is_last=False)
            if self._is_hurried or time.monotonic() > until:
                self._cut_off()
        for failures in range(1, _GOODBYES + 1):
            if await self._say_goodbye(is_last=True) or self._is_hurried:
                return
            await asyncio.sleep(backoff_s(min(failures, _SLOWEST_RECONNECT), self._random))
        log.warning("left without the database; other workers take back what this one had")

    def _cut_off(self) -> None:
        for task, at_work in self._jobs.items():
            if not at_work.over:
                task.cancel()

    async def _say_goodbye(self, *, is_last: bool) -> bool:
        """Stay registered until the last job is given back, then unregister; False if the database cannot record it."""
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


async def _end(c: Connection, job: JobClaim, decided: Ending | Again) -> bool:
    if isinstance(decided, Again):
        return await queue.put_off(c, job, wait_s=decided.wait_s, counted=decided.counted)
    return await queue.finish(c, job, decided)


_STATES: Mapping[Ending, JobState] = {"succeeded": "done", "failed": "failed", "aborted": "cancelled"}


def _end_of(at_work: AtWork, decided: Ending | Again, error: str | None) -> JobEnd:
    state = "waiting" if isinstance(decided, Again) else _STATES[decided]
    wait_s = decided.wait_s if isinstance(decided, Again) else None
    return JobEnd(at_work.job.id, at_work.job.task, state, at_work.run, error, wait_s)
