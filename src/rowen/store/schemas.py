"""Store schemas, whose versions never change; the schemas attached to each source; and their work lists."""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import errors
from psycopg.types.json import Jsonb

from rowen.errors import Hint, NotFoundError, RefusedError, action
from rowen.model.hashes import Hash
from rowen.model.schemas import Schema, SchemaRef, SchemaUse
from rowen.model.text import error_within
from rowen.model.url import key as key_of
from rowen.store.database import Connection
from rowen.store.items.items import whole
from rowen.store.rows import affected, all_rows, column, number, one, scalar, tuples_of

if TYPE_CHECKING:
    from rowen.model.extraction import Grounding

_SELECT = "select name, version, definition, bundled, created_at from schema"


async def add(c: Connection, schema: Schema) -> Schema:
    """Store a version of a schema; raise if it is stored already with another definition."""
    try:
        async with c.transaction():
            await c.execute(
                "insert into schema (name, version, number, definition, hash, bundled) values (%s, %s, %s, %s, %s, %s)",
                [
                    *(schema.name, schema.version, list(schema.number)),
                    *(json.dumps(dict(schema.definition), ensure_ascii=False), schema.hash, schema.bundled),
                ],
            )
    except errors.UniqueViolation:
        stored = await find(c, SchemaRef(schema.name, schema.number))
        if stored is None or stored.hash != schema.hash:
            raise RefusedError(
                f"{schema.ref} exists already with another definition: a version never changes. Nothing was added.",
                hint=Hint("Give it a higher version; ", action("schema list"), " shows the stored ones."),
            ) from None
        return stored
    return schema


async def number_of(c: Connection, schema: Schema) -> int:
    """Return the id of a stored version."""
    schema_id = await scalar(c, "select id from schema where name = %s and version = %s", [schema.name, schema.version])
    if schema_id is None:
        raise NotFoundError(f"There is no schema {schema.ref}.")
    return int(schema_id)


async def every(c: Connection, name: str | None = None) -> list[Schema]:
    """Return all versions, or those of the schema `name`, ordered by name and number."""
    return await tuples_of(
        c, Schema, _SELECT + " where %(name)s::text is null or name = %(name)s order by name, number", {"name": name}
    )


async def find(c: Connection, ref: SchemaRef, *, locked: bool = False) -> Schema | None:
    """Return the highest stored version that a reference matches; None if there is none.

    If `locked`, no other transaction can start to use versions of this schema until this transaction ends.
    """
    if locked:
        await c.execute("select from schema where name = %s for update", [ref.name])
    return highest(ref, await every(c, ref.name))


async def use_of(c: Connection, schema: Schema) -> SchemaUse:
    """Return the sources that use a version, and the number of extractions made with it."""
    schema_id = await number_of(c, schema)
    query = """
        select source.name from source_schema join source on source.id = source_id where schema_id = %s
         order by source.name
    """
    sources = await column(c, query, [schema_id])
    extractions = await number(c, "select count(*) from extraction where schema_id = %s", [schema_id])
    return SchemaUse(schema.ref, tuple(sources), extractions)


async def remove(c: Connection, schema: Schema) -> None:
    """Delete a version with all data extracted with it.

    Sources that use another version of the schema check all items again: unchanged data keeps the schema version of
    its first extraction, so their data may be deleted here too.
    """
    schema_id = await number_of(c, schema)
    await c.execute("delete from source_schema where schema_id = %s", [schema_id])
    statement = """
        update source_schema used set extracted_to = 0 where name = %s and exists (select from extraction
                 where extraction.schema_id = %s and extraction.source_id = used.source_id)
    """
    await c.execute(statement, [schema.name, schema_id])
    await c.execute("delete from extraction where schema_id = %s", [schema_id])
    await c.execute("delete from schema where id = %s", [schema_id])


def highest(ref: SchemaRef, stored: Sequence[Schema]) -> Schema | None:
    """Return the highest version that a reference matches; None if there is none."""
    matching = [schema for schema in stored if schema.name == ref.name and ref.means(schema.number)]
    return max(matching, key=lambda schema: schema.number, default=None)


