"""The queue: Procrastinate's tables and functions on Rowen's own connections, with workers and errors of jobs.

Procrastinate's own statement claims a job, without races. Only the worker that holds a job may end or postpone it: a
worker that was frozen for so long that it lost its job changes nothing when it resumes.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from procrastinate import exceptions
from procrastinate.connector import BaseAsyncConnector
from procrastinate.jobs import Job as Entry
from procrastinate.manager import QUEUEING_LOCK_CONSTRAINT, JobManager
from psycopg import errors
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from rowen.model.text import error_within
from rowen.store import rdf, webhooks
from rowen.store.database import Connection, Database
from rowen.store.locks import Lock, hold_session_shared
from rowen.store.rows import affected, all_rows, column, one, only, scalar

DUE_CHANNEL = "rowen_due"
GONE_S = 5.0
"""How long the session of a worker must be gone before its jobs are taken back.

A live worker that lost its connection tries every two seconds to get another (`jobs/worker.py`). At half of this, a
worker that has to try twice would lose its jobs; at twice of it, the death of a worker would be noticed later.
"""
LOST = "worker_lost"
"""The error code of jobs whose worker died; no exception has this code."""
_CHANNEL = "procrastinate_queue_v1#"
# The longest wait of a job: a later time was written by a clock that has been set back since.
_LONGEST_WAIT_DAYS = 1

Ending: TypeAlias = Literal["succeeded", "failed", "aborted"]


class JobClaim(NamedTuple):
    """A job that a worker holds, with its task, arguments, and the number of attempts when it was claimed."""

    id: int
    worker_id: int
    queue: str
    task: str
    arguments: dict[str, Any]
    attempts: int
    priority: int


class QueueConnector(BaseAsyncConnector):
    """Lends Procrastinate connections of this process's pool."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def execute_query_async(self, query: str, **arguments: Any) -> None:
        """Run a statement."""
        await self.execute_query_all_async(query, **arguments)

    async def execute_query_one_async(self, query: str, **arguments: Any) -> dict[str, Any]:
        """Return the first row."""
        rows = await self.execute_query_all_async(query, **arguments)
        if not rows:
            raise exceptions.NoResult
        return rows[0]

    async def execute_query_all_async(self, query: str, **arguments: Any) -> list[dict[str, Any]]:
        """Return all rows."""
        async with self._database.connection() as c:
            return await self.execute_query_all_async_with_connection(c, query, **arguments)

    async def execute_query_all_async_with_connection(
        self, connection: Connection, query: str, **arguments: Any
    ) -> list[dict[str, Any]]:
        """Return all rows, within the caller's transaction."""
        values = {name: _wrapped(value) for name, value in arguments.items()}
        try:
            cursor = await connection.cursor(row_factory=dict_row).execute(query.encode(), values)
            return await cursor.fetchall() if cursor.description else []
        except errors.UniqueViolation as problem:
            name = problem.diag.constraint_name
            lock = "" if name == QUEUEING_LOCK_CONSTRAINT else None
            raise exceptions.UniqueViolation(constraint_name=name, queueing_lock=lock) from problem


def _wrapped(value: Any) -> Any:
    """Return a value in the form that the driver sends to PostgreSQL; a tuple becomes a row value."""
    match value:
        case dict():
            return Jsonb(value)
        case list():
            return [_wrapped(entry) for entry in value]
        case tuple():
            return tuple(_wrapped(entry) for entry in value)
    return value


async def defer(c: Connection, database: Database, entry: Entry) -> int | None:
    """Add a job to the queue within a transaction; return its id, or None if a waiting job has its queueing lock."""
    manager = JobManager(QueueConnector(database))
    try:
        async with c.transaction():
            deferred = await manager.defer_job_async(entry, connection=c)
    except exceptions.AlreadyEnqueued:
        return None
    return deferred.id


async def claim(manager: JobManager, queues: list[str], worker_id: int) -> JobClaim | None:
    """Claim and return the next job that may begin; None if there is none."""
    job = await manager.fetch_job(queues=queues, worker_id=worker_id)
    if job is None:
        return None
    assert job.id is not None  # noqa: S101 (it comes from a row)
    return JobClaim(job.id, worker_id, job.queue, job.task_name, dict(job.task_kwargs), job.attempts, job.priority)


# The job, locked, if the worker still holds it.
_MINE = """
select id, abort_requested from procrastinate_jobs
 where id = %s and status = 'doing' and worker_id = %s and attempts = %s for update
"""


async def finish(c: Connection, job: JobClaim, ending: Ending) -> bool:
    """End a job; return False if this worker no longer holds it."""
    statement = f"select procrastinate_finish_job_v1(mine.id, %s, false) from ({_MINE}) mine"  # noqa: S608 (a constant)
    return await affected(c, statement, [ending, job.id, job.worker_id, job.attempts]) > 0


