"""The change log: an outbox whose lines become visible in the order of their numbers.

A writer takes the log's lock as the last lock of its transaction and keeps it to the commit. So number n is
committed before n + 1 is given out, and a reader that has seen n never finds a smaller one later. Times never fall as
numbers rise, although transactions begin in another order than they log: who reads by time misses nothing either.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from rowen.model.hashes import Hash
from rowen.model.run import Change, ChangeKind
from rowen.model.source import Source
from rowen.model.statements import StatementDelta
from rowen.store import log_search, statements
from rowen.store.database import Connection
from rowen.store.locks import Lock, hold
from rowen.store.rows import all_rows, list_of, scalar

__all__ = [
    "LISTEN",
    "OF_FIELD",
    "Connection",
    "LogBatch",
    "LogLine",
    "LogRange",
    "append",
    "has_run",
    "last_number",
    "newest",
    "next_range",
    "number_before",
    "number_of_last",
    "of_source",
    "read_after",
]

_CHANNEL = "rowen_change"
LISTEN = f"listen {_CHANNEL}"
# Workers are told only where a receiver waits to be called.
_TELL = """
select pg_notify('rowen_change', '')
 union all
select pg_notify('rowen_due', '') where exists (select from webhook where state = 'active')
"""


class LogLine(NamedTuple):
    """A change about to be logged; `statements` tell how those of a page differ, of a move those of the old address."""

    kind: ChangeKind
    key: Hash
    url: str
    title: str
    content_hash: Hash | None = None
    record_hash: Hash | None = None
    moved_from: str | None = None
    schema: str | None = None
    diff: str | None = None
    statements: StatementDelta | None = None


async def append(c: Connection, source: Source, run_id: int | None, lines: Sequence[LogLine]) -> None:
    """Log what this transaction does; must be its last step."""
    if not lines:
        return
    await hold(c, Lock.CHANGE)
    columns: list[list[object]] = [list(column) for column in zip(*(line[:-1] for line in lines), strict=True)]
    await c.execute(
        """
        insert into change (number, source_id, source, run_id, kind, key, url, title, content_hash, record_hash,
                            moved_from, schema, diff, at)
        select coalesce(last.number, 0) + row_number() over (order by line.ordinal),
               %s, %s, %s, line.kind, line.key, line.url, line.title, line.content_hash, line.record_hash,
               line.moved_from, line.schema, line.diff::jsonb, greatest(now(), last.at)
          from unnest(%b::text[], %b::bytea[], %b::text[], %b::text[], %b::bytea[], %b::bytea[], %b::text[],
                      %b::text[], %b::text[])
               with ordinality as line(kind, key, url, title, content_hash, record_hash, moved_from, schema, diff,
                                       ordinal)
          left join (select number, at from change order by number desc limit 1) last on true
        """,
        [source.id, source.name, run_id, *columns],
    )
    deltas = [
        (place, line.moved_from or line.url, line.statements) for place, line in enumerate(lines, 1) if line.statements
    ]
    if deltas:
        await statements.append(c, source, run_id, deltas, lines=len(lines))
    await c.execute(_TELL)


class LogBatch(NamedTuple):
    """Lines after a number, the number up to which the log was read, and whether it ended there.

    Between the lines' numbers and `reached` there is nothing else that the reader wants: it may go on from `reached`.
    """

    lines: list[Change]
    reached: int
    is_all: bool


async def read_after(
    c: Connection,
    after: int,
    *,
    limit: int | None = None,
    where: LiteralString = "true",
    values: Mapping[str, Any] | None = None,
) -> LogBatch:
    """Read the next lines after a number, at most so many, and how far the log was read.

    Every consumer that keeps a position moves it to `reached`, and to nothing else. Both come from one statement, which
    has one snapshot: with two, a line that is committed between them is in no batch, and below the next position.
    """
    rows = await all_rows(
        c,
        f"""
        select last.number, line.*
          from (select coalesce(max(number), 0) as number from change) last
          left join (
               select number, kind, url, title, source, at, run_id, moved_from, schema, diff
                 from change where number > %(after)s and {where} order by number limit %(limit)s
               ) line on true
         order by line.number
        """.encode(),  # noqa: S608 (conditions of our own)
        {**(values or {}), "after": after, "limit": limit},
    )
    lines = [Change(*line) for _, *line in rows if line[0] is not None]
    if limit is not None and len(lines) == limit:
        return LogBatch(lines, lines[-1].number, is_all=False)
    return LogBatch(lines, max(after, rows[0][0]), is_all=True)


class LogRange(NamedTuple):
    """The lines above one number, up to another that was committed when the range was chosen."""

    after: int
    upto: int
    is_all: bool


async def next_range(c: Connection, after: int, *, lines: int | None = None) -> LogRange:
    """Choose the next range of the log, of so many lines at most, for a consumer that reads it by its own statements.

    Lines become visible in the order of their numbers. So each later statement that asks for numbers above `after` and
    up to `upto` sees all of them.
    """
    last = max(after, await last_number(c))
    upto = last if lines is None else min(after + lines, last)
    return LogRange(after, upto, is_all=upto == last)


def of_source(source: str | None) -> tuple[LiteralString, dict[str, Any]]:
    """The condition and values of `read_after` for the lines of one source, or of all."""
    return ("true", {}) if source is None else (_of(source), {"source": source})


def _of(source: str | None) -> LiteralString:
    """Whether a line is of a source; said in a way that leads to its index."""
    return "true" if source is None else "source = %(source)s"


async def has_run(c: Connection, run: int | None) -> bool:
    """Whether a run has lines in the log."""
    return bool(await scalar(c, "select exists (select from change where run_id = %s)", [run]))


async def newest(
    c: Connection,
    *,
    before: int | None = None,
    limit: int,
    source: str | None = None,
    kinds: Sequence[str] = (),
    run: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    query: str | None = None,
    field: str | None = None,
) -> list[Change]:
    """The newest lines first, or those before a number, as far as they fit.

    With a query, those whose titles have its words, or whose items have them now, among the last lines of the log, or
    the last before that number; with a field, those in which a field of that name differs.
    """
    # Only lines about facts tell of fields.
    kinds = kinds or (_ABOUT_FACTS if field is not None else ())
    given = {"before": before, "source": source, "kinds": list(kinds) or None, "run": run, "since": since}
    given |= {"until": until, "field": field}
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    where = " and ".join(_FITTING[name] for name in values) or "true"
    lines = _LINES["kinds" in values].format(where=where)
    if query is not None:
        where = where.replace(_FITTING["kinds"], "kind = any(%(kinds)s)")
        values["numbers"] = await log_search.numbers_about(
            c, query, before=before, limit=limit, where=where, values=values
        )
        lines = "(select * from change where number = any(%(numbers)s))"
    return await list_of(
        c,
        Change,
        f"""
        select number, kind, url, title, source, at, run_id as run, moved_from, schema, diff
          from {lines} line order by number desc limit %(limit)s
        """.encode(),  # noqa: S608 (conditions of our own)
        {**values, "limit": limit},
    )


_ABOUT_FACTS = ("extracted", "matched")
# The newest of each kind, and of those the newest: an index of kinds has them in order, for one kind at a time.
_LINES = {
    False: "(select * from change where {where} order by number desc limit %(limit)s)",
    True: "unnest(%(kinds)s::text[]) wanted cross join lateral"
    " (select * from change where {where} order by number desc limit %(limit)s)",
}


# Times never fall as numbers rise, so that an index of times leads to a number.
_LAST_BEFORE = (
    "coalesce((select number from change where at {sign} %({name})s order by at desc, number desc limit 1), 0)"
)
OF_FIELD = (
    "exists (select from jsonb_array_elements(change.diff) one where starts_with(one ->> 'path', '/' || %(field)s))"
)
"""The lines in which a field of facts differs."""
_FITTING = {
    "before": "number < %(before)s",
    "source": "source = %(source)s",
    "kinds": "kind = wanted",
    "run": "run_id = %(run)s",
    "since": f"number > {_LAST_BEFORE.format(sign='<', name='since')}",
    "until": f"number <= {_LAST_BEFORE.format(sign='<=', name='until')}",
    "field": OF_FIELD,
}


async def number_of_last(c: Connection, count: int, *, source: str | None = None) -> int:
    """The number after which so many lines follow."""
    number = await scalar(
        c,
        f"select number - 1 from change where {_of(source)} order by number desc offset %(count)s - 1 limit 1".encode(),  # noqa: S608 (a condition of our own)
        {"count": count, "source": source},
    )
    return int(number or 0)


async def last_number(c: Connection) -> int:
    """The number of the newest line."""
    return int(await scalar(c, "select coalesce(max(number), 0) from change") or 0)


async def number_before(c: Connection, moment: datetime) -> int:
    """The number of the last line written before a moment."""
    return int(await scalar(c, "select coalesce(max(number), 0) from change where at < %s", [moment]) or 0)
