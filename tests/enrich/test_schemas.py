"""Schemas: what may be one, what providers are sent of it, and what a new version means for old data."""

import json
import time
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from rowen.enrich.schemas.derivation import lenient, strict, without_nulls
from rowen.enrich.schemas.validation import check_definition, violations
from rowen.enrich.schemas.versions import bundled_schemas, compare
from rowen.errors import NotFoundError, RefusedError, UsageError
from rowen.model.schemas import Schema, SchemaRef
from tests.conftest import ScratchDatabase
from tests.enrich.strictness import strict_problems

PRICE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "price": {"type": "number", "minimum": 0}},
    "required": ["name"],
}


def schema(**changes: Any) -> Schema:
    return Schema("thing", "1.0.0", {**PRICE, **changes})


@pytest.mark.parametrize("name", ["../etc", "a/b", "", "A", "a@../1", "a@1.0.0.0", "a@01.0.0", "a@1\n.0", "a" * 65])
def test_a_name_cannot_lead_anywhere(name: str) -> None:
    with pytest.raises(UsageError):
        SchemaRef.parse(name)


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        ({"type": "array"}, "type"),
        ({**PRICE, "$defs": {"a": {"$ref": "http://127.0.0.1/x.json"}}}, "nothing is fetched"),
        ({**PRICE, "$defs": {"a": {"$ref": "other.json#/a"}}}, "nothing is fetched"),
        ({**PRICE, "properties": {"a": {"type": "strange"}}}, "no JSON Schema"),
        ({**PRICE, "properties": {"a": {"type": "string", "pattern": "^(?=a)(a+)+$"}}}, "no JSON Schema"),
        ({**PRICE, "properties": {"a": {"pattern": "(a{1000}){1000}{1000}"}}}, "patterns"),
        ({**PRICE, "description": "x" * 200_000}, "bytes"),
    ],
)
def test_what_cannot_be_used_safely_is_refused(definition: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_definition(definition)


def test_a_pattern_that_explodes_elsewhere_is_matched_in_linear_time() -> None:
    slow = schema(properties={"name": {"type": "string", "pattern": "^(a+)+$"}})
    began = time.monotonic()

    assert violations(slow, {"name": "a" * 5_000 + "!"})
    assert time.monotonic() - began < 1


def test_every_bundled_schema_is_sound_nullable_and_can_be_sent_to_strict_providers() -> None:
    names = {one.name for one in bundled_schemas()}
    wanted = {"article", "product", "event", "job_posting", "dataset", "person", "organisation", "recipe"}

    lists = {"changelog", "pricing", "job_board", "tender_list"}
    assert names == wanted | lists | {"blog", "github_repo", "news_article", "public_tenders"}
    for one in bundled_schemas():
        derived = strict(check_definition(dict(one.definition)))
        assert derived is not None
        assert strict_problems(derived) == []
        optional = [name for name in one.properties if name not in one.required]
        assert all("null" in one.properties[name]["type"] for name in optional), one.ref


def test_what_is_optional_is_sent_as_nullable_and_its_null_is_taken_back() -> None:
    derived = strict(PRICE)
    assert derived is not None

    assert derived["required"] == ["name", "price"]
    assert derived["properties"]["price"] == {"type": ["number", "null"]}
    assert without_nulls({"name": "Hay", "price": None}, PRICE) == {"name": "Hay"}
    assert violations(schema(), without_nulls({"name": "Hay", "price": None}, PRICE)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"additionalProperties": {"type": "string"}},
        {"properties": {"a": {"type": "object"}}},
        {"not": {"required": ["a"]}},
        {"properties": {"a": {"oneOf": [{"type": "string"}, {"type": "number"}]}}},
    ],
)
def test_what_a_strict_mode_cannot_express_is_not_sent_as_strict(change: dict[str, Any]) -> None:
    assert strict({**PRICE, **change}) is None
    assert lenient({**PRICE, **change})


simple = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": ["number", "null"]}, {"enum": ["a", "b"]}, {"type": "boolean"}]),
    lambda inner: st.one_of(
        inner.map(lambda one: {"type": "array", "items": one}),
        st.dictionaries(st.sampled_from("abcd"), inner, min_size=1).flatmap(
            lambda fields: st.sets(st.sampled_from(sorted(fields))).map(
                lambda must: {"type": "object", "properties": fields, "required": sorted(must)}
            )
        ),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("xyz"), simple, min_size=1))