async def put_off(c: Connection, job: JobClaim, *, wait_s: float, counted: bool) -> bool:
    """Postpone the next try of a job by `wait_s`; return False if this worker lost the job.

    The present try counts as an attempt only if `counted`. A job with an abort request is ended instead.
    """
    async with c.transaction():
        row = await one(c, _MINE, [job.id, job.worker_id, job.attempts])
        if row is None:
            return False
        _, is_aborted = row
        if is_aborted:
            await c.execute("select procrastinate_finish_job_v1(%s, 'aborted', false)", [job.id])
        else:
            await _requeue(c, job.id, wait_s, counted=counted)
    return True


async def _requeue(c: Connection, job_id: int, wait_s: float, *, counted: bool) -> None:
    """Put a job back into the queue and notify the workers; the ended try counts as an attempt only if `counted`.

    If another job took its queueing lock in the meantime, the job loses the lock. Then both jobs run, since their
    arguments may differ.
    """
    retry = "select procrastinate_retry_job_v2(%s, now() + make_interval(secs => %s), null, null, null)"
    try:
        async with c.transaction():
            await c.execute(retry, [job_id, wait_s])
    except errors.UniqueViolation:
        await c.execute("update procrastinate_jobs set queueing_lock = null where id = %s", [job_id])
        await c.execute(retry, [job_id, wait_s])
    await c.execute("select pg_notify(%s, '')", [DUE_CHANNEL])
    if not counted:
        await c.execute("update procrastinate_jobs set attempts = attempts - 1 where id = %s", [job_id])


async def note(c: Connection, job_id: int, error: str, code: str | None, *, waited: bool = False) -> None:
    """Store why a job failed or waits."""
    statement = """
        insert into job_note (job_id, error, error_code, waits) values (%s, %s, %s, %s)
        on conflict (job_id) do update set error = excluded.error, error_code = excluded.error_code, at = now(),
               waits = job_note.waits + excluded.waits
    """
    await c.execute(statement, [job_id, error_within(error), code, int(waited)])


async def register(
    c: Connection, manager: JobManager, *, host: str, pid: int, version: str, places: Mapping[str, int]
) -> int:
    """Register a worker that has started; return its id."""
    worker_id = await manager.register_worker()
    await c.execute(
        "insert into worker (id, host, pid, version, places) values (%s, %s, %s, %s, %s)",
        [worker_id, host, pid, version, Jsonb(dict(places))],
    )
    return worker_id


async def heartbeat(c: Connection, worker_id: int) -> bool:
    """Record a heartbeat; return False if the worker was declared dead and its row deleted."""
    return await affected(c, "update procrastinate_workers set last_heartbeat = now() where id = %s", [worker_id]) > 0


async def lock_worker(c: Connection, worker_id: int) -> None:
    """Hold a lock on a worker's id as long as this session lives, so that others notice when it ends.

    The lock is shared, so that an earlier session of the same worker that the server has not ended yet does not block
    it.
    """
    await hold_session_shared(c, Lock.WORKER, worker_id)
    await c.execute("update worker set locked_at = now(), gone_at = null where id = %s", [worker_id])


async def leave(c: Connection, worker_id: int) -> None:
    """Record that a worker closed its session; until its last job ends, its heartbeat shows that it is alive."""
    await c.execute("update worker set locked_at = null, gone_at = null where id = %s", [worker_id])
    await heartbeat(c, worker_id)


async def unregister(c: Connection, worker_id: int) -> None:
    """Record that a worker has ended."""
    await c.execute("delete from procrastinate_workers where id = %s", [worker_id])


async def release_unknown(c: Connection, worker_id: int, known: Collection[int]) -> int:
    """Requeue jobs that a worker claimed without knowing it, since the connection broke before the answer.

    `known` are the ids of its known jobs. Return the number of requeued jobs.
    """
    async with c.transaction():
        job_ids = await column(
            c,
            "select id from procrastinate_jobs where worker_id = %s and status = 'doing' and id <> all(%s) for update",
            [worker_id, list(known)],
        )
        for job_id in job_ids:
            await _requeue(c, job_id, 0.0, counted=False)
    return len(job_ids)


async def listen(c: Connection, queues: list[str]) -> None:
    """Listen for new jobs in some queues, and for new due times."""
    for channel in (*(f"{_CHANNEL}{queue}" for queue in queues), DUE_CHANNEL):
        await c.execute(f'listen "{channel}"'.encode())


