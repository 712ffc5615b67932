"""A JSON Schema of a few kB, and an answer that it is compared with, cost neither the server nor a worker much time."""

import json
from typing import Any

import pytest

from rowen.enrich.schemas.validation import check_definition, schema_cost, violations
from rowen.enrich.schemas.versions import compare
from rowen.errors import UsageError
from rowen.model.schemas import Schema
from tests.conftest import ScratchDatabase
from tests.hostile.clock import at_most, costs_at_most, slowness
from tests.hostile.families import LANGUAGES, doubled
from tests.hostile.test_caller_input import watched

pytestmark = pytest.mark.unwatched

FAMILIES = LANGUAGES["JSON Schema"].families


def schema(**definition: Any) -> Schema:
    return Schema("a", "1.0.0", {"type": "object", "properties": {}, **definition})


def fields(**inner: Any) -> Schema:
    return schema(properties=inner)


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_costly_schema_keeps_nobody_waiting(database: ScratchDatabase, family: str) -> None:
    async with watched(database) as it:
        for size in (2_000, 90_000):
            body = {"ref": f"a@1.0.{size}", "definition": json.loads(FAMILIES[family](size))}
            answer = await it.send(f"{family} of {size:,} characters", it.http.post("/api/v1/schemas", json=body))
            assert answer.status_code in (201, 400)


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (json.loads(doubled("anyOf", 20)), "references multiply"),
        (json.loads(doubled("oneOf", 20)), "references multiply"),
        (json.loads(doubled("allOf", 20)), "references multiply"),
        (schema(properties={"a": {"anyOf": [{"$ref": "#"}] * 2}}).definition, "references multiply"),
        (schema(properties={"a": {"$dynamicRef": "#x"}, "b": {"$dynamicAnchor": "x", "items": {
            "allOf": [{"$dynamicRef": "#x"}] * 2}}}).definition, "references multiply"),
        (schema(unevaluatedProperties={"allOf": [{"$recursiveRef": "#"}] * 2}).definition, "references multiply"),
        (schema(anyOf=[{"$ref": "#"}]).definition, "refers to itself"),
        (schema(properties={"a": {"$ref": "#/$defs/a"}}).definition, "which does not exist"),
        (schema(**{"$defs": {"a": {"$id": "https://a.example/"}}}).definition, r"\$id"),
        (schema(properties={f"p{at}": {} for at in range(6_000)}).definition, "5,000 subschemas"),
        (schema(properties={"a": {"pattern": r"((\p{L}{9}){9}){9}"}}).definition, "patterns"),
        (schema(patternProperties={rf"(\w{{99}}){{99}}{at}": {} for at in range(9)}).definition, "patterns"),
    ],
)  # fmt: skip
def test_a_schema_that_multiplies_is_refused_before_it_is_compiled(definition: dict[str, Any], words: str) -> None:
    with costs_at_most(0.25), at_most(5.0 * slowness()), pytest.raises(UsageError, match=words):
        check_definition(definition)


def test_a_schema_that_is_nested_without_end_is_refused() -> None:
    nested: Any = "x"
    for _ in range(30_000):
        nested = [nested]

    for word in ("allOf", "const", "x-note"):
        with pytest.raises(UsageError, match="64 levels"):
            check_definition({**schema().definition, word: nested})


@pytest.mark.parametrize(
    ("definition", "steps"),
    [
        (fields(left={"$ref": "#"}, right={"$ref": "#"}, name={"type": "string"}), 2),
        (fields(a={"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}), 5),
        (fields(a={"type": "array", "items": {"$ref": "#/$defs/a"}, "enum": [[]] * 500}), 6),
    ],
)
def test_trees_lists_and_alternatives_are_cheap(definition: Schema, steps: int) -> None:
    whole = {**definition.definition, "$defs": {"a": {"type": "object", "required": ["b"]}}}

    assert schema_cost(check_definition(whole)).steps <= steps


LARGE: dict[str, tuple[Schema, Any]] = {
    "missing fields": (
        fields(a={"items": {"required": [f"n{at}" for at in range(9_000)]}}),
        {"a": [{}] * 300},
    ),
    "names of fields": (schema(propertyNames={"maxLength": 1}), {f"a{at}": 1 for at in range(20_000)}),
    "alternatives of a long text": (fields(a={"anyOf": [{"type": "null"}] * 500}), {"a": "x" * 900_000}),
    "alternatives of a long list": (fields(a={"anyOf": [{"type": "null"}] * 500}), {"a": ["x"] * 100_000}),
    "alternatives of alternatives": (Schema("a", "1.0.0", json.loads(doubled("anyOf", 10))), {"a": 1}),
    "a pattern of many states": (fields(a={"pattern": "(?:a|b)*a(?:a|b){1000}c"}), {"a": "aababbab" * 100_000}),
    "entries": (fields(a={"items": {"type": "null"}}), {"a": ["x" * 50] * 20_000}),
    "enumeration": (fields(a={"items": {"enum": [f"n{at}" for at in range(9_000)]}}), {"a": [1] * 300}),
}


@pytest.mark.parametrize("called", LARGE)
def test_what_is_wrong_with_a_large_answer_is_found_in_no_time(called: str) -> None:
    definition, answer = LARGE[called]
    with costs_at_most(0.5), at_most(5.0 * slowness()):
        wrong = violations(definition, answer)

    assert 1 <= len(wrong) <= 10


def test_a_deep_answer_is_refused() -> None:
    answer: Any = {}
    for _ in range(2_000):
        answer = {"a": answer}

    assert "levels" in violations(schema(), answer)[0].what


def test_what_is_wrong_with_one_of_many_entries_is_told_by_its_place() -> None:
    product = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    shop = schema(properties={"of": {"type": "array", "minItems": 2, "items": product}}, required=["shop"])
    many = {"of": [{"name": "x"}] * 3_000 + [{"name": 1}, {}]}

    assert [one.path for one in violations(shop, many)] == ["", "/of/3000/name", "/of/3001"]
    assert [one.path for one in violations(shop, many, partial=True)] == ["/of/3000/name"]
    assert violations(shop, {**many, "of": many["of"][:3_000]}, partial=True) == []


def test_large_enumerations_are_compared_in_linear_time() -> None:
    values = [f"n{at}" for at in range(9_000)]
    older, newer = fields(a={"enum": values}), fields(a={"enum": ["m", *reversed(values)]})

    with costs_at_most(0.25), at_most(5.0 * slowness()):
        assert compare(older, newer).compatibility == "compatible"
        assert compare(newer, older).compatibility == "breaking"
