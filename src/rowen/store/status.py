"""Read the status of the whole system, in a few statements that are fast enough for each page."""

from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from psycopg.rows import dict_row

from rowen.model.items import ItemDetail, Passage, Validators
from rowen.model.runs import Run, RunStats
from rowen.model.status import Savings, SwitchedOff, TroubleGroup
from rowen.store.database import Connection
from rowen.store.rows import all_rows, list_of, number, one, only


class ItemCounts(NamedTuple):
    """The number of items of each source, by source id, as of a line of the log."""

    items: dict[int, int]
    number: int


async def count_items(c: Connection) -> ItemCounts:
    """Count all items, and return the newest line of the log too; must be the first step of a transaction."""
    await c.execute("set transaction isolation level repeatable read")
    rows = await all_rows(c, "select source_id, count(*) from item group by source_id")
    return ItemCounts(dict(rows), await number(c, "select max(number) from change"))


async def counted_since(c: Connection, before: ItemCounts) -> ItemCounts:
    """Update the counts from later lines of the log, which is faster than counting again.

    A moved item was first logged as created at its new URL; the move then merged it with the old item. So a move
    subtracts one.
    """
    query = """
        select source_id, count(*) filter (where kind = 'created')
               - count(*) filter (where kind in ('deleted', 'moved')),
               max(number) from change where number > %s group by source_id
    """
    rows = await all_rows(c, query, [before.number])
    items = dict(before.items)
    for source_id, more, _ in rows:
        items[source_id] = items.get(source_id, 0) + more
    return ItemCounts(items, max([before.number, *(last for _, _, last in rows)]))


# Counts for the overview, over all sources.
_STATE = """
select count(*) as sources, count(*) filter (where state = 'paused') as paused,
       count(*) filter (where last.status is null) as unread,
       count(*) filter (where state = 'active' and last.status in ('failed', 'partial')) as failing,
       (select count(*) from item_held where kept_at is null) as held,
       (select count(distinct source_id) from item_held where kept_at is null) as held_sources,
       (select count(*) from quarantine) as quarantined,
       (select count(*) from run where status = 'running') as running,
       coalesce((select max(number) from change), 0) - coalesce((select number from change
           where at < date_trunc('day', now(), 'UTC') order by at desc, number desc limit 1), 0) as changed_today
  from source
  left join lateral (select status from run where run.source_id = source.id and status <> 'running'
                      order by id desc limit 1) last on true
"""
# Webhooks and endpoints that were disabled because calls failed for days.
_SWITCHED_OFF = """
select form, name, null from webhook where state = 'disabled'
union all
select 'endpoint', target.endpoint, source.name
  from statement_target target join source on source.id = target.source_id where target.state = 'disabled'
 order by 1, 2, 3
"""
# The next source that is due.
_NEXT = """
select source.name, source_due.due_at from source_due join source on source.id = source_due.source_id
 where source.state = 'active' order by source_due.due_at limit 1
"""


async def state(c: Connection) -> dict[str, Any]:
    """Return the counts of `Status`, except for items."""
    cursor = await c.cursor(row_factory=dict_row).execute(_STATE)
    counts = await cursor.fetchone() or {}
    due = await one(c, _NEXT) or (None, None)
    return {**counts, "switched_off": await switched_off(c), "next_source": due[0], "next_at": due[1]}


async def switched_off(c: Connection) -> tuple[SwitchedOff, ...]:
    """Return the webhooks and endpoints that were disabled because calls failed for days."""
    return tuple(SwitchedOff(*row) for row in await all_rows(c, _SWITCHED_OFF))


async def stale_shares(c: Connection) -> dict[int, float]:
    """Return the expected share of stale items of each source for which it is known."""
    return dict(await all_rows(c, "select source_id, stale from source_stale"))


# What runs found, spent and avoided. The cost of reading an item is taken from one run of the source: the one that read
# most items among its first run, which reads everything, and its last ten. Without such a run nothing is avoided.
_SAVINGS = """
with lately as (
    select source_id, count(*) as runs, {sums}
      from run cross join lateral jsonb_to_record(tally) as t({columns})
     where started_at >= %s group by source_id
)
select sum(runs), sum(not_asked), sum(stopped_at_validator), sum(stopped_at_body), sum(stopped_at_content),
       sum(created + updated + amended), sum(requests), sum(bytes), sum(embedded),
       sum(embedding_tokens + extraction_tokens), sum(embedding_usd + extraction_usd),
       sum(not_asked * coalesce(each.asked, 0)), sum((not_asked + not_modified) * coalesce(each.sent, 0)),
       sum(embeddings_reused), sum(extraction_calls_avoided)
  from lately
  left join lateral (
       select t.requests / (read + t.not_modified) as asked, t.bytes / read as sent
         from (
              (select tally from run where run.source_id = lately.source_id order by id limit 1)
              union all
              (select tally from run where run.source_id = lately.source_id order by id desc limit 10)
              ) known
        cross join lateral jsonb_to_record(tally) as t(created float8, updated float8, amended float8,
                                                       unchanged float8, requests float8, not_modified float8,
                                                       bytes float8)
        cross join lateral (select t.created + t.updated + t.amended + t.unchanged - t.not_modified as read) looks
        where read > 0 order by read desc limit 1
       ) each on not_asked + not_modified > 0
"""
_SUMMED = (
    *("not_asked", "stopped_at_validator", "stopped_at_body", "stopped_at_content", "created", "updated", "amended"),
    *("requests", "bytes", "embedded", "embedding_tokens", "extraction_tokens", "embedding_usd", "extraction_usd"),
    *("not_modified", "embeddings_reused", "extraction_calls_avoided"),
)
_SAVED = (
    *("runs", "listing", "validator", "body", "content", "paid", "requests", "bytes", "embedded", "tokens", "usd"),
    *("requests_spared", "bytes_spared", "embeddings_spared", "calls_spared"),
)
_AVOIDED = "select coalesce(sum(tokens), 0), coalesce(sum(usd), 0) from avoided_call where day >= %s::date"


