"""Schemas of sources, as commands and files declare them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from rowen.errors import NotFoundError, UsageError
from rowen.model.extraction import Grounding
from rowen.model.schemas import Schema, SchemaRef
from rowen.model.search import Condition
from rowen.operations.schemas import resolve
from rowen.store import schemas, source_schemas
from rowen.store.database import Connection
from rowen.store.source_schemas import Carried

__all__ = [
    "DeclaredSchema",
    "SchemaStep",
    "check_fields",
    "checked_rules",
    "declared_schemas",
    "plan_schemas",
    "url_patterns",
    "write_schemas",
]

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
    carried: Sequence[tuple[Schema, DeclaredSchema, Carried | None]] = ()
    dropped: Sequence[str] = ()


def declared_schemas(entry: Any) -> tuple[DeclaredSchema, ...]:
    """Return the schemas in an entry of a file: names or tables."""
    if not isinstance(entry, list):
        raise UsageError('schemas must be a list: ["product@1"], or tables.')
    found = tuple(_declared({"schema": one} if isinstance(one, str) else one) for one in entry)
    if twice := sorted(name for name, times in Counter(one.ref.name for one in found).items() if times > 1):
        raise UsageError(f"schemas names {', '.join(map(repr, twice))} twice.")
    return found


def _declared(entry: Any) -> DeclaredSchema:
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
    held = {one.schema.name: one for one in (await source_schemas.carried(c, source_id) if source_id else ())}
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
        number = await schemas.number_of(c, schema)
        how: dict[str, Any] = {"grounding": one.grounding, "learns": one.learns, "rules": rules}
        how |= {"conditions": one.conditions, "only_urls": one.only_urls}
        await source_schemas.carry(c, source_id, schema, number, **how)
    for name in step.dropped:
        await source_schemas.drop(c, source_id, name)


async def _resolved(c: Connection, one: DeclaredSchema) -> Schema:
    try:
        schema = await resolve(c, str(one.ref))
    except NotFoundError as problem:
        raise UsageError(str(problem), hint=problem.hint) from None
    check_fields(schema, [*one.rules, *(Condition.parse(text).path[0] for text in one.conditions)])
    return schema


def _as_declared(held: Carried) -> DeclaredSchema:
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
