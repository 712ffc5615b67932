"""Receivers, what each of them still has to hear, and what became of calls."""

from collections.abc import Sequence
from typing import NamedTuple

from psycopg import errors
from psycopg.rows import TupleRow

from rowen.errors import Hint, NotFoundError, RefusedError, action
from rowen.model.caps import error_within
from rowen.model.run import Change
from rowen.model.webhook import Delivery, Webhook, WebhookFilter, WebhookForm, WebhookState
from rowen.store.database import Connection
from rowen.store.rows import all_rows, list_of, one

__all__ = [
    "READY",
    "Attempt",
    "add",
    "by_id",
    "deliveries",
    "every",
    "get",
    "pending",
    "ready",
    "record",
    "remove",
    "set_after",
    "set_secrets",
    "set_state",
    "settle_failure",
    "settle_success",
]

# A day of a busy receiver; what became of older calls says nothing about now.
_DELIVERIES_KEPT = 10_000

_SELECT = """
select id, name, url, secrets, sources, kinds, query, after, state, failures, failing_since, next_try_at, last_error,
       created_at, ahead, (select coalesce(max(number), 0) from change) - after as waiting, form
  from webhook
"""


READY = """
select id from webhook
 where state = 'active' and after < (select coalesce(max(number), 0) from change)
   and (next_try_at is null or next_try_at <= now())
   and not exists (select from procrastinate_jobs job
                    where job.queueing_lock = 'deliver:' || webhook.id and job.status = 'todo')
   and not exists (select from procrastinate_jobs job
                    where job.lock = 'webhook:' || webhook.id and job.status = 'doing')
"""


class Attempt(NamedTuple):
    """What became of one call."""

    number: int
    status: int | None
    error: str | None
    seconds: float


def _webhook(row: TupleRow) -> Webhook:
    number, name, url, secrets, sources, kinds, query, after, state, failures, since, next_try, error, *rest = row
    created_at, ahead, waiting, form = rest
    wants = WebhookFilter(tuple(sources or ()), tuple(kinds or ()), query)
    return Webhook(
        number,
        name,
        url,
        tuple(secrets),
        wants,
        after,
        state,
        failures,
        since,
        next_try,
        error,
        created_at,
        tuple(ahead),
        waiting,
        form,
    )


async def every(c: Connection, form: WebhookForm) -> list[Webhook]:
    """All receivers of a form, by name."""
    return [_webhook(row) for row in await all_rows(c, f"{_SELECT} where form = %s order by name".encode(), [form])]


async def get(c: Connection, name: str) -> Webhook:
    """A receiver by its name."""
    row = await one(c, f"{_SELECT} where name = %s".encode(), [name])
    if row is None:
        raise NotFoundError(f"There is no receiver {name!r}.", hint=Hint(action("webhooks"), " lists all."))
    return _webhook(row)


async def by_id(c: Connection, webhook_id: int) -> Webhook | None:
    """A receiver by its number; None if it was removed."""
    row = await one(c, f"{_SELECT} where id = %s".encode(), [webhook_id])
    return _webhook(row) if row else None


async def add(
    c: Connection,
    name: str,
    url: str,
    *,
    form: WebhookForm,
    secrets: Sequence[str],
    wants: WebhookFilter,
    after: int,
) -> Webhook:
    """A new receiver, which is told of what follows a number."""
    given = [name, form, url, list(secrets), list(wants.sources) or None, list(wants.kinds) or None, wants.query, after]
    try:
        async with c.transaction():
            await c.execute(
                "insert into webhook (name, form, url, secrets, sources, kinds, query, after)"
                " values (%s, %s, %s, %s, %s, %s, %s, %s)",
                given,
            )
    except errors.UniqueViolation:
        raise RefusedError(f"There is a receiver {name!r} already. Nothing was changed.") from None
    return await get(c, name)


async def remove(c: Connection, webhook_id: int) -> None:
    """Forget a receiver, with what became of its calls."""
    await c.execute("delete from webhook where id = %s", [webhook_id])


async def set_state(c: Connection, webhook_id: int, state: WebhookState) -> None:
    """Pause a receiver, or call it again; what failed before is forgotten."""
    await c.execute(
        "update webhook set state = %s, failures = 0, failing_since = null, next_try_at = null where id = %s",
        [state, webhook_id],
    )


