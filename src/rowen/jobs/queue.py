"""Putting jobs into the queue, and taking them out again."""

from typing import Any

from rowen.errors import RefusedError
from rowen.harvest.engine import Engine
from rowen.model.queue import Job
from rowen.model.sources import Source
from rowen.store import jobs, schedules, source_schemas
from rowen.store.database import Connection, Database

__all__ = [
    "ASKED",
    "POKED",
    "Queue",
    "put",
    "put_delivery",
    "put_extraction",
    "put_extraction_if_behind",
    "put_statements",
]

ASKED = 10
"""The priority of what somebody asked for: before all that is due by itself, which has 0."""
POKED = 20
"""The priority of what a source itself announced: it is small, and fresh."""


async def put(c: Connection, database: Database, source_id: int, *, priority: int = 0, **arguments: Any) -> int | None:
    """Put a sync of a source into the queue, as a part of a transaction; None if one waits there already."""
    about = {"source_id": source_id, **arguments}
    return await _put(c, database, "sync", source_id, about, lock=f"source:{source_id}", priority=priority)


async def put_delivery(c: Connection, database: Database, webhook_id: int) -> int | None:
    """Have a receiver told what changed, as a part of a transaction; None if that waits already."""
    return await _put(c, database, "deliver", webhook_id, {"webhook_id": webhook_id}, lock=f"webhook:{webhook_id}")


async def put_statements(c: Connection, database: Database, target_id: int) -> int | None:
    """Have an endpoint told what pages state, as a part of a transaction; None if that waits already."""
    return await _put(c, database, "statements", target_id, {"target_id": target_id}, lock=f"statements:{target_id}")


async def put_extraction(
    c: Connection,
    database: Database,
    source_id: int,
    *,
    schema: str | None = None,
    order: dict[str, Any] | None = None,
) -> int | None:
    """Enqueue an extraction of a source's changes, as part of a transaction; return None if one waits already.

    `schema` names one of the source's schemas (all by default); `order` holds fields of an `ExtractionOrder`.
    """
    # Defaults are left out, so that stored arguments stay as earlier versions wrote them.
    narrower = {name: value for name, value in (("schema", schema), ("order", order)) if value}
    arguments = {"source_id": source_id, **narrower}
    return await _put(c, database, "extract", source_id, arguments, lock=f"extract:{source_id}")


async def put_extraction_if_behind(c: Connection, database: Database, source_id: int) -> None:
    """Enqueue an extraction if any of the source's schemas has changes to process."""
    if await source_schemas.sources_behind(c, source_id):
        await put_extraction(c, database, source_id)


async def _put(
    c: Connection, database: Database, task: str, about: int, arguments: dict[str, Any], *, lock: str, priority: int = 0
) -> int | None:
    """Put a job into the queue of its task: of those about one thing at most one waits, and under a lock one runs."""
    from procrastinate.jobs import Job as Entry

    from rowen.store import queue

    entry = Entry(
        queue=task,
        task_name=task,
        priority=priority,
        lock=lock,
        queueing_lock=f"{task}:{about}",
        task_kwargs=arguments,
    )
    return await queue.defer(c, database, entry)


class Queue:
    """The queue of one database."""

    def __init__(self, engine: Engine) -> None:
        self._database = engine.database

    async def sync(self, source: Source, *, full: bool = False, accept_deletions: bool = False) -> Job:
        """Have a source synced by a worker, before what is only due; if a sync waits already, that one."""
        told = {"full": True} if full else {}
        told |= {"accept_deletions": True} if accept_deletions else {}
        async with self._database.transaction() as c:
            job_id = None
            while job_id is None:
                # The one that waits may be taken by a worker before it is hastened. Who asks wants the whole, though
                # only some pages may have been due.
                job_id = await put(c, self._database, source.id, priority=ASKED, **told) or await jobs.hasten(
                    c, source.id, ASKED, told
                )
            return await jobs.get(c, job_id)

    async def cancel(self, job_id: int) -> Job:
        """Take a job out of the queue; a running one ends soon, at a checkpoint."""
        async with self._database.transaction() as c:
            job = await jobs.get(c, job_id)
            if not await jobs.cancel(c, job_id):
                raise RefusedError(f"Job {job_id} is over: {job.state}.")
            return await jobs.get(c, job_id)

    async def retry(self, job_id: int) -> Job:
        """Begin a job again that failed or was cancelled, with all its tries."""
        async with self._database.transaction() as c:
            job = await jobs.get(c, job_id)
            if job.state not in {"failed", "cancelled"}:
                raise RefusedError(f"Job {job_id} did not fail: it is {job.state}.")
            if not await jobs.revive(c, job_id):
                raise RefusedError(f"Job {job_id} is not needed: another one for the same source waits already.")
            return await jobs.get(c, job_id)

    async def pause(self) -> None:
        """Begin no job until the queue is resumed; what runs is finished."""
        async with self._database.connection() as c:
            await schedules.set_paused(c, True)

    async def resume(self) -> None:
        """Go on after a pause."""
        async with self._database.connection() as c:
            await schedules.set_paused(c, False)
