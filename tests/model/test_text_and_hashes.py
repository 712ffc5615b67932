"""Text has one form, and hashes decide by exactly what is stored."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.model.hashes import _changed, canonical_json, content_hash, storable
from rowen.model.items import Document
from rowen.model.text import normalise

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.text(st.characters()))
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@given(st.text(st.characters(codec=None)))
def test_every_text_can_be_stored(text: str) -> None:
    stored = normalise(text)

    stored.encode("utf-8")
    assert "\x00" not in stored
    assert "\r" not in stored


def test_line_ends_accents_and_trailing_space_do_not_matter_but_case_does() -> None:
    assert normalise("Cafe\u0301 \r\nnoir\t\r") == "Café\nnoir"
    assert normalise("Polish") != normalise("polish")


@given(st.lists(st.text(), min_size=3, max_size=3), st.lists(st.text(), min_size=3, max_size=3))
def test_fields_never_run_into_each_other(one: list[str], other: list[str]) -> None:
    same = content_hash(one[0], one[1], [one[2]]) == content_hash(other[0], other[1], [other[2]])

    assert same == (one == other)


@given(st.lists(st.text()))
def test_the_order_of_tags_does_not_matter(tags: list[str]) -> None:
    assert content_hash("t", "x", tags) == content_hash("t", "x", list(reversed(tags)))


@given(anything)
def test_every_record_can_be_stored_and_equal_ones_hash_alike(value: Any) -> None:
    document = Document("https://example.org/", "t", "x", record={"value": value})

    assert "\\u0000" not in document.record_json
    assert json.loads(document.record_json) == document.record
    again = Document("https://example.org/", "t", "x", record={"value": value})
    assert again.record_hash == document.record_hash


def test_whole_numbers_of_any_size_stay_exact() -> None:
    assert canonical_json({"n": 2**70}) == b'{"n":1180591620717411303424}'


@given(anything)
def test_a_record_that_is_looked_at_as_written_is_the_one_that_is_gone_through(value: Any) -> None:
    record = {"value": value, "plain": "hay"}

    stored, written = storable(record)

    assert written.whole() == canonical_json(_changed(record))
    assert json.loads(written.whole()) == _changed(stored)


@pytest.mark.parametrize("text", ["a\r\nb", "a ", "e\u0301", "\u2028", "a\\u0000", "\x7f", "\x01"])
def test_a_record_says_what_its_source_says_letter_by_letter(text: str) -> None:
    document = Document("https://example.org/", "t", "x", record={text: [text]})

    assert document.record == {text: [text]} == json.loads(document.record_json)


def test_a_record_lacks_only_what_cannot_be_stored() -> None:
    record = {"a\x00": ["b\ud800", float("nan"), float("inf")], "c": 1}

    assert json.loads(Document("https://example.org/", "t", "x", record=record).record_json) == {
        "a": ["b", None, None],
        "c": 1,
    }


def test_a_record_nested_too_deeply_is_refused_however_it_is_written() -> None:
    for innermost in ("plain", "not plain\r"):
        record: dict[str, Any] = {"value": innermost}
        for _ in range(300):
            record = {"inner": record}

        with pytest.raises(RecursionError):
            Document("https://example.org/", "t", "x", record=record)
