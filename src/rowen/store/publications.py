"""The change log as others read it: lines with what their items say, and stretches of it with their times.

Numbers have no gaps, so a stretch of so many of them never changes once it is full. What a line said is not kept: it is
read off the item as long as the two agree, by the hash of the whole record, and left out when they no longer do.
"""

from collections.abc import Sequence
from typing import Any

from rowen.model.publication import EARLIER_CHARS, LogSpan, PublishedChange
from rowen.model.run import Change
from rowen.store import changes
from rowen.store.database import Connection
from rowen.store.packed import whole
from rowen.store.rows import all_rows, list_of

__all__ = ["newest", "of_numbers", "page", "spans"]

# Of a text that is only summed up, so much is enough.
_OPENING_CHARS = 1_000
_NO_RECORD = {"record": "null::jsonb", "own": "null::bytea"}

_LINES = """
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


async def newest(
    c: Connection,
    *,
    before: int | None,
    limit: int,
    source: str | None,
    query: str | None,
    kinds: Sequence[str] = (),
    field: str | None = None,
) -> list[PublishedChange]:
    """The newest lines of `changes.newest`, with what their items say."""
    lines = await changes.newest(c, before=before, limit=limit, source=source, query=query, kinds=kinds, field=field)
    return (await of_numbers(c, [line.number for line in lines]))[::-1]


async def of_numbers(c: Connection, numbers: Sequence[int]) -> list[PublishedChange]:
    """Some lines by their numbers, in order."""
    text = f"case when before.text is null then left(item.text, {_OPENING_CHARS}) else item.text end"
    told = _LINES.format(text=text, **_NO_RECORD, where="change.number = any(%(numbers)s)", order="asc")
    values = {"numbers": list(numbers), "limit": len(numbers), "earlier": EARLIER_CHARS}
    return [_published(row) for row in await all_rows(c, told.encode(), values)]


async def page(c: Connection, number: int, *, size: int, source: str | None) -> list[PublishedChange]:
    """The lines of one stretch of the log that are the last word on their item, in order, with all that it says.

    A deletion in one source is left out of the log of all as long as another source has the item.
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
    told = _LINES.format(**columns, where=" and ".join(where), order="asc")
    values = {"first": number * size, "last": (number + 1) * size, "limit": size, "source": source, "earlier": 0}
    return [_published(row) for row in await all_rows(c, told.encode(), values)]


# The first line after a number: of all, or of a source, whose lines stand together in an index. There both columns are
# compared, since the planner would otherwise look through the lines of all for one of a source that has been silent.
_NEXT = {
    False: "select number, at from change where number > {after} order by number limit 1",
    True: """
        select number, at from (select source, number, at from change where (source, number) > (%(source)s, {after})
                                 order by source, number limit 1) line where source = %(source)s
        """,
}
_LAST = {
    False: "select at from change where number <= {end} order by number desc limit 1",
    True: """
        select at from change where (source, number) <= (%(source)s, {end}) order by source desc, number desc limit 1
        """,
}


async def spans(
    c: Connection, *, size: int, source: str | None, after: int = 0, until: int | None = None
) -> list[LogSpan]:
    """The stretches of so many lines each that have any, between two numbers.

    Times never fall as numbers rise: the first line of a stretch and its last tell its times, and those between are not
    read.
    """
    of_one = source is not None
    end = "((span.number - 1) / %(size)s + 1) * %(size)s"
    return await list_of(
        c,
        LogSpan,
        f"""
        with recursive span(number, at) as (
            select * from ({_NEXT[of_one].format(after="%(after)s::bigint")}) first
             where %(until)s::bigint is null or number <= %(until)s
            union all
            select line.number, line.at from span cross join lateral ({_NEXT[of_one].format(after=end)}) line
             where %(until)s::bigint is null or line.number <= %(until)s
        )
        select (span.number - 1) / %(size)s as number, span.at as first_at, last.at as last_at
          from span cross join lateral ({_LAST[of_one].format(end=end)}) last
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
