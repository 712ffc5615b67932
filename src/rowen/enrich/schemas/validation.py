"""Whether a schema may be used at all, and whether an answer satisfies it.

Nothing is ever fetched for a schema, and its patterns are matched in linear time: an engine without backtracking
refuses those that it cannot match so.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from rowen.enrich.schemas.cost import DEEPEST_DATA, SchemaCost, schema_cost
from rowen.errors import UsageError
from rowen.model.hashes import canonical_json
from rowen.model.schemas import Schema

if TYPE_CHECKING:
    from jsonschema_rs import Validator

__all__ = ["Violation", "check_definition", "violations"]

# The largest bundled schema has 3 kB. At ten times this, a provider refuses it, and each call would pay for it.
_MOST_BYTES = 100_000
# OpenAI allows 10 levels, of which each is two or three of JSON; deeper ones describe no page.
_DEEPEST = 64
# A compiled pattern; the engine's own limit is ten times as large, and takes a second to reach.
_PATTERN_BYTES = 1 << 20
# As many as a model can mend at once; more of them are about the same mistake.
MOST_VIOLATIONS = 10
# Comparing a value with a subschema takes 10 ns, where neither a pattern nor an error is involved.
_MOST_STEPS = 5_000_000
# Matching takes 3 ns for each state and character at worst.
_MOST_MATCHING = 50_000_000
# A value that is copied takes 70 ns.
_MOST_COPIED = 1_000_000
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class Violation(NamedTuple):
    """One thing that is wrong with an answer: where, as a JSON pointer, and what."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path or 'the whole answer'}: {self.what}"


def check_definition(definition: Any) -> Mapping[str, Any]:
    """A JSON Schema that can be extracted against; raises `UsageError` for one that cannot."""
    if not isinstance(definition, dict):
        raise UsageError("A schema is a JSON object.")
    try:
        is_large = len(canonical_json(definition)) > _MOST_BYTES
    except RecursionError:
        raise _too_deep() from None
    if is_large:
        raise UsageError(f"A schema may have {_MOST_BYTES:,} bytes.", hint="Leave out what no page says.")
    for place, node in _nodes(definition):
        _refuse_remote(place, node)
    if definition.get("type") != "object" or not isinstance(definition.get("properties"), dict):
        raise UsageError(
            "A schema for extraction has `type` object and `properties` at its top.",
            hint="Put a list into a property of its own: {'items': [...]}.",
        )
    schema_cost(definition)
    _validator_of(definition)
    return definition


def violations(schema: Schema, data: Any, *, partial: bool = False) -> list[Violation]:
    """What is wrong with data, at most ten things; nothing if it satisfies the schema.

    What is missing in a `partial` answer is not wrong: another part of the page may have it.
    """
    compiled = _compiled(canonical_json(dict(schema.definition)))
    size = _size(data)
    if wrong := compiled.refuse(size):
        return [Violation("", wrong)]
    if compiled.validator.is_valid(data):
        return []
    if compiled.is_small(size):
        found = _explained(compiled, data, partial=partial)
    else:
        missing = [] if partial else [name for name in schema.required if name not in data]
        found = _explained_by_field(compiled, data, missing, partial=partial)
    return list(islice(found, MOST_VIOLATIONS))


class _Size(NamedTuple):
    """How large data is: values with the names of fields, their characters, levels."""

    values: int
    chars: int
    depth: int


