"""The change log: an outbox whose lines become visible in the order of their numbers.

A writer takes the log's lock as the last lock of its transaction and keeps it until the commit. So number n is
committed before n + 1 is given out, and a reader that has seen n never finds a smaller one later. Times never fall as
numbers rise, although transactions begin in another order than they log: readers by time miss nothing either. Numbers
have no gaps, so a full span of them never changes.

Searching the log for words needs no index of words over titles and lines, which each change would have to pay for.
Common words stand in the newest lines, and are found by walking back. Rare ones are looked up in the passages, and
their items then in the log.

Published changes contain what their items say. That is read from the item as long as the hash of the whole record
agrees, and left out otherwise.
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
from rowen.store.rows import all_rows, column, list_of, number, one, scalar

_CHANNEL = "rowen_change"
LISTEN = f"listen {_CHANNEL}"
# Workers are notified only if a webhook is active.
_TELL = """
select pg_notify('rowen_change', '')
 union all
select pg_notify('rowen_due', '') where exists (select from webhook where state = 'active')
"""


class LogLine(NamedTuple):
    """A change about to be logged; `statements` are changed RDF statements, for a move those of the old address."""

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
    """Return the line of an item that is deleted or moved, with the RDF statements that its old address made."""
    delta = StatementDelta([], stated, 0) if stated else None
    return LogLine(kind, key, url, title, content_hash, record_hash, moved_from, statements=delta)


async def append(c: Connection, source: Source, run_id: int | None, lines: Sequence[LogLine]) -> None:
    """Log the changes of this transaction; must be its last step."""
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
        await rdf.append(c, source, run_id, deltas, lines=len(lines))
    await c.execute(_TELL)


class LogBatch(NamedTuple):
    """Lines after a number, the number up to which the log was read, and whether it ended there.

    Between the lines' numbers and `reached` there is nothing else that the reader wants: it may continue from
    `reached`.
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
    """Return the next lines after a number, at most `limit`, and how far the log was read.

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
    """Return the next range of the log, at most `lines` long, for a consumer with statements of its own.

    Lines become visible in the order of their numbers. So each later statement that asks for numbers above `after` and
    up to `upto` sees all of them.
    """
    last = max(after, await last_number(c))
    upto = last if lines is None else min(after + lines, last)
    return LogRange(after, upto, is_all=upto == last)


def of_source(source: str | None) -> tuple[LiteralString, dict[str, Any]]:
    """Return the condition and values of `read_after` for the lines of one source, or of all."""
    return ("true", {}) if source is None else (_of(source), {"source": source})


def _of(source: str | None) -> LiteralString:
    """Return the condition that a line is of a source, in a form that uses its index."""
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
    """Return the newest lines first, or those before a number, that match.

    With a query these are lines whose titles have its words, or whose items have them now, among the last lines of the
    log or the last before that number; with a field, lines in which a field of that name differs.
    """
    # Only lines about extracted data contain fields.
    kinds = kinds or (_ABOUT_FACTS if field is not None else ())
    filters = {"before": before, "source": source, "kinds": list(kinds) or None, "run": run, "since": since}
    filters |= {"until": until, "field": field}
    values: dict[str, Any] = {name: value for name, value in filters.items() if value is not None}
    where = " and ".join(_FITTING[name] for name in values) or "true"
    lines = _LINES["kinds" in values].format(where=where)
    if query is not None:
        where = where.replace(_FITTING["kinds"], "kind = any(%(kinds)s)")
        values["numbers"] = await numbers_about(c, query, before=before, limit=limit, where=where, values=values)
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
# The newest lines of each kind, and the newest of these: the index of kinds is in order for one kind at a time.
_LINES = {
    False: "(select * from change where {where} order by number desc limit %(limit)s)",
    True: "unnest(%(kinds)s::text[]) wanted cross join lateral"
    " (select * from change where {where} order by number desc limit %(limit)s)",
}


# Times never fall as numbers rise, so an index of times leads to a number.
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
    """Return the number that `count` lines follow."""
    number = await scalar(
        c,
        f"select number - 1 from change where {_of(source)} order by number desc offset %(count)s - 1 limit 1".encode(),  # noqa: S608 (a condition of our own)
        {"count": count, "source": source},
    )
    return int(number or 0)


async def last_number(c: Connection) -> int:
    """Return the number of the newest line."""
    return await number(c, "select coalesce(max(number), 0) from change")


async def number_before(c: Connection, moment: datetime) -> int:
    """Return the number of the last line before a moment."""
    return await number(c, "select coalesce(max(number), 0) from change where at < %s", [moment])


LOOKED_THROUGH = 50_000
"""Lines of the log that are looked through for some words, in 50 ms; a million would take a second."""
# Lines whose items are checked one by one, at 13 µs each: a word in every twentieth item fills a page of 50.
_FIRST_WALK = 1_000
_NEXT_WALK = 4_000
# With one match in so many lines walking continues: a page of 50 is full after ten thousand lines, in the time of a
# scan.
_COMMON = 200
# Items with the words are listed if they are no more than this: each costs two look-ups, some 10 µs.
_MOST_ITEMS = 8_000

_TITLE = (
    "lower(title) like any(%(parts)s) and to_tsvector('simple', title) @@ websearch_to_tsquery('simple', %(query)s)"
)
_WALK = """
with asked as materialized (
    select config, websearch_to_tsquery(config, words_apart(%(query)s)) as query from text_configs() as config
)
select number from change
 where number > %(above)s and number < %(below)s and {where} and (
       {title} or exists (
           select from item join asked on asked.config = text_config(item.language)
             join chunk on chunk.item_id = item.id and chunk.tsv @@ asked.query
            where item.source_id = change.source_id and item.key = change.key))
 order by number desc limit %(limit)s
