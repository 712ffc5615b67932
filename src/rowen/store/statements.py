"""What pages state, as it is now and as it changed."""

from collections.abc import AsyncGenerator, Sequence

from rowen.model.source import Source
from rowen.model.statements import PageStatements, StatementChange, StatementDelta
from rowen.store.database import Connection
from rowen.store.rows import all_rows, list_of, scalar

__all__ = ["advance", "append", "are_kept", "changed", "current", "forget", "of_items", "still_stated", "told_to"]

_PAGES_AT_ONCE = 200  # pages of 1,865 statements, as the largest recorded one has, are 60 MB


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
    """Note how statements changed, by the places of their lines among those just logged, from 1 on."""
    first = int(await scalar(c, "select max(number) from change") or 0) - lines
    async with c.cursor() as cursor:
        await cursor.executemany(
            "insert into statement_change (number, source_id, source, run_id, page, added, removed, kept)"
            " values (%s, %s, %s, %s, %s, %s, %s, %s)",
            [
                (first + place, source.id, source.name, run_id, page, delta.added, delta.removed, delta.kept)
                for place, page, delta in deltas
            ],
        )


async def changed(c: Connection, source: str, *, after: int, limit: int) -> list[StatementChange]:
    """How the statements of a source changed after a number, in order: under its former names, and of former sources
    of its name as well.
    """
    return await list_of(
        c,
        StatementChange,
        """
        select number, run_id as run, page, at, added, removed from statement_change
         where number > %(after)s
           and source_id in (select id from source where name = %(source)s
                              union select source_id from statement_change where source = %(source)s)
         order by number limit %(limit)s
        """,
        {"source": source, "after": after, "limit": limit},
    )


async def still_stated(c: Connection, source: str, lines: Sequence[str]) -> set[str]:
    """Which of some statements stand in any page of a source at present."""
    if not lines:
        return set()
    rows = await all_rows(
        c,
        """
        select line from unnest(%b::text[]) as gone (line)
         where exists (select from item join source on source.id = item.source_id
                        where source.name = %s and item.record ? 'rdfa'
                          and item.record -> 'rdfa' -> 'statements' @> to_jsonb(array[gone.line]))
        """,
        [list(lines), source],
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


async def told_to(c: Connection, source_id: int, endpoint: str, graph: str) -> int:
    """Up to which number an endpoint was told."""
    where = "select number from statement_target where source_id = %s and endpoint = %s and graph = %s"
    return int(await scalar(c, where, [source_id, endpoint, graph]) or 0)


async def advance(c: Connection, source_id: int, endpoint: str, graph: str, number: int) -> None:
    """Note that an endpoint was told all up to a number."""
    await c.execute(
        "insert into statement_target (source_id, endpoint, graph, number) values (%s, %s, %s, %s)"
        " on conflict (source_id, endpoint, graph) do update set number = excluded.number, at = now()",
        [source_id, endpoint, graph, number],
    )


async def forget(c: Connection, *, days: float) -> int:
    """Forget changes of statements that are older than so many days, but none that an endpoint has not been told."""
    done = await c.execute(
        """
        delete from statement_change
         where at < now() - make_interval(days => 1) * %s
           and not exists (select from statement_target target
                            where target.source_id = statement_change.source_id
                              and target.number < statement_change.number)
        """,
        [days],
    )
    return done.rowcount