async def set_secrets(c: Connection, webhook_id: int, secrets: Sequence[str]) -> None:
    """Sign with other secrets."""
    await c.execute("update webhook set secrets = %s where id = %s", [list(secrets), webhook_id])


async def set_after(c: Connection, webhook_id: int, after: int) -> None:
    """Go on after another number: an earlier one sends what was sent before once more."""
    await c.execute(
        "update webhook set after = %s, ahead = '{}', next_try_at = null where id = %s", [after, webhook_id]
    )


async def ready(c: Connection) -> list[int]:
    """Receivers that have something to hear now, and no job that tells them."""
    rows = await all_rows(c, f"{READY} order by id".encode())
    return [number for (number,) in rows]


async def pending(c: Connection, webhook: Webhook, *, limit: int) -> tuple[list[Change], int]:
    """The next changes that a receiver is to hear of, and the number up to which there is nothing else."""
    lines = await list_of(
        c,
        Change,
        """
        select change.number, change.kind, change.url, change.title, change.source, change.at, run_id as run,
               moved_from, schema, diff
          from change
         where number > %(after)s and number <> all(%(ahead)s::bigint[])
           and (%(sources)s::text[] is null or source = any(%(sources)s))
           and (%(kinds)s::text[] is null or kind = any(%(kinds)s))
           and (%(query)s::text is null or exists (
                select from item join chunk on chunk.item_id = item.id
                 where item.source_id = change.source_id and item.key = change.key
                   and chunk.tsv @@ websearch_to_tsquery(text_config(item.language), words_apart(%(query)s))))
         order by number limit %(limit)s
        """,
        {
            "after": webhook.after,
            "ahead": list(webhook.ahead),
            "sources": list(webhook.wants.sources) or None,
            "kinds": list(webhook.wants.kinds) or None,
            "query": webhook.wants.query,
            "limit": limit,
        },
    )
    if len(lines) == limit:
        return lines, lines[-1].number
    row = await one(c, "select coalesce(max(number), 0) from change")
    return lines, int(row[0]) if row else 0


async def record(c: Connection, webhook_id: int, attempts: Sequence[Attempt]) -> None:
    """Keep what became of calls, and not more than anybody looks at."""
    if not attempts:
        return
    columns = [list(column) for column in zip(*attempts, strict=True)]
    columns[2] = [error_within(error) if error else None for error in columns[2]]
    await c.execute(
        "insert into delivery (webhook_id, number, status, error, seconds)"
        " select %s, * from unnest(%s::bigint[], %s::int[], %s::text[], %s::real[])",
        [webhook_id, *columns],
    )
    await c.execute(
        "delete from delivery where webhook_id = %s and id <="
        " (select id from delivery where webhook_id = %s order by id desc offset %s limit 1)",
        [webhook_id, webhook_id, _DELIVERIES_KEPT],
    )


async def settle_success(c: Connection, webhook_id: int, after: int, ahead: Sequence[int] = ()) -> None:
    """All up to a number is delivered, and some beyond it."""
    await c.execute(
        "update webhook set after = %s, ahead = %s, failures = 0, failing_since = null, next_try_at = null,"
        " last_error = null where id = %s",
        [after, list(ahead), webhook_id],
    )


async def settle_failure(
    c: Connection,
    webhook: Webhook,
    *,
    after: int,
    ahead: Sequence[int],
    error: str,
    wait_s: float,
    disabled: bool,
) -> None:
    """Not all was delivered: what was is remembered, and the receiver is called again later, or no more."""
    await c.execute(
        "update webhook set after = %s, ahead = %s, failures = failures + 1,"
        " failing_since = coalesce(failing_since, now()), next_try_at = now() + make_interval(secs => %s),"
        " last_error = %s, state = case when %s then 'disabled' else state end where id = %s",
        [after, list(ahead), wait_s, error_within(error), disabled, webhook.id],
    )


async def deliveries(c: Connection, name: str, *, limit: int) -> list[Delivery]:
    """The last calls of a receiver, newest first."""
    return await list_of(
        c,
        Delivery,
        "select webhook.name as webhook, number, at, status, error, seconds from delivery"
        " join webhook on webhook.id = webhook_id where webhook.name = %s order by delivery.id desc limit %s",
        [name, limit],
    )
