"""Validate schemas, limit the cost of validation, and validate answers.

A schema never causes a request. Patterns are matched in linear time, by an engine without backtracking.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from rowen.errors import UsageError
from rowen.model.hashes import canonical_json
from rowen.model.schemas import Schema
from rowen.model.text import pattern_states

if TYPE_CHECKING:
    from jsonschema_rs import Validator

# The largest bundled schema has 3 kB. Providers reject ten times this limit, and each call pays for the schema.
_MOST_BYTES = 100_000
# OpenAI allows 10 levels; one of these levels is two or three levels of JSON.
_DEEPEST = 64
# The size of a compiled pattern. The engine's own limit is ten times as large, and takes a second to reach.
_PATTERN_BYTES = 1 << 20
# The number that a model can correct at once; more violations usually have the same cause.
MOST_VIOLATIONS = 10
# One comparison of a value with a subschema takes 10 ns without patterns and errors.
_MOST_STEPS = 5_000_000
# Matching one character takes at most 3 ns for each state.
_MOST_MATCHING = 50_000_000
# Copying a value takes 70 ns.
_MOST_COPIED = 1_000_000
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
DEEPEST_DATA = 32
"""The maximum number of nested objects and lists in data; real data has at most ten levels."""
# A schema of 100 kB with one line for each field has 4,000 subschemas.
_MOST_SUBSCHEMAS = 5_000
# Typical values are compared with fewer than 100 subschemas, or with 1,000 if there are many alternatives. Ten times as
# many take 0.1 ms.
_MOST_COMPARISONS = 10_000
# Compiling one takes up to 3 microseconds, so all of them take 60 ms.
_MOST_STATES = 20_000
# Compiling a pattern takes a minimum time, even if the pattern is short.
_PATTERN_STATES = 50
# The number of options in an error message that take as long as one step.
_OPTIONS_PER_STEP = 100
_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")
_BY_NAME = ("dependentSchemas", "dependencies")
_BELOW = (
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("items", "additionalItems", "unevaluatedItems", "contains"),
)
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_DATA = frozenset({"enum", "const", "default", "examples"})


class Violation(NamedTuple):
    """One error in an answer: its JSON pointer and a description."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path or 'the whole answer'}: {self.what}"


def check_definition(definition: Any) -> Mapping[str, Any]:
    """Return a JSON Schema that is valid for extraction; raise `UsageError` if it is not."""
    if not isinstance(definition, dict):
        raise UsageError("A schema is a JSON object.")
    try:
        is_large = len(canonical_json(definition)) > _MOST_BYTES
    except RecursionError:
        raise _too_deep() from None
    if is_large:
        raise UsageError(f"A schema may have {_MOST_BYTES:,} bytes.", hint="Leave out what no page says.")
    for place, node in _nodes(definition):
        for target in (node.get(word) for word in _REFERENCES):
            if isinstance(target, str) and not target.startswith("#"):
                raise UsageError(
                    f"{place or 'The schema'} refers to {target[:100]!r}, and nothing is fetched for a schema.",
                    hint="Copy what it refers to into $defs.",
                )
    if definition.get("type") != "object" or not isinstance(definition.get("properties"), dict):
        raise UsageError(
            "A schema for extraction has `type` object and `properties` at its top.",
            hint="Put a list into a property of its own: {'items': [...]}.",
        )
    schema_cost(definition)
    _validator_of(definition)
    return definition


