"""Schemas: the registry of JSON Schemas for extraction."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowen.enrich.schemas.validation import check_definition
from rowen.enrich.schemas.versions import bundled_schemas, compare
from rowen.errors import Hint, NotFoundError, RefusedError, UsageError, action
from rowen.model.access import Scope
from rowen.model.schemas import Schema, SchemaComparison, SchemaRef, SchemaUse
from rowen.model.wording import count
from rowen.operations.operation import ResourceGroup, operation
from rowen.store import schemas
from rowen.store.database import Connection

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta
    from pydantic import BaseModel

    from rowen.operations.parameters import SchemaName

__all__ = ["Schemas", "resolve", "schema_of"]

INDEX = "registry.json"
"""Beside the folders of an export: the latest version of each name. It is not needed to read them again."""

# Ten times what a schema may have: nothing larger is read to find out that it is none.
_MOST_FILE_BYTES = 1_000_000


class Schemas(ResourceGroup):
    """Schemas for extraction."""

    @operation(scope=Scope.WRITE)
    async def add(
        self,
        ref: SchemaName,
        definition: Annotated[Mapping[str, Any] | type[BaseModel], Meta(description="A JSON Schema.")],
    ) -> Schema:
        """Add a schema as `name@major.minor.patch`, from JSON or a Pydantic model; a version never changes."""
        schema = await asyncio.to_thread(_new, ref, definition)
        async with self._database.transaction() as c:
            bundled = next(
                (bundled_schema for bundled_schema in bundled_schemas() if bundled_schema.ref == schema.ref), None
            )
            return await schemas.add(c, replace(schema, bundled=bundled is not None and bundled.hash == schema.hash))

    @operation(scope=None)
    async def add_files(
        self,
        path: Path,
        *,
        ref: SchemaName | None = None,
        prefix: Annotated[str, Meta(description="A prefix for the names.")] = "",
    ) -> list[Schema]:
        """Add the schemas of files: one file, or a folder of `name/version.json`; all of them or none.

        A `prefix` before their names avoids collisions.
        """
        read = await asyncio.to_thread(_read, path, ref, prefix)
        if not read:
            raise NotFoundError(f"{path} has no schemas.", hint="They are files NAME/VERSION.json.")
        async with self._database.transaction() as c:
            return [await schemas.add(c, one) for one in read]

    @operation(scope=Scope.WRITE)
    async def remove(
        self,
        ref: SchemaName,
        *,
        with_facts: Annotated[
            bool, Meta(description="Also remove what sources carry of it, and the facts extracted with it.")
        ] = False,
    ) -> SchemaUse:
        """Remove one version; the highest remaining one becomes the latest.

        Refused while sources or facts use it, unless these are to be removed as well.
        """
        wanted = SchemaRef.parse(ref)
        if not wanted.is_exact:
            raise UsageError(f"{ref!r} names no single version.", hint="Such as product@1.0.0. Nothing was removed.")
        async with self._database.transaction() as c:
            held = await schemas.find(c, wanted, locked=True)
            if held is None or held.bundled:
                raise _not_removable(ref)
            use = await schemas.use_of(c, held)
            if use and not with_facts:
                raise _in_use(held, use)
            await schemas.remove(c, held)
            return use

    @operation(scope=Scope.READ)
    async def get(self, ref: SchemaName) -> Schema:
        """Return a schema: `product`, `product@1`, `product@1.0.0`."""
        async with self._database.connection() as c:
            return await resolve(c, ref)

    @operation(scope=Scope.READ)
    async def compare(
        self,
        older: Annotated[str, Meta(description="The older version.")],
        newer: Annotated[str, Meta(description="The newer version.")],
    ) -> SchemaComparison:
        """Return the differences of two versions, and whether data of the older one satisfies the newer one."""
        async with self._database.connection() as c:
            both = await resolve(c, older), await resolve(c, newer)
        return await asyncio.to_thread(compare, *both)

    @operation(scope=None)
    async def export(self, to: Path, *, names: tuple[str, ...] = ()) -> list[Schema]:
        """Write schemas into a new folder, as `name/version.json`, with an index of the latest ones."""
        from rowen.publish.folder import new_folder

        async with self._database.connection() as c:
            found = [one for one in await _all(c, None) if not names or one.name in names]
        if missing := set(names) - {one.name for one in found}:
            raise NotFoundError(f"There is no schema {', '.join(sorted(missing))}.")
        with new_folder(to) as folder:
            for one in found:
                (folder / one.name).mkdir(exist_ok=True)
                written = json.dumps(dict(one.definition), indent=2, ensure_ascii=False) + "\n"
                (folder / one.name / f"{one.version}.json").write_text(written, "utf-8")
            # They are in the order of their versions: the last one of a name is its latest.
            latest = {one.name: one.version for one in found}
            (folder / INDEX).write_text(json.dumps(latest, indent=2) + "\n", "utf-8")
        return found

    @operation(scope=Scope.READ)
    async def list(
        self, name: Annotated[str | None, Meta(description="Only schemas of this name.")] = None
    ) -> list[Schema]:
        """List all versions, stored and bundled, by name and number."""
        async with self._database.connection() as c:
            return await _all(c, name)


async def resolve(c: Connection, ref: str) -> Schema:
    """Return the highest version that a reference matches, stored or bundled."""
    wanted = SchemaRef.parse(ref)
    found = schemas.highest(wanted, await _all(c, wanted.name))
    if found is None:
        raise NotFoundError(f"There is no schema {ref}.", hint=Hint(action("schema list"), " shows those there are."))
    return found


async def _all(c: Connection, name: str | None) -> list[Schema]:
    held = await schemas.every(c, name)
    refs = {one.ref for one in held}
    more = [
        bundled_schema
        for bundled_schema in bundled_schemas()
        if bundled_schema.ref not in refs and name in (None, bundled_schema.name)
    ]
    return sorted([*held, *more], key=lambda one: (one.name, one.number))


def _new(ref: str, definition: Mapping[str, Any] | type[BaseModel]) -> Schema:
    wanted = SchemaRef.parse(ref)
    if not wanted.is_exact:
        raise UsageError(
            f"{ref!r} has no whole version.", hint="A new schema is NAME@MAJOR.MINOR.PATCH: product@1.0.0."
        )
    plain = dict(definition) if isinstance(definition, Mapping) else _of_model(definition)
    return Schema(wanted.name, str(wanted).partition("@")[2], check_definition(plain))


def _not_removable(ref: str) -> NotFoundError | RefusedError:
    if any(bundled_schema.ref == ref for bundled_schema in bundled_schemas()):
        return RefusedError(f"{ref} comes with the program. Nothing was removed.")
    return NotFoundError(f"There is no schema {ref}.", hint=Hint(action("schema list"), " shows those there are."))


def _in_use(held: Schema, use: SchemaUse) -> RefusedError:
    parts = [f"{', '.join(map(repr, use.sources))} carries it" if len(use.sources) == 1 else ""]
    parts += [f"{', '.join(map(repr, use.sources))} carry it" if len(use.sources) > 1 else ""]
    parts += [f"{count(use.versions, 'version')} of facts rest on it" if use.versions else ""]
    return RefusedError(
        f"{held.ref} is in use: {' and '.join(filter(None, parts))}. Nothing was removed.",
        hint=Hint(
            action("schema remove", held.ref, with_facts=True),
            " takes it from its sources and deletes these facts; a source can also carry a newer version instead.",
        ),
    )


def _read(path: Path, ref: str | None, prefix: str) -> list[Schema]:
    found = list(_in_folder(path)) if path.is_dir() else [(ref or _ref_of(path), path)]
    return [_of_file(f"{prefix}{name}", file) for name, file in found]


def _of_file(ref: str, file: Path) -> Schema:
    try:
        return _new(ref, _parsed(file))
    except UsageError as problem:
        # Of a folder with many it is not plain which one is meant.
        told = str(problem) if str(file) in str(problem) else f"{file}: {problem}"
        raise UsageError(f"{told} Nothing was added.", hint=problem.hint) from None


def _of_model(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a Pydantic model."""
    return model.model_json_schema(mode="validation")


def _parsed(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MOST_FILE_BYTES:
            raise UsageError(f"{path} is too large for a schema.")
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise NotFoundError(f"There is no file {path}.") from None
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"{path} is no JSON: {problem}.") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no JSON Schema: it is no object.")
    return found


def _in_folder(folder: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(folder.glob("*/*.json")):
        yield f"{file.parent.name}@{file.stem}", file


def _ref_of(path: Path) -> str:
    """Return the reference of a file in the layout `name/version.json`."""
    ref = f"{path.absolute().parent.name}@{path.stem}"
    try:
        if SchemaRef.parse(ref).is_exact:
            return ref
    except UsageError:
        pass
    raise UsageError(f"Under which name should {path} be kept?", hint="Say it with --as NAME@1.0.0.")


def schema_of(definition: Mapping[str, Any] | type[BaseModel]) -> Schema:
    """Return a schema that is used once, without a stored name."""
    plain = dict(definition) if isinstance(definition, Mapping) else _of_model(definition)
    return Schema("facts", "0.0.0", check_definition(plain))
