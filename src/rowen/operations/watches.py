"""Runs and jobs that are watched: one query a second for each sort, however many watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from rowen.errors import StoreError
from rowen.harvest.engine import Engine
from rowen.model.queue import Job
from rowen.model.runs import Run
from rowen.store import jobs, runs

__all__ = ["Watches"]

log = logging.getLogger(__name__)

T = TypeVar("T")

# A run writes its statistics when it renews its lease, about so often; who looks more often sees nothing more.
POLL_S = 1.0

_Key: TypeAlias = tuple[Literal["run", "job", "recent"], int]


class _Watched:
    """The last known state of something, and how many watch it."""

    def __init__(self) -> None:
        self.state: Any = None
        self.readers = 0
        self.news = asyncio.Event()

    def note(self, state: Any) -> None:
        """Wake those who watch, if the state differs; None if what they watch is no longer there."""
        if state != self.state:
            self.state = state
            news, self.news = self.news, asyncio.Event()
            news.set()


class Watches:
    """What is watched in this process, and the task that looks at it."""

    def __init__(self, engine: Engine) -> None:
        self._database = engine.database
        self._watched: dict[_Key, _Watched] = {}
        self._polling: asyncio.Task[None] | None = None

    def run(self, run: Run) -> AsyncGenerator[Run]:
        """Return this state of a run, and then each new one, until the run is forgotten."""
        return self._states(("run", run.id), run)

    def job(self, job: Job) -> AsyncGenerator[Job]:
        """Return this state of a job, and then each new one, until the job is forgotten."""
        return self._states(("job", job.id), job)

    def recent_runs(self, recent: Sequence[Run], *, limit: int) -> AsyncGenerator[Sequence[Run]]:
        """Return these last runs, and then the last runs whenever they differ."""
        return self._states(("recent", limit), recent)

    async def _states(self, key: _Key, first: T) -> AsyncGenerator[T]:
        watched = self._watched.setdefault(key, _Watched())
        watched.readers += 1
        try:
            watched.note(first)
            if self._polling is None or self._polling.done():
                self._polling = asyncio.create_task(self._poll())
            while watched.state is not None:
                news = watched.news
                yield watched.state
                await news.wait()
        finally:
            watched.readers -= 1
            if not watched.readers:
                del self._watched[key]

    async def _poll(self) -> None:
        while self._watched:
            await asyncio.sleep(POLL_S)
            keys = tuple(self._watched)
            try:
                states = await self._look(keys)
            except StoreError as problem:
                log.warning("runs and jobs that are watched could not be read: %s", problem)
                continue
            for key in keys:
                if key in self._watched:
                    self._watched[key].note(states.get(key))

    async def _look(self, keys: Sequence[_Key]) -> dict[_Key, Any]:
        """Read the state of everything that is watched."""
        wanted = {sort: [number for of, number in keys if of == sort] for sort, _ in keys}
        found: dict[_Key, Any] = {}
        if not keys:
            return found
        async with self._database.connection() as c:
            if numbers := wanted.get("run"):
                found |= {("run", run.id): run for run in await runs.of_numbers(c, numbers)}
            if numbers := wanted.get("job"):
                found |= {("job", job.id): job for job in await jobs.of_numbers(c, numbers)}
            if limits := wanted.get("recent"):
                recent = await runs.recent(c, limit=max(limits))
                found |= {("recent", limit): recent[:limit] for limit in limits}
        return found