def test_every_strict_schema_keeps_the_rules_of_strict_modes(fields: dict[str, Any]) -> None:
    derived = strict({"type": "object", "properties": fields})

    assert derived is not None
    assert strict_problems(derived) == []


@given(st.dictionaries(st.sampled_from("xyz"), simple, min_size=1), st.data())
def test_whatever_satisfies_the_original_satisfies_the_strict_one_with_nulls_for_what_is_missing(
    fields: dict[str, Any], data: st.DataObject
) -> None:
    original = {"type": "object", "properties": fields, "additionalProperties": False}
    derived = strict(original)
    assert derived is not None
    answer = data.draw(answers(derived))

    assert jsonschema_rs.is_valid(original, without_nulls(answer, original))


def answers(node: dict[str, Any]) -> st.SearchStrategy[Any]:
    """What a provider in strict mode may answer."""
    if "enum" in node:
        return st.sampled_from(node["enum"])
    kinds = node["type"] if isinstance(node["type"], list) else [node["type"]]
    made: dict[str, Any] = {
        "null": st.none,
        "string": lambda: st.text(max_size=3),
        "number": lambda: st.integers(0, 9),
        "boolean": st.booleans,
        "array": lambda: st.lists(answers(node["items"]), max_size=2),
        "object": lambda: st.fixed_dictionaries({name: answers(one) for name, one in node["properties"].items()}),
    }
    return st.one_of(*(made[kind]() for kind in kinds))


@pytest.mark.parametrize(
    ("newer", "expected"),
    [
        ({}, "same"),
        ({"description": "other words"}, "compatible"),
        ({"properties": {**PRICE["properties"], "note": {"type": "string"}}}, "compatible"),  # type: ignore[dict-item]
        ({"required": []}, "compatible"),
        ({"required": ["name", "price"]}, "breaking"),
        ({"properties": {"name": {"type": ["string", "null"]}, "price": {"type": "number"}}}, "compatible"),
        ({"properties": {"name": {"type": "integer"}, "price": {"type": "number"}}}, "breaking"),
        ({"additionalProperties": False}, "breaking"),
    ],
)
def test_a_change_is_called_by_what_it_means_for_old_data(newer: dict[str, Any], expected: str) -> None:
    assert compare(schema(), schema(**newer)).compatibility == expected


async def test_versions_never_change_and_the_highest_is_the_latest(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await r.schemas.add("price@1.9.0", PRICE)
        await r.schemas.add("price@1.10.0", {**PRICE, "required": []})
        await r.schemas.add("price@1.9.0", PRICE)

        with pytest.raises(RefusedError, match="never changes"):
            await r.schemas.add("price@1.9.0", {**PRICE, "required": []})
        assert (await r.schemas.get("price")).version == "1.10.0"
        assert (await r.schemas.get("price@1")).version == "1.10.0"
        assert (await r.schemas.get("price@1.9.0")).definition == PRICE
        assert (await r.schemas.get("product@1")).bundled
        assert (await r.schemas.compare("price@1.9.0", "price@latest")).compatibility == "compatible"
        with pytest.raises(NotFoundError):
            await r.schemas.get("price@2")


class Lamp(BaseModel):
    name: str
    watts: int | None = None


async def test_a_pydantic_model_is_a_schema(database: ScratchDatabase) -> None:
    async with database.open() as r:
        kept = await r.schemas.add("lamp@1.0.0", Lamp)

    assert list(kept.properties) == ["name", "watts"]
    assert kept.required == ("name",)


async def test_files_go_out_and_come_in_again(database: ScratchDatabase, tmp_path: Path) -> None:
    async with database.open() as r:
        await r.schemas.add("price@1.0.0", PRICE)
        await r.schemas.export(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "price" / "1.0.0.json").read_text()) == PRICE
    database.execute("delete from schema")

    async with database.open() as r:
        added = await r.schemas.add_files(tmp_path / "out")

        assert len(added) == len(bundled_schemas()) + 1
        assert (await r.schemas.get("price")).definition == PRICE


def test_of_a_part_of_a_page_only_what_is_missing_is_not_wrong() -> None:
    fields: dict[str, Any] = {f"field{number}": {"type": "string"} for number in range(20)}
    whole = schema(properties={"name": {"type": "string"}, "count": {"type": "integer"}, **fields}, required=[*fields])
    # The words of the model stand in the message of the validator.
    told = {"name": None, "count": "a required property null is not"}

    assert [one.path for one in violations(whole, told, partial=True)] == ["/count"]
    assert len(violations(whole, told)) == 10
    assert violations(whole, {"name": None}, partial=True) == []
