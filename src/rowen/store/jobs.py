"""Read jobs with their times, workers and runs, and the health of the whole system."""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import errors
from psycopg.types.json import Jsonb

from rowen.errors import Hint, NotFoundError, action
from rowen.model.queue import Job, JobState, LiveWorker, QueueDepth
from rowen.model.status import FailingSource, Health, OpenCircuit, OverdueSource
from rowen.store.database import Connection
from rowen.store.rows import first_of, list_of, only, scalar

_SELECT = """
select job.id, job.task_name as task, source.name as source,
       case job.status::text when 'todo' then 'waiting' when 'doing' then 'running' when 'succeeded' then 'done'
            when 'failed' then 'failed' else 'cancelled' end as state,
       job.priority, job.attempts + (job.status = 'doing')::integer as tries, coalesce(job_note.waits, 0) as waits,
       event.queued_at, case when job.status = 'todo' then job.scheduled_at end as starts_at,
       event.started_at, case when job.status not in ('todo', 'doing') then event.ended_at end as ended_at,
       worker.host || ':' || worker.pid as worker, run.id as run, run.seen, run.requests,
       job_note.error, job_note.error_code, job.args as arguments
  from procrastinate_jobs job
  left join source on source.id = case when job.args ->> 'source_id' ~ '^[0-9]{1,18}$'
                                       then (job.args ->> 'source_id')::bigint end
  left join job_note on job_note.job_id = job.id
  left join worker on worker.id = job.worker_id and job.status = 'doing'
  left join lateral (
       select min(at) filter (where type = 'deferred') as queued_at,
              max(at) filter (where type = 'started') as started_at,
              max(at) as ended_at
         from procrastinate_events where procrastinate_events.job_id = job.id) event on true
  left join lateral (
       select run.id, (tally ->> 'requests')::integer as requests,
              (select sum((tally ->> name)::integer)
                 from unnest('{created,updated,amended,unchanged,failed,skipped}'::text[]) as name)::integer as seen
         from run where run.job_id = job.id order by run.id desc limit 1) run on true
"""
_STATES: dict[JobState, list[str]] = {
    "waiting": ["todo"],
    "running": ["doing"],
    "done": ["succeeded"],
    "failed": ["failed"],
    "cancelled": ["cancelled", "aborted"],
}


async def every(
    c: Connection,
    *,
    state: JobState | None = None,
    source: str | None = None,
    limit: int = 20,
    after: int | None = None,
) -> list[Job]:
    """Return jobs, newest first; with `after`, only jobs older than the job of this id."""
    where = """
     where (%(states)s::text[] is null or job.status::text = any(%(states)s))
       and (%(source)s::text is null or source.name = %(source)s)
       and (%(after)s::bigint is null or job.id < %(after)s)
     order by job.id desc limit %(limit)s
    """
    filters = {"states": _STATES[state] if state else None, "source": source, "after": after, "limit": limit}
    return await list_of(c, Job, _SELECT + where, filters)


async def get(c: Connection, job_id: int) -> Job:
    """Return a job."""
    job = await first_of(c, Job, _SELECT + " where job.id = %s", [job_id])
    if job is None:
        raise NotFoundError(f"There is no job {job_id}.", hint=Hint(action("jobs"), " lists them."))
    return job


async def of_numbers(c: Connection, numbers: Sequence[int]) -> list[Job]:
    """Return the jobs with these ids; ids without a job are ignored."""
    return await list_of(c, Job, _SELECT + " where job.id = any(%s::bigint[])", [list(numbers)])


async def depth(c: Connection) -> QueueDepth:
    """Return the numbers of waiting, postponed and running jobs."""
    query = """
        select count(*) filter (where status = 'todo' and (scheduled_at is null or scheduled_at <= now())),
         count(*) filter (where status = 'todo' and scheduled_at > now()), count(*) filter (where status = 'doing'),
               exists (select from queue_pause)
          from procrastinate_jobs where status in ('todo', 'doing')
    """
    row = await only(c, query)
    return QueueDepth(*row)


