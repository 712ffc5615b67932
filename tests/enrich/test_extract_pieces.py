"""The pure pieces of extraction: keys, hashes, differences, cuts, merging, grounding, and what markup says already."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.enrich.extract.conversation import cut, merged, parsed
from rowen.enrich.extract.grounding import evidence, without_ungrounded
from rowen.enrich.extract.prompt import PageText, answer_key
from rowen.enrich.extract.structured import converted, filled, wanted_names
from rowen.enrich.llm.base import ModelSpec
from rowen.enrich.schemas.versions import bundled_schemas
from rowen.model.changes import differences, leaves
from rowen.model.hashes import data_hash
from rowen.model.schemas import Schema

PRODUCT = next(one for one in bundled_schemas() if one.name == "product")
MODEL = ModelSpec("openai", "small", "http://127.0.0.1/v1")
PAGE = PageText("https://a.example/", "A", "Text.")

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab/~", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3),
    max_leaves=8,
)


def key(page: PageText = PAGE, schema: Schema = PRODUCT, model: ModelSpec = MODEL, tokens: int = 100) -> bytes:
    return answer_key(page, schema, model, context_tokens=tokens)


def test_a_key_differs_with_everything_that_an_answer_depends_on() -> None:
    other = Schema("product", "1.0.0", {**PRODUCT.definition, "required": []})
    keys = {
        key(),
        key(PAGE._replace(text="Text. ")),
        key(PAGE._replace(title="B")),
        key(PAGE._replace(hints={"price": 1})),
        key(schema=other),
        key(model=MODEL._replace(model="large")),
        key(model=MODEL._replace(url="http://127.0.0.2/v1")),
        key(model=MODEL._replace(kind="ollama")),
        key(tokens=200),
    }

    assert len(keys) == 9
    assert key() == key(PageText(*PAGE))


@given(plain)
def test_the_hash_of_data_does_not_depend_on_the_order_of_keys_or_the_form_of_numbers(data: Any) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: turned(value[name]) for name in reversed(value)}
        if isinstance(value, list):
            return [turned(one) for one in value]
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    assert data_hash(data) == data_hash(turned(data))


@given(plain, plain)
def test_differences_are_empty_exactly_where_hashes_are_equal(before: Any, after: Any) -> None:
    assert (not list(differences(before, after))) == (data_hash(before) == data_hash(after))


@given(plain, plain)
def test_differences_lead_from_one_version_to_the_next(before: Any, after: Any) -> None:
    assert data_hash(applied(before, list(differences(before, after)))) == data_hash(after)


def applied(data: Any, changes: list[Any]) -> Any:
    """The data with changes made; what is removed from lists goes last, from the end."""
    data = json.loads(json.dumps(data))
    for change in sorted(changes, key=lambda one: one.op == "removed"):
        if not change.path:
            return change.after
    removals = [change for change in changes if change.op == "removed"]
    for change in [*(c for c in changes if c.op != "removed"), *reversed(removals)]:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in change.path.split("/")[1:]]
        at = data
        for step in steps[:-1]:
            at = at[int(step)] if isinstance(at, list) else at[step]
        last: Any = int(steps[-1]) if isinstance(at, list) else steps[-1]
        if change.op == "removed":
            del at[last]
        elif isinstance(at, list) and last == len(at):
            at.append(change.after)
        else:
            at[last] = change.after
    return data


@given(st.text("# \nab`", max_size=300), st.integers(8, 60))
def test_no_word_is_lost_when_a_text_is_cut_and_no_part_is_too_long(text: str, most: int) -> None:
    parts = cut(text, most)

    assert all(len(part) <= most for part in parts) or len(text) <= most
    assert sum(part.count("b") for part in parts) >= text.count("b")


def test_a_part_has_the_headings_that_stand_above_it() -> None:
    text = "# Top\n\nintro\n\n## One\n\n" + "a " * 60 + "\n\n## Two\n\n" + "b " * 60

    parts = cut(text, 200)

    assert all(part.startswith("# Top") for part in parts)
    assert "## Two" in parts[-1]


LISTS = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "plans": {"type": "array", "items": {"type": "object", "required": ["name"], "properties": {}}},
    },
}


def test_lists_are_joined_by_name_and_the_first_single_value_stays() -> None:
    first = {"title": "A", "plans": [{"name": "S", "price": 1}, {"name": "M", "price": None}]}
    second = {"title": "B", "plans": [{"name": "S", "price": 1, "per": "user"}, {"name": "L", "price": 9}]}

    assert merged(LISTS, [first, second]) == {
        "title": "A",
        "plans": [{"name": "S", "price": 1, "per": "user"}, {"name": "M", "price": None}, {"name": "L", "price": 9}],
    }


@given(st.lists(st.fixed_dictionaries({"tags": st.lists(st.sampled_from("abc"))}), min_size=1, max_size=4))
def test_merging_the_same_answers_again_changes_nothing(answers: list[dict[str, Any]]) -> None:
    once = merged({}, answers)

    assert merged({}, [once, *answers]) == once or len(answers) == 1
    assert set(once["tags"]) == {tag for answer in answers for tag in answer["tags"]}


@pytest.mark.parametrize(
    ("value", "text", "found"),
    [
        ("Aurora lamp", "The **Aurora**  Lamp is here", "exact"),
        (19.5, "costs 19,50 €", "number"),
        (1234.56, "1.234,56 EUR", "number"),
        (1234567, "1 234 567 people", "number"),
        (20, "costs 19,50 €", "none"),
        ("2026-03-05", "on March 5th, 2026", "date"),
        ("2026-03-05", "am 5.3.2026", "date"),
        ("2026-03-05T10:00:00Z", "5 Mar 2026", "date"),
        ("2026-03-05", "on March 15, 2026", "none"),
        ("swallows over meadow", "over the meadow fly swallows", "words"),
        ("invented words", "nothing of the kind", "none"),
    ],
)
def test_a_value_is_found_where_the_text_says_it(value: Any, text: str, found: str) -> None:
    [one] = evidence({}, {"field": value}, text)

    assert one.found == found
    if found in ("exact", "number", "date"):
        assert text[one.at :].startswith(one.quote)
        assert one.quote


def test_what_does_not_stand_in_the_text_becomes_null_and_free_fields_are_left_alone() -> None:
    schema = {"properties": {"summary": {"type": "string", "x-grounding": "off"}}}
    data = {"name": "Aurora", "price": 99, "summary": "quite other words", "tags": ["lamp", "unicorn"]}
    found = evidence(schema, data, "Aurora, a lamp")

    assert {one.path for one in found if one.found == "none"} == {"/price", "/tags/1"}
    assert without_ungrounded(data, found) == {**data, "price": None, "tags": ["lamp"]}


def test_markup_that_has_all_that_is_required_is_an_answer() -> None:
    node = {
        "@type": "Product",
        "name": "Aurora",
        "offers": [{"price": "19.50", "priceCurrency": "EUR", "availability": "https://schema.org/InStock"}],
        "aggregateRating": {"ratingValue": 4.5, "reviewCount": "12"},
    }
    found = filled(PRODUCT, [{"@type": "Organization", "name": "Shop"}, node])

    assert found.is_enough
    assert found.data["price"] == 19.5
    assert (found.data["availability"], found.data["reviews"], found.data["sku"]) == ("InStock", 12, None)


def test_markup_that_lacks_something_is_only_a_hint() -> None:
    found = filled(PRODUCT, [{"@type": "Product", "name": "Aurora", "offers": {"price": "ask us"}}])

    assert not found.is_enough
    assert found.data == {"name": "Aurora"}
    assert "pricecurrency" in wanted_names([PRODUCT])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1.234,56 €", 1234.56),
        ("1,234.56", 1234.56),
        ("1,234", 1234),
        ("$19.99", 19.99),
        ("12,5", 12.5),
        ("free", None),
    ],
)
def test_numbers_are_read_as_people_write_them(value: str, expected: float | None) -> None:
    assert converted(value, {"type": ["number", "null"]}) == expected


@given(plain)
def test_every_leaf_has_a_pointer_of_its_own(data: Any) -> None:
    paths = [path for path, _ in leaves(data)]

    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("text", ['{"a": 1}', 'Sure:\n```json\n{"a": 1}\n```', 'x {"a": 1,} y', '  {"a":1}\n'])
def test_what_models_put_around_an_object_is_taken_off(text: str) -> None:
    assert parsed(text) == {"a": 1}
