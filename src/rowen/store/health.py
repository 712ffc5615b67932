"""How everything is doing: a few counts, each by an index."""

from rowen.model.health import FailingSource, Health, OpenCircuit, OverdueSource
from rowen.store import jobs
from rowen.store.database import Connection
from rowen.store.rows import list_of, one

__all__ = ["health"]

# What is begun is no longer due: its time was moved when its job was made.
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
    """How everything is doing now."""
    counts = await one(c, _COUNTS)
    due, held, quarantined = counts or (0, 0, 0)
    return Health(
        queue=await jobs.depth(c),
        due=due,
        oldest_due=next(iter(await list_of(c, OverdueSource, _OLDEST)), None),
        failing=await list_of(c, FailingSource, _FAILING),
        circuits=await list_of(c, OpenCircuit, _CIRCUITS),
        workers=await jobs.workers(c),
        embeddings_pending=embeddings_pending,
        deletions_held=held,
        quarantined=quarantined,
    )
