"""The schemas of each source, and the line of the change log up to which its items are extracted."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg.types.json import Jsonb

from rowen.model.hashes import Hash
from rowen.model.schemas import Schema
from rowen.model.text import error_within
from rowen.model.url import key as key_of
from rowen.store.database import Connection
from rowen.store.items.items import whole
from rowen.store.rows import all_rows, number, one, scalar

if TYPE_CHECKING:
    from rowen.model.extraction import Grounding


class Carried(NamedTuple):
    """A schema as a source uses it."""

    source_id: int
    schema: Schema
    schema_id: int
    extracted_to: int
    grounding: Grounding
    learns: bool
    rules: Mapping[str, Mapping[str, Any]]
    conditions: Sequence[str]
    only_urls: Sequence[str] = ()
    replays: int = 0


class PendingItem(NamedTuple):
    """An entry of the work list: the last change of an item, and the item if it still exists."""

    number: int
    key: Hash
    url: str
    title: str | None
    text: str | None
    record: Mapping[str, Any] | None
    media_type: str | None
    content_hash: Hash | None


CARRIED_COLUMNS = """
schema.name, schema.version, schema.definition, schema.bundled, schema.created_at, schema.id,
extracted_to, grounding, learns, rules, conditions, only_urls, replays
"""


async def carried(c: Connection, source_id: int) -> list[Carried]:
    """Return the schemas of a source, by name."""
    rows = await all_rows(
        c,
        f"select {CARRIED_COLUMNS} from source_schema join schema on schema.id = schema_id"  # noqa: S608 (a constant)
        " where source_id = %s order by schema.name".encode(),
        [source_id],
    )
    if not rows:
        return []
    return [Carried(source_id, Schema(*row[:5]), *row[5:]) for row in rows]


async def carry(
    c: Connection,
    source_id: int,
    schema: Schema,
    schema_id: int,
    *,
    grounding: Grounding | None = None,
    learns: bool | None = None,
    rules: Mapping[str, Mapping[str, Any]] | None = None,
    conditions: Sequence[str] | None = None,
    only_urls: Sequence[str] | None = None,
) -> None:
    """Assign a schema to a source, or change how the source uses it; None leaves a setting as it is.

    Another version puts all items on the work list. Other `only_urls` read the whole log again, for items that match
    now or no longer do.
    """
    is_held = await scalar(
        c, "select true from source_schema where source_id = %s and schema_id = %s", [source_id, schema_id]
    )
    await c.execute(
        """
        insert into source_schema as held (source_id, name, schema_id, grounding, learns, rules, conditions,
                                           only_urls)
        values (%(source)s, %(name)s, %(schema)s, coalesce(%(grounding)s, 'warn'), coalesce(%(learns)s, false),
                coalesce(%(rules)s, '{}'::jsonb), coalesce(%(conditions)s::text[], '{}'),
                coalesce(%(only)s::text[], '{}'))
        on conflict (source_id, name) do update
           set schema_id = excluded.schema_id,
               grounding = coalesce(%(grounding)s, held.grounding), learns = coalesce(%(learns)s, held.learns),
               rules = coalesce(%(rules)s, held.rules), conditions = coalesce(%(conditions)s::text[], held.conditions),
               only_urls = coalesce(%(only)s::text[], held.only_urls),
               waits_for = null, waits_until = null, waits_code = null,
               extracted_to = case when held.schema_id = excluded.schema_id
                                    and held.only_urls = coalesce(%(only)s::text[], held.only_urls)
                                   then held.extracted_to else 0 end,
               replays = case when held.schema_id = excluded.schema_id
                               and held.only_urls = coalesce(%(only)s::text[], held.only_urls)
                              then held.replays else held.replays + 1 end
        """,
        {
            "source": source_id,
            "name": schema.name,
            "schema": schema_id,
            "grounding": grounding,
            "learns": learns,
            "rules": None if rules is None else Jsonb({name: dict(rule) for name, rule in rules.items()}),
            "conditions": None if conditions is None else list(conditions),
            "only": None if only_urls is None else list(only_urls),
        },
    )
    if not is_held:
        # With a new version each item is extracted again, whatever the log says.
        await look_again(c, source_id, schema.name)


async def drop(c: Connection, source_id: int, name: str) -> bool:
    """Remove a schema from a source; the extraction history stays."""
    gone = await c.execute("delete from source_schema where source_id = %s and name = %s", [source_id, name])
    return bool(gone.rowcount)


async def look_again(c: Connection, source_id: int, name: str) -> int:
    """Put all items of a source on the work list; return the number of replays, which a pass needs to know."""
    replays = await scalar(
        c,
        "update source_schema set extracted_to = 0, replays = replays + 1 where source_id = %s and name = %s"
        " returning replays",
        [source_id, name],
    )
    await c.execute("update extraction_check set change = 0 where source_id = %s and name = %s", [source_id, name])
    return int(replays or 0)


async def set_rules(c: Connection, source_id: int, name: str, rules: Mapping[str, Mapping[str, Any]]) -> None:
    """Store the learned positions of fields."""
    await c.execute(
        "update source_schema set rules = %s where source_id = %s and name = %s",
        [Jsonb({field: dict(rule) for field, rule in rules.items()}), source_id, name],
    )


# The last change of each item.
_LINES = """
select key, max(number) as number
  from change
 where source_id = %(source)s and number > %(after)s and number <= %(upto)s
   and kind in ('created', 'updated', 'amended', 'deleted', 'moved')
 group by key
