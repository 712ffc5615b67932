"""SPARQL endpoints that are told what pages state: up to which change, and when one that failed is told again."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from psycopg.types.json import Jsonb

from rowen.model.caps import error_within
from rowen.model.statements import StatementTarget
from rowen.store.database import Connection, Database
from rowen.store.locks import Lock
from rowen.store.rows import all_rows, first_of, list_of, scalar

__all__ = ["READY", "advance", "alone", "by_id", "every", "forget", "get", "keep", "ready", "rewind", "settle_failure"]

_SELECT = """
select target.id, target.source_id, source.name as source, target.endpoint, nullif(target.graph, '') as graph,
       target.headers, target.state, target.number, case when target.number > 0 then target.at end as told_at,
       (select count(*) from statement_change change
         where change.source_id = target.source_id and change.number > target.number) as waiting,
       target.failures, target.failing_since, target.next_try_at, target.last_error
  from statement_target target join source on source.id = target.source_id
"""

# One that was never told anything has to hear what pages state now, which may be more than the log remembers.
READY = """
select id from statement_target target
 where state = 'active' and (next_try_at is null or next_try_at <= now())
   and number < (select coalesce(max(number), 0) from change)
   and (number = 0 or exists (select from statement_change change
                               where change.source_id = target.source_id and change.number > target.number))
   and not exists (select from procrastinate_jobs job
                    where job.queueing_lock = 'statements:' || target.id and job.status = 'todo')
   and not exists (select from procrastinate_jobs job
                    where job.lock = 'statements:' || target.id and job.status = 'doing')
"""


async def every(c: Connection, source: str | None = None) -> list[StatementTarget]:
    """All endpoints, or those of one source, by source and address."""
    return await list_of(
        c,
        StatementTarget,
        f"{_SELECT} where %(source)s::text is null or source.name = %(source)s"
        " order by source.name, target.endpoint, target.graph".encode(),
        {"source": source},
    )


async def by_id(c: Connection, target_id: int) -> StatementTarget | None:
    """An endpoint by its number; None if it was forgotten."""
    return await first_of(c, StatementTarget, f"{_SELECT} where target.id = %s".encode(), [target_id])


async def get(c: Connection, source_id: int, endpoint: str, graph: str | None) -> StatementTarget | None:
    """An endpoint of a source; None if it was never told anything."""
    where = " where target.source_id = %s and target.endpoint = %s and target.graph = %s"
    return await first_of(c, StatementTarget, f"{_SELECT} {where}".encode(), [source_id, endpoint, graph or ""])


async def keep(c: Connection, source_id: int, endpoint: str, graph: str | None, headers: Mapping[str, str]) -> None:
    """Have workers tell an endpoint from now on; one that was told before goes on from there."""
    await c.execute(
        "insert into statement_target (source_id, endpoint, graph, number, headers, state)"
        " values (%s, %s, %s, 0, %s, 'active') on conflict (source_id, endpoint, graph) do update"
        " set headers = excluded.headers, state = 'active', failures = 0, failing_since = null, next_try_at = null",
        [source_id, endpoint, graph or "", Jsonb(dict(headers))],
    )


async def forget(c: Connection, source_id: int, endpoint: str, graph: str | None) -> bool:
    """Tell an endpoint no more, and forget up to where it was told; False if there was none."""
    done = await c.execute(
        "delete from statement_target where source_id = %s and endpoint = %s and graph = %s",
        [source_id, endpoint, graph or ""],
    )
    return bool(done.rowcount)


async def advance(c: Connection, source_id: int, endpoint: str, graph: str | None, number: int, *, before: int) -> bool:
    """Record that an endpoint has received all changes between two numbers; earlier failures are settled.

    False if it stands at another number than `before`, since another process told it or forgot it: then the smaller
    number holds, and what follows is told once more. Changes have an order, and only a repetition restores it. Must run
    inside a transaction.
    """
    of = [source_id, endpoint, graph or ""]
    held = await scalar(
        c,
        "select number from statement_target where source_id = %s and endpoint = %s and graph = %s for update",
        of,
    )
    if (held or 0) != before:
        await rewind(c, source_id, endpoint, graph, number)
        return False
    await c.execute(
        "insert into statement_target (source_id, endpoint, graph, number) values (%s, %s, %s, %s)"
        " on conflict (source_id, endpoint, graph) do update set number = excluded.number, at = now(), failures = 0,"
        " failing_since = null, next_try_at = null, last_error = null,"
        " state = case statement_target.state when 'disabled' then 'active' else statement_target.state end",
        [*of, number],
    )
    return True


async def rewind(c: Connection, source_id: int, endpoint: str, graph: str | None, number: int) -> None:
    """Set an endpoint back to a change number, if it has been sent later changes."""
    await c.execute(
        "update statement_target set number = %s where source_id = %s and endpoint = %s and graph = %s and number > %s",
        [number, source_id, endpoint, graph or "", number],
    )


async def settle_failure(c: Connection, target_id: int, *, error: str, wait_s: float, disabled: bool) -> None:
    """Note that an endpoint could not be told, and when it is tried again, or that it is no more."""
    await c.execute(
        "update statement_target set failures = failures + 1, failing_since = coalesce(failing_since, now()),"
        " next_try_at = now() + make_interval(secs => %s), last_error = %s,"
        " state = case when %s then 'disabled' else state end where id = %s",
        [wait_s, error_within(error), disabled, target_id],
    )


async def ready(c: Connection) -> list[int]:
    """Endpoints that have something to hear now, and no job that tells them."""
    return [number for (number,) in await all_rows(c, f"{READY} order by id".encode())]


def alone(database: Database, source_id: int, endpoint: str, graph: str | None) -> AbstractAsyncContextManager[bool]:
    """Whether it is this process alone that tells an endpoint; two would mix up the order of changes."""
    return database.alone(Lock.STATEMENT_TARGET, f"{source_id} {endpoint} {graph or ''}")
