"""When sources are to be looked at again."""

from datetime import datetime
from typing import Any, NamedTuple

from rowen.store.database import Connection
from rowen.store.locks import Lock, try_hold
from rowen.store.rows import all_rows, one, scalar

__all__ = [
    "DueSource",
    "Standing",
    "announce",
    "clock",
    "due",
    "furthest",
    "is_paused",
    "kind_and_cursor",
    "schedule_of",
    "set_due",
    "set_paused",
    "settle",
    "standing",
    "try_tick",
]


class DueSource(NamedTuple):
    """A source that may be looked at now."""

    id: int
    name: str
    url: str
    schedule: str | None
    due_at: datetime
    failures: int


class Standing(NamedTuple):
    """How a source stands: when it is due, how many runs in a row failed, and since when it is called failing."""

    due_at: datetime | None = None
    failures: int = 0
    failing_since: datetime | None = None


async def clock(c: Connection) -> datetime:
    """The time of the database, by which all workers go."""
    now: datetime = await scalar(c, "select now()")
    return now


async def try_tick(c: Connection) -> bool:
    """Whether it is this transaction that looks what is due; others are left out until it ends."""
    return await try_hold(c, Lock.TICK)


# The host of a URL, with its port; what has none, such as a folder, is a host of its own.
_HOST = "coalesce(lower(substring({url} from '^[a-z+]+://(?:[^/?#]*@)?(?:www[.])?([^/?#]+)')), {url})"
# A live run began before now: one of the future was written by a clock that has been set back since.
_DUE = f"""
with busy as (
    select {_HOST.format(url="source.url")} as host, count(*) as live
      from procrastinate_jobs job
      join source on source.id = case when job.args ->> 'source_id' ~ '^[0-9]{{1,18}}$'
                                      then (job.args ->> 'source_id')::bigint end
     where job.status in ('todo', 'doing') group by 1),
ranked as (
    select source.id, source.name, source.url, source.schedule, source_due.due_at, source_due.failures,
           {_HOST.format(url="source.url")} as host,
           row_number() over (partition by {_HOST.format(url="source.url")} order by source_due.due_at) as place
      from source_due join source on source.id = source_due.source_id
     where source_due.due_at <= now() and source.state = 'active'
       and not exists (select from procrastinate_jobs job
                        where job.queueing_lock = 'sync:' || source.id and job.status = 'todo')
       and not exists (select from procrastinate_jobs job
                        where job.lock = 'source:' || source.id and job.status = 'doing')
       and not exists (select from run where run.source_id = source.id and run.status = 'running'
                                         and run.lease_until > now() and run.started_at <= now()))
select id, name, url, schedule, due_at, failures
  from ranked left join busy using (host)
 where place + coalesce(live, 0) <= %(of_host)s
 order by due_at, id limit %(limit)s
"""  # noqa: S608 (constants)


async def due(c: Connection, *, limit: int, of_host: int) -> list[DueSource]:
    """Sources that are due and can start, the oldest first: none of them has a job or a live run.

    No more are given of one host than make `of_host` together with its jobs: they would wait for each other, and
    nobody else should wait for them.
    """
    rows = await all_rows(c, _DUE.encode(), {"limit": limit, "of_host": of_host})
    return [DueSource(*row) for row in rows]


async def furthest(c: Connection, *, days: float, limit: int) -> list[DueSource]:
    """Sources whose due time is more than so many days away, the furthest first."""
    rows = await all_rows(
        c,
        "select source.id, source.name, source.url, source.schedule, source_due.due_at, source_due.failures"
        " from source_due join source on source.id = source_due.source_id"
        " where due_at > now() + make_interval(days => 1) * %s order by due_at desc limit %s",
        [days, limit],
    )
    return [DueSource(*row) for row in rows]


async def schedule_of(c: Connection, source_id: int) -> tuple[bool, str | None]:
    """Whether a source is still there, and its schedule as it is now."""
    row = await one(c, "select schedule from source where id = %s", [source_id])
    return (False, None) if row is None else (True, row[0])


async def kind_and_cursor(c: Connection, source_id: int) -> tuple[str, Any]:
    """What a source is, and where its listing may be resumed; nothing for one that was removed."""
    row = await one(c, "select kind, cursor from source where id = %s", [source_id])
    return ("", None) if row is None else (row[0], row[1])


async def standing(c: Connection, source_id: int) -> Standing:
    """How a source stands, held until the transaction ends; one without a row has no schedule and no trouble."""
    row = await one(
        c, "select due_at, failures, failing_since from source_due where source_id = %s for update", [source_id]
    )
    return Standing(*row) if row else Standing()


async def settle(c: Connection, source_id: int, standing: Standing) -> None:
    """Write down how a source stands; nothing is kept of one that is never due and has no trouble."""
    if standing == Standing():
        await c.execute("delete from source_due where source_id = %s", [source_id])
        return
    await c.execute(
        "insert into source_due (source_id, due_at, failures, failing_since) values (%s, %s, %s, %s)"
        " on conflict (source_id) do update set due_at = excluded.due_at, failures = excluded.failures,"
        " failing_since = excluded.failing_since",
        [source_id, *standing],
    )


async def set_due(c: Connection, source_id: int, at: datetime | None) -> None:
    """Say when a source is due next, and tell the workers; None for one that is due only when somebody asks."""
    async with c.transaction():
        held = await standing(c, source_id)
        await settle(c, source_id, held._replace(due_at=at))
    await announce(c)


async def announce(c: Connection) -> None:
    """Tell the workers that due times are other ones."""
    await c.execute("notify rowen_due")


async def is_paused(c: Connection) -> bool:
    """Whether the queue is paused: nothing new begins."""
    return bool(await scalar(c, "select exists (select from queue_pause)"))


async def set_paused(c: Connection, paused: bool) -> None:
    """Pause the queue, or let it go on."""
    if paused:
        await c.execute("insert into queue_pause default values on conflict do nothing")
    else:
        await c.execute("delete from queue_pause")
    await announce(c)
