"""Store changes of RDF statements of pages, and the SPARQL endpoints that receive the changes."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta

from psycopg.types.json import Jsonb

from rowen.model.rdf import PageStatements, StatementChange, StatementDelta, StatementFile, StatementTarget
from rowen.model.sources import Source
from rowen.model.text import error_within
from rowen.store.database import Connection, Database
from rowen.store.locks import Lock
from rowen.store.rows import affected, all_rows, column, first_of, list_of, number, scalar

_PAGES_AT_ONCE = 200  # pages of 1,865 statements, as the largest recorded one has, are 60 MB

MOST_IN_A_FILE = 100
"""Changes in one file of deltas: 30 MB with the largest known pages, which readers load into memory."""

# The least time between two files: consumers store the time of the last file to the millisecond, as in JavaScript.
_APART = timedelta(milliseconds=1)


async def has_statements(c: Connection, source_id: int) -> bool:
    """Return whether a page of the source ever contained RDF statements."""
    return bool(await scalar(c, "select exists (select from statement_change where source_id = %s)", [source_id]))


async def of_items(c: Connection, ids: Sequence[int]) -> dict[int, list[str]]:
    """Return the RDF statements of these items; items without statements are left out."""
    return dict(
        await all_rows(
            c,
            "select id, array(select jsonb_array_elements_text(record -> 'rdfa' -> 'statements')) from item"
            " where id = any(%b::bigint[]) and record ? 'rdfa' and record -> 'rdfa' ? 'statements'",
            [list(ids)],
        )
    )


async def append(
    c: Connection, source: Source, run_id: int | None, deltas: Sequence[tuple[int, str, StatementDelta]], *, lines: int
) -> None:
    """Store changed RDF statements; each delta comes with the position, from 1 on, of its line among the logged lines.

    The log's lock is held: no other transaction can change statements, or take an earlier time.
    """
    first = await number(c, "select max(number) from change") - lines
    stated = await still_stated(c, source.id, sorted({line for _, _, delta in deltas for line in delta.removed}))
    query = """
        select date_trunc('milliseconds', greatest(clock_timestamp(), (select at from statement_change
                 order by number desc limit 1)))
    """
    at: datetime = await scalar(c, query)
    rows = []
    for start in range(0, len(deltas), MOST_IN_A_FILE):
        at += _APART
        file = first + deltas[start][0]
        for place, page, delta in deltas[start : start + MOST_IN_A_FILE]:
            elsewhere = [line for line in delta.removed if line in stated]
            columns = (page, delta.added, delta.removed, elsewhere, delta.kept)
            rows.append((first + place, source.id, source.name, run_id, *columns, file, at))
    async with c.cursor() as cursor:
        await cursor.executemany(
            "insert into statement_change"
            " (number, source_id, source, run_id, page, added, removed, elsewhere, kept, file, at)"
            " values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            rows,
        )
    # Workers are notified if an endpoint is to be updated.
    statement = """
        select pg_notify('rowen_due', '') where exists
               (select from statement_target where source_id = %s and state = 'active')
    """
    await c.execute(statement, [source.id])


# The changes of a source by name, including its changes under former names and changes of former sources of this name.
_OF_SOURCE = """
source_id in (select id from source where name = %(source)s
               union select source_id from statement_change where source = %(source)s)
"""


async def changes_after(c: Connection, source: str, *, after: int, limit: int) -> list[StatementChange]:
    """Return the changes of a source's RDF statements after the change number `after`, in order."""
    query = f"""
        select number, page, added, removed, elsewhere, file, at from statement_change
         where number > %(after)s and {_OF_SOURCE} order by number limit %(limit)s
    """.encode()  # noqa: S608 (a constant)
    return await list_of(c, StatementChange, query, {"source": source, "after": after, "limit": limit})


async def files(c: Connection, source: str, *, since: datetime | None, limit: int) -> list[StatementFile]:
    """Return the files of changes made after `since`, oldest first."""
    query = f"""
        select file as number, max(number) as last_change, max(at) as created_at from statement_change
         where at > coalesce(%(since)s::timestamptz, '-infinity') and {_OF_SOURCE}
         group by file order by file limit %(limit)s
    """.encode()  # noqa: S608 (a constant)
    return await list_of(c, StatementFile, query, {"source": source, "since": since, "limit": limit})


async def of_file(c: Connection, source: str, number: int) -> list[StatementChange]:
    """Return the changes of one file, in order; empty if there is no such file."""
    query = f"""
        select number, page, added, removed, elsewhere, file, at from statement_change
         where file = %(number)s and {_OF_SOURCE} order by number
    """.encode()  # noqa: S608 (a constant)
    return await list_of(c, StatementChange, query, {"source": source, "number": number})


async def still_stated(c: Connection, source_id: int, lines: Sequence[str], *, page: str | None = None) -> set[str]:
    """Return the statements in `lines` that a page of the source contains now; with `page`, only that page."""
    if not lines:
        return set()
    query = """
        select line from unnest(%b::text[]) as statement (line)
         where exists (select from item where item.source_id = %s and item.record ? 'rdfa'
                          and item.record -> 'rdfa' -> 'statements' @> to_jsonb(array[statement.line])
                          and (%s::text is null or item.url = %s))
    """
    rows = await column(c, query, [list(lines), source_id, page, page])
    return set(rows)


async def current(c: Connection, source_id: int) -> AsyncGenerator[list[PageStatements]]:
    """Yield the RDF statements of a source's pages, in the order of item ids, in batches of pages."""
    query = """
        select id, url, record -> 'rdfa' from item where source_id = %s and id > %s and record ? 'rdfa'
         order by id limit %s
    """
    after = 0
    while rows := await all_rows(c, query, [source_id, after, _PAGES_AT_ONCE]):
        after = rows[-1][0]
        yield [PageStatements(url, statements) for _, url, statements in rows]


