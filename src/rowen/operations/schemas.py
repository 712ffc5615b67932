"""Schemas: the registry of JSON Schemas for extraction, and the schemas that sources declare."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from rowen.enrich.schemas.validation import check_definition
from rowen.enrich.schemas.versions import bundled_schemas, compare
from rowen.errors import Hint, NotFoundError, RefusedError, UsageError, action
from rowen.model.access import Scope
from rowen.model.extraction import Grounding
from rowen.model.schemas import Schema, SchemaComparison, SchemaRef, SchemaUse
from rowen.model.search import Condition
from rowen.model.wording import count
from rowen.operations.operation import ResourceGroup, operation
from rowen.store import schemas
from rowen.store.database import Connection
from rowen.store.schemas import AttachedSchema

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta
    from pydantic import BaseModel

    from rowen.operations.parameters import SchemaName

__all__ = [
    "DeclaredSchema",
    "SchemaStep",
    "Schemas",
    "check_fields",
    "checked_rules",
    "declared_schemas",
    "plan_schemas",
    "resolve",
    "schema_of",
    "url_patterns",
    "write_schemas",
]

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


_KEYS = ("schema", "when", "only_urls", "rules", "learn", "grounding")
# Longer than any path that people write, and short enough to be matched against each item at no cost worth a word.
_LONGEST_PATTERN = 500


@dataclass(frozen=True, slots=True)
class DeclaredSchema:
    """A schema that a file attaches to a source; missing parts have their defaults."""

    ref: SchemaRef
    conditions: tuple[str, ...] = ()
    only_urls: tuple[str, ...] = ()
    rules: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    learns: bool = False
    grounding: Grounding = "warn"


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """The change of a source's schemas; `before` and `after` are for people."""

    before: list[Any]
    after: list[Any]
    carried: Sequence[tuple[Schema, DeclaredSchema, AttachedSchema | None]] = ()
    dropped: Sequence[str] = ()


def declared_schemas(entry: Any) -> tuple[DeclaredSchema, ...]:
    """Return the schemas in an entry of a file: names or tables."""
    if not isinstance(entry, list):
        raise UsageError('schemas must be a list: ["product@1"], or tables.')
    found = tuple(_declared_schema({"schema": one} if isinstance(one, str) else one) for one in entry)
    if twice := sorted(name for name, times in Counter(one.ref.name for one in found).items() if times > 1):
        raise UsageError(f"schemas names {', '.join(map(repr, twice))} twice.")
    return found


def _declared_schema(entry: Any) -> DeclaredSchema:
    if not isinstance(entry, Mapping):
        raise UsageError("a schema must be a text or a table.")
    if wrong := [*_mistyped(entry)]:
        raise UsageError(" ".join(wrong))
    return DeclaredSchema(
        SchemaRef.parse(entry["schema"]),
        tuple(map(str, Condition.parse_all(entry.get("when", ())))),
        tuple(url_patterns(entry.get("only_urls", ()))),
        checked_rules(entry.get("rules")),
        entry.get("learn", False),
        entry.get("grounding", "warn"),
    )


def _mistyped(entry: Mapping[str, Any]) -> Iterator[str]:
    for name in entry:
        if name not in _KEYS:
            yield f"a schema has no key {name!r}; the keys are: {', '.join(_KEYS)}."
    if not isinstance(entry.get("schema"), str):
        yield 'a schema needs its name: schema = "product@1".'
    for name in ("when", "only_urls"):
        if name in entry and not _is_texts(entry[name]):
            yield f"{name} of a schema must be a list of texts."
    rules = entry.get("rules", {})
    if not isinstance(rules, Mapping) or not _is_texts(list(rules.values())):
        yield "rules of a schema must be a table of texts."
    if not isinstance(entry.get("learn", False), bool):
        yield "learn of a schema must be true or false."
    if entry.get("grounding", "warn") not in get_args(Grounding):
        yield f"grounding of a schema must be one of {', '.join(get_args(Grounding))}."


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