async def savings(c: Connection, since: datetime) -> Savings:
    """Return what runs found, spent and avoided since `since`."""
    sums = ", ".join(f"coalesce(sum({name}), 0) as {name}" for name in _SUMMED)
    statement = _SAVINGS.format(sums=sums, columns=", ".join(f"{name} float8" for name in _SUMMED))
    row = await only(c, statement.encode(), [since])
    tokens, usd = await only(c, _AVOIDED, [since])
    if not row[0]:
        return Savings(since)
    counts: dict[str, Any] = {name: int(value or 0) for name, value in zip(_SAVED, row, strict=True)}
    counts |= {"usd": float(row[_SAVED.index("usd")] or 0), "usd_spared": float(usd), "tokens_spared": int(tokens)}
    return Savings(since, **counts)


_COUNTS = ("created", "updated", "amended", "unchanged", "deleted", "failed", "not_asked", "requests", "seconds")


async def newest_run(c: Connection) -> tuple[int, int]:
    """Return the id of the last run and the number of live runs; either changes when a run begins or ends."""
    last, live = await only(c, "select max(id), (select count(*) from run where status = 'running') from run")
    return last or 0, live


async def last_runs(c: Connection, names: list[str], limit: int) -> dict[str, list[Run]]:
    """Return the last runs of some sources, oldest first, with the counts for a chart."""
    counts = ", ".join(f"'{name}', tally -> '{name}'" for name in _COUNTS)
    query = f"""
        select run.id, source.name, source.kind, run.mode, run.status, run.complete, run.started_at, run.finished_at,
               jsonb_strip_nulls(jsonb_build_object({counts})), run.error
          from source
         cross join lateral (select * from run where run.source_id = source.id order by id desc limit %(limit)s) run
         where source.name = any(%(names)s) order by source.name, run.id
    """.encode()  # noqa: S608 (names of counts)
    rows = await all_rows(c, query, {"names": names, "limit": limit})
    by_source: dict[str, list[Run]] = {name: [] for name in names}
    for row in rows:
        run = Run(*row)
        by_source[run.source].append(replace(run, stats=RunStats.from_json(row[8])))
    return by_source


async def troubles(c: Connection, source: str, since: datetime, limit: int) -> list[TroubleGroup]:
    """Return the reasons why items of a source failed since `since`, the most frequent first.

    The URL of the item is removed from each error, so that equal reasons are equal texts.
    """
    query = """
        select reason as error, min(hint) as hint, count(*) as items, min(quarantine.url) as url
          from quarantine join source on source.id = source_id
         cross join lateral (
               select case when starts_with(error, quarantine.url)
                           then 'The item' || substr(error, length(quarantine.url) + 1)
                           else replace(error, quarantine.url, 'the item') end as reason
               ) message
         where source.name = %s and last_at >= %s
         group by reason order by count(*) desc, reason limit %s
    """
    return await list_of(c, TroubleGroup, query, [source, since, limit])


async def detail(c: Connection, item_id: int) -> ItemDetail:
    """Return the validators, depth, number of links and passages of an item."""
    check = await one(
        c,
        "select etag, last_modified,"
        " case when item_check.item_id is null then item.body_hash else item_check.body_hash end, coalesce(depth, 0),"
        " case when coalesce(links, '') = '' then 0 else 1 + length(links) - length(replace(links, e'\\n', '')) end"
        " from item left join item_check on item_id = item.id"
        " where item.id = %s and (item_check.item_id is not null or item.recipe is not null)",
        [item_id],
    )
    rows = await all_rows(c, "select text, heading, anchor from chunk where item_id = %s order by position", [item_id])
    passages = tuple(Passage(text, tuple(heading), anchor, 0.0) for text, heading, anchor in rows)
    if check is None:
        return ItemDetail(passages=passages)
    etag, last_modified, body_hash, depth, links = check
    return ItemDetail(Validators(etag, last_modified, body_hash), depth, links, passages)
