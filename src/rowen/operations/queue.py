"""The queue of jobs, its workers, and a worker in this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Unpack

from rowen.errors import BusyError, Hint, NotFoundError, UsageError, action
from rowen.jobs.queue import Queue, put_extraction
from rowen.model.access import Scope
from rowen.model.queue import Job, JobEnd, JobState, LiveWorker, QueueDepth
from rowen.model.schemas import SchemaRef
from rowen.operations.operation import ResourceGroup, operation
from rowen.operations.paging import Page, as_number, decoded, page_of
from rowen.store import jobs
from rowen.store import schemas as schema_store
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


class JobQueue(ResourceGroup):
    """The queue of jobs."""

    def _prepare(self) -> None:
        self._queue = Queue(self._engine)
        self._worker: Worker | None = None

    @operation(scope=Scope.READ)
    async def get(self, job_id: JobId) -> Job:
        """Return one job."""
        async with self._database.connection() as c:
            return await jobs.get(c, job_id)

    @operation(scope=Scope.READ)
    def watch(self, job: Job) -> AsyncGenerator[Job]:
        """Yield this state of a job, and then each new one, until the job is deleted."""
        return self._client.runs.watches.states(("job", job.id), job)

    @operation(scope=Scope.READ)
    async def depth(self) -> QueueDepth:
        """Return the numbers of jobs."""
        async with self._database.connection() as c:
            return await jobs.depth(c)

    @operation(scope=Scope.READ)
    async def list_workers(self) -> list[LiveWorker]:
        """List the live workers."""
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
        """Queue a sync of a source; a sync that waits already is moved to the front."""
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
        """Queue the extraction of what changed in a source, or of everything: one schema, or all attached ones."""
        wanted = None if schema is None else SchemaRef.parse(schema).name
        async with self._database.transaction() as c:
            source = await source_store.get(c, name)
            carried = [attached.schema.name for attached in await schema_store.attached(c, source.id)]
            if not carried:
                raise UsageError(f"Source {name!r} carries no schema, so there is nothing to extract.")
            if wanted is not None and wanted not in carried:
                raise NotFoundError(f"Source {name!r} carries no schema {wanted!r}, but {', '.join(carried)}.")
            # The order is stored here rather than by the job, so that an interrupted job does not start from the
            # beginning.
            for schema_name in carried if everything else ():
                if wanted in (None, schema_name):
                    await schema_store.extract_again(c, source.id, schema_name)
            job_id = await put_extraction(c, self._database, source.id, schema=wanted, order=dict(order))
            if job_id is None:
                raise BusyError(
                    f"An extraction of {name!r} waits already. Nothing was changed.",
                    hint=Hint(action("jobs", source=name), " shows it; once it is done or cancelled, ask again."),
                )
            return await jobs.get(c, job_id)

    @operation(scope=Scope.WRITE)
    async def cancel(self, job_id: JobId) -> Job:
        """Cancel a job; a running one ends soon, at a checkpoint."""
        return await self._queue.cancel(job_id)

    @operation(scope=Scope.WRITE)
    async def retry(self, job_id: JobId) -> Job:
        """Retry a job that failed or was cancelled."""
        return await self._queue.retry(job_id)

    @operation(scope=Scope.ADMIN)
    async def pause(self) -> None:
        """Pause the queue: no job begins until it is resumed; running jobs finish."""
        await self._queue.pause()

    @operation(scope=Scope.ADMIN)
    async def resume(self) -> None:
        """Resume the queue."""
        await self._queue.resume()

    @operation(scope=None)
    async def work(
        self,
        *,
        places: Mapping[str, int] | None = None,
        until_idle: bool = False,
        told: Callable[[JobEnd], None] | None = None,
    ) -> bool:
        """Process jobs until `stop`, or until nothing is left; `told` is called with each finished job.

        Returns whether this process should restart because it uses too much memory.
        """
        # The help of `rowen jobs` imports this module for its options, so this import must not be at the top.
        from rowen.jobs.worker import Worker

        self._worker = Worker(self._engine, places=places, ended=told)
        try:
            await self._worker.run(until_idle=until_idle)
            return self._worker.is_worn_out
        finally:
            self._worker = None

    def stop_worker(self) -> None:
        """Stop the worker of this process soon; its jobs are given back."""
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
        """List jobs, newest first."""
        listing = ["jobs", source, state]
        place = decoded(after, listing, as_number)
        async with self._database.connection() as c:
            if source is not None:
                await source_store.need(c, source)
            rows = await jobs.every(c, state=state, source=source, limit=limit + 1, after=place[0] if place else None)
        return page_of(rows, limit, listing, lambda job: [job.id])
