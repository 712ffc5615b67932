"""What pages state, as it is now and as it changed."""

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime, timedelta

from rowen.model.source import Source
from rowen.model.statements import PageStatements, StatementChange, StatementDelta, StatementFile
from rowen.store.database import Connection
from rowen.store.rows import all_rows, list_of, scalar

__all__ = [
    "MOST_IN_A_FILE",
    "append",
    "are_kept",
    "changed",
    "current",
    "files",
    "forget",
    "of_file",
    "of_items",
    "still_stated",
]

_PAGES_AT_ONCE = 200  # pages of 1,865 statements, as the largest recorded one has, are 60 MB

MOST_IN_A_FILE = 100
"""Changes in one file of deltas: as large pages as there are make it 30 MB; who reads it holds all of it."""

# A consumer keeps the time of the last file that it took, as programs in JavaScript do: to the millisecond.
_APART = timedelta(milliseconds=1)


async def are_kept(c: Connection, source_id: int) -> bool:
    """Whether pages of a source were ever seen to state anything."""
    return bool(await scalar(c, "select exists (select from statement_change where source_id = %s)", [source_id]))


async def of_items(c: Connection, ids: Sequence[int]) -> dict[int, list[str]]:
    """What these items state; those that state nothing are left out."""
    return dict(
        await all_rows(
            c,
            "select id, array(select jsonb_array_elements_text(record -> 'rdfa' -> 'statements')) from item"
            " where id = any(%b::bigint[]) and record ? 'rdfa' and record -> 'rdfa' ? 'statements'",
            [list(ids)],
        )
    )


async def append(
    c: Connection,
    source: Source,
    run_id: int | None,
    deltas: Sequence[tuple[int, str, StatementDelta]],
    *,
    lines: int,
) -> None:
    """Note how statements changed, by the places of their lines among those just logged, from 1 on.

    The log's lock is held: no other transaction can change what is stated elsewhere, or take an earlier time.
    """
    first = int(await scalar(c, "select max(number) from change") or 0) - lines
    stated = await still_stated(c, source.id, sorted({line for _, _, delta in deltas for line in delta.removed}))
    at: datetime = await scalar(
        c,
        "select date_trunc('milliseconds', greatest(clock_timestamp(), (select at from statement_change"
        " order by number desc limit 1)))",
    )
    rows = []
    for start in range(0, len(deltas), MOST_IN_A_FILE):
        at += _APART
        file = first + deltas[start][0]
        for place, page, (added, removed, kept) in deltas[start : start + MOST_IN_A_FILE]:
            elsewhere = [line for line in removed if line in stated]
            told = (page, added, removed, elsewhere, kept)
            rows.append((first + place, source.id, source.name, run_id, *told, file, at))
    async with c.cursor() as cursor:
        await cursor.executemany(
            "insert into statement_change"
            " (number, source_id, source, run_id, page, added, removed, elsewhere, kept, file, at)"
            " values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            rows,
        )
    # Workers hear of it if an endpoint is to be told.
    await c.execute(
        "select pg_notify('rowen_due', '') where exists"
        " (select from statement_target where source_id = %s and state = 'active')",
        [source.id],
    )


# Under its former names, and of former sources of its name as well.
_OF_SOURCE = """
source_id in (select id from source where name = %(source)s
               union select source_id from statement_change where source = %(source)s)
"""


async def changed(c: Connection, source: str, *, after: int, limit: int) -> list[StatementChange]:
    """How the statements of a source changed after a number, in order."""
    return await list_of(
        c,
        StatementChange,
        f"""
        select number, page, added, removed, elsewhere, file, at from statement_change
         where number > %(after)s and {_OF_SOURCE} order by number limit %(limit)s
        """.encode(),  # noqa: S608 (a constant)
        {"source": source, "after": after, "limit": limit},
    )


async def files(c: Connection, source: str, *, since: datetime | None, limit: int) -> list[StatementFile]:
    """The files of changes that were made after a moment, the oldest first."""
    return await list_of(
        c,
        StatementFile,
        f"""
        select file as number, max(number) as last_change, max(at) as created_at from statement_change
         where at > coalesce(%(since)s::timestamptz, '-infinity') and {_OF_SOURCE}
         group by file order by file limit %(limit)s
        """.encode(),  # noqa: S608 (a constant)
        {"source": source, "since": since, "limit": limit},
    )


async def of_file(c: Connection, source: str, number: int) -> list[StatementChange]:
    """The changes of one file, in order; none where there is no such file."""
    return await list_of(
        c,
        StatementChange,
        f"""
        select number, page, added, removed, elsewhere, file, at from statement_change
         where file = %(number)s and {_OF_SOURCE} order by number
        """.encode(),  # noqa: S608 (a constant)
        {"source": source, "number": number},
    )


async def still_stated(c: Connection, source_id: int, lines: Sequence[str], *, page: str | None = None) -> set[str]:
    """Which of some statements stand in any page of a source at present, or in one of its pages."""
    if not lines:
        return set()
    rows = await all_rows(
        c,
        """
        select line from unnest(%b::text[]) as gone (line)
         where exists (select from item where item.source_id = %s and item.record ? 'rdfa'
                          and item.record -> 'rdfa' -> 'statements' @> to_jsonb(array[gone.line])
                          and (%s::text is null or item.url = %s))
        """,
        [list(lines), source_id, page, page],
    )
    return {line for (line,) in rows}


async def current(c: Connection, source_id: int) -> AsyncGenerator[list[PageStatements]]:
    """What the pages of a source state, in the order of their numbers, some at a time."""
    after = 0
    while True:
        rows = await all_rows(
            c,
            "select id, url, record -> 'rdfa' from item where source_id = %s and id > %s and record ? 'rdfa'"
            " order by id limit %s",
            [source_id, after, _PAGES_AT_ONCE],
        )
        if not rows:
            return
        after = rows[-1][0]
        yield [PageStatements(url, told) for _, url, told in rows]


async def forget(c: Connection, *, days: float) -> int:
    """Forget changes of statements that are older than so many days, but no file that an endpoint waits for."""
    done = await c.execute(
        """
        delete from statement_change
         where at < now() - make_interval(days => 1) * %s
           and not exists (select from statement_target target join statement_change beside
                               on beside.source_id = target.source_id and beside.number > target.number
                            where target.source_id = statement_change.source_id
                              and beside.file = statement_change.file)
        """,
        [days],
    )
    return done.rowcount
