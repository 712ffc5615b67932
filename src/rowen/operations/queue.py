"""Jobs: what waits in the queue, who works on it, and a worker in this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Unpack

from rowen.errors import BusyError, Hint, NotFoundError, UsageError, action
from rowen.jobs.queue import Queue
from rowen.model.access import Scope
from rowen.model.page import Page
from rowen.model.queue import Job, JobEnd, JobState, LiveWorker, QueueDepth
from rowen.model.schemas import SchemaRef
from rowen.operations.operation import ResourceGroup, operation
from rowen.operations.paging import as_number, decoded, page_of
from rowen.store import jobs, source_schemas
from rowen.store import sources as source_store

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta

    from rowen.jobs.worker import Worker
    from rowen.operations.parameters import (
        After,
        Everything,
        ExtractionOptions,
        JobId,
        Limit,
        OnlySource,
        SchemaName,
        SourceName,
    )

__all__ = ["JobQueue"]


class JobQueue(ResourceGroup):
    """What is to be done."""

    def _prepare(self) -> None:
        self._queue = Queue(self._engine)
        self._worker: Worker | None = None

    @operation(scope=Scope.READ)
    async def get(self, job_id: JobId) -> Job:
        """One job."""
        async with self._database.connection() as c:
            return await jobs.get(c, job_id)

    @operation(scope=Scope.READ)
    def watch(self, job: Job) -> AsyncGenerator[Job]:
        """Yield this state of a job, and then each new one, until the job is deleted."""
        return self._client.runs.watches.states(("job", job.id), job)

    @operation(scope=Scope.READ)
    async def depth(self) -> QueueDepth:
        """How much there is to do."""
        async with self._database.connection() as c:
            return await jobs.depth(c)

    @operation(scope=Scope.READ)
    async def list_workers(self) -> list[LiveWorker]:
        """Who works."""
        async with self._database.connection() as c:
            return await jobs.workers(c)

    @operation(scope=Scope.WRITE)
    async def enqueue(
        self,
        name: SourceName,
        *,
        full: Annotated[bool, Meta(description="Read and compare every item, whatever validators say.")] = False,
        accept_deletions: Annotated[bool, Meta(description="Delete pending deletions as well.")] = False,
    ) -> Job:
        """Have a source synced by a worker, soon; if a sync of it waits already, that one is hastened."""
        async with self._database.connection() as c:
            source = await source_store.get(c, name)
        return await self._queue.sync(source, full=full, accept_deletions=accept_deletions)

    @operation(scope=Scope.WRITE)
    async def enqueue_extraction(
        self,
        name: SourceName,
        *,
        schema: SchemaName | None = None,
        everything: Everything = False,
        **order: Unpack[ExtractionOptions],
    ) -> Job:
        """Have what changed in a source extracted by a worker, or everything again: one schema, or all it carries."""
        from rowen.jobs.queue import put_extraction

        wanted = None if schema is None else SchemaRef.parse(schema).name
        async with self._database.transaction() as c:
            source = await source_store.get(c, name)
            held = [one.schema.name for one in await source_schemas.carried(c, source.id)]
            if not held:
                raise UsageError(f"Source {name!r} carries no schema, so there is nothing to extract.")
            if wanted is not None and wanted not in held:
                raise NotFoundError(f"Source {name!r} carries no schema {wanted!r}, but {', '.join(held)}.")
            # Noted here, and not by the job: one that is interrupted does not begin from the start.
            for one in held if everything else ():
                if wanted in (None, one):
                    await source_schemas.look_again(c, source.id, one)
            job_id = await put_extraction(c, self._database, source.id, schema=wanted, order=dict(order))
            if job_id is None:
                raise BusyError(
                    f"An extraction of {name!r} waits already. Nothing was changed.",
                    hint=Hint(action("jobs", source=name), " shows it; once it is done or cancelled, ask again."),
                )
            return await jobs.get(c, job_id)

    @operation(scope=Scope.WRITE)
    async def cancel(self, job_id: JobId) -> Job:
        """Take a job out of the queue; a running one ends soon, at a checkpoint."""
        return await self._queue.cancel(job_id)

    @operation(scope=Scope.WRITE)
    async def retry(self, job_id: JobId) -> Job:
        """Begin a job again that failed or was cancelled."""
        return await self._queue.retry(job_id)

    @operation(scope=Scope.ADMIN)
    async def pause(self) -> None:
        """Begin no job until the queue is resumed; what runs is finished."""
        await self._queue.pause()

    @operation(scope=Scope.ADMIN)
    async def resume(self) -> None:
        """Go on after a pause."""
        await self._queue.resume()

    @operation(scope=None)
    async def work(
        self,
        *,
        places: Mapping[str, int] | None = None,
        until_idle: bool = False,
        told: Callable[[JobEnd], None] | None = None,
    ) -> bool:
        """Take jobs until `stop`, or until there is nothing left to do now; `told` hears of each that ends.

        Returns whether this process should be begun anew, since it keeps too much memory.
        """
        from rowen.jobs.worker import Worker

        self._worker = Worker(self._engine, places=places, ended=told)
        try:
            await self._worker.run(until_idle=until_idle)
            return self._worker.is_worn_out
        finally:
            self._worker = None

    def stop_worker(self) -> None:
        """End the worker of this process soon; its jobs are given back."""
        if self._worker is not None:
            self._worker.stop()

    @operation(scope=Scope.READ)
    async def list(
        self,
        source: OnlySource | None = None,
        *,
        state: Annotated[JobState | None, Meta(description="Only jobs in this state.")] = None,
        limit: Limit = 20,
        after: After | None = None,
    ) -> Page[Job]:
        """Jobs, newest first; `after` is the `next` of the page before."""
        listing = ["jobs", source, state]
        place = decoded(after, listing, as_number)
        async with self._database.connection() as c:
            if source is not None:
                await source_store.need(c, source)
            found = await jobs.every(c, state=state, source=source, limit=limit + 1, after=place[0] if place else None)
        return page_of(found, limit, listing, lambda job: [job.id])
