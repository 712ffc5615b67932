"""Schemas: the registry of what facts are extracted as."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowen.enrich.schemas.bundled import bundled_schemas
from rowen.enrich.schemas.compatibility import compare
from rowen.enrich.schemas.validation import check_definition
from rowen.errors import Hint, NotFoundError, UsageError, action
from rowen.harvest.engine import Engine
from rowen.model.schema import Schema, SchemaComparison, SchemaRef
from rowen.store import schemas
from rowen.store.database import Connection

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["Schemas", "resolve", "schema_of"]

# Ten times what a schema may have: nothing larger is read to find out that it is none.
_MOST_FILE_BYTES = 1_000_000


class Schemas:
    """What facts are extracted as."""

    def __init__(self, engine: Engine) -> None:
        self._database = engine.database

    async def add(self, ref: str, definition: "Mapping[str, Any] | type[BaseModel]") -> Schema:
        """Keep a schema under `name@major.minor.patch`; a Pydantic model is one as well. A version never changes."""
        schema = _new(ref, definition)
        async with self._database.transaction() as c:
            bundled = next((one for one in bundled_schemas() if one.ref == schema.ref), None)
            return await schemas.add(c, replace(schema, bundled=bundled is not None and bundled.hash == schema.hash))

    async def add_files(self, path: Path, *, ref: str | None = None) -> list[Schema]:
        """Keep what files say: one under a name, or a folder of `name/version.json`; all of them or none."""
        read = await asyncio.to_thread(_read, path, ref)
        if not read:
            raise NotFoundError(f"{path} has no schemas.", hint="They are files NAME/VERSION.json.")
        async with self._database.transaction() as c:
            return [await schemas.add(c, one) for one in read]

    async def every(self, name: str | None = None) -> list[Schema]:
        """All versions that there are, also those that come with the program, by name and number."""
        async with self._database.connection() as c:
            return await _all(c, name)

    async def get(self, ref: str) -> Schema:
        """The schema that is meant: `product`, `product@1`, `product@1.0.0`."""
        async with self._database.connection() as c:
            return await resolve(c, ref)

    async def compare(self, older: str, newer: str) -> SchemaComparison:
        """What differs between two versions, and whether data of the older one satisfies the newer one."""
        async with self._database.connection() as c:
            return compare(await resolve(c, older), await resolve(c, newer))

    async def export(self, to: Path, *, names: tuple[str, ...] = ()) -> list[Schema]:
        """Write schemas into a new folder, as `name/version.json`."""
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
        return found


async def resolve(c: Connection, ref: str) -> Schema:
    """The highest version that a reference means, in the store or among those that come with the program."""
    wanted = SchemaRef.parse(ref)
    found = schemas.highest(wanted, await _all(c, wanted.name))
    if found is None:
        raise NotFoundError(f"There is no schema {ref}.", hint=Hint(action("schema list"), " shows those there are."))
    return found


async def _all(c: Connection, name: str | None) -> list[Schema]:
    held = await schemas.every(c, name)
    refs = {one.ref for one in held}
    more = [one for one in bundled_schemas() if one.ref not in refs and name in (None, one.name)]
    return sorted([*held, *more], key=lambda one: (one.name, one.number))


def _new(ref: str, definition: "Mapping[str, Any] | type[BaseModel]") -> Schema:
    wanted = SchemaRef.parse(ref)
    if not wanted.is_exact:
        raise UsageError(
            f"{ref!r} has no whole version.", hint="A new schema is NAME@MAJOR.MINOR.PATCH: product@1.0.0."
        )
    plain = dict(definition) if isinstance(definition, Mapping) else _of_model(definition)
    return Schema(wanted.name, str(wanted).partition("@")[2], check_definition(plain))


def _read(path: Path, ref: str | None) -> list[Schema]:
    found = list(_in_folder(path)) if path.is_dir() else [(ref or _ref_of(path), path)]
    return [_new(name, _parsed(file)) for name, file in found]


def _of_model(model: "type[BaseModel]") -> dict[str, Any]:
    """The JSON Schema of a Pydantic model: what an answer must be to become one."""
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
    """The name that a file has in the layout `name/version.json`."""
    ref = f"{path.absolute().parent.name}@{path.stem}"
    try:
        if SchemaRef.parse(ref).is_exact:
            return ref
    except UsageError:
        pass
    raise UsageError(f"Under which name should {path} be kept?", hint="Say it with --as NAME@1.0.0.")


def schema_of(definition: "Mapping[str, Any] | type[BaseModel]") -> Schema:
    """A schema that is used once, without being kept under a name."""
    plain = dict(definition) if isinstance(definition, Mapping) else _of_model(definition)
    return Schema("facts", "0.0.0", check_definition(plain))
