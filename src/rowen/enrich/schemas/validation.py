"""Whether a schema may be used at all, and whether an answer satisfies it.

Nothing is ever fetched for a schema, and its patterns are matched in linear time: an engine without backtracking
refuses those that it cannot match so.
"""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rowen.errors import UsageError
from rowen.model.hashes import canonical_json
from rowen.model.schema import Schema

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

__all__ = ["Violation", "check_definition", "violations"]

# The largest bundled schema has 3 kB. At ten times this, a provider refuses it, and each call would pay for it.
_MOST_BYTES = 100_000
# OpenAI allows 10 levels, of which each is two or three of JSON; deeper ones describe no page.
_DEEPEST = 64
# A compiled pattern; the engine's own limit is ten times as large, and takes a second to reach.
_PATTERN_BYTES = 1 << 20
# As many as a model can mend at once; more of them are about the same mistake.
MOST_VIOLATIONS = 10
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
    if len(canonical_json(definition)) > _MOST_BYTES:
        raise UsageError(f"A schema may have {_MOST_BYTES:,} bytes.", hint="Leave out what no page says.")
    for place, node in _nodes(definition):
        if place.count("/") > _DEEPEST:
            raise UsageError(f"The schema is nested more than {_DEEPEST} levels deep.")
        _refuse_remote(place, node)
    if definition.get("type") != "object" or not isinstance(definition.get("properties"), dict):
        raise UsageError(
            "A schema for extraction has `type` object and `properties` at its top.",
            hint="Put a list into a property of its own: {'items': [...]}.",
        )
    _validator_of(definition)
    return definition


def violations(schema: Schema, data: Any, *, partial: bool = False) -> list[Violation]:
    """What is wrong with data, at most ten things; nothing if it satisfies the schema.

    What is missing in a `partial` answer is not wrong: another part of the page may have it.
    """
    found = []
    for error in _validator(schema).iter_errors(data):
        is_absence = error.kind.name == "required" or error.instance is None
        if is_absence and partial:
            continue
        found.append(Violation(_pointer(error), error.message[:300]))
        if len(found) == MOST_VIOLATIONS:
            break
    return found


def _pointer(error: "ValidationError") -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in error.instance_path)


def _nodes(value: Any, place: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All objects of a schema with their places, without recursion: it may be nested out of spite."""
    waiting = [(place, value)]
    while waiting:
        where, one = waiting.pop()
        if isinstance(one, dict):
            yield where, one
            waiting += [(f"{where}/{name}", inner) for name, inner in one.items() if name not in ("enum", "const")]
        elif isinstance(one, list):
            waiting += [(f"{where}/{number}", inner) for number, inner in enumerate(one)]


def _refuse_remote(place: str, node: Mapping[str, Any]) -> None:
    for word in _REFERENCES:
        target = node.get(word)
        if isinstance(target, str) and not target.startswith("#"):
            raise UsageError(
                f"{place or 'The schema'} refers to {target[:100]!r}, and nothing is fetched for a schema.",
                hint="Copy what it refers to into $defs.",
            )


@lru_cache(maxsize=256)  # as many schemas as a process meets; each holds a few kB
def _compiled(key: bytes) -> "Validator":
    return _validator_of(json.loads(key))


def _validator(schema: Schema) -> "Validator":
    return _compiled(canonical_json(dict(schema.definition)))


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