"""


# For a schema, an item whose address does not match does not exist; one that matches again has come back.
_ITEM = (
    "item.source_id = %(source)s and item.key = line.key and (%(only)s::text[] is null or item.url like any(%(only)s))"
)
_IS_PENDING = """
(coalesce(held.change, 0) < line.number or (item.id is null) = (held.state <> 'gone'))
and (item.id is not null or held.state <> 'gone')
"""


async def work_list(
    c: Connection, carried: Carried, *, after: int, upto: int, again: bool = False, limit: int | None = None
) -> array[int]:
    """Return the numbers of the log lines to extract: for each item its last change, in order.

    Items that were extracted since are left out, unless `again`. The log is read once, and a number takes eight bytes:
    a million items take 8 MB, in this process and in one value of the database.
    """
    numbers: bytes | None = await scalar(
        c,
        f"""
        select string_agg(int8send(number), ''::bytea order by number) from (
            select line.number
              from ({_LINES}) line
              left join item on {_ITEM}
              left join extraction_check held
                on held.source_id = %(source)s and held.key = line.key and held.name = %(name)s
             where (%(again)s and item.id is not null) or ({_IS_PENDING})
             order by line.number limit %(limit)s) those
        """.encode(),  # noqa: S608 (a fragment of our own)
        {**_of(carried), "after": after, "upto": upto, "limit": limit, "again": again},
        binary=True,
    )
    listed = array("q", numbers or b"")
    if sys.byteorder == "little":
        listed.byteswap()
    return listed


async def pending(c: Connection, carried: Carried, numbers: Sequence[int], *, again: bool = False) -> list[PendingItem]:
    """Return some items of the work list as they are now, without those that were extracted since it was made."""
    rows = await all_rows(
        c,
        f"""
        select line.number, line.key, coalesce(item.url, line.url), item.title, item.text, item.record,
               item.source_record, item.media_type, item.content_hash
          from change line
          left join item on {_ITEM}
          left join extraction_check held
            on held.source_id = %(source)s and held.key = line.key and held.name = %(name)s
         where line.number = any(%(numbers)s::bigint[])
           and ((%(again)s and item.id is not null) or ({_IS_PENDING}))
         order by line.number
        """.encode(),  # noqa: S608 (a fragment of our own)
        {**_of(carried), "numbers": list(numbers), "again": again},
    )
    return [_pending(*row) for row in rows]


def _pending(number: int, key: Hash, *rest: Any) -> PendingItem:
    url, title, text, facts, packed, media_type, content_hash = rest
    record = None if facts is None else whole(facts, packed)
    return PendingItem(number, key, url, title, text, record, media_type, content_hash)


async def pending_count(c: Connection, carried: Carried, *, upto: int) -> int:
    """Return how many items are on the work list."""
    return await number(
        c,
        f"""
        select count(*) from ({_LINES}) line
          left join item on {_ITEM}
          left join extraction_check held
            on held.source_id = %(source)s and held.key = line.key and held.name = %(name)s
         where {_IS_PENDING}
        """.encode(),  # noqa: S608 (a fragment of our own)
        {**_of(carried), "after": carried.extracted_to, "upto": upto},
    )


def _of(carried: Carried) -> dict[str, Any]:
    only = [_like(pattern) for pattern in carried.only_urls] or None
    return {"source": carried.source_id, "name": carried.schema.name, "only": only}


def _like(pattern: str) -> str:
    """Return a pattern for LIKE. A star matches any part of a URL; without one, the pattern may match anywhere."""
    escaped = pattern.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
    return escaped.replace("*", "%") if "*" in escaped else f"%{escaped}%"


async def follow_moves(c: Connection, carried: Carried, *, upto: int) -> None:
    """Move the history of items that got other addresses to these."""
    rows = await all_rows(
        c,
        "select moved_from, key, url from change where source_id = %s and number > %s and number <= %s"
        " and kind = 'moved' and moved_from is not null order by number",
        [carried.source_id, carried.extracted_to, upto],
    )
    for moved_from, key, url in rows:
        values = {"source": carried.source_id, "name": carried.schema.name, "old": key_of(moved_from), "new": key}
        free = await scalar(
            c,
            "select not exists (select from extraction_check where source_id = %(source)s and name = %(name)s"
            " and key = %(new)s)",
            values,
        )
        if free:
            await c.execute(
                "update extraction set key = %(new)s, url = %(url)s"
                " where source_id = %(source)s and name = %(name)s and key = %(old)s",
                {**values, "url": url},
            )
            await c.execute(
                "update extraction_check set key = %(new)s"
                " where source_id = %(source)s and name = %(name)s and key = %(old)s",
                values,
            )


async def mark_extracted(c: Connection, carried: Carried, number: int) -> None:
    """Note that the log is extracted up to a line, and that nothing waits any more.

    Nothing is noted if the items were put on the work list again after `carried` was read.
    """
    await c.execute(
        "update source_schema set extracted_to = greatest(extracted_to, %s), waits_for = null, waits_until = null,"
        " waits_code = null where source_id = %s and name = %s and schema_id = %s and replays = %s"
        " and (extracted_to < %s or waits_for is not null)",
        [number, carried.source_id, carried.schema.name, carried.schema_id, carried.replays, number],
    )


async def wait(c: Connection, carried: Carried, words: str, *, code: str, until: datetime | None) -> None:
    """Note why extraction does not go on, and when it may."""
    await c.execute(
        "update source_schema set waits_for = %s, waits_code = %s, waits_until = %s where source_id = %s and name = %s",
        [error_within(words), code, until, carried.source_id, carried.schema.name],
    )


async def waits(c: Connection, source_id: int) -> tuple[datetime | None, str | None]:
    """Return until when the extraction of a source waits, and the code of the error it waits for."""
    row = await one(
        c,
        "select waits_until, waits_code from source_schema where source_id = %s and waits_for is not null"
        " order by waits_until limit 1",
        [source_id],
    )
    return (row[0], row[1]) if row else (None, None)


async def sources_behind(c: Connection, source_id: int) -> bool:
    """Return whether a source has schemas and changes that may have to be extracted."""
    return bool(
        await scalar(
            c,
            "select exists (select from source_schema where source_id = %(id)s and extracted_to <"
            " coalesce((select max(number) from change where source_id = %(id)s), 0))",
            {"id": source_id},
        )
    )
