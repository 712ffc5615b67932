"""Derive the dialect of a schema that a provider accepts. The original validates, whatever was sent.

Strict modes know objects only whose keys are all required and that have no others. So what is optional becomes
nullable, and what cannot be told in a dialect is left out, or makes the schema unfit for a strict mode.
"""

from collections.abc import Callable, Mapping
from typing import Any

# Words that decide whether data is valid, and that strict modes do not know. `format` and `pattern` are known to some.
_UNSUPPORTED = frozenset(
    {"not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "patternProperties"}
    | {"propertyNames", "unevaluatedProperties", "unevaluatedItems", "prefixItems", "contains", "oneOf"}
)
# Words that only narrow what the structure allows: a model may be told them in the prompt instead.
_BOUNDS = frozenset(
    {"minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"}
)
_TALK = frozenset({"$schema", "$id", "$comment", "examples", "default", "deprecated", "readOnly", "writeOnly", "title"})

Definition = dict[str, Any]


def lenient(definition: Mapping[str, Any]) -> Definition:
    """Return the schema without our own keywords and annotations, for servers that compile a grammar."""
    return _mapped(definition, lambda node: node)


def strict(definition: Mapping[str, Any]) -> Definition | None:
    """Return the schema for strict modes; None if they cannot express it."""
    try:
        return _mapped(definition, _tightened)
    except ValueError:
        return None


def without_nulls(data: Any, definition: Mapping[str, Any]) -> Any:
    """Return an answer without the nulls that stand for optional fields which the original does not let be null."""
    root = definition

    def cleaned(value: Any, node: Any) -> Any:
        node = _resolved(node, root)
        if isinstance(value, list) and isinstance(node, Mapping):
            return [cleaned(one, node.get("items")) for one in value]
        if not isinstance(value, dict) or not isinstance(node, Mapping):
            return value
        fields = node.get("properties") or {}
        required = node.get("required") or ()
        return {
            name: cleaned(one, fields.get(name))
            for name, one in value.items()
            if one is not None or name in required or name not in fields or _may_be_null(fields[name], root)
        }

    return cleaned(data, definition)


def _mapped(definition: Mapping[str, Any], change: Callable[[Definition], Definition]) -> Definition:
    """Rebuild a schema: each subschema without our own words, changed."""
    made: Definition = {}
    for word, value in definition.items():
        if word in _TALK or word.startswith("x-"):
            continue
        if word in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
            made[word] = {name: _child(one, change) for name, one in value.items()}
        elif word in ("items", "not", "if", "then", "else", "additionalProperties", "contains"):
            made[word] = _child(value, change)
        elif word in ("anyOf", "allOf", "oneOf", "prefixItems"):
            made[word] = [_child(one, change) for one in value]
        else:
            made[word] = value
    return change(made)


def _child(value: Any, change: Callable[[Definition], Definition]) -> Any:
    return _mapped(value, change) if isinstance(value, Mapping) else value


def _tightened(node: Definition) -> Definition:
    """One subschema in the strict dialect; raises `ValueError` for what it does not know."""
    if _UNSUPPORTED & node.keys() or "allOf" in node:
        raise ValueError("not expressible")
    node = {word: value for word, value in node.items() if word not in _BOUNDS}
    if "const" in node:
        node["enum"] = [node.pop("const")]
    if "properties" in node or _is_object(node):
        return _closed(node)
    return node


def _closed(node: Definition) -> Definition:
    """Return an object with exactly its properties; an open one is not expressible."""
    if node.get("additionalProperties") not in (None, False) or not node.get("properties"):
        raise ValueError("an open object")
    required = node.get("required") or ()
    node["properties"] = {name: one if name in required else _nullable(one) for name, one in node["properties"].items()}
    node["required"] = list(node["properties"])
    node["additionalProperties"] = False
    node.setdefault("type", "object")
    return node


def _is_object(node: Definition) -> bool:
    kind = node.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _nullable(node: Any) -> Any:
    """Return the schema of an optional field: the same, or null."""
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
    return any(_may_be_null(one, root) for one in node["anyOf"]) if "anyOf" in node else True


def _resolved(node: Any, root: Mapping[str, Any]) -> Any:
    """Resolve a reference within the schema, up to a few steps."""
    for _ in range(8):  # a chain of references is one or two long; a circle must end
        if not (isinstance(node, Mapping) and isinstance(node.get("$ref"), str)):
            return node
        target: Any = root
        for step in node["$ref"].removeprefix("#").strip("/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, Mapping) and name else target
        node = target
    return None
