"""Store push notifications: subscriptions to hubs, received deliveries, and announcements of feeds."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import NamedTuple

from psycopg.types.json import Jsonb

from rowen.model.hashes import Hash
from rowen.model.push import AnnouncedDocument, Announcement, Subscription, SubscriptionState, announcement_of
from rowen.model.text import error_within
from rowen.store.database import Connection
from rowen.store.locks import Lock, hold
from rowen.store.rows import all_rows, column, first_of, list_of, number, one, scalar, tuples_of

_SELECT = """
select source.name as source, topic, hub, push_subscription.state, asked_at, expires_at, renew_at, error
  from push_subscription join source on source.id = push_subscription.source_id
"""
# How long deliveries are stored. GitHub's deliveries contain no time: a later repetition causes one more check.
_KEPT_DAYS = 30


class Merged(NamedTuple):
    """The waiting job of a source, and the number of URLs that it will check; 0 if it checks the whole source."""

    job: int
    urls: int


async def holders(c: Connection, keys: Sequence[Hash]) -> list[tuple[int, Hash, str]]:
    """Return the sources that have items with these keys, each with the key and the item's stored URL."""
    return await all_rows(c, "select source_id, key, url from item where key = any(%s)", [list(keys)])


async def merge_into_waiting_sync(
    c: Connection, source_id: int, priority: int, urls: Sequence[str], *, most: int
) -> Merged | None:
    """Add URLs to the waiting sync of a source, which checks the whole source if `urls` is empty or too long.

    Return None if no sync waits. A sync that waits for its host continues to wait.
    """
    row = await one(
        c,
        "select id, args from procrastinate_jobs where queueing_lock = %s and status = 'todo' for update",
        [f"sync:{source_id}"],
    )
    if row is None:
        return None
    job_id, arguments = row
    only = list(dict.fromkeys([*(arguments.get("only") or ()), *urls])) if urls and arguments.get("only") else []
    if not only or len(only) > most:
        # A sync that was to revisit some pages checks the whole source: the new pages need not be among them.
        arguments = {name: value for name, value in arguments.items() if name not in ("only", "widen", "revisit")}
        only = []
    else:
        arguments = {**arguments, "only": only}
    await c.execute(
        "update procrastinate_jobs set priority = greatest(priority, %s), args = %s where id = %s",
        [priority, Jsonb(arguments), job_id],
    )
    return Merged(job_id, len(only))


async def store_request(
    c: Connection, source_id: int, *, topic: str, hub: str, callback_hash: Hash, now: datetime, again_at: datetime
) -> None:
    """Store that a subscription is requested from a hub; an active one for the same topic stays active."""
    await c.execute(
        "insert into push_subscription (source_id, topic, hub, callback_hash, state, asked_at, renew_at)"
        " values (%(source)s, %(topic)s, %(hub)s, %(hash)s, 'pending', %(now)s, %(again)s)"
        " on conflict (source_id) do update set topic = excluded.topic, hub = excluded.hub,"
        " callback_hash = excluded.callback_hash, asked_at = excluded.asked_at,"
        " renew_at = excluded.renew_at, error = null,"
        " state = case when push_subscription.state = 'active' and push_subscription.topic = excluded.topic"
        "  then 'active' else 'pending' end",
        {"source": source_id, "topic": topic, "hub": hub, "hash": callback_hash, "now": now, "again": again_at},
    )


async def subscription(c: Connection, source_id: int) -> Subscription | None:
    """Return the subscription of a source; None if it has none."""
    return await first_of(c, Subscription, _SELECT + " where source_id = %s", [source_id])


async def subscriptions(c: Connection) -> list[Subscription]:
    """Return all subscriptions, by the names of their sources."""
    return await list_of(c, Subscription, _SELECT + " order by source.name")


async def by_callback(c: Connection, callback_hash: Hash) -> tuple[int, Subscription] | None:
    """Return the subscription whose callback address has this hash, and the id of its source; lock it."""
    source_id = await scalar(
        c, "select source_id from push_subscription where callback_hash = %s for update", [callback_hash]
    )
    stored = await subscription(c, source_id) if source_id is not None else None
    return (source_id, stored) if stored is not None else None


async def settle(
    c: Connection, source_id: int, state: SubscriptionState, *, expires_at: datetime | None, renew_at: datetime | None
) -> None:
    """Store the state of a subscription that its hub has confirmed, or that it is to end."""
    await c.execute(
        "update push_subscription set state = %s, expires_at = %s, renew_at = %s, error = null where source_id = %s",
        [state, expires_at, renew_at, source_id],
    )


