"""Schemas: the registry of JSON Schemas for extraction, and the schemas that sources declare."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from rowen.content.structured import FieldRule
from rowen.enrich.schemas.validation import check_definition
from rowen.enrich.schemas.versions import bundled_schemas, compare
from rowen.errors import Hint, NotFoundError, RefusedError, UsageError, action
from rowen.model.access import Scope
from rowen.model.extraction import Grounding
from rowen.model.schemas import Schema, SchemaComparison, SchemaRef, SchemaUse
from rowen.model.search import Condition
from rowen.model.wording import count
from rowen.operations.operation import ResourceGroup, operation
from rowen.publish.folder import new_folder
from rowen.store import schemas
from rowen.store.database import Connection
from rowen.store.schemas import AttachedSchema

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta
    from pydantic import BaseModel

    from rowen.operations.parameters import SchemaName

INDEX = "registry.json"
"""The file of an export with the latest version of each schema. It is not needed for reading the schemas again."""

# Ten times the maximum size of a schema; a larger file is not read, since it cannot be a schema.
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
            is_bundled = any((known.ref, known.hash) == (schema.ref, schema.hash) for known in bundled_schemas())
            return await schemas.add(c, replace(schema, bundled=is_bundled))

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
            return [await schemas.add(c, schema) for schema in read]

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
            schema = await schemas.find(c, wanted, locked=True)
            if schema is None or schema.bundled:
                if any(bundled.ref == ref for bundled in bundled_schemas()):
                    raise RefusedError(f"{ref} comes with the program. Nothing was removed.")
                raise _missing(ref)
            use = await schemas.use_of(c, schema)
            if use and not with_facts:
                names = ", ".join(map(repr, use.sources))
                parts = [f"{names} {'carries' if len(use.sources) == 1 else 'carry'} it"] if use.sources else []
                parts += [f"{count(use.versions, 'version')} of facts rest on it"] if use.versions else []
                raise RefusedError(
                    f"{schema.ref} is in use: {' and '.join(parts)}. Nothing was removed.",
                    hint=Hint(
                        action("schema remove", schema.ref, with_facts=True),
                        " takes it from its sources and deletes these facts; a source can also carry a newer version"
                        " instead.",
                    ),
                )
            await schemas.remove(c, schema)
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
        async with self._database.connection() as c:
            chosen = [schema for schema in await _all(c, None) if not names or schema.name in names]
        if missing := set(names) - {schema.name for schema in chosen}:
            raise NotFoundError(f"There is no schema {', '.join(sorted(missing))}.")
        with new_folder(to) as folder:
            for schema in chosen:
                (folder / schema.name).mkdir(exist_ok=True)
                written = json.dumps(dict(schema.definition), indent=2, ensure_ascii=False) + "\n"
                (folder / schema.name / f"{schema.version}.json").write_text(written, "utf-8")
            # Schemas are sorted by version, so the last one of a name is its latest version.
            latest = {schema.name: schema.version for schema in chosen}
            (folder / INDEX).write_text(json.dumps(latest, indent=2) + "\n", "utf-8")
        return chosen

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
    schema = schemas.highest(wanted, await _all(c, wanted.name))
    if schema is None:
        raise _missing(ref)
    return schema


def _missing(ref: str) -> NotFoundError:
    return NotFoundError(f"There is no schema {ref}.", hint=Hint(action("schema list"), " shows those there are."))


async def _all(c: Connection, name: str | None) -> list[Schema]:
    stored = await schemas.every(c, name)
    refs = {schema.ref for schema in stored}
    bundled = [schema for schema in bundled_schemas() if schema.ref not in refs and name in (None, schema.name)]
    return sorted([*stored, *bundled], key=lambda schema: (schema.name, schema.number))


def _checked(definition: Mapping[str, Any] | type[BaseModel]) -> Mapping[str, Any]:
    plain = dict(definition) if isinstance(definition, Mapping) else definition.model_json_schema(mode="validation")
    return check_definition(plain)


def _new(ref: str, definition: Mapping[str, Any] | type[BaseModel]) -> Schema:
    wanted = SchemaRef.parse(ref)
    if not wanted.is_exact:
        raise UsageError(
            f"{ref!r} has no whole version.", hint="A new schema is NAME@MAJOR.MINOR.PATCH: product@1.0.0."
        )
    return Schema(wanted.name, str(wanted).partition("@")[2], _checked(definition))


def schema_of(definition: Mapping[str, Any] | type[BaseModel]) -> Schema:
    """Return a schema for a single use, without storing it under a name."""
    return Schema("facts", "0.0.0", _checked(definition))


def _read(path: Path, ref: str | None, prefix: str) -> list[Schema]:
    """Return the schemas of a file, or of all files in a folder."""
    if path.is_dir():
        files = [(f"{file.parent.name}@{file.stem}", file) for file in sorted(path.glob("*/*.json"))]
    else:
        files = [(ref or _ref_of(path), path)]
    read = []
    for name, file in files:
        try:
            read.append(_new(f"{prefix}{name}", _parsed(file)))
        except UsageError as problem:
            # The error must name the file, since a folder contains many.
            text = str(problem) if str(file) in str(problem) else f"{file}: {problem}"
            raise UsageError(f"{text} Nothing was added.", hint=problem.hint) from None
    return read


def _parsed(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MOST_FILE_BYTES:
            raise UsageError(f"{path} is too large for a schema.")
        definition = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise NotFoundError(f"There is no file {path}.") from None
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"{path} is no JSON: {problem}.") from None
    if not isinstance(definition, dict):
        raise UsageError(f"{path} is no JSON Schema: it is no object.")
    return definition


def _ref_of(path: Path) -> str:
    """Return the reference of the schema in a file, from the path `name/version.json`."""
    ref = f"{path.absolute().parent.name}@{path.stem}"
    try:
        if SchemaRef.parse(ref).is_exact:
            return ref
    except UsageError:
        pass
    raise UsageError(f"Under which name should {path} be kept?", hint="Say it with --as NAME@1.0.0.")


_KEYS = ("schema", "when", "only_urls", "rules", "learn", "grounding")
# Longer than any pattern that users write, and short enough to be matched with each item at a negligible cost.
_LONGEST_PATTERN = 500


@dataclass(frozen=True, slots=True)
class DeclaredSchema:
    """A schema that a declaration attaches to a source; settings that are not declared have their defaults."""

    ref: SchemaRef
    conditions: tuple[str, ...] = ()
    only_urls: tuple[str, ...] = ()
    rules: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    learns: bool = False
    grounding: Grounding = "warn"


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """The change of a source's schemas; `before` and `after` are descriptions for people."""

    before: list[Any]
    after: list[Any]
    carried: Sequence[tuple[Schema, DeclaredSchema, AttachedSchema | None]] = ()
    dropped: Sequence[str] = ()


