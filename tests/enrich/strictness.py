"""The rules that strict modes of providers hold a schema to, as their documentation has them."""

from collections.abc import Iterator
from typing import Any

FORBIDDEN = {"allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "oneOf", "default"}


def strict_problems(schema: dict[str, Any]) -> list[str]:
    """What a strict provider would refuse."""
    return list(_problems(schema, "#"))


def _problems(node: Any, place: str) -> Iterator[str]:
    if not isinstance(node, dict):
        return
    yield from (f"{place}: {word} is not permitted" for word in sorted(FORBIDDEN & node.keys()))
    yield from (f"{place}: unknown word {word}" for word in node if word.startswith("x-"))
    kind = node.get("type")
    if "properties" in node or kind == "object" or (isinstance(kind, list) and "object" in kind):
        if node.get("additionalProperties") is not False:
            yield f"{place}: additionalProperties must be false"
        if sorted(node.get("required", [])) != sorted(node.get("properties", {})):
            yield f"{place}: all fields must be required"
    for name, one in {**node.get("properties", {}), **node.get("$defs", {})}.items():
        yield from _problems(one, f"{place}/{name}")
    yield from _problems(node.get("items"), f"{place}/items")
    for number, one in enumerate(node.get("anyOf", [])):
        yield from _problems(one, f"{place}/anyOf/{number}")
