"""Schemas in the store: versions that never change."""

import json
from collections.abc import Sequence

from psycopg import errors

from rowen.errors import Hint, NotFoundError, RefusedError, action
from rowen.model.schema import Schema, SchemaRef
from rowen.store.database import Connection
from rowen.store.rows import all_rows, scalar

__all__ = ["add", "every", "find", "number_of"]

_SELECT = "select name, version, definition, bundled, created_at from schema"


async def add(c: Connection, schema: Schema) -> Schema:
    """Keep a version; the same one again is no error, another one under the same version is refused."""
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
        held = await find(c, SchemaRef(schema.name, schema.number))
        if held is None or held.hash != schema.hash:
            raise RefusedError(
                f"{schema.ref} is there already, and says something else: a version never changes. Nothing was added.",
                hint=Hint("Give it a higher version; ", action("schema list"), " shows those that there are."),
            ) from None
        return held
    return schema


async def every(c: Connection, name: str | None = None) -> list[Schema]:
    """All versions, by name and number; those of one name, if it is given."""
    rows = await all_rows(
        c, _SELECT + " where %(name)s::text is null or name = %(name)s order by name, number", {"name": name}
    )
    return [Schema(*row) for row in rows]


async def find(c: Connection, ref: SchemaRef) -> Schema | None:
    """The highest version that a reference means, of those in the store."""
    return highest(ref, await every(c, ref.name))


async def number_of(c: Connection, schema: Schema) -> int:
    """The number of a version, which is kept if it was not yet, as a bundled one that is used for the first time."""
    await add(c, schema)
    found = await scalar(c, "select id from schema where name = %s and version = %s", [schema.name, schema.version])
    if found is None:
        raise NotFoundError(f"There is no schema {schema.ref}.")
    return int(found)


def highest(ref: SchemaRef, held: Sequence[Schema]) -> Schema | None:
    """The highest version that a reference means."""
    meant = [one for one in held if one.name == ref.name and ref.means(one.number)]
    return max(meant, key=lambda one: one.number, default=None)
