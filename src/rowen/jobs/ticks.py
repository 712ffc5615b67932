"""The tick: enqueue due work, take over the jobs of dead workers and delete old rows.

Every worker ticks when something is due, and one worker at a time does the work. The lock belongs to a transaction, so
that a frozen or disconnected worker does not block others. A second tick finds nothing left to do.
"""

import logging
from collections.abc import Mapping
from random import Random

from rowen.harvest.engine import Engine
from rowen.jobs import freshness, push, schedules
from rowen.jobs.queue import put, put_delivery, put_statements
from rowen.jobs.tasks import Task, delay_after_loss
from rowen.settings import Settings
from rowen.store import jobs, queue, rdf, runs, webhooks
from rowen.store import schedules as store_schedules
from rowen.store.database import Connection

log = logging.getLogger(__name__)

# Claiming slows down with the backlog. This many jobs keep forty workers of four places busy until the next tick.
_BACKLOG = 160
# More runs of one host would wait for each other's requests, in places that other hosts could use.
_HOST_RUNS = 3
# Two weeks of jobs suffice for diagnosis; their results are in the runs.
_KEPT_DAYS = 14.0
# A consumer of deltas that was away for a season needs a dump; half of it would be too short for a long leave.
_STATEMENTS_KEPT_DAYS = 90.0


async def tick(engine: Engine, c: Connection, *, tasks: Mapping[str, Task], random: Random) -> bool:
    """Enqueue due work; return False if another worker is doing it."""
    settings = engine.settings
    async with c.transaction():
        if not await store_schedules.try_tick(c):
            return False
        await queue.mark_gone(c)
        lost = await queue.rescue(
            c,
            silence_s=settings.lease_s,
            wait_s=lambda tries: delay_after_loss(tries, random, first_s=settings.job_retry_s),
        )
        await queue.prune_workers(c, silence_s=settings.lease_s)
        await queue.wake_waiting(c)
        if not await store_schedules.is_paused(c):
            await _enqueue(engine, c)
            await push.put_renewals(engine, c, await store_schedules.database_time(c))
            for webhook_id in await webhooks.ready(c):
                await put_delivery(c, engine.database, webhook_id)
            for target_id in await rdf.ready_targets(c):
                await put_statements(c, engine.database, target_id)
        lines = []
        for job in lost:
            log.warning("job %s: its worker died or sent no heartbeat", job.id)
            task = tasks.get(job.task)
            if job.given_up and task is not None and task.on_failure is not None:
                lines.append(await task.on_failure(engine, c, job.arguments, "its workers died while they synced it"))
        # The log's lock is the last one that a transaction takes.
        await schedules.append(c, *lines)
    return True


async def tidy(c: Connection, settings: Settings) -> None:
    """Delete old rows, and correct times that a wrong clock has written."""
    async with c.transaction():
        if await store_schedules.try_tick(c):
            await runs.forget_old(c, settings)
    async with c.transaction():
        if await store_schedules.try_tick(c):
            await queue.forget_ended(c, days=_KEPT_DAYS)
            await rdf.forget_changes(c, days=_STATEMENTS_KEPT_DAYS)
            mended = await queue.mend_times(c) + await schedules.mend(c)
            if mended:
                log.warning("the database's clock was set back: %d times were corrected", mended)
                await store_schedules.notify_workers(c)


async def _enqueue(engine: Engine, c: Connection) -> None:
    """Enqueue due sources that can start, the longest overdue first, a few for each host."""
    now = await store_schedules.database_time(c)
    depth = await jobs.depth(c)
    room = _BACKLOG - depth.ready
    if (most := engine.settings.runs_at_once) is not None:
        room = min(room, most - depth.ready - depth.running)
    if room > 0:
        for source in await store_schedules.due_sources(c, limit=room, of_host=_HOST_RUNS):
            arguments = await freshness.task_for(c, engine.settings, source.id, source.schedule)
            salt = source.id
            if isinstance(arguments, float):
                # No check is worth it yet: the source is only postponed.
                worth_s: float | None = arguments
            else:
                job_id = await put(c, engine.database, source.id, **arguments)
                if job_id is None:
                    continue
                salt += job_id
                worth_s = await freshness.next_check_s(c, engine.settings, source.id, source.schedule)
            status = await store_schedules.due_status(c, source.id)
            at = schedules.next_time(source.schedule, now, salt=salt, worth_s=worth_s)
            await store_schedules.store_due_status(c, source.id, status._replace(due_at=at))
