"""Enqueue and control jobs."""

from typing import Any

from rowen.errors import RefusedError
from rowen.harvest.engine import Engine
from rowen.model.queue import Job
from rowen.model.sources import Source
from rowen.store import jobs, schedules
from rowen.store import schemas as schema_store
from rowen.store.database import Connection, Database

ASKED = 10
"""The priority of requested jobs; scheduled jobs have 0 and come later."""
POKED = 20
"""The priority of changes that a source announced: they are small and recent."""


async def put(c: Connection, database: Database, source_id: int, *, priority: int = 0, **arguments: Any) -> int | None:
    """Enqueue a sync of a source, as part of a transaction; return its id, or None if a sync already waits."""
    arguments = {"source_id": source_id, **arguments}
    return await _put(c, database, "sync", source_id, arguments, lock=f"source:{source_id}", priority=priority)


async def put_delivery(c: Connection, database: Database, webhook_id: int) -> int | None:
    """Enqueue the deliveries of a webhook, as part of a transaction; return None if such a job already waits."""
    return await _put(c, database, "deliver", webhook_id, {"webhook_id": webhook_id}, lock=f"webhook:{webhook_id}")


async def put_statements(c: Connection, database: Database, target_id: int) -> int | None:
    """Enqueue RDF statements for an endpoint, as part of a transaction; return None if such a job already waits."""
    return await _put(c, database, "statements", target_id, {"target_id": target_id}, lock=f"statements:{target_id}")


async def put_extraction(
    c: Connection,
    database: Database,
    source_id: int,
    *,
    schema: str | None = None,
    order: dict[str, Any] | None = None,
) -> int | None:
    """Enqueue an extraction from a source's changes, as part of a transaction; return None if one already waits.

    `schema` names one of the source's schemas (all by default); `order` contains fields of an `ExtractionOrder`.
    """
    # Defaults are left out, so that stored arguments stay as earlier versions wrote them.
    narrower = {name: value for name, value in (("schema", schema), ("order", order)) if value}
    arguments = {"source_id": source_id, **narrower}
    return await _put(c, database, "extract", source_id, arguments, lock=f"extract:{source_id}")


async def put_extraction_if_behind(c: Connection, database: Database, source_id: int) -> None:
    """Enqueue an extraction if a schema of the source has changes to process."""
    if await schema_store.is_behind(c, source_id):
        await put_extraction(c, database, source_id)


async def put_renewal(c: Connection, database: Database, source_id: int) -> int | None:
    """Enqueue the renewal of a source's subscription, as part of a transaction; return None if one already waits."""
    name = f"push:{source_id}"
    return await _put(
        *(c, database, "subscribe", source_id, {"source_id": source_id}), lock=name, queue_name="sync", waits_under=name
    )


async def _put(
    c: Connection,
    database: Database,
    task: str,
    subject: int,
    arguments: dict[str, Any],
    *,
    lock: str,
    priority: int = 0,
    queue_name: str | None = None,
    waits_under: str | None = None,
) -> int | None:
    """Enqueue a job of a task; at most one job waits for each subject, and one runs under each lock."""
    # The queue's library is loaded with the first job: a sync without a worker imports this module, but enqueues none.
    from procrastinate.jobs import Job as Entry

    from rowen.store import queue

    entry = Entry(
        queue=queue_name or task,
        task_name=task,
        priority=priority,
        lock=lock,
        queueing_lock=waits_under or f"{task}:{subject}",
        task_kwargs=arguments,
    )
    return await queue.defer(c, database, entry)


class Queue:
    """The queue of one database."""

    def __init__(self, engine: Engine) -> None:
        self._database = engine.database

    async def sync(self, source: Source, *, full: bool = False, accept_deletions: bool = False) -> Job:
        """Enqueue a sync with priority over scheduled syncs, or raise the priority of a waiting sync."""
        arguments = {"full": True} if full else {}
        arguments |= {"accept_deletions": True} if accept_deletions else {}
        async with self._database.transaction() as c:
            job_id = None
            while job_id is None:
                # A worker may claim the waiting job before it is changed. The request is for the whole source, even if
                # only some pages were due.
                job_id = await put(c, self._database, source.id, priority=ASKED, **arguments) or await jobs.hasten(
                    c, source.id, ASKED, arguments
                )
            return await jobs.get(c, job_id)

    async def cancel(self, job_id: int) -> Job:
        """Cancel a job; a running job ends at its next checkpoint."""
        async with self._database.transaction() as c:
            job = await jobs.get(c, job_id)
            if not await jobs.cancel(c, job_id):
                raise RefusedError(f"Job {job_id} has ended: {job.state}.")
            return await jobs.get(c, job_id)

    async def retry(self, job_id: int) -> Job:
        """Retry a failed or cancelled job; it gets all its attempts again."""
        async with self._database.transaction() as c:
            job = await jobs.get(c, job_id)
            if job.state not in {"failed", "cancelled"}:
                raise RefusedError(f"Job {job_id} did not fail: it is {job.state}.")
            if not await jobs.revive(c, job_id):
                raise RefusedError(f"Job {job_id} was not retried: another job for the same source is waiting.")
            return await jobs.get(c, job_id)

    async def pause(self) -> None:
        """Start no jobs until the queue is resumed; running jobs are finished."""
        async with self._database.connection() as c:
            await schedules.set_paused(c, True)

    async def resume(self) -> None:
        """Resume the queue."""
        async with self._database.connection() as c:
            await schedules.set_paused(c, False)
