"""Map a page's markup to a schema: JSON-LD, microdata, OpenGraph, data of web frameworks, tables.

The paths in a field's schema (`x-structured`), or its name, select the value. If all required fields are present and
valid, no model is called; otherwise the model receives the fields as a hint.
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
# Names of schema.org that occur in paths in addition to the fields.
_THROUGH = ("name", "value", "text", "@id", "url")
# Markup nests an offer in a product and a price in an offer; deeper fields belong to another object.
_DEEPEST = 6


class Filled(NamedTuple):
    """The fields from markup, and whether they are a complete answer."""

    data: dict[str, Any]
    is_enough: bool


def wanted_names(schemas: Sequence[Schema]) -> tuple[str, ...]:
    """Return the names that the fields of schemas may have in markup, so that the page reader extracts them."""
    paths = {path for schema in schemas for path in _all_paths(schema.definition)}
    names = {plain_name(step) for path in paths for step in path.split(".")}
    return tuple(sorted(names | {plain_name(name) for name in _THROUGH})) if names else ()


def filled(schema: Schema, nodes: Sequence[Mapping[str, Any]], *, given: Mapping[str, Any] | None = None) -> Filled:
    """Fill a schema from one node of the markup and from nodes that agree with it; `given` fields take precedence.

    If several different nodes have all required fields, as on a list of products, the result is ambiguous.
    """
    types = {str(name) for name in schema.definition.get("x-types") or ()}
    nodes = [node for node in nodes if not types or not _types(node) or _types(node) & types]
    candidates = [_valid_fields(schema, _of_node(schema.definition, node)) for node in nodes]
    candidates = [candidate for candidate in candidates if candidate]
    candidates.sort(key=lambda candidate: -sum(name in candidate for name in (*schema.required, *schema.properties)))
    data = dict(given or {})
    for candidate in candidates:
        if candidate is candidates[0] or not _contradicts(candidate, data):
            data = {**candidate, **data}
    data = _valid_fields(schema, {name: data[name] for name in schema.properties if name in data})
    complete = [candidate for candidate in candidates if _has_all(schema, candidate)]
    is_clear = bool(given) or not any(_contradicts(candidate, data) for candidate in complete)
    # Absent optional fields are null, as in the answer of a model.
    fields = schema.properties
    whole = {name: data.get(name) for name in fields if name in data or "null" in _kinds(fields[name])}
    if is_clear and _has_all(schema, data) and not violations(schema, whole):
        return Filled(whole, is_enough=True)
    return Filled(data, is_enough=False)


def _has_all(schema: Schema, data: Mapping[str, Any]) -> bool:
    """Return whether all required fields are present; False if the schema requires none."""
    return bool(schema.required) and all(data.get(name) is not None for name in schema.required)


def _contradicts(candidate: Mapping[str, Any], data: Mapping[str, Any]) -> bool:
    return any(data[name] != value for name, value in candidate.items() if name in data)


def converted(value: Any, node: Any) -> Any:
    """Return a value converted to the type of its schema; None if the conversion is impossible."""
    kinds = _kinds(node)
    if isinstance(value, list) and "array" not in kinds:
        value = value[0] if value else None
    if isinstance(value, Mapping) and "object" not in kinds and "array" not in kinds:
        value = next((value[name] for name in ("name", "value", "text", "@value", "@id", "url") if name in value), None)
    if value is None:
        return None
    if "array" in kinds:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        parts = [converted(part, node.get("items")) for part in (value if isinstance(value, list) else [value])]
        return [part for part in parts if part is not None]
    if "boolean" in kinds:
        return {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}.get(str(value).strip().lower())
    if "number" in kinds or "integer" in kinds:
        return _number(value, integer="number" not in kinds)
    if "string" in kinds and isinstance(value, str | int | float):
        return _PREFIX.sub("", " ".join(str(value).split())) or None
    return value if not kinds or "object" in kinds else None


def _number(value: Any, *, integer: bool) -> int | float | None:
    if isinstance(value, bool):
        return None
    if not isinstance(value, int | float):
        match = _NUMBER.search(str(value))
        if match is None:
            return None
        digits = re.sub(r"[\s'\u00a0]", "", match[0])
        last = max(digits.rfind("."), digits.rfind(","))
        # A single comma before three digits separates thousands; a dot may be a decimal point written by a program.
        thousands = digits.count(",") == 1 and "." not in digits and len(digits) - last == 4
        whole = re.sub(r"[.,]", "", digits[:last] if last >= 0 and not thousands else digits)
        value = float(f"{whole}.{digits[last + 1 :]}") if last >= 0 and not thousands else float(whole)
    number = finite(value)
    if number is None:
        return None
    return int(number) if number == int(number) else (None if integer else number)


def _all_paths(node: Any) -> Iterator[str]:
    """Yield the paths of all fields, including fields inside lists."""
    if not isinstance(node, Mapping):
        return
    for name, field in (node.get("properties") or {}).items():
        yield name
        if isinstance(field, Mapping):
            yield from field.get("x-structured") or ()
            yield from _all_paths(field)
            yield from _all_paths(field.get("items"))


def _of_node(definition: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    fields = {}
    for name, field in (definition.get("properties") or {}).items():
        for path in [*(field.get("x-structured") or () if isinstance(field, Mapping) else ()), name]:
            value = converted(_at(node, path.split(".")) or _rows(node, field), field)
            if value not in (None, [], ""):
                fields[name] = value
                break
    return fields


def _rows(node: Mapping[str, Any], field: Any) -> Any:
    """Return the rows of a table that has the columns required for the entries of a list; None if there is none."""
    rows, items = node.get("rows"), field.get("items") if isinstance(field, Mapping) else None
    if not isinstance(rows, list) or not isinstance(items, Mapping) or not items.get("properties"):
        return None
    entries = [_of_node(items, row) for row in rows if isinstance(row, Mapping)]
    required = items.get("required") or list(items["properties"])[:1]
    return [entry for entry in entries if all(name in entry for name in required)] or None


def _at(node: Any, path: Sequence[str], depth: int = 0) -> Any:
    """Return the value at a path; names are compared without case and punctuation."""
    if not path or depth > _DEEPEST:
        return node
    if isinstance(node, list):
        values = [_at(entry, path, depth + 1) for entry in node]
        return [value for value in values if value is not None] or None
    if not isinstance(node, Mapping):
        return None
    wanted = plain_name(path[0])
    value = next((inner for name, inner in node.items() if plain_name(name) == wanted), None)
    return None if value is None else _at(value, path[1:], depth + 1)


def _types(node: Mapping[str, Any]) -> set[str]:
    kinds = node.get("@type")
    return {_PREFIX.sub("", str(kind)) for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind}


def _kinds(node: Any) -> list[str]:
    """Return the types that a field may have, including the types of its alternatives."""
    if not isinstance(node, Mapping):
        return []
    kinds = node.get("type")
    if kinds is None:
        return [kind for alternative in node.get("anyOf") or () for kind in _kinds(alternative)]
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _valid_fields(schema: Schema, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the schema allows."""
    wrong = {violation.path.split("/")[1] for violation in violations(schema, data) if violation.path}
    return {name: value for name, value in data.items() if name not in wrong}
