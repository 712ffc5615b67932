"""Store schedules: when sources are due, and how often sources and pages change."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rowen.model.datasets import DATASET
from rowen.model.freshness import ChangeRate
from rowen.store.database import Connection
from rowen.store.locks import Lock, try_hold
from rowen.store.rows import all_rows, column, number, one, scalar, tuples_of


class DueSource(NamedTuple):
    """A source that is due now."""

    id: int
    name: str
    url: str
    schedule: str | None
    due_at: datetime
    failures: int


class DueStatus(NamedTuple):
    """The due time of a source, the number of failed runs in a row, and the start of the failures."""

    due_at: datetime | None = None
    failures: int = 0
    failing_since: datetime | None = None


async def database_time(c: Connection) -> datetime:
    """Return the time of the database, which all workers use."""
    now: datetime = await scalar(c, "select now()")
    return now


async def try_tick(c: Connection) -> bool:
    """Try to take the lock of the tick until the end of the transaction; return False if another transaction has it."""
    return await try_hold(c, Lock.TICK)


# The host of a URL with its port; a URL without a host, such as the path of a folder, stands for its own host.
_HOST = "coalesce(lower(substring({url} from '^[a-z+]+://(?:[^/?#]*@)?(?:www[.])?([^/?#]+)')), {url})"
# The sources that are due and can start. A live run must have started before now: a start in the future was written by
# a clock that has been set back since.
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


async def due_sources(c: Connection, *, limit: int, of_host: int) -> list[DueSource]:
    """Return sources that are due and have no job and no live run, the longest overdue first.

    At most `of_host` sources of one host are returned, less its present jobs: more would wait for each other and block
    other sources.
    """
    return await tuples_of(c, DueSource, _DUE.encode(), {"limit": limit, "of_host": of_host})


async def furthest_due(c: Connection, *, days: float, limit: int) -> list[DueSource]:
    """Return sources whose due time is more than `days` away, the furthest first."""
    query = """
        select source.id, source.name, source.url, source.schedule, source_due.due_at, source_due.failures
          from source_due join source on source.id = source_due.source_id
         where due_at > now() + make_interval(days => 1) * %s order by due_at desc limit %s
    """
    return await tuples_of(c, DueSource, query, [days, limit])


async def schedule_of(c: Connection, source_id: int) -> tuple[bool, str | None]:
    """Return whether a source still exists, and its schedule."""
    row = await one(c, "select schedule from source where id = %s", [source_id])
    return (False, None) if row is None else (True, row[0])


async def kind_and_cursor(c: Connection, source_id: int) -> tuple[str, Any]:
    """Return kind and cursor of a source; the kind is empty if the source was removed."""
    row = await one(c, "select kind, cursor from source where id = %s", [source_id])
    return ("", None) if row is None else (row[0], row[1])


async def due_status(c: Connection, source_id: int) -> DueStatus:
    """Return and lock the due status of a source; the default status if none is stored."""
    row = await one(
        c, "select due_at, failures, failing_since from source_due where source_id = %s for update", [source_id]
    )
    return DueStatus(*row) if row else DueStatus()


async def store_due_status(c: Connection, source_id: int, status: DueStatus) -> None:
    """Store the due status of a source; the default status is stored as no row."""
    if status == DueStatus():
        await c.execute("delete from source_due where source_id = %s", [source_id])
        return
    statement = """
        insert into source_due (source_id, due_at, failures, failing_since) values (%s, %s, %s, %s)
        on conflict (source_id) do update set due_at = excluded.due_at, failures = excluded.failures,
               failing_since = excluded.failing_since
    """
    await c.execute(statement, [source_id, *status])


async def set_due(c: Connection, source_id: int, at: datetime | None) -> None:
    """Set the time at which a source is due and notify the workers; None for a source synced only on request."""
    async with c.transaction():
        status = await due_status(c, source_id)
        await store_due_status(c, source_id, status._replace(due_at=at))
    await notify_workers(c)


async def notify_workers(c: Connection) -> None:
    """Notify the workers that due times have changed."""
    await c.execute("notify rowen_due")


async def is_paused(c: Connection) -> bool:
    """Return whether the queue is paused."""
    return bool(await scalar(c, "select exists (select from queue_pause)"))


async def set_paused(c: Connection, paused: bool) -> None:
    """Pause or resume the queue."""
    if paused:
        await c.execute("insert into queue_pause default values on conflict do nothing")
    else:
        await c.execute("delete from queue_pause")
    await notify_workers(c)


# The runs that checked a whole source, and the active sources with an automatic schedule.
_WHOLE = "status = 'completed' and coalesce((tally ->> 'only')::integer, 0) = 0"
_AUTO = "starts_with(source.schedule, 'every auto') and source.state = 'active'"


class PastCheck(NamedTuple):
    """A run that checked a whole source: its results and its costs."""

    at: datetime
    is_full: bool
    items: int
    changed: int
    requests: int
    seconds: float


class SourceFreshness(NamedTuple):
    """A source's last check as a whole: its time, change rate, number of items, and cost in requests."""

    looked_at: datetime
    rate: ChangeRate
    items: int
    requests: float


