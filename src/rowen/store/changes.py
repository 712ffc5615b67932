"""The change log: an outbox whose lines become visible in the order of their numbers.

A writer takes the log's lock last in its transaction and keeps it until the commit. So number n is committed before
number n + 1 is assigned, and a reader that has seen n never finds a smaller number later. Times never fall as numbers
rise, so readers by time miss no line either. Numbers have no gaps, so a full span of numbers never changes.

The log has no full-text index, since each change would have to update it. A search for a common word scans the newest
lines backwards. A search for a rare word finds the passages with it, and then the lines about their items.

A published change contains the text of its item as long as the hash of the item's record is unchanged.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from rowen.model.changes import EARLIER_CHARS, Change, ChangeKind, LogSpan, PublishedChange
from rowen.model.hashes import Hash
from rowen.model.rdf import StatementDelta
from rowen.model.sources import Source
from rowen.store import rdf
from rowen.store.database import Connection
from rowen.store.items.items import whole
from rowen.store.locks import Lock, hold
from rowen.store.rows import all_rows, column, list_of, number, only, scalar

_CHANNEL = "rowen_change"
LISTEN = f"listen {_CHANNEL}"
# Notify readers of the log, and workers if a webhook is active.
_NOTIFY = """
select pg_notify('rowen_change', '')
 union all
select pg_notify('rowen_due', '') where exists (select from webhook where state = 'active')
"""


class LogLine(NamedTuple):
    """A change about to be logged; `statements` are its changed RDF statements, for a move those of the old URL."""

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


def removal(
    kind: ChangeKind,
    key: Hash,
    url: str,
    title: str,
    content_hash: Hash | None = None,
    record_hash: Hash | None = None,
    moved_from: str | None = None,
    *,
    stated: list[str] | None,
) -> LogLine:
    """Return the line of a deleted or moved item; `stated` are the RDF statements made at its old URL."""
    delta = StatementDelta([], stated, 0) if stated else None
    return LogLine(kind, key, url, title, content_hash, record_hash, moved_from, statements=delta)


async def append(c: Connection, source: Source, run_id: int | None, lines: Sequence[LogLine]) -> None:
    """Log the changes of this transaction; must be its last step."""
    if not lines:
        return
    await hold(c, Lock.CHANGE)
    columns: list[list[object]] = [list(column) for column in zip(*(line[:-1] for line in lines), strict=True)]
    statement = """
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
    """
    await c.execute(statement, [source.id, source.name, run_id, *columns])
    deltas = [
        (place, line.moved_from or line.url, line.statements) for place, line in enumerate(lines, 1) if line.statements
    ]
    if deltas:
        await rdf.append(c, source, run_id, deltas, lines=len(lines))
    await c.execute(_NOTIFY)


class LogBatch(NamedTuple):
    """Lines after a number, the number up to which the log was read, and whether the log ended there.

    A reader may continue from `reached`: no other line up to this number matches its filter.
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
    """Return the next lines after the number `after`, at most `limit`, and the number up to which the log was read.

    Every consumer that stores a position sets it to `reached`, and to nothing else. The lines and `reached` come from
    one statement with one snapshot: with two statements, a line committed between them would be in no batch, and below
    the next position.
    """
    query = f"""
        select last.number, line.*
          from (select coalesce(max(number), 0) as number from change) last
          left join (
               select number, kind, url, title, source, at, run_id, moved_from, schema, diff
                 from change where number > %(after)s and {where} order by number limit %(limit)s
               ) line on true
         order by line.number
    """.encode()  # noqa: S608 (conditions of our own)
    rows = await all_rows(c, query, {**(values or {}), "after": after, "limit": limit})
    lines = [Change(*line) for _, *line in rows if line[0] is not None]
    if limit is not None and len(lines) == limit:
        return LogBatch(lines, lines[-1].number, is_all=False)
    return LogBatch(lines, max(after, rows[0][0]), is_all=True)


class LogRange(NamedTuple):
    """The lines after the number `after` up to the number `upto`; all of them are committed."""

    after: int
    upto: int
    is_all: bool


async def next_range(c: Connection, after: int, *, lines: int | None = None) -> LogRange:
    """Return the next range of the log, at most `lines` long, for a consumer that reads the lines with its own SQL.

    Every line of the range is committed: a later statement that reads from `after` (exclusive) to `upto` misses no
    line.
    """
    last = max(after, await last_number(c))
    upto = last if lines is None else min(after + lines, last)
    return LogRange(after, upto, is_all=upto == last)