class AttachedSchema(NamedTuple):
    """A schema that is attached to a source, and how the source uses it."""

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

    @property
    def key(self) -> dict[str, Any]:
        """The parameters of the statements below: source, schema name, and patterns for LIKE.

        A star in a pattern matches any part of a URL; a pattern without a star may match anywhere.
        """
        only = []
        for pattern in self.only_urls:
            escaped = pattern.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
            only.append(escaped.replace("*", "%") if "*" in escaped else f"%{escaped}%")
        return {"source": self.source_id, "name": self.schema.name, "only": only or None}


class PendingItem(NamedTuple):
    """An entry of the work list: the last change of an item, and the item, if it still exists."""

    number: int
    key: Hash
    url: str
    title: str | None
    text: str | None
    record: Mapping[str, Any] | None
    media_type: str | None
    content_hash: Hash | None


ATTACHED_COLUMNS = """
schema.name, schema.version, schema.definition, schema.bundled, schema.created_at, schema.id,
extracted_to, grounding, learns, rules, conditions, only_urls, replays
"""


async def attached(c: Connection, source_id: int) -> list[AttachedSchema]:
    """Return the schemas of a source, by name."""
    query = f"""
        select {ATTACHED_COLUMNS} from source_schema join schema on schema.id = schema_id
         where source_id = %s order by schema.name
    """.encode()  # noqa: S608 (a constant)
    rows = await all_rows(c, query, [source_id])
    return [AttachedSchema(source_id, Schema(*row[:5]), *row[5:]) for row in rows]