class _Compiled(NamedTuple):
    """A validator, what a value can cost it, and the same without the demands on the whole answer."""

    validator: "Validator"
    cost: SchemaCost
    fields: "Validator"

    def refuse(self, size: _Size) -> str | None:
        """Tell why data of a size is not validated."""
        if size.depth > DEEPEST_DATA:
            return f"it is nested more than {DEEPEST_DATA} levels deep"
        if size.values * self.cost.steps > _MOST_STEPS or size.chars * self.cost.states > _MOST_MATCHING:
            return "it is too large for what its schema compares it with"
        return None

    def is_small(self, size: _Size) -> bool:
        """Whether all errors of such data can be listed. Each one has a copy of the value that it is about."""
        return self.cost.steps * size.values * (size.values + size.chars // 100) <= _MOST_COPIED


def _explained(compiled: _Compiled, data: Any, *, partial: bool) -> Iterator[Violation]:
    for error in compiled.validator.iter_errors(data):
        is_absence = error.kind.name == "required" or error.instance is None
        if not (is_absence and partial):
            yield Violation(_pointer(error.instance_path), error.message[:300])


def _explained_by_field(
    compiled: _Compiled, data: Any, missing: Sequence[str], *, partial: bool
) -> Iterator[Violation]:
    """What is wrong with large data: its fields, and the entries of its lists, are validated one at a time."""
    yield from (Violation("", f'"{name}" is a required property') for name in missing)
    is_told = bool(missing)
    for name, at, value in _parts(data):
        part = {name: value if at is None else [value]}
        if compiled.fields.is_valid(part):
            continue
        path: list[Any] = [name] if at is None else [name, at]
        if not compiled.is_small(_size(part)):
            is_told = True
            yield Violation(_pointer(path), "it does not satisfy the schema, and is too large to tell why")
            continue
        for error in compiled.fields.iter_errors(part):
            place = list(error.instance_path)
            is_absence = error.kind.name == "required" or error.instance is None
            # Demands on the whole answer, or on the whole list, say nothing of a part of it.
            if len(place) >= len(path) and not (is_absence and partial):
                is_told = True
                yield Violation(_pointer([*path, *place[len(path) :]]), error.message[:300])
    if not is_told and not partial:
        yield Violation("", "it does not satisfy the schema, and is too large to tell why")


def _parts(data: Any) -> Iterator[tuple[str, int | None, Any]]:
    for name, value in data.items() if isinstance(data, Mapping) else ():
        if isinstance(value, list):
            yield from ((name, at, entry) for at, entry in enumerate(value))
        else:
            yield name, None, value


def _size(data: Any) -> _Size:
    """The size of data; nothing is counted beyond what is refused."""
    values = chars = depth = 0
    waiting: list[tuple[Any, int]] = [(data, 0)]
    while waiting and depth <= DEEPEST_DATA and values <= _MOST_STEPS:
        value, level = waiting.pop()
        depth = max(depth, level)
        values += 1
        if isinstance(value, str):
            chars += len(value)
        elif isinstance(value, Mapping):
            values += len(value)
            chars += sum(map(len, value))
            waiting += [(inner, level + 1) for inner in value.values()]
        elif isinstance(value, list):
            waiting += [(inner, level + 1) for inner in value]
    return _Size(values, chars, depth)


def _pointer(path: Iterable[Any]) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def _nodes(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All objects of a schema with their places, without recursion: it may be nested out of spite."""
    waiting = [("", value, 0)]
    while waiting:
        where, one, depth = waiting.pop()
        if depth > _DEEPEST:
            raise _too_deep()
        if isinstance(one, dict):
            yield where, one
            waiting += [
                (f"{where}/{name}", inner, depth + 1) for name, inner in one.items() if name not in ("enum", "const")
            ]
        elif isinstance(one, list):
            waiting += [(f"{where}/{number}", inner, depth + 1) for number, inner in enumerate(one)]


def _too_deep() -> UsageError:
    return UsageError(f"The schema is nested more than {_DEEPEST} levels deep.")


def _refuse_remote(place: str, node: Mapping[str, Any]) -> None:
    for word in _REFERENCES:
        target = node.get(word)
        if isinstance(target, str) and not target.startswith("#"):
            raise UsageError(
                f"{place or 'The schema'} refers to {target[:100]!r}, and nothing is fetched for a schema.",
                hint="Copy what it refers to into $defs.",
            )


@lru_cache(maxsize=256)  # as many schemas as a process meets; each holds a few kB
def _compiled(key: bytes) -> _Compiled:
    definition = json.loads(key)
    cost = schema_cost(definition)
    fields = {word: value for word, value in definition.items() if word not in ("required", "minProperties")}
    return _Compiled(_validator_of(definition), cost, _validator_of(fields))


def _validator_of(definition: Any) -> "Validator":
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(
            definition,
            offline=True,
            validate_formats=True,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES),
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as problem:
        raise UsageError(f"This is no JSON Schema: {str(problem).partition(chr(10))[0][:300]}") from None
