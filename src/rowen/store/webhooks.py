"""Store webhooks, their pending changes, and the results of their deliveries."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from psycopg import errors
from psycopg.rows import TupleRow

from rowen.errors import Hint, NotFoundError, RefusedError, action
from rowen.model.text import error_within
from rowen.model.webhooks import Delivery, Webhook, WebhookFilter, WebhookForm, WebhookState
from rowen.store.changes import LogBatch, read_after
from rowen.store.database import Connection
from rowen.store.rows import all_rows, column, list_of, one

# Delivery results that are stored per webhook: one day of a busy webhook.
_DELIVERIES_KEPT = 10_000

_SELECT = """
select id, name, url, secrets, sources, kinds, query, after, state, failures, failing_since, next_try_at, last_error,
       created_at, ahead,
       greatest((select coalesce(max(number), 0) from change) - after - cardinality(ahead), 0) as waiting, form, replays
  from webhook
"""
# Merges the delivered numbers. Two processes may call one webhook, on request or after one process was frozen. Each
# knows its own deliveries, so both are merged. Only a delivery that began before a replay is not counted.
_DELIVERED = """
after = case when replays = %(replays)s then greatest(after, %(after)s) else after end,
ahead = case when replays = %(replays)s
             then array(select distinct number from unnest(ahead || %(ahead)s::bigint[]) as number
                         where number > greatest(after, %(after)s) order by number)
             else ahead end
"""
# Webhooks with changes to send now and no job that sends them.
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
    """The result of one call of a webhook."""

    number: int
    status: int | None
    error: str | None
    seconds: float


def _filters(wants: WebhookFilter) -> dict[str, Any]:
    return {"sources": list(wants.sources) or None, "kinds": list(wants.kinds) or None, "query": wants.query}


def _webhook(row: TupleRow) -> Webhook:
    number, name, url, secrets, sources, kinds, query, after, *state, created_at, ahead, waiting, form, replays = row
    wants = WebhookFilter(tuple(sources or ()), tuple(kinds or ()), query)
    delivered = created_at, tuple(ahead), waiting, form, replays
    return Webhook(*(number, name, url, tuple(secrets), wants, after, *state, *delivered))


async def every(c: Connection, form: WebhookForm) -> list[Webhook]:
    """Return all webhooks of a form, by name."""
    return [_webhook(row) for row in await all_rows(c, f"{_SELECT} where form = %s order by name".encode(), [form])]


async def get(c: Connection, name: str) -> Webhook:
    """Return a webhook by its name."""
    row = await one(c, f"{_SELECT} where name = %s".encode(), [name])
    if row is None:
        raise NotFoundError(f"There is no webhook {name!r}.", hint=Hint(action("webhooks"), " lists all."))
    return _webhook(row)


async def by_id(c: Connection, webhook_id: int) -> Webhook | None:
    """Return a webhook by its id; None if it was removed."""
    row = await one(c, f"{_SELECT} where id = %s".encode(), [webhook_id])
    return _webhook(row) if row else None


async def add(
    c: Connection, name: str, url: str, *, form: WebhookForm, secrets: Sequence[str], wants: WebhookFilter, after: int
) -> Webhook:
    """Add a webhook that receives the changes after a number."""
    columns = {"name": name, "form": form, "url": url, "secrets": list(secrets), "after": after, **_filters(wants)}
    try:
        async with c.transaction():
            statement = """
                insert into webhook (name, form, url, secrets, sources, kinds, query, after) values (%(name)s,
                        %(form)s, %(url)s, %(secrets)s, %(sources)s, %(kinds)s, %(query)s, %(after)s)
            """
            await c.execute(statement, columns)
    except errors.UniqueViolation:
        raise RefusedError(f"There is a webhook {name!r} already. Nothing was changed.") from None
    return await get(c, name)


async def remove(c: Connection, webhook_id: int) -> None:
    """Remove a webhook with its deliveries."""
    await c.execute("delete from webhook where id = %s", [webhook_id])


async def set_state(c: Connection, webhook_id: int, state: WebhookState) -> None:
    """Pause or resume a webhook, and reset its failures."""
    await c.execute(
        "update webhook set state = %s, failures = 0, failing_since = null, next_try_at = null where id = %s",
        [state, webhook_id],
    )


async def set_secrets(c: Connection, webhook_id: int, secrets: Sequence[str]) -> None:
    """Change the secrets with which calls are signed."""
    await c.execute("update webhook set secrets = %s where id = %s", [list(secrets), webhook_id])


async def set_after(c: Connection, webhook_id: int, after: int) -> None:
    """Continue after another change number; an earlier number repeats changes."""
    await c.execute(
        "update webhook set after = %s, ahead = '{}', replays = replays + 1, next_try_at = null where id = %s",
        [after, webhook_id],
    )


async def ready(c: Connection) -> list[int]:
    """Return the ids of webhooks with changes to send now and no job that sends them."""
    return await column(c, f"{READY} order by id".encode())


async def pending(c: Connection, webhook: Webhook, *, limit: int) -> LogBatch:
    """Return the next changes that match a webhook's filter and are not delivered yet."""
    return await read_after(
        c,
        webhook.after,
        limit=limit,
        where="""
        number <> all(%(ahead)s::bigint[])
        and (%(sources)s::text[] is null or source = any(%(sources)s))
        and (%(kinds)s::text[] is null or kind = any(%(kinds)s))
        and (%(query)s::text is null or exists (
             select from item join chunk on chunk.item_id = item.id
              where item.source_id = change.source_id and item.key = change.key
                and chunk.tsv @@ websearch_to_tsquery(
                    text_config(coalesce(chunk.language, item.text_language)), words_apart(%(query)s))))
        """,
        values={"ahead": list(webhook.ahead), **_filters(webhook.wants)},
    )