async def note_error(c: Connection, source_id: int, error: str, *, state: SubscriptionState | None = None) -> None:
    """Store why a subscription failed; if `state` is given, store it and do not renew the subscription."""
    statement = """
        update push_subscription set error = %s, state = coalesce(%s, state),
               renew_at = case when %s::text is null then renew_at end where source_id = %s
    """
    await c.execute(statement, [error_within(error), state, state, source_id])


async def remove_subscription(c: Connection, source_id: int) -> None:
    """Delete a subscription."""
    await c.execute("delete from push_subscription where source_id = %s", [source_id])


async def due_renewals(c: Connection, now: datetime, *, limit: int) -> list[int]:
    """Return the ids of sources whose subscriptions must be renewed now."""
    query = """
        select source_id from push_subscription join source on source.id = source_id
         where renew_at <= %s and push_subscription.state in ('pending', 'active') and source.state = 'active'
         order by renew_at limit %s
    """
    return await column(c, query, [now, limit])


async def take_delivery(c: Connection, sender: str, delivery: str, *, per_minute: int) -> bool | None:
    """Store a delivery and return whether it is new; None if its sender exceeds the rate limit."""
    await hold(c, Lock.PUSH, sender)
    if await one(c, "select from push_delivery where sender = %s and delivery = %s", [sender, delivery]) is not None:
        return False
    recent = "select count(*) from push_delivery where sender = %s and at > now() - interval '1 minute'"
    if await number(c, recent, [sender]) >= per_minute:
        return None
    await c.execute("insert into push_delivery (sender, delivery) values (%s, %s)", [sender, delivery])
    await c.execute(
        "delete from push_delivery where sender = %s and at < now() - make_interval(days => %s)", [sender, _KEPT_DAYS]
    )
    return True


ANNOUNCEMENTS = "announced"
"""The room of the source notes that store the outcomes of announcements."""

_AT_ONCE = 1_000  # records of a kilobyte; a page of a feed has fewer


async def feed_of(c: Connection, source_id: int, url: str) -> tuple[int, str] | None:
    """Return id and name of the first other source with this URL; None if there is none."""
    row = await one(
        c,
        "select id, name from source where url = %s and id <> %s and kind <> 'announced' order by id",
        [url, source_id],
    )
    return (row[0], row[1]) if row else None


async def announced_after(c: Connection, feed_id: int, *, after: int) -> AsyncIterator[Sequence[Announcement]]:
    """Yield the changed entries of a feed after the change number `after`, in order of their last change.

    Each entry is yielded in its present state, once in each batch in which it changed.
    """
    query = """
        with line as (
            select number, key, url from change
             where source_id = %(feed)s and number > %(after)s
               and kind in ('created', 'updated', 'amended', 'moved', 'deleted')
             order by number limit %(limit)s)
        select line.number, line.url, item.record
          from (select distinct on (key) number, key, url from line order by key, number desc) line
          left join item on item.source_id = %(feed)s and item.key = line.key
         order by line.number
    """
    while rows := await all_rows(c, query, {"feed": feed_id, "after": after, "limit": _AT_ONCE}):
        after = rows[-1][0]
        yield [announcement_of(*row) for row in rows]


async def announced_documents(
    c: Connection, source_id: int, *, limit: int, outcome: str | None = None
) -> list[AnnouncedDocument]:
    """Return announcements with their outcomes, latest first; with `outcome`, only announcements with this outcome."""
    return await tuples_of(
        c,
        AnnouncedDocument,
        """
        select note.name, note.value ->> 'location', note.value ->> 'member', note.value ->> 'at',
               note.value ->> 'outcome', note.value ->> 'why', run.id, run.job_id, run.finished_at
          from source_note note left join run on run.id = note.run_id and note.value ->> 'outcome' <> 'waiting'
         where note.source_id = %(source)s and note.room = %(room)s
           and (%(outcome)s::text is null or note.value ->> 'outcome' = %(outcome)s)
         order by note.value ->> 'at' desc, note.name limit %(limit)s
        """,
        {"source": source_id, "room": ANNOUNCEMENTS, "outcome": outcome, "limit": limit},
    )


async def count_announced(c: Connection, source_id: int) -> dict[str, int]:
    """Return the number of announcements with each outcome."""
    return dict(
        await all_rows(
            c,
            "select value ->> 'outcome', count(*) from source_note where source_id = %s and room = %s group by 1",
            [source_id, ANNOUNCEMENTS],
        )
    )