def aborted_job(payload: str) -> int | None:
    """Return the id of the job that a notification asks to abort; None for any other notification."""
    try:
        message = json.loads(payload)
    except ValueError:
        return None
    is_abort = isinstance(message, dict) and message.get("type") == "abort_job_requested"
    return message.get("job_id") if is_abort else None


class Pulse(NamedTuple):
    """The answer to a worker's heartbeat.

    The fields tell whether the worker is registered, whether the queue is paused, whether a tick has work, and whether
    a job is ready; the seconds until the next work, None if unknown; the ids of the worker's jobs to abort; and
    whether other workers have jobs.
    """

    is_known: bool
    is_paused: bool
    has_work: bool
    has_jobs: bool
    next_s: float | None
    aborted: list[int]
    others_work: bool


# A worker without a recent heartbeat. A heartbeat in the future was written by a clock that has been set back since.
_SILENT = """
(beat.last_heartbeat < now() - make_interval(secs => %(silence_s)s)
 or beat.last_heartbeat > now() + make_interval(secs => %(silence_s)s))
"""
# The workers whose sessions are alive. PostgreSQL lists the locks of all databases.
_ALIVE = f"""
select objid::bigint from pg_locks where locktype = 'advisory' and classid = {Lock.WORKER.class_key} and objsubid = 2
   and database = (select oid from pg_database where datname = current_database())
"""  # noqa: S608 (constants)
# A worker whose session is gone and past its grace time.
_IS_GONE = f"""
(worker.gone_at is not null
 and (worker.gone_at <= now() - interval '{GONE_S} s' or worker.gone_at > now() + interval '{GONE_S} s'))
"""
# A dead worker. A live session may belong to a process that hangs, or be behind a cut cable: the heartbeat decides.
_IS_DEAD = f"""
case when worker.locked_at is null or worker.id in ({_ALIVE}) then {_SILENT} else {_IS_GONE} end
"""
_DEAD = f"from procrastinate_workers beat left join worker on worker.id = beat.id where {_IS_DEAD}"
# Workers whose sessions are gone, and are either not recorded yet or past their grace time.
_MISSED = f"""
from worker where locked_at is not null and worker.id not in ({_ALIVE}) and (gone_at is null or {_IS_GONE})
"""
# Running jobs of dead or deleted workers.
_LOST = f"""
  from procrastinate_jobs job left join procrastinate_workers beat on beat.id = job.worker_id
  left join worker on worker.id = beat.id
 where job.status = 'doing' and (beat.id is null or {_IS_DEAD})
"""
# The seconds until the next due time or the end of a wait.
_NEXT = f"""
select extract(epoch from least(
           (select min(due_at) from source_due join source on source.id = source_due.source_id
             where source.state = 'active' and due_at > now()),
           (select min(next_try_at) from webhook where state = 'active' and next_try_at > now()),
           (select min(next_try_at) from statement_target where state = 'active' and next_try_at > now()),
           (select min(gone_at) + interval '{GONE_S} s' from worker where gone_at > now() - interval '{GONE_S} s'),
           (select min(scheduled_at) from procrastinate_jobs where status = 'todo' and scheduled_at > now())) - now())
"""  # noqa: S608 (constants)
# Records a heartbeat; the columns are those of `Pulse`.
_PULSE = f"""
with known as (update procrastinate_workers set last_heartbeat = now() where id = %(worker)s returning id),
     returned as (update worker set gone_at = null where id = %(worker)s and gone_at is not null)
select exists (select from known), exists (select from queue_pause),
       exists (select from source_due join source on source.id = source_due.source_id
                where due_at <= now() and source.state = 'active')
       or exists (select from procrastinate_jobs where status = 'todo' and scheduled_at <= now())
       or exists (select {_DEAD} and beat.id <> %(worker)s) or exists (select {_MISSED} and worker.id <> %(worker)s)
       or exists (select {_LOST})
       or exists ({webhooks.READY}) or exists ({rdf.READY_TARGETS}),
       exists (select from procrastinate_jobs
                where status = 'todo' and (scheduled_at is null or scheduled_at <= now())),
       ({_NEXT}),
       array(select id from procrastinate_jobs where worker_id = %(worker)s and status = 'doing' and abort_requested),
       exists (select from procrastinate_jobs where worker_id <> %(worker)s and status = 'doing')
"""  # noqa: S608 (constants)


async def pulse(c: Connection, worker_id: int, *, silence_s: float) -> Pulse:
    """Record a heartbeat and return the state of the queue for a worker, in one statement."""
    result = Pulse._make(await only(c, _PULSE.encode(), {"worker": worker_id, "silence_s": silence_s}))
    return result._replace(next_s=None if result.next_s is None else float(result.next_s))


