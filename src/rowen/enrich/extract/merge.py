"""The answers for the parts of a page become one: lists are appended, single values are those that came first."""

from collections.abc import Mapping, Sequence
from typing import Any

from rowen.model.hashes import canonical_json

__all__ = ["merged"]

# By which field the entries of a list are known, where the schema does not say what is required.
_NAMES = ("id", "url", "sku", "version", "name", "title")


def merged(definition: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One answer by rule: the same whatever a model thinks of it."""
    whole: dict[str, Any] = {}
    for answer in answers:
        whole = _objects(definition, whole, answer)
    return whole


def _values(node: Any, first: Any, second: Any) -> Any:
    if first is None:
        return second
    if isinstance(first, list) and isinstance(second, list):
        return _lists(node.get("items") if isinstance(node, Mapping) else None, [*first, *second])
    if isinstance(first, dict) and isinstance(second, dict):
        return _objects(node, first, second)
    return first


def _objects(node: Any, first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    fields = (node.get("properties") or {}) if isinstance(node, Mapping) else {}
    return {
        name: _values(fields.get(name), first.get(name), second.get(name))
        for name in [*first, *(name for name in second if name not in first)]
    }


def _lists(node: Any, entries: Sequence[Any]) -> list[Any]:
    """Entries without repetitions: of the same name they are one, which has what any of them has."""
    found: dict[bytes, Any] = {}
    for entry in entries:
        key = _key(node, entry)
        found[key] = _objects(node, found[key], entry) if key in found and isinstance(entry, dict) else entry
    return list(found.values())


def _key(node: Any, entry: Any) -> bytes:
    if not isinstance(entry, dict):
        return canonical_json([entry])
    required = node.get("required") if isinstance(node, Mapping) else None
    name = next((name for name in (*_NAMES, *(required or ())) if entry.get(name) not in (None, "")), None)
    # What has the same name and costs something else is something else.
    rest = {other: value for other, value in entry.items() if isinstance(value, int | float)}
    return canonical_json([name, entry[name], rest] if name else [None, entry])
