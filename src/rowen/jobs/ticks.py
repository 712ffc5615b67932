"""The tick: what is due becomes jobs, jobs of the dead are taken back, and what is over is forgotten.

Every worker ticks when something is due, and one at a time does the work: the lock is that of a transaction, so that a
worker which is frozen or cut off keeps nobody else from it. A second tick finds nothing left to do.
"""

import logging
from collections.abc import Mapping
from datetime import datetime
from random import Random

from rowen.harvest.engine import Engine
from rowen.jobs import freshness, push, schedules
from rowen.jobs.queue import put, put_delivery, put_statements
from rowen.jobs.schedules import Turn
from rowen.jobs.tasks import Task, after_loss
from rowen.settings import Settings
from rowen.store import jobs, queue, rdf, runs, webhooks
from rowen.store import schedules as store_schedules
from rowen.store.database import Connection
from rowen.store.schedules import DueSource

__all__ = ["tick", "tidy"]

log = logging.getLogger(__name__)

# Claiming slows down with the backlog. As many as this keep forty workers of four places busy until the next tick.
_BACKLOG = 160
# More runs on one host would only wait for each other's requests, in places that others could use.
_HOST_RUNS = 3
# Two weeks of jobs tell what happened; what they did stands in the runs.
_KEPT_DAYS = 14.0
# A consumer of deltas that was away for a season takes a dump; half of that would be a long leave.
_STATEMENTS_KEPT_DAYS = 90.0


async def tick(engine: Engine, c: Connection, *, tasks: Mapping[str, Task], random: Random) -> bool:
    """Look once what is to be done; False where another worker does so at the moment."""
    settings = engine.settings
    async with c.transaction():
        if not await store_schedules.try_tick(c):
            return False
        await queue.mark_gone(c)
        lost = await queue.rescue(
            c,
            silence_s=settings.lease_s,
            wait_s=lambda tries: after_loss(tries, random, first_s=settings.job_retry_s),
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
        # The log's lock is the last one that a transaction takes.
        await schedules.tell(c, *[await _lost(engine, c, one, tasks.get(one.task)) for one in lost])
    return True


async def tidy(c: Connection, settings: Settings) -> None:
    """Forget what is long over, and correct times that a wrong clock has written."""
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
    """Make jobs of the sources that are due and can start, the oldest first, a few for each host."""
    now = await store_schedules.database_time(c)
    depth = await jobs.depth(c)
    room = _BACKLOG - depth.ready
    if (most := engine.settings.runs_at_once) is not None:
        room = min(room, most - depth.ready - depth.running)
    if room > 0:
        for source in await store_schedules.due_sources(c, limit=room, of_host=_HOST_RUNS):
            await _begin(engine, c, source, now)


async def _begin(engine: Engine, c: Connection, source: DueSource, now: datetime) -> None:
    """Put a job into the queue, and note when the source is due after that, in one transaction."""
    told = await freshness.task_for(c, engine.settings, source.id, source.schedule)
    if isinstance(told, float):
        await _put_off(c, source, now, told)
        return
    job_id = await put(c, engine.database, source.id, **told)
    if job_id is None:
        return
    held = await store_schedules.due_status(c, source.id)
    worth_s = await freshness.next_look_s(c, engine.settings, source.id, source.schedule)
    at = schedules.next_time(source.schedule, now, salt=source.id + job_id, worth_s=worth_s)
    await store_schedules.store_due_status(c, source.id, held._replace(due_at=at))


async def _put_off(c: Connection, source: DueSource, now: datetime, wait_s: float) -> None:
    """Have a source wait that is looked at as often as it changes."""
    held = await store_schedules.due_status(c, source.id)
    at = schedules.next_time(source.schedule, now, salt=source.id, worth_s=wait_s)
    await store_schedules.store_due_status(c, source.id, held._replace(due_at=at))


async def _lost(engine: Engine, c: Connection, lost: queue.Rescued, task: Task | None) -> Turn | None:
    log.warning("job %s: its worker died or fell silent", lost.id)
    if not lost.given_up or task is None or task.given_up is None:
        return None
    return await task.given_up(engine, c, lost.arguments, "its workers died while they synced it")