"""
# A word with the same lexeme in several languages is looked up once.
_ITEMS = """
select configs::text[], array(select item_id from chunk where tsv @@ query limit %(most)s)
  from (select websearch_to_tsquery(config, words_apart(%(query)s)) as query, array_agg(config) as configs
          from text_configs() as config group by 1) asked
"""
_SCAN = """
with held as materialized (
    select item.source_id, item.key from unnest(%(items)s::bigint[], %(configs)s::regconfig[]) as found(id, config)
      join item on item.id = found.id and (found.config is null or text_config(item.language) = found.config)
)
select number from change
 where number > %(above)s and number < %(below)s and {where} and (
       {title} or (source_id, key) in (select source_id, key from held))
 order by number desc limit %(limit)s
"""


# The tree of a query that any text may match, such as one of excluded words only.
_ANYTHING = "T"


async def numbers_about(
    c: Connection, query: str, *, before: int | None, limit: int, where: str, values: Mapping[str, Any]
) -> list[int]:
    """Return the newest matching lines with some words, newest first, among the last lines before a number."""
    row = await one(
        c, "select querytree(websearch_to_tsquery('simple', %s)), coalesce(max(number), 0) from change", [query]
    )
    tree, last = row or ("", 0)
    if not tree:
        return []
    below = min(before or last + 1, last + 1)
    above = max(0, below - 1 - LOOKED_THROUGH)
    parameters = {**values, "query": query, "parts": _parts(tree)}
    numbers = await _walked(c, where, parameters, above=max(above, below - 1 - _FIRST_WALK), below=below, limit=limit)
    rest = {"above": above, "below": max(above + 1, below - _FIRST_WALK), "limit": limit - len(numbers)}
    if rest["limit"] <= 0 or rest["below"] == above + 1:
        return numbers
    if tree == _ANYTHING or len(numbers) * _COMMON >= _FIRST_WALK or (items := await _items(c, query)) is None:
        return numbers + await _walked_on(c, where, parameters, **rest)
    return numbers + await _numbers(c, _SCAN, where, {**parameters, **items, **rest})


def _parts(tree: str) -> list[str]:
    """Return patterns of which a matching title has one: of the words that are all required, the longest."""
    if tree == _ANYTHING:
        return ["%"]
    words = [word.replace("''", "'").replace("\\\\", "\\") for word in re.findall(r"'((?:[^']|'')+)'", tree)]
    needed = words if "|" in tree else [max(words, key=len)]
    return ["%" + re.sub(r"([%_\\])", r"\\\1", word) + "%" for word in needed]


async def _items(c: Connection, query: str) -> dict[str, list[Any]] | None:
    """Return the items that have the words now, with the text configuration they must have; None if too many."""
    items: list[int] = []
    configs: list[str | None] = []
    rows = await all_rows(c, _ITEMS, {"query": query, "most": _MOST_ITEMS + 1})
    for names, item_ids in rows:
        if len(item_ids) > _MOST_ITEMS:
            return None
        for name in names if len(rows) > 1 else [None]:
            items += item_ids
            configs += [name] * len(item_ids)
    return {"items": items, "configs": configs}


async def _walked(
    c: Connection, where: str, values: Mapping[str, Any], *, above: int, below: int, limit: int
) -> list[int]:
    return await _numbers(c, _WALK, where, {**values, "above": above, "below": below, "limit": limit})


async def _walked_on(
    c: Connection, where: str, values: Mapping[str, Any], *, above: int, below: int, limit: int
) -> list[int]:
    """Walk back, some lines at a time, until there are enough."""
    numbers: list[int] = []
    while below > above + 1 and len(numbers) < limit:
        stop = max(above, below - 1 - _NEXT_WALK)
        numbers += await _walked(c, where, values, above=stop, below=below, limit=limit - len(numbers))
        below = stop + 1
    return numbers


async def _numbers(c: Connection, statement: str, where: str, values: Mapping[str, Any]) -> list[int]:
    return await column(c, statement.format(where=where, title=_TITLE).encode(), values)


# A summary needs no more of the text.
_OPENING_CHARS = 1_000
_NO_RECORD = {"record": "null::jsonb", "own": "null::bytea"}

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
 order by change.number {order} limit %(limit)s
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
    """Return the newest lines of `newest`, with what their items say."""
    lines = await newest(c, before=before, limit=limit, source=source, query=query, kinds=kinds, field=field)
    return (await published(c, [line.number for line in lines]))[::-1]


async def published(c: Connection, numbers: Sequence[int]) -> list[PublishedChange]:
    """Return some lines by their numbers, in order, with the beginnings of what their items say."""
    text = f"case when before.text is null then left(item.text, {_OPENING_CHARS}) else item.text end"
    statement = _PUBLISHED_LINES.format(text=text, **_NO_RECORD, where="change.number = any(%(numbers)s)", order="asc")
    values = {"numbers": list(numbers), "limit": len(numbers), "earlier": EARLIER_CHARS}
    return [_published(row) for row in await all_rows(c, statement.encode(), values)]


async def published_page(c: Connection, number: int, *, size: int, source: str | None) -> list[PublishedChange]:
    """Return the lines of one span that are the last about their item, in order, with all that it says.

    A deletion in one source is left out of the log of all sources as long as another source has the item.
    """
    where = [
        "change.number > %(first)s",
        "change.number <= %(last)s",
        "(item.id is not null or change.kind = 'deleted')",
    ]
    if source is not None:
        where.append("change.source = %(source)s")
    else:
        where.append(
            "not (change.kind = 'deleted' and exists (select from item other where other.key = change.key"
            " and other.source_id <> change.source_id))"
        )
    columns = {"text": "item.text", "record": "item.record", "own": "item.source_record"}
    statement = _PUBLISHED_LINES.format(**columns, where=" and ".join(where), order="asc")
    values = {"first": number * size, "last": (number + 1) * size, "limit": size, "source": source, "earlier": 0}
    return [_published(row) for row in await all_rows(c, statement.encode(), values)]


# The first line after a number: of all sources, or of one, whose lines are adjacent in an index. There both columns are
# compared, since the planner would otherwise scan the lines of all sources for one of a silent source.
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
    """Return the spans of `size` lines that have any, between two numbers.

    Times never fall as numbers rise: the first and the last line of a span tell its times, and those between are not
    read.
    """
    of_one = source is not None
    end = "((span.number - 1) / %(size)s + 1) * %(size)s"
    return await list_of(
        c,
        LogSpan,
        f"""
        with recursive span(number, at) as (
            select * from ({_NEXT_LINE[of_one].format(after="%(after)s::bigint")}) first
             where %(until)s::bigint is null or number <= %(until)s
            union all
            select line.number, line.at from span cross join lateral ({_NEXT_LINE[of_one].format(after=end)}) line
             where %(until)s::bigint is null or line.number <= %(until)s
        )
        select (span.number - 1) / %(size)s as number, span.at as first_at, last.at as last_at
          from span cross join lateral ({_LAST_LINE[of_one].format(end=end)}) last
         order by 1
        """.encode(),  # noqa: S608 (fragments of our own)
        {"size": size, "after": after, "until": until, "source": source},
    )


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