def violations(schema: Schema, data: Any, *, partial: bool = False) -> list[Violation]:
    """Return up to ten violations.

    Missing fields of a `partial` answer are no violations, since another part of the page may have them.
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
    """The size of data: the number of values and field names, the number of their characters, and the depth."""

    values: int
    chars: int
    depth: int


class SchemaCost(NamedTuple):
    """The maximum cost of validating one value: the number of compared subschemas, and of states of their patterns."""

    steps: int
    states: int


class _Compiled(NamedTuple):
    """A validator, its cost per value, and a validator `fields` without the constraints of the whole answer."""

    validator: "Validator"
    cost: SchemaCost
    fields: "Validator"

    def refuse(self, size: _Size) -> str | None:
        """Return the reason why data is too large to be validated; None if it is not."""
        if size.depth > DEEPEST_DATA:
            return f"it is nested more than {DEEPEST_DATA} levels deep"
        if size.values * self.cost.steps > _MOST_STEPS or size.chars * self.cost.states > _MOST_MATCHING:
            return "it is too large for what its schema compares it with"
        return None

    def is_small(self, size: _Size) -> bool:
        """Return whether data is small enough to list all its errors. Each error contains a copy of its value."""
        return self.cost.steps * size.values * (size.values + size.chars // 100) <= _MOST_COPIED


def _explained(compiled: _Compiled, data: Any, *, partial: bool) -> Iterator[Violation]:
    for error in compiled.validator.iter_errors(data):
        is_absence = error.kind.name == "required" or error.instance is None
        if not (is_absence and partial):
            yield Violation(_pointer(error.instance_path), error.message[:300])


def _explained_by_field(
    compiled: _Compiled, data: Any, missing: Sequence[str], *, partial: bool
) -> Iterator[Violation]:
    """Yield the violations of large data; each field is validated separately, and each entry of a list."""
    yield from (Violation("", f'"{name}" is a required property') for name in missing)
    is_explained = bool(missing)
    parts: list[tuple[str, int | None, Any]] = []
    for name, value in data.items() if isinstance(data, Mapping) else ():
        entries: list[tuple[int | None, Any]] = [*enumerate(value)] if isinstance(value, list) else [(None, value)]
        parts += [(name, at, entry) for at, entry in entries]
    for name, at, value in parts:
        part = {name: value if at is None else [value]}
        if compiled.fields.is_valid(part):
            continue
        path: list[Any] = [name] if at is None else [name, at]
        if not compiled.is_small(_size(part)):
            is_explained = True
            yield Violation(_pointer(path), "it does not satisfy the schema, and is too large to tell why")
            continue
        for error in compiled.fields.iter_errors(part):
            place = list(error.instance_path)
            is_absence = error.kind.name == "required" or error.instance is None
            # Constraints of the whole answer or of the whole list do not apply to its parts.
            if len(place) >= len(path) and not (is_absence and partial):
                is_explained = True
                yield Violation(_pointer([*path, *place[len(path) :]]), error.message[:300])
    if not is_explained and not partial:
        yield Violation("", "it does not satisfy the schema, and is too large to tell why")


def _size(data: Any) -> _Size:
    """Return the size of data; counting stops at the limits."""
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
    """Yield all objects of a schema with their places; without recursion, since the schema may be nested too deeply."""
    waiting = [("", value, 0)]
    while waiting:
        place, node, depth = waiting.pop()
        if depth > _DEEPEST:
            raise _too_deep()
        if isinstance(node, dict):
            yield place, node
            inner = [(name, value) for name, value in node.items() if name not in ("enum", "const")]
        else:
            inner = [*enumerate(node)] if isinstance(node, list) else []
        waiting += [(f"{place}/{name}", value, depth + 1) for name, value in inner]


def _too_deep() -> UsageError:
    return UsageError(f"The schema is nested more than {_DEEPEST} levels deep.")


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


@dataclass(slots=True)
class _Node:
    """One subschema, with its weights.

    It applies the subschemas in `same` to the same value, those in `below` to each inner value, and those in `fields`
    to single fields.
    """

    steps: int
    states: int
    same: list[Any] = field(default_factory=list)
    below: list[Any] = field(default_factory=list)
    fields: list[list[Any]] = field(default_factory=list)
    evaluates_again: bool = False


def schema_cost(definition: Mapping[str, Any]) -> SchemaCost:
    """Return the maximum cost of validating one value; raise `UsageError` if it is too high."""
    nodes = _subschemas(definition)
    if sum(node.states for node in nodes.values()) > _MOST_STATES:
        raise UsageError("The patterns of the schema are too large.", hint="Repeat less in them, or leave some out.")
    order = _sorted(nodes, id(definition))
    root = id(definition)
    steps = _most(nodes, order, root, lambda node: node.steps, limit=_MOST_COMPARISONS)
    if steps > _MOST_COMPARISONS:
        raise UsageError(
            f"The schema compares a value with more than {_MOST_STEPS:,} subschemas, since its references multiply.",
            hint="Leave out alternatives that say the same.",
        )
    if not any(node.states for node in nodes.values()):
        return SchemaCost(steps, 0)
    return SchemaCost(steps, _most(nodes, order, root, lambda node: node.states, limit=_MOST_STATES**2))


def _subschemas(definition: Mapping[str, Any]) -> dict[int, _Node]:
    """Return all subschemas that can apply to data, by their `id()`."""
    anchors = _Anchors(definition)
    nodes: dict[int, _Node] = {}
    waiting: list[Any] = [definition]
    while waiting:
        schema = waiting.pop()
        if id(schema) in nodes:
            continue
        node = nodes[id(schema)] = _node(schema, anchors) if isinstance(schema, dict) else _Node(1, 0)
        if len(nodes) > _MOST_SUBSCHEMAS:
            raise UsageError(f"A schema may have {_MOST_SUBSCHEMAS:,} subschemas.")
        waiting += [*node.same, *node.below, *(inner for group in node.fields for inner in group)]
    return nodes


def _node(schema: dict[str, Any], anchors: "_Anchors") -> _Node:
    node = _Node(1, 0)
    if isinstance(names := schema.get("required"), list):
        node.steps += len(names)
    if isinstance(options := schema.get("enum"), list):
        node.steps += len(options) // _OPTIONS_PER_STEP
    if isinstance(text := schema.get("pattern"), str):
        node.states += _PATTERN_STATES + pattern_states(text, ascii_words=True)
    node.evaluates_again = any(word in schema for word in _UNEVALUATED)
    for word in _LISTS:
        node.same += schema[word] if isinstance(schema.get(word), list) else ()
    node.same += [schema[word] for word in _SINGLE if word in schema]
    for word in _BY_NAME:
        node.same += _values(schema.get(word))
    for word in ("dependentRequired", "dependencies"):
        node.steps += sum(len(value) for value in _values(schema.get(word)) if isinstance(value, list))
    for word in _REFERENCES:
        node.same += anchors.find(schema[word]) if isinstance(schema.get(word), str) else ()
    node.fields += [group for word in ("properties", "prefixItems") if (group := _values(schema.get(word)))]
    if isinstance(items := schema.get("items"), list) and items:
        node.fields.append(items)
    node.below += [schema[word] for word in _BELOW if isinstance(schema.get(word), dict | bool)]
    if isinstance(patterns := schema.get("patternProperties"), dict):
        node.states += sum(_PATTERN_STATES + pattern_states(pattern, ascii_words=True) for pattern in patterns)
        node.below += patterns.values()
    return node


def _values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


class _Anchors:
    """The targets of references within a schema."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        self._definition = definition
        self._named: dict[str, list[Any]] = {}
        for schema in _objects(definition):
            if schema is not definition and isinstance(schema.get("$id"), str):
                raise UsageError("Only the top of a schema may have an $id.", hint="Leave it out: nothing is fetched.")
            for word in ("$anchor", "$dynamicAnchor"):
                if isinstance(schema.get(word), str):
                    self._named.setdefault(schema[word], []).append(schema)

    def find(self, reference: str) -> list[Any]:
        """Return the possible targets of a reference; raise `UsageError` if there are none."""
        place = unquote(reference.removeprefix("#"))
        if place and not place.startswith("/"):
            targets = self._named.get(place, [])
        else:
            targets = list(_at(self._definition, place.split("/")[1:]))
        if not targets:
            raise UsageError(f"This is no JSON Schema: it refers to {reference[:100]!r}, which does not exist.")
        return targets


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += [inner for name, inner in node.items() if name not in _DATA]
        elif isinstance(node, list):
            waiting += node


