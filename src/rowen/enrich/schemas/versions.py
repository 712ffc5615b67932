"""Bundled schemas, and the differences between two versions of a schema."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from rowen.model.hashes import canonical_json
from rowen.model.schemas import Schema, SchemaChange, SchemaComparison

# Keywords whose smaller value is more permissive, and keywords whose larger value is more permissive.
_LOWER_IS_WIDER = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_HIGHER_IS_WIDER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_TALK = frozenset({"title", "description", "examples", "default", "$comment", "$schema", "$id"})
_HANDLED = frozenset({"properties", "required", "type", "enum", "items", "additionalProperties"})


def compare(older: Schema, newer: Schema) -> SchemaComparison:
    """Return all differences; a difference is breaking unless it is proved to be compatible."""
    changes = tuple(_differences(older.definition, newer.definition, ""))
    if not changes:
        return SchemaComparison(older.ref, newer.ref, "same", ())
    is_breaking = any(change.breaking for change in changes)
    return SchemaComparison(older.ref, newer.ref, "breaking" if is_breaking else "compatible", changes)


def _differences(old: Any, new: Any, place: str) -> Iterator[SchemaChange]:
    if old == new:
        return
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        yield SchemaChange(place or "/", "another schema", breaking=True)
        return
    types, new_types = _types(old), _types(new)
    if types != new_types:
        narrower = new_types is not None and (types is None or not types <= new_types)
        yield SchemaChange(place or "/", f"type {_listed(types)} becomes {_listed(new_types)}", breaking=narrower)
    yield from _of_fields(old, new, place)
    values, new_values = (None if node.get("enum") is None else _values(node["enum"]) for node in (old, new))
    if old.get("enum") != new.get("enum"):
        narrower = new_values is not None and (values is None or not values <= new_values)
        yield SchemaChange(place or "/", "other values are allowed", breaking=narrower)
    if "items" in old or "items" in new:
        yield from _differences(old.get("items", {}), new.get("items", {}), f"{place}/items")
    if old.get("additionalProperties", True) != new.get("additionalProperties", True):
        closed = new.get("additionalProperties", True) is not True
        yield SchemaChange(place or "/", "other fields are " + ("refused" if closed else "allowed"), breaking=closed)
    for word in sorted((old.keys() | new.keys()) - _HANDLED):
        if old.get(word) != new.get(word):
            yield _of_word(word, old.get(word), new.get(word), place)


def _of_fields(old: Mapping[str, Any], new: Mapping[str, Any], place: str) -> Iterator[SchemaChange]:
    before, now = old.get("properties") or {}, new.get("properties") or {}
    must, must_now = set(old.get("required") or ()), set(new.get("required") or ())
    for name in now:
        at = f"{place}/{name}"
        if name not in before:
            yield SchemaChange(at, "added" + (", required" if name in must_now else ""), breaking=name in must_now)
        else:
            yield from _differences(before[name], now[name], at)
            if (name in must) != (name in must_now):
                change = "now required" if name in must_now else "no longer required"
                yield SchemaChange(at, change, breaking=name in must_now)
    closed = new.get("additionalProperties", True) is False
    for name in before:
        if name not in now:
            yield SchemaChange(f"{place}/{name}", "removed", breaking=closed)


def _values(enum: list[Any]) -> frozenset[bytes]:
    return frozenset(map(canonical_json, enum))


def _of_word(word: str, old: Any, new: Any, place: str) -> SchemaChange:
    before, after = ("none" if value is None else str(value)[:60] for value in (old, new))
    change = f"{word} {before} becomes {after}"
    if word in _TALK or word.startswith("x-"):
        return SchemaChange(place or "/", change if word not in _TALK else f"another {word}", breaking=False)
    if new is None and word not in ("anyOf", "$ref"):
        return SchemaChange(place or "/", f"{word} is gone", breaking=False)
    numbers = isinstance(old, int | float) and isinstance(new, int | float)
    wider = numbers and (new < old if word in _LOWER_IS_WIDER else new > old if word in _HIGHER_IS_WIDER else False)
    return SchemaChange(place or "/", change, breaking=not wider)


def _types(node: Mapping[str, Any]) -> frozenset[str] | None:
    kind = node.get("type")
    if kind is None:
        return None
    kinds = frozenset(kind if isinstance(kind, list) else [kind])
    # Every integer is a number.
    return kinds | {"integer"} if "number" in kinds else kinds


def _listed(kinds: frozenset[str] | None) -> str:
    return "any" if kinds is None else " or ".join(sorted(kinds - ({"integer"} if "number" in kinds else frozenset())))


@cache
def bundled_schemas() -> tuple[Schema, ...]:
    """Return the schemas in `bundled/<name>/<version>.json`, sorted by name and version."""
    entries = (files("rowen.enrich.schemas") / "bundled").iterdir()
    folders = sorted((entry for entry in entries if entry.is_dir()), key=lambda folder: folder.name)
    return tuple(
        Schema(folder.name, file.name.removesuffix(".json"), json.loads(file.read_text("utf-8")), bundled=True)
        for folder in folders
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".json")
    )