def of_source(source: str | None) -> LiteralString:
    """Return an SQL condition for the lines of the source `%(source)s`, in a form that uses the index of sources."""
    return "true" if source is None else "source = %(source)s"


async def has_run(c: Connection, run: int | None) -> bool:
    """Return whether a run has lines in the log."""
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
    """Return the newest lines that match, newest first; with `before`, only lines before this number.

    A `query` matches lines whose title or whose item's present text has its words, among the last `LINES_SCANNED`
    lines. A `field` matches lines in which a field of that name differs.
    """
    # Only lines about extracted data contain fields.
    kinds = kinds or (("extracted", "matched") if field is not None else ())
    filters = {"before": before, "source": source, "kinds": list(kinds) or None, "run": run, "since": since}
    filters |= {"until": until, "field": field}
    values: dict[str, Any] = {name: value for name, value in filters.items() if value is not None}
    where = " and ".join(_CONDITIONS[name] for name in values) or "true"
    lines = _LINES["kinds" in values].format(where=where)
    if query is not None:
        where = where.replace(_CONDITIONS["kinds"], "kind = any(%(kinds)s)")
        values["numbers"] = await numbers_about(c, query, before=before, limit=limit, where=where, values=values)
        lines = "(select * from change where number = any(%(numbers)s))"
    statement = f"""
        select number, kind, url, title, source, at, run_id as run, moved_from, schema, diff
          from {lines} line order by number desc limit %(limit)s
    """.encode()  # noqa: S608 (conditions of our own)
    return await list_of(c, Change, statement, {**values, "limit": limit})


# The newest lines of each kind, and the newest of these: the index of kinds is in order for one kind at a time.
_LINES = {
    False: "(select * from change where {where} order by number desc limit %(limit)s)",
    True: "unnest(%(kinds)s::text[]) chosen cross join lateral"
    " (select * from change where {where} order by number desc limit %(limit)s)",
}


# Times never fall as numbers rise, so an index of times leads to a number.
_LAST_BEFORE = (
    "coalesce((select number from change where at {sign} %({name})s order by at desc, number desc limit 1), 0)"
)
OF_FIELD = (
    "exists (select from jsonb_array_elements(change.diff) field where starts_with(field ->> 'path', '/' || %(field)s))"
)
"""The SQL condition that a field of extracted data differs in a line."""
_CONDITIONS = {
    "before": "number < %(before)s",
    "source": "source = %(source)s",
    "kinds": "kind = chosen",
    "run": "run_id = %(run)s",
    "since": f"number > {_LAST_BEFORE.format(sign='<', name='since')}",
    "until": f"number <= {_LAST_BEFORE.format(sign='<=', name='until')}",
    "field": OF_FIELD,
}


async def number_of_last(c: Connection, count: int, *, source: str | None = None) -> int:
    """Return the number before the last `count` lines, of one source if `source` is given."""
    query = f"""
        select number - 1 from change where {of_source(source)}
         order by number desc offset %(count)s - 1 limit 1
    """  # noqa: S608 (a constant)
    number = await scalar(c, query, {"count": count, "source": source})
    return int(number or 0)


async def last_number(c: Connection) -> int:
    """Return the number of the newest line."""
    return await number(c, "select coalesce(max(number), 0) from change")


async def number_before(c: Connection, moment: datetime) -> int:
    """Return the number of the last line before a moment."""
    return await number(c, "select coalesce(max(number), 0) from change where at < %s", [moment])


LINES_SCANNED = 50_000
"""Lines of the log that are searched for words, in 50 ms; a million would take a second."""
# Lines whose items are checked one by one, at 13 µs each: a word in every twentieth item fills a page of 50.
_FIRST_LINES = 1_000
_NEXT_LINES = 4_000
# With at least one match in this number of lines, lines are still checked one by one: a page of 50 is full after ten
# thousand lines, which takes as long as a scan.
_COMMON = 200
# Maximum number of items with the words that are looked up in the log: each costs two look-ups, some 10 µs.
_MOST_ITEMS = 8_000