class AutoSource(NamedTuple):
    """An active source with an automatic schedule; `volatile` is the number of pages with their own rates."""

    id: int
    schedule: str
    items: int
    requests: float
    rate: ChangeRate
    volatile: int


class ChangedPage(NamedTuple):
    """A page that a run found changed, with its previous check and change rate, if known."""

    item_id: int
    created_at: datetime
    last_modified: str | None
    looked_at: datetime | None
    rate: ChangeRate | None


class VolatilePage(NamedTuple):
    """A page that has changed before: the time of its last check, and its change rate at that time."""

    item_id: int
    url: str
    looked_at: datetime
    rate: ChangeRate


async def past_checks(c: Connection, source_id: int, *, limit: int) -> list[PastCheck]:
    """Return the last checks of the whole source, newest first."""
    query = f"""
        select started_at, mode = 'full',
               (select coalesce(sum((tally ->> name)::bigint), 0)
                  from unnest(array['created', 'updated', 'amended', 'unchanged', 'failed', 'skipped', 'not_asked'])
                       as name),
               (select coalesce(sum((tally ->> name)::bigint), 0) from unnest(array['created', 'updated', 'deleted'])
                       as name),
               coalesce((tally ->> 'requests')::bigint, 0), coalesce((tally ->> 'seconds')::float8, 0)
          from run where source_id = %s and {_WHOLE} order by id desc limit %s
    """  # noqa: S608 (constants)
    rows = await all_rows(c, query, [source_id, limit])
    return [PastCheck(at, full, int(items), int(changed), *cost) for at, full, items, changed, *cost in rows]


async def modified_dates(c: Connection, source_id: int, *, limit: int) -> list[str]:
    """Return the modification dates of datasets among the first `limit` items by key, a random sample."""
    query = """
        select record ->> 'modified' from (select record, media_type from item where source_id = %s order by key
                 limit %s) as sample where media_type = %s and record ->> 'modified' is not null
    """
    return await column(c, query, [source_id, limit, DATASET])


async def histories(c: Connection, source_id: int, *, limit: int) -> list[tuple[int, float]]:
    """Return the number of changes and the age in seconds of the first `limit` items by key, a random sample."""
    query = """
        select revision - 1, extract(epoch from now() - created_at)::float8
          from item where source_id = %s order by key limit %s
    """
    rows = await all_rows(c, query, [source_id, limit])
    return [(changes, span_s) for changes, span_s in rows]


async def freshness(c: Connection, source_id: int) -> SourceFreshness | None:
    """Return the freshness of a source; None if it was never checked as a whole."""
    statement = "select looked_at, shape, span_s, items, requests from source_freshness where source_id = %s"
    row = await one(c, statement, [source_id])
    return SourceFreshness(row[0], ChangeRate(*row[1:3]), *row[3:]) if row else None


async def store_freshness(c: Connection, source_id: int, freshness: SourceFreshness) -> None:
    """Store the freshness of a source."""
    looked_at, rate, *cost = freshness
    statement = """
        insert into source_freshness (source_id, looked_at, shape, span_s, items, requests)
        select id, %s, %s, %s, %s, %s from source where id = %s
        on conflict (source_id) do update set looked_at = excluded.looked_at, shape = excluded.shape,
               span_s = excluded.span_s, items = excluded.items, requests = excluded.requests
    """
    await c.execute(statement, [looked_at, rate.shape, rate.span_s, *cost, source_id])


async def auto_sources(c: Connection) -> list[AutoSource]:
    """Return all sources with an automatic schedule; they share the daily requests."""
    query = f"""
        select source.id, source.schedule, known.items, known.requests, known.shape, known.span_s,
               (select count(*) from item_change_rate page where page.source_id = source.id)
          from source join source_freshness known on known.source_id = source.id where {_AUTO}
    """  # noqa: S608 (constants)
    rows = await all_rows(c, query)
    return [
        AutoSource(number, schedule, items, requests, ChangeRate(shape, span_s), volatile)
        for number, schedule, items, requests, shape, span_s, volatile in rows
    ]


