"""Fit a page's markup to a schema: JSON-LD, microdata, OpenGraph, data of frameworks, tables.

Nothing is guessed: a field is filled by the paths that its schema names (`x-structured`), or by its own name. If all
that is required is there and valid, no model is asked; otherwise what was found is told to it as a hint.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rowen.enrich.schemas.validation import violations
from rowen.model.items import plain_name
from rowen.model.schemas import Schema
from rowen.model.text import finite

_NUMBER = re.compile(r"-?\d+(?:[.,\s'\u00a0]\d+)*")
_PREFIX = re.compile(r"https?://(?:www\.)?schema\.org/")
_TRUE = frozenset({"true", "yes", "1"})
_FALSE = frozenset({"false", "no", "0"})
# Names that the paths of schema.org lead through, beside the fields themselves.
_THROUGH = ("name", "value", "text", "@id", "url")
# Markup nests an offer in a product and a price in an offer; deeper ones are of something else.
_DEEPEST = 6


class Filled(NamedTuple):
    """The fields that were found, and whether they are an answer by themselves."""

    data: dict[str, Any]
    is_enough: bool


def wanted_names(schemas: Sequence[Schema]) -> tuple[str, ...]:
    """Return the names under which the fields of schemas may stand in markup, as a reader of pages needs them."""
    names = {
        plain_name(step) for schema in schemas for path in _all_paths(schema.definition) for step in path.split(".")
    }
    return tuple(sorted(names | {plain_name(name) for name in _THROUGH})) if names else ()


def filled(schema: Schema, nodes: Sequence[Mapping[str, Any]], *, given: Mapping[str, Any] | None = None) -> Filled:
    """Fill a schema from one node of the markup, and from others that agree with it. `given` fields go first.

    Where several things have all that is required, as on a list of products, nobody knows which one is meant.
    """
    types = {str(one) for one in schema.definition.get("x-types") or ()}
    ranked = [node for node in nodes if not types or not _types(node) or _types(node) & types]
    found = [one for one in (_valid_fields(schema, _of_node(schema.definition, node)) for node in ranked) if one]
    found.sort(key=lambda one: -sum(name in one for name in (*schema.required, *schema.properties)))
    data = dict(given or {})
    for one in found:
        if all(data[name] == value for name, value in one.items() if name in data) or one is found[0]:
            data = {**one, **data}
    data = _valid_fields(schema, {name: data[name] for name in schema.properties if name in data})
    is_clear = bool(given) or not any(_has_all(schema, one) and _disagree(one, data) for one in found)
    # What is optional and not there is told as null, as a model would have to.
    fields = schema.properties
    whole = {name: data.get(name) for name in fields if name in data or _is_nullable(fields[name])}
    if is_clear and _has_all(schema, data) and not violations(schema, whole):
        return Filled(whole, is_enough=True)
    return Filled(data, is_enough=False)


def _has_all(schema: Schema, data: Mapping[str, Any]) -> bool:
    """Return whether all that is required is there; a schema that requires nothing cannot tell."""
    return bool(schema.required) and all(data.get(name) is not None for name in schema.required)


def _disagree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return any(other.get(name) != value for name, value in one.items() if name in other)


def converted(value: Any, node: Any) -> Any:
    """Convert a value to the type of its schema; None if that is impossible."""
    kinds = _kinds(node)
    if isinstance(value, list) and "array" not in kinds:
        value = value[0] if value else None
    if isinstance(value, Mapping) and "object" not in kinds and "array" not in kinds:
        value = next((value[name] for name in ("name", "value", "text", "@value", "@id", "url") if name in value), None)
    if value is None:
        return None
    if "array" in kinds:
        parts = value if isinstance(value, list) else _listed(value)
        made = [converted(part, node.get("items")) for part in parts]
        return [one for one in made if one is not None]
    return _scalar(value, kinds)


def _scalar(value: Any, kinds: Sequence[str]) -> Any:
    if "boolean" in kinds:
        told = str(value).strip().lower()
        return True if told in _TRUE else False if told in _FALSE else None
    if "number" in kinds or "integer" in kinds:
        return _number(value, integer="number" not in kinds)
    if "string" in kinds and isinstance(value, str | int | float):
        return _PREFIX.sub("", " ".join(str(value).split())) or None
    return value if not kinds or "object" in kinds else None


def _number(value: Any, *, integer: bool) -> int | float | None:
    if isinstance(value, bool):
        return None
    if not isinstance(value, int | float):
        found = _NUMBER.search(str(value))
        if found is None:
            return None
        digits = re.sub(r"[\s'\u00a0]", "", found[0])
        last = max(digits.rfind("."), digits.rfind(","))
        # One separator before three digits and no other: thousands, unless it is the dot of a program.
        thousands = digits.count(",") == 1 and "." not in digits and len(digits) - last == 4
        whole = re.sub(r"[.,]", "", digits[:last] if last >= 0 and not thousands else digits)
        value = float(f"{whole}.{digits[last + 1 :]}") if last >= 0 and not thousands else float(whole)
    number = finite(value)
    if number is None:
        return None
    return int(number) if number == int(number) else (None if integer else number)


def _listed(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [value]


def _all_paths(node: Any) -> Iterator[str]:
    """Yield the paths of all fields, also of those in lists."""
    if not isinstance(node, Mapping):
        return
    for name, one in (node.get("properties") or {}).items():
        yield name
        if isinstance(one, Mapping):
            yield from one.get("x-structured") or ()
            yield from _all_paths(one)
            yield from _all_paths(one.get("items"))


def _of_node(definition: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, one in (definition.get("properties") or {}).items():
        paths = [*(one.get("x-structured") or () if isinstance(one, Mapping) else ()), name]
        for path in paths:
            value = converted(_at(node, path.split(".")) or _rows(node, one), one)
            if value not in (None, [], ""):
                found[name] = value
                break
    return found


def _rows(node: Mapping[str, Any], field: Any) -> Any:
    """Return the rows of a table whose columns are what the entries of a list must have."""
    rows, items = node.get("rows"), field.get("items") if isinstance(field, Mapping) else None
    if not isinstance(rows, list) or not isinstance(items, Mapping) or not items.get("properties"):
        return None
    found = [_of_node(items, row) for row in rows if isinstance(row, Mapping)]
    required = items.get("required") or list(items["properties"])[:1]
    return [row for row in found if all(name in row for name in required)] or None


def _at(node: Any, path: Sequence[str], depth: int = 0) -> Any:
    """Return the value at a path; compare names without case and punctuation."""
    if not path or depth > _DEEPEST:
        return node
    if isinstance(node, list):
        found = [one for one in (_at(entry, path, depth + 1) for entry in node) if one is not None]
        return found or None
    if not isinstance(node, Mapping):
        return None
    wanted = plain_name(path[0])
    value = next((one for name, one in node.items() if plain_name(name) == wanted), None)
    return None if value is None else _at(value, path[1:], depth + 1)


def _types(node: Mapping[str, Any]) -> set[str]:
    told = node.get("@type")
    kinds = told if isinstance(told, list) else [told]
    return {_PREFIX.sub("", str(kind)) for kind in kinds if kind}


def _is_nullable(node: Any) -> bool:
    return "null" in _kinds(node)


def _kinds(node: Any) -> list[str]:
    """Return the types that a field may have, also where they are told as alternatives."""
    if not isinstance(node, Mapping):
        return []
    told = node.get("type")
    if told is None:
        return [kind for one in node.get("anyOf") or () for kind in _kinds(one)]
    return [told] if isinstance(told, str) else list(told)


def _valid_fields(schema: Schema, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields without those that the schema does not allow."""
    wrong = {violation.path.split("/")[1] for violation in violations(schema, data) if violation.path}
    return {name: value for name, value in data.items() if name not in wrong}
