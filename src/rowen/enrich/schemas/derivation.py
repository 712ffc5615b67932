"""Convert a schema to the dialect that a provider accepts. Answers are validated against the original schema.

Strict modes require that all keys of an object are required, and that no other keys exist. So optional fields become
nullable. Unsupported keywords are left out, or make strict modes impossible.
"""

from collections.abc import Callable, Mapping
from typing import Any

# Keywords that change the structure, and that strict modes do not support. Some modes support `format` and `pattern`.
_UNSUPPORTED = frozenset(
    {"not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "patternProperties"}
    | {"propertyNames", "unevaluatedProperties", "unevaluatedItems", "prefixItems", "contains", "oneOf"}
)
# Keywords that only restrict values.
_BOUNDS = frozenset(
    {"minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"}
)
_TALK = frozenset({"$schema", "$id", "$comment", "examples", "default", "deprecated", "readOnly", "writeOnly", "title"})

Definition = dict[str, Any]


def lenient(definition: Mapping[str, Any]) -> Definition:
    """Return the schema without Rowen's keywords and annotations, for servers that compile a grammar."""
    return _mapped(definition, lambda node: node)


def strict(definition: Mapping[str, Any]) -> Definition | None:
    """Return the schema in the dialect of strict modes; None if the dialect cannot express it."""
    try:
        return _mapped(definition, _tightened)
    except ValueError:
        return None


def without_nulls(data: Any, definition: Mapping[str, Any]) -> Any:
    """Return an answer without the nulls of optional fields that are not nullable in the original schema."""
    root = definition

    def cleaned(value: Any, node: Any) -> Any:
        node = _resolved(node, root)
        if isinstance(value, list) and isinstance(node, Mapping):
            return [cleaned(entry, node.get("items")) for entry in value]
        if not isinstance(value, dict) or not isinstance(node, Mapping):
            return value
        fields = node.get("properties") or {}
        required = node.get("required") or ()
        return {
            name: cleaned(inner, fields.get(name))
            for name, inner in value.items()
            if inner is not None or name in required or name not in fields or _may_be_null(fields[name], root)
        }

    return cleaned(data, definition)


def _mapped(definition: Mapping[str, Any], change: Callable[[Definition], Definition]) -> Definition:
    """Rebuild a schema without Rowen's keywords, and apply `change` to each subschema."""

    def child(value: Any) -> Any:
        return _mapped(value, change) if isinstance(value, Mapping) else value

    made: Definition = {}
    for word, value in definition.items():
        if word in _TALK or word.startswith("x-"):
            continue
        if word in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
            made[word] = {name: child(inner) for name, inner in value.items()}
        elif word in ("items", "not", "if", "then", "else", "additionalProperties", "contains"):
            made[word] = child(value)
        elif word in ("anyOf", "allOf", "oneOf", "prefixItems"):
            made[word] = [child(inner) for inner in value]
        else:
            made[word] = value
    return change(made)


def _tightened(node: Definition) -> Definition:
    """Return a subschema in the dialect of strict modes; raise `ValueError` if the dialect cannot express it."""
    if _UNSUPPORTED & node.keys() or "allOf" in node:
        raise ValueError("not expressible")
    node = {word: value for word, value in node.items() if word not in _BOUNDS}
    if "const" in node:
        node["enum"] = [node.pop("const")]
    kinds = node.get("type")
    if "properties" not in node and "object" not in (kinds if isinstance(kinds, list) else [kinds]):
        return node
    if node.get("additionalProperties") not in (None, False) or not node.get("properties"):
        raise ValueError("an open object")
    required, fields = node.get("required") or (), node["properties"]
    node["properties"] = {name: field if name in required else _nullable(field) for name, field in fields.items()}
    node["required"] = list(fields)
    node["additionalProperties"] = False
    node.setdefault("type", "object")
    return node


def _nullable(node: Any) -> Any:
    """Return the schema of an optional field, which may have the same values or null."""
    if not isinstance(node, Mapping):
        raise ValueError("not expressible")
    kind = node.get("type")
    if "enum" in node and None not in node["enum"]:
        node = {**node, "enum": [*node["enum"], None]}
    if isinstance(kind, str):
        return {**node, "type": [kind, "null"]} if kind != "null" else node
    if isinstance(kind, list):
        return {**node, "type": [*kind, "null"]} if "null" not in kind else node
    if "anyOf" in node:
        return {**node, "anyOf": [*node["anyOf"], {"type": "null"}]}
    return node if "enum" in node else {"anyOf": [node, {"type": "null"}]}


def _may_be_null(node: Any, root: Mapping[str, Any]) -> bool:
    node = _resolved(node, root)
    if not isinstance(node, Mapping):
        return True
    if "enum" in node and None not in node["enum"]:
        return False
    kind = node.get("type")
    if kind is not None:
        return "null" in (kind if isinstance(kind, list) else [kind])
    return any(_may_be_null(inner, root) for inner in node["anyOf"]) if "anyOf" in node else True


def _resolved(node: Any, root: Mapping[str, Any]) -> Any:
    """Return the target of a reference within the schema; follow only a few references."""
    for _ in range(8):  # a chain of references has one or two links; a cycle must end
        if not (isinstance(node, Mapping) and isinstance(node.get("$ref"), str)):
            return node
        target: Any = root
        for step in node["$ref"].removeprefix("#").strip("/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, Mapping) and name else target
        node = target
    return None