async def volatile_sample(c: Connection, *, limit: int) -> tuple[int, list[tuple[int, ChangeRate]]]:
    """Return the number of pages with their own change rates, and a sample of their source ids and rates."""
    pages = f"from item_change_rate page join source on source.id = page.source_id where {_AUTO}"
    sample = f"select source_id, shape, span_s {pages} order by hashint8(item_id) limit %s"
    rows = await all_rows(c, sample, [limit])
    rates = [(source_id, ChangeRate(shape, span_s)) for source_id, shape, span_s in rows]
    return await number(c, f"select count(*) {pages}"), rates


# The volatile pages of a source, the most volatile first. Whole checks since a page's own check found it unchanged.
_PAGES = """
select page.item_id, item.url, greatest(page.looked_at, known.looked_at), page.shape,
       page.span_s + greatest(0, extract(epoch from known.looked_at - page.looked_at))::float8
  from item_change_rate page join source_freshness known using (source_id) join item on item.id = page.item_id
 where page.source_id = %s order by page.shape / page.span_s desc, page.item_id limit %s
"""


async def volatile_pages(c: Connection, source_id: int, *, limit: int) -> list[VolatilePage]:
    """Return the volatile pages of a source, the most frequently changing first."""
    rows = await all_rows(c, _PAGES, [source_id, limit])
    return [VolatilePage(item_id, url, at, ChangeRate(shape, span_s)) for item_id, url, at, shape, span_s in rows]


async def changed_pages(c: Connection, source_id: int, run_id: int, *, since: datetime) -> list[ChangedPage]:
    """Return the items that a run found changed, according to the log since `since`, the start of the run."""
    query = """
        select distinct item.id, item.created_at, item_check.last_modified, page.looked_at, page.shape, page.span_s
          from change
          join item on item.source_id = change.source_id and item.key = change.key
          left join item_check on item_check.item_id = item.id
          left join item_change_rate page on page.item_id = item.id
         where change.source_id = %(source)s and change.run_id = %(run)s and change.kind = 'updated'
           and change.number > coalesce((select max(number) from change where at < %(since)s), 0)
    """
    rows = await all_rows(c, query, {"source": source_id, "run": run_id, "since": since})
    return [
        ChangedPage(item_id, created_at, modified, looked_at, ChangeRate(shape, span_s) if looked_at else None)
        for item_id, created_at, modified, looked_at, shape, span_s in rows
    ]


async def store_page_rates(
    c: Connection, source_id: int, at: datetime, rates: Sequence[tuple[int, ChangeRate]]
) -> None:
    """Store the change rates of pages at the time of a check."""
    if not rates:
        return
    columns = [(item_id, rate.shape, rate.span_s) for item_id, rate in rates]
    statement = """
        insert into item_change_rate (item_id, source_id, looked_at, shape, span_s)
        select new.item_id, %s, %s, new.shape, new.span_s
          from unnest(%s::bigint[], %s::float8[], %s::float8[]) as new(item_id, shape, span_s)
        on conflict (item_id) do update set looked_at = excluded.looked_at, shape = excluded.shape,
               span_s = excluded.span_s
    """
    await c.execute(statement, [source_id, at, *(list(column) for column in zip(*columns, strict=True))])


async def note_unchanged(c: Connection, at: datetime, item_ids: Sequence[int]) -> None:
    """Record that volatile pages were found unchanged by a check between two whole checks."""
    statement = """
        update item_change_rate set span_s = span_s + greatest(0, extract(epoch from %s - looked_at)), looked_at = %s
         where item_id = any(%s) and looked_at < %s
    """
    await c.execute(statement, [at, at, list(item_ids), at])


async def price(c: Connection, *, younger_than_s: float) -> tuple[float, float] | None:
    """Return the staleness that each request must avoid, and the factor of the longest intervals; None if outdated."""
    statement = "select price_s, stretch from refresh_price where at > now() - make_interval(secs => %s)"
    row = await one(c, statement, [younger_than_s])
    return (row[0], row[1]) if row else None


async def store_price(c: Connection, price_s: float, stretch: float) -> None:
    """Store the staleness that each request must avoid; skip it if another transaction is storing it, so none waits."""
    statement = f"""
        insert into refresh_price (price_s, stretch) select %s, %s
         where {Lock.PRICE.tried()}
        on conflict (only_one) do update set price_s = excluded.price_s, stretch = excluded.stretch, at = now()
    """
    await c.execute(statement, [price_s, stretch])


async def requests_of_day(c: Connection) -> int:
    """Return the number of requests of automatic schedules in the last day, without first harvests."""
    query = f"""
        select coalesce(sum((tally ->> 'requests')::bigint), 0) from run join source on source.id = run.source_id
         where run.started_at > now() - interval '1 day' and run.mode = 'incremental' and {_AUTO}
    """  # noqa: S608 (a constant)
    return await number(c, query)