def declared_schemas(entry: Any) -> tuple[DeclaredSchema, ...]:
    """Return the schemas that an entry of a declaration file declares, as names or tables."""
    if not isinstance(entry, list):
        raise UsageError('schemas must be a list: ["product@1"], or tables.')
    declared = []
    for part in entry:
        table: Any = {"schema": part} if isinstance(part, str) else part
        if not isinstance(table, Mapping):
            raise UsageError("a schema must be a text or a table.")
        if wrong := [*_mistyped(table)]:
            raise UsageError(" ".join(wrong))
        declared.append(
            DeclaredSchema(
                SchemaRef.parse(table["schema"]),
                tuple(map(str, Condition.parse_all(table.get("when", ())))),
                tuple(url_patterns(table.get("only_urls", ()))),
                checked_rules(table.get("rules")),
                table.get("learn", False),
                table.get("grounding", "warn"),
            )
        )
    if twice := sorted(name for name, times in Counter(schema.ref.name for schema in declared).items() if times > 1):
        raise UsageError(f"schemas names {', '.join(map(repr, twice))} twice.")
    return tuple(declared)


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
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


async def plan_schemas(c: Connection, wanted: Sequence[DeclaredSchema], source_id: int | None) -> SchemaStep | None:
    """Return the change that attaches exactly the declared schemas to a source; None if nothing changes."""
    before = {carried.schema.name: carried for carried in (await schemas.attached(c, source_id) if source_id else ())}
    before_texts = {name: _notation(schema.schema, _as_declared(schema)) for name, schema in before.items()}
    planned: list[tuple[Schema, DeclaredSchema, AttachedSchema | None]] = []
    for declared in wanted:
        try:
            schema = await resolve(c, str(declared.ref))
        except NotFoundError as problem:
            raise UsageError(str(problem), hint=problem.hint) from None
        check_fields(schema, [*declared.rules, *(Condition.parse(text).path[0] for text in declared.conditions)])
        planned.append((schema, declared, before.get(declared.ref.name)))
    differing = [step for step in planned if _notation(*step[:2]) != before_texts.get(step[1].ref.name)]
    dropped = sorted(before.keys() - {declared.ref.name for declared in wanted})
    if not differing and not dropped:
        return None
    after_texts = [
        _notation(schema, declared) for schema, declared, _ in sorted(planned, key=lambda step: step[0].name)
    ]
    return SchemaStep(list(before_texts.values()), after_texts, differing, dropped)