async def forget_changes(c: Connection, *, days: float) -> int:
    """Delete changes of RDF statements older than `days`, except files that an endpoint still needs."""
    statement = """
        delete from statement_change
         where at < now() - make_interval(days => 1) * %s
           and not exists (select from statement_target target join statement_change beside
                               on beside.source_id = target.source_id and beside.number > target.number
                            where target.source_id = statement_change.source_id
                              and beside.file = statement_change.file)
    """
    return await affected(c, statement, [days])


_SELECT = """
select target.id, target.source_id, source.name as source, target.endpoint, nullif(target.graph, '') as graph,
       target.headers, target.state, target.number, case when target.number > 0 then target.at end as told_at,
       (select count(*) from statement_change change
         where change.source_id = target.source_id and change.number > target.number) as waiting,
       target.failures, target.failing_since, target.next_try_at, target.last_error
  from statement_target target join source on source.id = target.source_id
"""

# Endpoints with changes to send now and no job that sends them. One that never received anything needs all present
# statements, which may be more than the log contains.
READY_TARGETS = """
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


async def targets(c: Connection, source: str | None = None) -> list[StatementTarget]:
    """Return all endpoints, or the endpoints of the source named `source`, by source and address."""
    statement = f"""
        {_SELECT} where %(source)s::text is null or source.name = %(source)s
         order by source.name, target.endpoint, target.graph
    """.encode()
    return await list_of(c, StatementTarget, statement, {"source": source})


async def target_by_id(c: Connection, target_id: int) -> StatementTarget | None:
    """Return an endpoint by its id; None if it was removed."""
    return await first_of(c, StatementTarget, f"{_SELECT} where target.id = %s".encode(), [target_id])


async def target(c: Connection, source_id: int, endpoint: str, graph: str | None) -> StatementTarget | None:
    """Return an endpoint of a source; None if nothing was ever sent to it."""
    where = " where target.source_id = %s and target.endpoint = %s and target.graph = %s"
    return await first_of(c, StatementTarget, f"{_SELECT} {where}".encode(), [source_id, endpoint, graph or ""])


async def store_target(
    c: Connection, source_id: int, endpoint: str, graph: str | None, headers: Mapping[str, str]
) -> None:
    """Register an endpoint for automatic updates; an endpoint that received changes before keeps its position."""
    statement = """
        insert into statement_target (source_id, endpoint, graph, number, headers, state)
        values (%s, %s, %s, 0, %s, 'active') on conflict (source_id, endpoint, graph) do update
           set headers = excluded.headers, state = 'active', failures = 0, failing_since = null, next_try_at = null
    """
    await c.execute(statement, [source_id, endpoint, graph or "", Jsonb(dict(headers))])


async def remove_target(c: Connection, source_id: int, endpoint: str, graph: str | None) -> bool:
    """Remove an endpoint with its position; return False if there was none."""
    statement = "delete from statement_target where source_id = %s and endpoint = %s and graph = %s"
    return await affected(c, statement, [source_id, endpoint, graph or ""]) > 0


async def advance_target(
    c: Connection, source_id: int, endpoint: str, graph: str | None, number: int, *, before: int
) -> bool:
    """Record that an endpoint has received all changes after `before` up to `number`, and reset its failures.

    Return False if its position is not `before`, because another process sent to it or removed it. Then the smaller
    number becomes its position: later changes are sent again, which restores their order. Must run inside a
    transaction.
    """
    key = [source_id, endpoint, graph or ""]
    position = await scalar(
        c, "select number from statement_target where source_id = %s and endpoint = %s and graph = %s for update", key
    )
    if (position or 0) != before:
        await rewind_target(c, source_id, endpoint, graph, number)
        return False
    statement = """
        insert into statement_target (source_id, endpoint, graph, number) values (%s, %s, %s, %s)
        on conflict (source_id, endpoint, graph) do update set number = excluded.number, at = now(), failures = 0,
               failing_since = null, next_try_at = null, last_error = null,
               state = case statement_target.state when 'disabled' then 'active' else statement_target.state end
    """
    await c.execute(statement, [*key, number])
    return True


async def rewind_target(c: Connection, source_id: int, endpoint: str, graph: str | None, number: int) -> None:
    """Set an endpoint's position back to the change number `number`, if its position is later."""
    await c.execute(
        "update statement_target set number = %s where source_id = %s and endpoint = %s and graph = %s and number > %s",
        [number, source_id, endpoint, graph or "", number],
    )


async def note_target_failure(c: Connection, target_id: int, *, error: str, wait_s: float, disabled: bool) -> None:
    """Store why an endpoint could not be updated, and when to retry or that it is disabled."""
    statement = """
        update statement_target set failures = failures + 1, failing_since = coalesce(failing_since, now()),
               next_try_at = now() + make_interval(secs => %s), last_error = %s,
               state = case when %s then 'disabled' else state end where id = %s
    """
    await c.execute(statement, [wait_s, error_within(error), disabled, target_id])


async def ready_targets(c: Connection) -> list[int]:
    """Return the ids of endpoints with changes to send now and no job that sends them."""
    return await column(c, f"{READY_TARGETS} order by id".encode())


def hold_target(
    database: Database, source_id: int, endpoint: str, graph: str | None
) -> AbstractAsyncContextManager[bool]:
    """Lock an endpoint for this process, since two senders would mix up the order of changes."""
    return database.alone(Lock.STATEMENT_TARGET, f"{source_id} {endpoint} {graph or ''}")
