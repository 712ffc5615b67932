"""Bound what it costs to validate data against a schema, before anything is validated.

References make a schema exponentially larger than its text: if each of 20 definitions names the next one twice, one
value is compared with a million subschemas. Here references are counted, never followed one by one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote

from rowen.errors import UsageError
from rowen.model.text import pattern_states

__all__ = ["DEEPEST_DATA", "SchemaCost", "schema_cost"]

DEEPEST_DATA = 32
"""Levels of objects and lists in data; nothing that stands on a page has more than ten."""

# A schema of 100 kB with a line for each field has 4,000.
_MOST_SUBSCHEMAS = 5_000
# An honest value is compared with fewer than 100, one with many alternatives with 1,000. Ten times as many take 0.1 ms.
_MOST_STEPS = 10_000
# Compiling one takes up to 3 microseconds, so that all take 60 ms.
_MOST_STATES = 20_000
# A pattern that is compiled takes some time, however short it is.
_PATTERN_STATES = 50
# Of options that an error lists, so many take as long as one step.
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
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class SchemaCost(NamedTuple):
    """The most that one value of data can cost: subschemas it is compared with, and states of their patterns."""

    steps: int
    states: int


@dataclass(slots=True)
class _Node:
    """One subschema: its own weights, and those that are applied to the same value, to each value below, or to one."""

    steps: int
    states: int
    same: list[Any] = field(default_factory=list)
    below: list[Any] = field(default_factory=list)
    fields: list[list[Any]] = field(default_factory=list)
    evaluates_again: bool = False


def schema_cost(definition: Mapping[str, Any]) -> SchemaCost:
    """Return what a value can cost; raises `UsageError` where that is more than any page needs."""
    nodes = _nodes(definition)
    if sum(node.states for node in nodes.values()) > _MOST_STATES:
        raise UsageError("The patterns of the schema are too large.", hint="Repeat less in them, or leave some out.")
    order = _sorted(nodes, id(definition))
    root = id(definition)
    steps = _most(nodes, order, root, lambda node: node.steps, limit=_MOST_STEPS)
    if steps > _MOST_STEPS:
        raise UsageError(
            f"The schema compares a value with more than {_MOST_STEPS:,} subschemas, since its references multiply.",
            hint="Leave out alternatives that say the same.",
        )
    if not any(node.states for node in nodes.values()):
        return SchemaCost(steps, 0)
    return SchemaCost(steps, _most(nodes, order, root, lambda node: node.states, limit=_MOST_STATES**2))


def _nodes(definition: Mapping[str, Any]) -> dict[int, _Node]:
    """All subschemas that data can meet, by their identity."""
    anchors = _Anchors(definition)
    found: dict[int, _Node] = {}
    waiting: list[Any] = [definition]
    while waiting:
        schema = waiting.pop()
        if id(schema) in found:
            continue
        node = found[id(schema)] = _node(schema, anchors) if isinstance(schema, dict) else _Node(1, 0)
        if len(found) > _MOST_SUBSCHEMAS:
            raise UsageError(f"A schema may have {_MOST_SUBSCHEMAS:,} subschemas.")
        waiting += [*node.same, *node.below, *(one for group in node.fields for one in group)]
    return found


def _node(schema: dict[str, Any], anchors: "_Anchors") -> _Node:
    names = schema.get("required")
    options = schema.get("enum")
    node = _Node(1 + (len(names) if isinstance(names, list) else 0), 0)
    node.steps += len(options) // _OPTIONS_PER_STEP if isinstance(options, list) else 0
    node.states += (
        _PATTERN_STATES + pattern_states(text, ascii_words=True)
        if isinstance(text := schema.get("pattern"), str)
        else 0
    )
    node.evaluates_again = any(word in schema for word in _UNEVALUATED)
    for word in _LISTS:
        node.same += schema[word] if isinstance(schema.get(word), list) else ()
    node.same += [schema[word] for word in _SINGLE if word in schema]
    for word in _BY_NAME:
        node.same += _values(schema.get(word))
    for word in ("dependentRequired", "dependencies"):
        node.steps += sum(len(one) for one in _values(schema.get(word)) if isinstance(one, list))
    node.same += [
        one for word in _REFERENCES if isinstance(schema.get(word), str) for one in anchors.find(schema[word])
    ]
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
    """What the references within a schema lead to."""

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
        """Return what a reference may lead to; raises `UsageError` where nothing stands."""
        place = unquote(reference.removeprefix("#"))
        if place and not place.startswith("/"):
            found = self._named.get(place, [])
        else:
            found = list(_at(self._definition, place.split("/")[1:]))
        if not found:
            raise UsageError(f"This is no JSON Schema: it refers to {reference[:100]!r}, and nothing stands there.")
        return found


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += [inner for name, inner in one.items() if name not in _DATA]
        elif isinstance(one, list):
            waiting += one


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
    """Return subschemas behind those that they apply to the same value; raises `UsageError` for a circle of these."""
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
                inner = [id(one) for one in nodes[at].same]
                if any(one in begun and one not in done for one in inner):
                    raise UsageError("The schema refers to itself for the same value, without end.")
                waiting += [one for one in inner if one not in done]
    return order


def _most(
    nodes: Mapping[int, _Node], order: Sequence[int], root: int, weight: Callable[[_Node], int], *, limit: int
) -> int:
    """Return the largest weight that any one value can meet, at any depth; more than the limit is not told apart."""
    weights = {at: weight(nodes[at]) for at in order}
    above: dict[int, int] = {}
    most = 0
    for depth in range(DEEPEST_DATA + 1):
        level: dict[int, int] = {}
        for at in order:
            node = nodes[at]
            total = weights[at] if not depth else sum(above[id(one)] for one in node.below)
            if depth:
                # A value below has one name, or one place in a list.
                total += sum(max(above[id(one)] for one in group) for group in node.fields)
            # What is unevaluated is found by evaluating the others once more.
            total += sum(level[id(one)] for one in node.same) * (2 if node.evaluates_again else 1)
            level[at] = min(total, limit + 1)
        most = max(most, level[root])
        if most > limit or level == above or not any(level.values()):
            break
        above = level
    return most