async def workers(c: Connection) -> list[LiveWorker]:
    """Return the workers that have not been declared dead."""
    query = """
        select worker.id, host, pid, version, places, started_at, last_heartbeat as heard_at,
               extract(epoch from clock_timestamp() - last_heartbeat)::float as silent_s,
               (select count(*)::integer from procrastinate_jobs job
                 where job.worker_id = worker.id and job.status = 'doing') as running
          from worker join procrastinate_workers beat on beat.id = worker.id order by worker.id
    """
    return await list_of(c, LiveWorker, query)


async def hasten(c: Connection, source_id: int, priority: int, arguments: Mapping[str, Any]) -> int | None:
    """Start the waiting sync of a source at once, with further arguments; return its id, or None if no sync waits.

    A sync that was limited to some items now covers all of them.
    """
    statement = """
        update procrastinate_jobs set priority = greatest(priority, %s), scheduled_at = null,
               args = (args - 'only' - 'widen' - 'revisit') || %s
         where queueing_lock = %s and status = 'todo' returning id
    """
    job_id: int | None = await scalar(c, statement, [priority, Jsonb(dict(arguments)), f"sync:{source_id}"])
    if job_id is not None:
        await _notify(c, job_id)
    return job_id


async def cancel(c: Connection, job_id: int) -> bool:
    """Cancel a job, or ask its worker to abort it; return False if it has ended."""
    return await scalar(c, "select procrastinate_cancel_job_v1(%s, true, false)", [job_id]) is not None


async def revive(c: Connection, job_id: int) -> bool:
    """Put a job that has ended back into the queue; return False if a waiting job has its queueing lock."""
    try:
        async with c.transaction():
            statement = """
                update procrastinate_jobs set status = 'todo', attempts = 0, scheduled_at = null, worker_id = null,
                       abort_requested = false
                 where id = %s and status not in ('todo', 'doing')
            """
            await c.execute(statement, [job_id])
    except errors.UniqueViolation:
        return False
    await _notify(c, job_id)
    return True


async def _notify(c: Connection, job_id: int) -> None:
    """Notify the workers of a job that is already in the queue."""
    query = """
        select pg_notify('procrastinate_queue_v1#' || queue_name,
                json_build_object('type', 'job_inserted', 'job_id', id)::text) from procrastinate_jobs where id = %s
    """
    await c.execute(query, [job_id])


# Due sources, pending deletions and quarantined items. A source with a job is not due any more.
_COUNTS = """
select (select count(*) from source_due join source on source.id = source_due.source_id
         where due_at <= now() and source.state = 'active'),
       (select count(*) from item_held where kept_at is null), (select count(*) from quarantine)
"""
_OLDEST = """
select source.name as source, due_at, extract(epoch from now() - due_at)::float8 as late_s
  from source_due join source on source.id = source_due.source_id
 where due_at <= now() and source.state = 'active' order by due_at limit 1
"""
_FAILING = """
select source.name as source, source_due.failures, source_due.failing_since, source_due.due_at,
       (select error from run where run.source_id = source.id and status = 'failed' order by id desc limit 1) as error
  from source_due join source on source.id = source_due.source_id
 where source_due.failures > 0 order by source_due.failures desc, source.name
"""
_CIRCUITS = """
select coalesce(source.name, '') as source, job.id as job, job.scheduled_at as until, job_note.error
  from job_note join procrastinate_jobs job on job.id = job_note.job_id
  left join source on 'source:' || source.id = job.lock
 where job.status = 'todo' and job.scheduled_at > now() and job_note.error_code = 'circuit_open'
 order by job.id
"""


async def health(c: Connection, *, embeddings_pending: int) -> Health:
    """Return the health of the system, from a few counts that each use an index."""
    due, pending, quarantined = await only(c, _COUNTS)
    return Health(
        queue=await depth(c),
        due=due,
        oldest_due=await first_of(c, OverdueSource, _OLDEST),
        failing=await list_of(c, FailingSource, _FAILING),
        circuits=await list_of(c, OpenCircuit, _CIRCUITS),
        workers=await workers(c),
        embeddings_pending=embeddings_pending,
        deletions_held=pending,
        quarantined=quarantined,
    )