_TITLE = (
    "lower(title) like any(%(parts)s) and to_tsvector('simple', title) @@ websearch_to_tsquery('simple', %(query)s)"
)
# Matching lines, newest first, whose items are looked up one by one.
_BY_LINE = """
with query as materialized (
    select config, websearch_to_tsquery(config, words_apart(%(query)s)) as query from text_configs() as config
)
select number from change
 where number > %(above)s and number < %(below)s and {where} and (
       {title} or exists (
           select from item join chunk on chunk.item_id = item.id
             join query on query.config = text_config(coalesce(chunk.language, item.text_language))
                       and chunk.tsv @@ query.query
            where item.source_id = change.source_id and item.key = change.key))
 order by number desc limit %(limit)s
"""
# The items with the words; a word with the same lexeme in several languages is looked up once.
_ITEMS = """
select array(
           select item_id from chunk join item on item.id = item_id
            where tsv @@ query
              and (is_common or text_config(coalesce(chunk.language, text_language)) = any(configs))
            limit %(most)s)
  from (select websearch_to_tsquery(config, words_apart(%(query)s)) as query, array_agg(config) as configs,
               count(*) = (select count(*) from text_configs()) as is_common
          from text_configs() as config group by 1) parsed
"""
# Matching lines, newest first, whose items are among the listed items.
_BY_ITEMS = """
with listed as materialized (
    select source_id, key from item where id = any(%(items)s::bigint[])
)
select number from change
 where number > %(above)s and number < %(below)s and {where} and (
       {title} or (source_id, key) in (select source_id, key from listed))
 order by number desc limit %(limit)s
"""


# The tree of a query that any text may match, such as a query with excluded words only.
_ANYTHING = "T"


async def numbers_about(
    c: Connection, query: str, *, before: int | None, limit: int, where: str, values: Mapping[str, Any]
) -> list[int]:
    """Return the numbers of the newest lines that match the search `query`, newest first, before line `before`."""
    tree, last = await only(
        c, "select querytree(websearch_to_tsquery('simple', %s)), coalesce(max(number), 0) from change", [query]
    )
    if not tree:
        return []
    # A matching title contains one of these words. If all words are required, only the longest is checked.
    words = [word.replace("''", "'").replace("\\\\", "\\") for word in re.findall(r"'((?:[^']|'')+)'", tree)]
    longest = words if "|" in tree or tree == _ANYTHING else [max(words, key=len)]
    parts = ["%" + re.sub(r"([%_\\])", r"\\\1", word) + "%" for word in longest]
    parameters = {**values, "query": query, "parts": ["%"] if tree == _ANYTHING else parts}

    async def matches(statement: str, *, above: int, below: int, **more: Any) -> list[int]:
        bounds = {"above": above, "below": below, "limit": limit - len(numbers)}
        return await column(c, statement.format(where=where, title=_TITLE).encode(), {**parameters, **bounds, **more})

    below = min(before or last + 1, last + 1)
    end = max(0, below - 1 - LINES_SCANNED)
    numbers: list[int] = []
    numbers += await matches(_BY_LINE, above=max(end, below - 1 - _FIRST_LINES), below=below)
    below = max(end + 1, below - _FIRST_LINES)
    if len(numbers) < limit and below > end + 1 and tree != _ANYTHING and len(numbers) * _COMMON < _FIRST_LINES:
        by_query = await column(c, _ITEMS, {"query": query, "most": _MOST_ITEMS + 1})
        if all(len(item_ids) <= _MOST_ITEMS for item_ids in by_query):
            items = [item_id for item_ids in by_query for item_id in item_ids]
            return numbers + await matches(_BY_ITEMS, above=end, below=below, items=items)
    while below > end + 1 and len(numbers) < limit:
        above = max(end, below - 1 - _NEXT_LINES)
        numbers += await matches(_BY_LINE, above=above, below=below)
        below = above + 1
    return numbers


# A summary needs no more of the text.
_OPENING_CHARS = 1_000
# Lines of the log with the present content of their items.
_PUBLISHED_LINES = """
select change.number, change.kind, change.url, change.title, change.source, change.at, change.run_id, change.moved_from,
       change.schema, change.diff, {text}, item.tags, item.language, item.media_type, {record}, {own},
       coalesce(item.revision, 0), before.title, before.text, before.tags
  from change
  left join item on item.source_id = change.source_id and item.key = change.key
                and item.record_hash = change.record_hash and change.kind <> 'deleted'
  left join lateral (
       select title, text, tags from revision
        where item_id = item.id and number = item.revision - 1 and change.kind in ('updated', 'moved')
          and length(revision.text) <= %(earlier)s and length(item.text) <= %(earlier)s
       ) before on true
 where {where}
 order by change.number limit %(limit)s
"""


