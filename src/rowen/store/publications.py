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
    """The newest lines, or the newest before a number; of one source, or whose items have the words of a query.

    With kinds only those; with a field those in which a field of that name differs.
    """
    where = ["(%(before)s::bigint is null or change.number < %(before)s)"]
    if source is not None:
        where.append("change.source = %(source)s")
    if query is not None:
        where.append(_MATCHES)
    if kinds:
        where.append("change.kind = any(%(kinds)s)")
    if field is not None:
        where.append(changes.OF_FIELD)
    text = f"case when before.text is null then left(item.text, {_OPENING_CHARS}) else item.text end"
    told = _LINES.format(text=text, **_NO_RECORD, where=" and ".join(where), order="desc")
    values: dict[str, Any] = {"before": before, "limit": limit, "source": source, "query": query}
    values |= {"kinds": list(kinds), "field": field, "earlier": EARLIER_CHARS}
    return [_published(row) for row in await all_rows(c, told.encode(), values)]


async def of_numbers(c: Connection, numbers: Sequence[int]) -> list[PublishedChange]:
    """Some lines by their numbers, in order."""
    text = f"case when before.text is null then left(item.text, {_OPENING_CHARS}) else item.text end"
    told = _LINES.format(text=text, **_NO_RECORD, where="change.number = any(%(numbers)s)", order="asc")
    values = {"numbers": list(numbers), "limit": len(numbers), "earlier": EARLIER_CHARS}
    return [_published(row) for row in await all_rows(c, told.encode(), values)]


_MATCHES = """
exists (select from chunk where chunk.item_id = item.id
           and chunk.tsv @@ websearch_to_tsquery(text_config(item.language), words_apart(%(query)s)))
"""


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


async def spans(
    c: Connection, *, size: int, source: str | None, after: int = 0, until: int | None = None
) -> list[LogSpan]:
    """The stretches of so many lines each that have any, between two numbers."""
    return await list_of(
        c,
        LogSpan,
        """
        select (number - 1) / %(size)s as number, count(*) as lines, min(at) as first_at, max(at) as last_at
          from change
         where number > %(after)s and (%(until)s::bigint is null or number <= %(until)s)
           and (%(source)s::text is null or source = %(source)s)
         group by 1 order by 1
        """,
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
