"""A worker inside the test, with tasks of the test's own on the test's own database."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from procrastinate.jobs import Job as Entry

import rowen
from rowen.harvest.engine import Engine
from rowen.jobs.tasks import ActiveJob, Task
from rowen.jobs.worker import Worker
from rowen.model.queue import Job, JobEnd
from rowen.store import jobs, queue
from tests.conftest import ScratchDatabase

PATIENCE_S = 30


class Yard:
    """An open Rowen whose worker knows the tasks of a test."""

    def __init__(self, r: rowen.Rowen) -> None:
        self.r = r
        self.engine: Engine = r._engine
        self.tasks: dict[str, Task] = {}
        self.ends: list[JobEnd] = []

    def task(self, do: Callable[..., Awaitable[None]], *, name: str = "do", **more: Any) -> None:
        """Let the worker know a task."""
        self.tasks[name] = Task(do, **more)

    async def put(
        self,
        *,
        task: str = "do",
        kind: str = "sync",
        priority: int = 0,
        lock: str | None = None,
        queueing_lock: str | None = None,
    ) -> int:
        """Put a job into the queue."""
        locks = {"lock": lock, "queueing_lock": queueing_lock}
        entry = Entry(queue=kind, task_name=task, priority=priority, **locks, task_kwargs={})
        async with self.engine.database.transaction() as c:
            job_id = await queue.defer(c, self.engine.database, entry)
        assert job_id is not None
        return job_id

    def worker(self, **places: int) -> Worker:
        """A worker that has not begun."""
        return Worker(self.engine, places=places or None, tasks=self.tasks, random=Random(1), ended=self.ends.append)

    async def work(self, **places: int) -> None:
        """Do all that is to be done now."""
        async with asyncio.timeout(PATIENCE_S):
            await self.worker(**places).run(until_idle=True)

    @asynccontextmanager
    async def working(self, **places: int) -> AsyncIterator[Worker]:
        """A worker at work, which is stopped at the end."""
        worker = self.worker(**places)
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            async with asyncio.timeout(PATIENCE_S):
                await task

    async def job(self, job_id: int) -> Job:
        """A job as it is now."""
        async with self.engine.database.connection() as c:
            return await jobs.get(c, job_id)

    async def until(self, condition: Callable[[], Awaitable[bool] | bool]) -> None:
        """Wait for something, and not for ever."""
        async with asyncio.timeout(PATIENCE_S):
            while not (await met if isinstance(met := condition(), Awaitable) else met):
                await asyncio.sleep(0.01)

    async def until_state(self, job_id: int, state: str) -> Job:
        """Wait until a job has come to a state."""

        async def reached() -> bool:
            return (await self.job(job_id)).state == state

        await self.until(reached)
        return await self.job(job_id)


Opened = Callable[..., Any]


@pytest.fixture
def yard(database: ScratchDatabase) -> Opened:
    """`async with yard() as y`: an open Rowen with quick retries and a short lease."""

    @asynccontextmanager
    async def opened(**settings: Any) -> AsyncIterator[Yard]:
        async with database.open(**{"job_retry_s": 0.05, "lease_s": 4.0, **settings}) as r:
            yield Yard(r)

    return opened


async def nothing(active: ActiveJob) -> None:
    """A task that is done at once."""