async def newest_published(
    c: Connection,
    *,
    before: int | None,
    limit: int,
    source: str | None,
    query: str | None,
    kinds: Sequence[str] = (),
    field: str | None = None,
) -> list[PublishedChange]:
    """Return the lines of `newest`, newest first, with the beginning of each item's text."""
    lines = await newest(c, before=before, limit=limit, source=source, query=query, kinds=kinds, field=field)
    return (await published(c, [line.number for line in lines]))[::-1]


async def published(c: Connection, numbers: Sequence[int]) -> list[PublishedChange]:
    """Return the lines with these numbers, in order, with the beginning of each item's text."""
    columns = {
        "text": f"case when before.text is null then left(item.text, {_OPENING_CHARS}) else item.text end",
        "record": "null::jsonb",
        "own": "null::bytea",
    }
    statement = _PUBLISHED_LINES.format(**columns, where="change.number = any(%(numbers)s)")
    values = {"numbers": list(numbers), "limit": len(numbers), "earlier": EARLIER_CHARS}
    return [_published(row) for row in await all_rows(c, statement.encode(), values)]


async def published_page(c: Connection, number: int, *, size: int, source: str | None) -> list[PublishedChange]:
    """Return the lines of one span that give the current state of their items, in order, with whole items.

    A deletion in one source is left out of the log of all sources as long as another source has the item.
    """
    last = (
        "change.source = %(source)s"
        if source is not None
        else "not (change.kind = 'deleted' and exists (select from item other where other.key = change.key"
        " and other.source_id <> change.source_id))"
    )
    statement = _PUBLISHED_LINES.format(
        text="item.text",
        record="item.record",
        own="item.source_record",
        where="change.number > %(first)s and change.number <= %(last)s"
        f" and (item.id is not null or change.kind = 'deleted') and {last}",
    )
    values = {"first": number * size, "last": (number + 1) * size, "limit": size, "source": source, "earlier": 0}
    return [_published(row) for row in await all_rows(c, statement.encode(), values)]


# The first line after a number, of all sources or of one source, whose lines are adjacent in an index. For one source
# both columns are compared; otherwise the planner would scan the lines of all sources for a source without new lines.
_NEXT_LINE = {
    False: "select number, at from change where number > {after} order by number limit 1",
    True: """
        select number, at from (select source, number, at from change where (source, number) > (%(source)s, {after})
                                 order by source, number limit 1) line where source = %(source)s
        """,
}
_LAST_LINE = {
    False: "select at from change where number <= {end} order by number desc limit 1",
    True: """
        select at from change where (source, number) <= (%(source)s, {end}) order by source desc, number desc limit 1
        """,
}


async def spans(
    c: Connection, *, size: int, source: str | None, after: int = 0, until: int | None = None
) -> list[LogSpan]:
    """Return the spans of `size` lines that contain any lines, between the numbers `after` and `until`.

    Times never fall as numbers rise, so only the first and the last line of a span are read for its times.
    """
    is_one = source is not None
    end = "((span.number - 1) / %(size)s + 1) * %(size)s"
    query = f"""
        with recursive span(number, at) as (
            select * from ({_NEXT_LINE[is_one].format(after="%(after)s::bigint")}) first
             where %(until)s::bigint is null or number <= %(until)s
            union all
            select line.number, line.at from span cross join lateral ({_NEXT_LINE[is_one].format(after=end)}) line
             where %(until)s::bigint is null or line.number <= %(until)s
        )
        select (span.number - 1) / %(size)s as number, span.at as first_at, last.at as last_at
          from span cross join lateral ({_LAST_LINE[is_one].format(end=end)}) last
         order by 1
    """.encode()  # noqa: S608 (fragments of our own)
    return await list_of(c, LogSpan, query, {"size": size, "after": after, "until": until, "source": source})


def _published(row: tuple[Any, ...]) -> PublishedChange:
    *line, text, tags, language, media_type, record, own, revision, title, earlier, earlier_tags = row
    return PublishedChange(
        Change(*line),
        text,
        tuple(tags or ()),
        language,
        media_type,
        None if record is None else whole(record, own),
        revision,
        None if earlier is None else (title, earlier, tuple(earlier_tags)),
    )