async def plan_schemas(c: Connection, wanted: Sequence[DeclaredSchema], source_id: int | None) -> SchemaStep | None:
    """Return the change that gives a source its declared schemas; None if there is none."""
    held = {one.schema.name: one for one in (await schemas.attached(c, source_id) if source_id else ())}
    found = [(await _resolved(c, one), one, held.get(one.ref.name)) for one in wanted]
    differing = [
        (schema, one, before)
        for schema, one, before in found
        if before is None or _said(schema, one) != _said(before.schema, _as_declared(before))
    ]
    dropped = sorted(held.keys() - {one.ref.name for one in wanted})
    if not differing and not dropped:
        return None
    before_all = [_said(one.schema, _as_declared(one)) for one in held.values()]
    after_all = [_said(schema, one) for schema, one, _ in sorted(found, key=lambda each: each[0].name)]
    return SchemaStep(before_all, after_all, differing, dropped)


async def write_schemas(c: Connection, source_id: int, step: SchemaStep) -> None:
    """Attach the planned schemas. Learned rules stay, unless learning is switched off."""
    for schema, one, before in step.carried:
        learned = before.rules if before is not None and one.learns else {}
        rules = {**{name: rule for name, rule in learned.items() if rule.get("by") != "user"}, **one.rules}
        number = await schemas.number_of(c, await schemas.add(c, schema))
        how: dict[str, Any] = {"grounding": one.grounding, "learns": one.learns, "rules": rules}
        how |= {"conditions": one.conditions, "only_urls": one.only_urls}
        await schemas.attach(c, source_id, schema, number, **how)
    for name in step.dropped:
        await schemas.detach(c, source_id, name)


async def _resolved(c: Connection, one: DeclaredSchema) -> Schema:
    try:
        schema = await resolve(c, str(one.ref))
    except NotFoundError as problem:
        raise UsageError(str(problem), hint=problem.hint) from None
    check_fields(schema, [*one.rules, *(Condition.parse(text).path[0] for text in one.conditions)])
    return schema


def _as_declared(held: AttachedSchema) -> DeclaredSchema:
    """Return the attached schemas as a file would declare them."""
    rules = {name: rule for name, rule in held.rules.items() if rule.get("by") == "user"}
    ref = SchemaRef(held.schema.name, held.schema.number)
    return DeclaredSchema(ref, tuple(held.conditions), tuple(held.only_urls), rules, held.learns, held.grounding)


def _said(schema: Schema, one: DeclaredSchema) -> Any:
    """Return a schema in the notation of the file: a name, or a table."""
    more = {
        "when": list(one.conditions),
        "only_urls": list(one.only_urls),
        "rules": {name: rule["at"] for name, rule in sorted(one.rules.items())},
        "learn": one.learns,
        "grounding": one.grounding if one.grounding != "warn" else None,
    }
    said = {name: value for name, value in more.items() if value}
    return {"schema": schema.ref, **said} if said else schema.ref


def checked_rules(rules: Mapping[str, str] | None) -> dict[str, dict[str, str]]:
    """Return validated rules."""
    from rowen.content.structured import FieldRule

    made = {}
    for name, text in (rules or {}).items():
        try:
            FieldRule.parse(text)
        except ValueError as problem:
            raise UsageError(
                f"The rule {text!r} for {name!r} cannot be read: {problem}.",
                hint="A CSS selector or an XPath, then what is meant: '.product .amount | number'.",
            ) from None
        made[name] = {"at": text, "by": "user"}
    return made


def url_patterns(patterns: Sequence[str]) -> list[str]:
    """Return validated patterns; none if one of them matches every URL."""
    for pattern in patterns:
        if not pattern.strip() or len(pattern) > _LONGEST_PATTERN or not pattern.isprintable():
            raise UsageError(
                f"{pattern[:80]!r} is no pattern for URLs.",
                hint="A star is any part of a URL: '*/lamps/*'; '*' is all.",
            )
    return sorted({pattern.strip() for pattern in patterns} - {"*"}) if "*" not in patterns else []


def check_fields(schema: Schema, names: Sequence[str]) -> None:
    """Refuse rules and conditions about fields that the schema does not have."""
    unknown = [name for name in names if name not in schema.properties]
    if unknown:
        raise UsageError(
            f"{schema.ref} has no field {', '.join(map(repr, unknown))}.",
            hint=f"Its fields are: {', '.join(schema.properties)}.",
        )