async def write_schemas(c: Connection, source_id: int, step: SchemaStep) -> None:
    """Apply a planned change. Learned rules are kept, unless learning is switched off."""
    for schema, declared, before in step.carried:
        learned = before.rules if before is not None and declared.learns else {}
        rules = {**{name: rule for name, rule in learned.items() if rule.get("by") != "user"}, **declared.rules}
        number = await schemas.number_of(c, await schemas.add(c, schema))
        how: dict[str, Any] = {"grounding": declared.grounding, "learns": declared.learns, "rules": rules}
        how |= {"conditions": declared.conditions, "only_urls": declared.only_urls}
        await schemas.attach(c, source_id, schema, number, **how)
    for name in step.dropped:
        await schemas.detach(c, source_id, name)


def _as_declared(carried: AttachedSchema) -> DeclaredSchema:
    """Return an attached schema in the form of a declaration."""
    rules = {name: rule for name, rule in carried.rules.items() if rule.get("by") == "user"}
    ref = SchemaRef(carried.schema.name, carried.schema.number)
    return DeclaredSchema(
        ref, tuple(carried.conditions), tuple(carried.only_urls), rules, carried.learns, carried.grounding
    )


def _notation(schema: Schema, declared: DeclaredSchema) -> Any:
    """Return a schema in the notation of the declaration file: a name, or a table."""
    options = {
        "when": list(declared.conditions),
        "only_urls": list(declared.only_urls),
        "rules": {name: rule["at"] for name, rule in sorted(declared.rules.items())},
        "learn": declared.learns,
        "grounding": declared.grounding if declared.grounding != "warn" else None,
    }
    options = {name: value for name, value in options.items() if value}
    return {"schema": schema.ref, **options} if options else schema.ref


def checked_rules(rules: Mapping[str, str] | None) -> dict[str, dict[str, str]]:
    """Return the user's rules for fields in their stored form; raise `UsageError` if one is invalid."""
    checked = {}
    for name, text in (rules or {}).items():
        try:
            FieldRule.parse(text)
        except ValueError as problem:
            raise UsageError(
                f"The rule {text!r} for {name!r} cannot be read: {problem}.",
                hint="A CSS selector or an XPath, then what is meant: '.product .amount | number'.",
            ) from None
        checked[name] = {"at": text, "by": "user"}
    return checked


def url_patterns(patterns: Sequence[str]) -> list[str]:
    """Return the URL patterns, validated; an empty list if one of them matches every URL."""
    for pattern in patterns:
        if not pattern.strip() or len(pattern) > _LONGEST_PATTERN or not pattern.isprintable():
            raise UsageError(
                f"{pattern[:80]!r} is no pattern for URLs.",
                hint="A star is any part of a URL: '*/lamps/*'; '*' is all.",
            )
    return sorted({pattern.strip() for pattern in patterns} - {"*"}) if "*" not in patterns else []


def check_fields(schema: Schema, names: Sequence[str]) -> None:
    """Raise `UsageError` for rules and conditions on fields that the schema does not have."""
    unknown = [name for name in names if name not in schema.properties]
    if unknown:
        raise UsageError(
            f"{schema.ref} has no field {', '.join(map(repr, unknown))}.",
            hint=f"Its fields are: {', '.join(schema.properties)}.",
        )