async def attach(
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
    """Attach a schema to a source, or change its settings for the source; None leaves a setting unchanged.

    A different version puts all items on the work list. Different `only_urls` cause the whole log to be read again,
    for items that match now or no longer match.
    """
    is_attached = await scalar(
        c, "select true from source_schema where source_id = %s and schema_id = %s", [source_id, schema_id]
    )
    await c.execute(
        """
        insert into source_schema as used (source_id, name, schema_id, grounding, learns, rules, conditions,
                                           only_urls)
        values (%(source)s, %(name)s, %(schema)s, coalesce(%(grounding)s, 'warn'), coalesce(%(learns)s, false),
                coalesce(%(rules)s, '{}'::jsonb), coalesce(%(conditions)s::text[], '{}'),
                coalesce(%(only)s::text[], '{}'))
        on conflict (source_id, name) do update
           set schema_id = excluded.schema_id,
               grounding = coalesce(%(grounding)s, used.grounding), learns = coalesce(%(learns)s, used.learns),
               rules = coalesce(%(rules)s, used.rules), conditions = coalesce(%(conditions)s::text[], used.conditions),
               only_urls = coalesce(%(only)s::text[], used.only_urls),
               waits_for = null, waits_until = null, waits_code = null,
               extracted_to = case when used.schema_id = excluded.schema_id
                                    and used.only_urls = coalesce(%(only)s::text[], used.only_urls)
                                   then used.extracted_to else 0 end,
               replays = case when used.schema_id = excluded.schema_id
                               and used.only_urls = coalesce(%(only)s::text[], used.only_urls)
                              then used.replays else used.replays + 1 end
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
    if not is_attached:
        # With a new version each item is extracted again, whatever the log says.
        await extract_again(c, source_id, schema.name)


async def detach(c: Connection, source_id: int, name: str) -> bool:
    """Detach a schema from a source and return whether it was attached; the extraction history stays."""
    return bool(await affected(c, "delete from source_schema where source_id = %s and name = %s", [source_id, name]))


async def extract_again(c: Connection, source_id: int, name: str) -> int:
    """Put all items of a source on the work list; return the new replay counter."""
    statement = """
        update source_schema set extracted_to = 0, replays = replays + 1 where source_id = %s and name = %s
        returning replays
    """
    replays = await scalar(c, statement, [source_id, name])
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
# The present item and the last check of a line. An item whose URL does not match `only_urls` does not exist for the
# schema; when it matches again, it counts as returned.
_STATE = """
  left join item on item.source_id = %(source)s and item.key = line.key
       and (%(only)s::text[] is null or item.url like any(%(only)s))
  left join extraction_check checked
    on checked.source_id = %(source)s and checked.key = line.key and checked.name = %(name)s
"""
_IS_PENDING = """
(coalesce(checked.change, 0) < line.number or (item.id is null) = (checked.state <> 'gone'))
and (item.id is not null or checked.state <> 'gone')
"""


async def work_list(
    c: Connection, used: AttachedSchema, *, after: int, upto: int, again: bool = False, limit: int | None = None
) -> array[int]:
    """Return the numbers of the log lines to extract: the last change of each item, in order.

    Items already extracted since that change are left out, unless `again`. The log is read once, and a number takes
    eight bytes: a million items take 8 MB, in this process and in one value of the database.
    """
    packed: bytes | None = await scalar(
        c,
        f"""
        select string_agg(int8send(number), ''::bytea order by number) from (
            select line.number from ({_LINES}) line {_STATE}
             where (%(again)s and item.id is not null) or ({_IS_PENDING})
             order by line.number limit %(limit)s) work
        """.encode(),  # noqa: S608 (a fragment of our own)
        {**used.key, "after": after, "upto": upto, "limit": limit, "again": again},
        binary=True,
    )
    numbers = array("q", packed or b"")
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


async def pending(
    c: Connection, used: AttachedSchema, numbers: Sequence[int], *, again: bool = False
) -> list[PendingItem]:
    """Return items of the work list in their present state; leave out items extracted since the list was made."""
    query = f"""
        select line.number, line.key, coalesce(item.url, line.url), item.title, item.text, item.record,
               item.source_record, item.media_type, item.content_hash
          from change line {_STATE}
         where line.number = any(%(numbers)s::bigint[])
           and ((%(again)s and item.id is not null) or ({_IS_PENDING}))
         order by line.number
    """.encode()  # noqa: S608 (a fragment of our own)
    rows = await all_rows(c, query, {**used.key, "numbers": list(numbers), "again": again})
    return [
        PendingItem._make([*line, None if facts is None else whole(facts, packed), media_type, content_hash])
        for *line, facts, packed, media_type, content_hash in rows
    ]


async def count_pending(c: Connection, used: AttachedSchema, *, upto: int) -> int:
    """Return how many items are on the work list."""
    return await number(
        c,
        f"select count(*) from ({_LINES}) line {_STATE} where {_IS_PENDING}".encode(),  # noqa: S608 (constants)
        {**used.key, "after": used.extracted_to, "upto": upto},
    )


async def follow_moves(c: Connection, used: AttachedSchema, *, upto: int) -> None:
    """Move the extraction history of moved items to their new URLs."""
    query = """
        select moved_from, key, url from change where source_id = %s and number > %s and number <= %s
           and kind = 'moved' and moved_from is not null order by number
    """
    rows = await all_rows(c, query, [used.source_id, used.extracted_to, upto])
    for moved_from, key, url in rows:
        values = {"source": used.source_id, "name": used.schema.name, "old": key_of(moved_from), "new": key}
        statement = """
            select not exists (select from extraction_check where source_id = %(source)s and name = %(name)s
                       and key = %(new)s)
        """
        free = await scalar(c, statement, values)
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


async def mark_extracted(c: Connection, used: AttachedSchema, number: int) -> None:
    """Store that the log is extracted up to line `number`, and that extraction no longer waits.

    Nothing is stored if the items were put on the work list again after `used` was read.
    """
    statement = """
        update source_schema set extracted_to = greatest(extracted_to, %s), waits_for = null, waits_until = null,
               waits_code = null where source_id = %s and name = %s and schema_id = %s and replays = %s
           and (extracted_to < %s or waits_for is not null)
    """
    await c.execute(statement, [number, used.source_id, used.schema.name, used.schema_id, used.replays, number])


async def wait(c: Connection, used: AttachedSchema, reason: str, *, code: str, until: datetime | None) -> None:
    """Store why extraction waits, and until when."""
    await c.execute(
        "update source_schema set waits_for = %s, waits_code = %s, waits_until = %s where source_id = %s and name = %s",
        [error_within(reason), code, until, used.source_id, used.schema.name],
    )


async def waits(c: Connection, source_id: int) -> tuple[datetime | None, str | None]:
    """Return when the extraction of a source stops waiting and the error code; (None, None) if it does not wait."""
    query = """
        select waits_until, waits_code from source_schema where source_id = %s and waits_for is not null
         order by waits_until limit 1
    """
    row = await one(c, query, [source_id])
    return (row[0], row[1]) if row else (None, None)


async def is_behind(c: Connection, source_id: int) -> bool:
    """Return whether a source has schemas and changes that are not extracted yet."""
    return bool(
        await scalar(
            c,
            "select exists (select from source_schema where source_id = %(id)s and extracted_to <"
            " coalesce((select max(number) from change where source_id = %(id)s), 0))",
            {"id": source_id},
        )
    )
