"""What holds a job that goes wrong: one that shows no progress, eats memory, or blocks its whole process."""

import asyncio
import faulthandler
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Self

import psutil  # type: ignore[import-untyped] # its stubs are another package

from rowen.errors import JobLimitError, JobSilentError
from rowen.jobs.tasks import AtWork
from rowen.settings import Settings

__all__ = ["BlockedLoop", "Watch"]

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