async def sees_loss(c: Connection) -> bool:
    """Return whether the loss of a worker's session must be recorded, or its jobs be taken back, now."""
    return bool(await scalar(c, f"select exists (select {_MISSED})".encode()))


async def mark_gone(c: Connection) -> None:
    """Record the time at which sessions of workers were found gone; a worker that returns in time keeps its jobs."""
    unnoted = f"locked_at is not null and gone_at is null and id not in ({_ALIVE})"
    await c.execute(f"update worker set gone_at = now() where {unnoted}".encode())  # noqa: S608 (constants)


class Rescued(NamedTuple):
    """A job taken back from a dead or silent worker, which is retried or given up."""

    id: int
    task: str
    arguments: dict[str, Any]
    given_up: bool


async def rescue(c: Connection, *, silence_s: float, wait_s: Callable[[int], float | None]) -> list[Rescued]:
    """Take back the jobs of workers that died or fell silent.

    `wait_s` returns the seconds until the next try after a number of tries; None gives the job up.
    """
    rescued = []
    columns = "job.id, job.task_name, job.args, job.attempts, job.abort_requested"
    lost = f"select {columns} {_LOST} order by job.id for update of job skip locked".encode()
    async with c.transaction():
        for job_id, task, arguments, attempts, is_aborted in await all_rows(c, lost, {"silence_s": silence_s}):
            wait = wait_s(attempts + 1)
            if is_aborted:
                await c.execute("select procrastinate_finish_job_v1(%s, 'aborted', false)", [job_id])
                continue
            if wait is None:
                await c.execute("select procrastinate_finish_job_v1(%s, 'failed', false)", [job_id])
                reason = f"Its worker died or fell silent while it ran, after {attempts + 1} tries."
            else:
                await _requeue(c, job_id, wait, counted=True)
                reason = "Its worker died or fell silent; it is started again."
            await note(c, job_id, reason, LOST)
            rescued.append(Rescued(job_id, task, arguments, wait is None))
    return rescued


async def prune_workers(c: Connection, *, silence_s: float) -> None:
    """Delete dead and silent workers."""
    await c.execute(
        f"delete from procrastinate_workers where id in (select beat.id {_DEAD})".encode(),  # noqa: S608 (constants)
        {"silence_s": silence_s},
    )


async def wake_waiting(c: Connection) -> None:
    """Notify workers of jobs whose wait has ended."""
    query = """
        select pg_notify(%s || queue_name, %s) from procrastinate_jobs
         where status = 'todo' and scheduled_at <= now() group by queue_name
    """
    await c.execute(query, [_CHANNEL, json.dumps({"type": "job_inserted", "job_id": 0})])


async def hasten_held_up(c: Connection, *, wait_s: float) -> None:
    """Shorten the wait of jobs that wait for an open circuit or a provider to `wait_s`."""
    statement = """
        update procrastinate_jobs job set scheduled_at = now() + make_interval(secs => %(wait)s) from job_note note
         where note.job_id = job.id and job.status = 'todo' and note.error_code in ('circuit_open', 'provider_down')
           and job.scheduled_at > now() + make_interval(secs => %(wait)s)
    """
    await c.execute(statement, {"wait": wait_s})
    await c.execute("select pg_notify(%s, '')", [DUE_CHANNEL])


async def seconds_to_next(c: Connection) -> float | None:
    """Return the seconds until work is due or the wait of a job ends; None if unknown."""
    seconds = await scalar(c, _NEXT)
    return None if seconds is None else float(seconds)


async def forget_ended(c: Connection, *, days: float, most: int = 1000) -> int:
    """Delete jobs that ended more than `days` ago, at most the `most` oldest; return how many."""
    statement = """
        delete from procrastinate_jobs where id in (
            select job.id
              from (select id from procrastinate_jobs where status not in ('todo', 'doing') order by id limit %s) job
             where not exists (select from procrastinate_events event
                                where event.job_id = job.id and event.at > now() - make_interval(days => 1) * %s))
    """
    return await affected(c, statement, [most, days])


async def mend_times(c: Connection) -> int:
    """Start jobs whose start time is too far in the future, since a wrong clock wrote it; return how many."""
    statement = """
        update procrastinate_jobs set scheduled_at = now()
         where status = 'todo' and scheduled_at > now() + make_interval(days => %s, hours => 1)
    """
    return await affected(c, statement, [_LONGEST_WAIT_DAYS])


async def is_idle(c: Connection, queues: Sequence[str]) -> bool:
    """Return whether none of these queues has a job that may begin now."""
    query = """
        select exists (select from procrastinate_jobs where queue_name = any(%s)
                   and status = 'todo' and (scheduled_at is null or scheduled_at <= now()))
    """
    return not await scalar(c, query, [list(queues)])