async def record(c: Connection, webhook_id: int, attempts: Sequence[Attempt]) -> None:
    """Store the results of calls, and delete the oldest results."""
    if not attempts:
        return
    columns = [list(column) for column in zip(*attempts, strict=True)]
    columns[2] = [error_within(error) if error else None for error in columns[2]]
    statement = """
        insert into delivery (webhook_id, number, status, error, seconds)
        select %s, * from unnest(%s::bigint[], %s::int[], %s::text[], %s::real[])
    """
    await c.execute(statement, [webhook_id, *columns])
    await c.execute(
        "delete from delivery where webhook_id = %s and id <="
        " (select id from delivery where webhook_id = %s order by id desc offset %s limit 1)",
        [webhook_id, webhook_id, _DELIVERIES_KEPT],
    )


async def settle_success(c: Connection, webhook: Webhook, *, after: int, ahead: Sequence[int] = ()) -> None:
    """Record that all changes up to the number `after` were delivered, and later ones with the numbers `ahead`."""
    statement = f"""
        update webhook set {_DELIVERED}, failures = 0, failing_since = null, next_try_at = null, last_error = null
         where id = %(id)s
    """.encode()  # noqa: S608 (a constant)
    await c.execute(statement, {"id": webhook.id, "replays": webhook.replays, "after": after, "ahead": list(ahead)})


async def settle_failure(
    c: Connection, webhook: Webhook, *, after: int, ahead: Sequence[int], error: str, wait_s: float, disabled: bool
) -> None:
    """Record the changes delivered before a call failed, and when to retry or that the webhook is disabled."""
    await c.execute(
        f"update webhook set {_DELIVERED}, failures = failures + 1,"  # noqa: S608 (a constant)
        " failing_since = coalesce(failing_since, now()), next_try_at = now() + make_interval(secs => %(wait_s)s),"
        " last_error = %(error)s, state = case when %(disabled)s then 'disabled' else state end"
        " where id = %(id)s".encode(),
        {
            "id": webhook.id,
            "replays": webhook.replays,
            "after": after,
            "ahead": list(ahead),
            "error": error_within(error),
            "wait_s": wait_s,
            "disabled": disabled,
        },
    )


async def deliveries(c: Connection, name: str, *, limit: int) -> list[Delivery]:
    """Return the last calls of a webhook, newest first."""
    query = """
        select webhook.name as webhook, number, at, status, error, seconds from delivery
          join webhook on webhook.id = webhook_id where webhook.name = %s order by delivery.id desc limit %s
    """
    return await list_of(c, Delivery, query, [name, limit])
