"""Schemas, whose versions never change, and how far each source has extracted them."""

import json
from collections.abc import Sequence

from psycopg import errors

from rowen.errors import Hint, NotFoundError, RefusedError, action
from rowen.model.extraction import SourceSchema
from rowen.model.schemas import Schema, SchemaRef, SchemaUse
from rowen.store.database import Connection
from rowen.store.rows import all_rows, scalar, tuples_of
from rowen.store.source_schemas import CARRIED_COLUMNS, Carried, pending_count

_SELECT = "select name, version, definition, bundled, created_at from schema"


async def add(c: Connection, schema: Schema) -> Schema:
    """Store a version. The same one again is accepted, a different one under the same version is refused."""
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
        known = await find(c, SchemaRef(schema.name, schema.number))
        if known is None or known.hash != schema.hash:
            raise RefusedError(
                f"{schema.ref} is there already, and says something else: a version never changes. Nothing was added.",
                hint=Hint("Give it a higher version; ", action("schema list"), " shows those that there are."),
            ) from None
        return known
    return schema


async def every(c: Connection, name: str | None = None) -> list[Schema]:
    """Return all versions, or those of one name, by name and number."""
    return await tuples_of(
        c, Schema, _SELECT + " where %(name)s::text is null or name = %(name)s order by name, number", {"name": name}
    )


async def find(c: Connection, ref: SchemaRef, *, locked: bool = False) -> Schema | None:
    """Return the highest stored version that a reference matches.

    If `locked`, nothing new can use versions of this name until the transaction ends.
    """
    if locked:
        await c.execute("select from schema where name = %s for update", [ref.name])
    return highest(ref, await every(c, ref.name))


async def use_of(c: Connection, schema: Schema) -> SchemaUse:
    """Return the sources that use a version, and how many extractions it has."""
    id_ = await _id(c, schema)
    sources = await all_rows(
        c,
        "select source.name from source_schema join source on source.id = source_id where schema_id = %s"
        " order by source.name",
        [id_],
    )
    versions = await scalar(c, "select count(*) from extraction where schema_id = %s", [id_])
    return SchemaUse(schema.ref, tuple(name for (name,) in sources), int(versions or 0))


async def remove(c: Connection, schema: Schema) -> None:
    """Delete a version with everything extracted under it.

    Sources that use another version of it check all items again, since some of their data may be gone: data that did
    not change keeps the version of the schema under which it was first extracted.
    """
    id_ = await _id(c, schema)
    await c.execute("delete from source_schema where schema_id = %s", [id_])
    await c.execute(
        "update source_schema held set extracted_to = 0 where name = %s and exists (select from extraction"
        " where extraction.schema_id = %s and extraction.source_id = held.source_id)",
        [schema.name, id_],
    )
    await c.execute("delete from extraction where schema_id = %s", [id_])
    await c.execute("delete from schema where id = %s", [id_])


async def number_of(c: Connection, schema: Schema) -> int:
    """Return the number of a version, after storing it if it is new, as a bundled one on its first use."""
    await add(c, schema)
    return await _id(c, schema)


async def _id(c: Connection, schema: Schema) -> int:
    schema_id = await scalar(c, "select id from schema where name = %s and version = %s", [schema.name, schema.version])
    if schema_id is None:
        raise NotFoundError(f"There is no schema {schema.ref}.")
    return int(schema_id)


def highest(ref: SchemaRef, stored: Sequence[Schema]) -> Schema | None:
    """Return the highest version that a reference matches."""
    matching = [schema for schema in stored if schema.name == ref.name and ref.means(schema.number)]
    return max(matching, key=lambda schema: schema.number, default=None)


_OVERVIEW = f"""
select source.name, source.id, waits_for, waits_until, coalesce(held.current, 0), coalesce(held.failed, 0),
       (select coalesce(max(number), 0) from change where change.source_id = source.id), {CARRIED_COLUMNS}
  from source_schema join source on source.id = source_id join schema on schema.id = schema_id
  left join (select source_id, name, count(*) filter (where state = 'current') as current,
                    count(*) filter (where state = 'failed') as failed
               from extraction_check where %(id)s::bigint is null or source_id = %(id)s
              group by source_id, name) held
    on held.source_id = source.id and held.name = source_schema.name
 where %(id)s::bigint is null or source.id = %(id)s
 order by source.name, source_schema.name
"""  # noqa: S608 (a constant)


async def overview(c: Connection, source_id: int | None = None) -> list[SourceSchema]:
    """Return all schemas that sources use, with their progress; only for those that are behind, items are counted."""
    overviews = []
    for source, number, waits_for, until, current, failed, last, *row in await all_rows(
        c, _OVERVIEW.encode(), {"id": source_id}
    ):
        carried = Carried(number, Schema(*row[:5]), *row[5:])
        left = await pending_count(c, carried, upto=last) if last > carried.extracted_to else 0
        overviews.append(
            SourceSchema(
                *(
                    source,
                    carried.schema.ref,
                    carried.grounding,
                    carried.learns,
                    carried.rules,
                    tuple(carried.conditions),
                ),
                *(carried.extracted_to, left, current, failed, waits_for, until),
                only_urls=tuple(carried.only_urls),
            )
        )
    return overviews