def _at(value: Any, steps: Sequence[str]) -> Iterator[Any]:
    for step in steps:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and len(name) < 9 and int(name) < len(value):
            value = value[int(name)]
        else:
            return
    yield value


def _sorted(nodes: Mapping[int, _Node], root: int) -> list[int]:
    """Sort subschemas so that each follows the subschemas that it applies to the same value; refuse cycles."""
    order: list[int] = []
    begun: set[int] = set()
    done: set[int] = set()
    for start in (root, *nodes):
        waiting = [start]
        while waiting:
            at = waiting[-1]
            if at in done:
                waiting.pop()
            elif at in begun:
                waiting.pop()
                done.add(at)
                order.append(at)
            else:
                begun.add(at)
                inner = [id(schema) for schema in nodes[at].same if id(schema) not in done]
                if not begun.isdisjoint(inner):
                    raise UsageError("The schema refers to itself for the same value, without end.")
                waiting += inner
    return order


def _most(
    nodes: Mapping[int, _Node], order: Sequence[int], root: int, weight: Callable[[_Node], int], *, limit: int
) -> int:
    """Return the highest total weight for one value at any depth; totals above the limit are not distinguished."""
    weights = {at: weight(nodes[at]) for at in order}
    above: dict[int, int] = {}
    most = 0
    for depth in range(DEEPEST_DATA + 1):
        level: dict[int, int] = {}
        for at in order:
            node = nodes[at]
            total = weights[at]
            if depth:
                total = sum(above[id(schema)] for schema in node.below)
                # An inner value has one name, or one index in a list.
                total += sum(max(above[id(schema)] for schema in group) for group in node.fields)
            # Unevaluated fields are found by evaluating the other fields a second time.
            total += sum(level[id(schema)] for schema in node.same) * (2 if node.evaluates_again else 1)
            level[at] = min(total, limit + 1)
        most = max(most, level[root])
        if most > limit or level == above or not any(level.values()):
            break
        above = level
    return most
