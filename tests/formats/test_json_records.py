"""Cutting documents into records gives what a parser of the whole would give."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.connectors.catalog.portal_client import PageSize
from rowen.errors import SourceError
from rowen.formats.json_records import Splitter

NAMES = frozenset({"dataset"})
# Small on purpose: to make up large ones takes a hundred times longer than to cut them, and shows no more.
texts = st.text(alphabet='ab"\\{}[],: é\n', max_size=8)
scalars = st.none() | st.booleans() | st.integers(-999, 999) | st.floats(allow_nan=False) | texts
names = st.sampled_from(["", "d", '"', "\\", "{[", "dataset", 'd"{'])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
records = st.lists(st.dictionaries(names, values, max_size=4), max_size=5)


def split(body: bytes, sizes: list[int], **more: Any) -> list[bytes]:
    splitter = Splitter(NAMES, frozenset({"catalog"}), **more)
    found, at = [], 0
    for size in [*sizes, len(body)]:
        found += [cut.body for cut in splitter.feed(body[at : at + size])]
        at += size
    splitter.close()
    return found


@given(records, values, st.booleans(), st.booleans(), st.lists(st.integers(1, 40)))
def test_any_document_in_any_pieces_gives_its_records(
    wanted: list[Any], other: Any, top: bool, escaped: bool, sizes: list[int]
) -> None:
    document = wanted if top else {"x": other, "dataset": wanted, "conformsTo": {"dataset": [other]}, "y": [[other]]}
    body = json.dumps(document, ensure_ascii=escaped).encode()

    assert [json.loads(cut) for cut in split(body, sizes)] == wanted


@given(records, st.integers(1, 30))
def test_a_document_cut_off_anywhere_is_never_taken_for_whole(wanted: list[Any], lost: int) -> None:
    body = json.dumps({"dataset": wanted}).encode()

    with pytest.raises(SourceError):
        split(body[:-lost], [7, 100])


def test_records_of_nested_catalogs_are_found() -> None:
    inner = {"title": "Inner", "dataset": [{"identifier": 2}], "catalog": {"dataset": {"identifier": 3}}}
    body = json.dumps({"dataset": [{"identifier": 1, "dataset": [{"no": 1}]}], "catalog": [inner]}).encode()

    assert [json.loads(cut)["identifier"] for cut in split(body, [])] == [1, 2, 3]


def test_a_broken_record_costs_only_itself() -> None:
    body = b'{"dataset": [{"identifier": 1}, {"identifier": tru}, null, 7, "{", {"identifier": 3}]}'

    assert split(body, [5] * 30) == [b'{"identifier": 1}', b'{"identifier": tru}', b'{"identifier": 3}']


def test_a_record_larger_than_allowed_is_passed_over_in_bounded_memory() -> None:
    splitter = Splitter(NAMES, most_bytes=1 << 20)
    found = [*splitter.feed(b'{"dataset": [{"identifier": 1}, {"text": "')]
    for _ in range(400):
        found += splitter.feed(b"x\\\\" * 20_000)
        assert len(splitter._buffer) < 2 << 20
    found += splitter.feed(b'"}, {"identifier": 3}]}')
    splitter.close()

    assert [cut.whole for cut in found] == [True, False, True]


@pytest.mark.parametrize(
    "body", [b"", b"   ", b"<html>", b"null", b'{"dataset": [}', b"{]", b"{} {}", b'{"dataset": [{"a": "b}]}']
)
def test_what_is_no_whole_document_is_refused(body: bytes) -> None:
    with pytest.raises(SourceError):
        split(body, [])


def test_a_page_shrinks_to_a_quarter_and_grows_back_by_doubling() -> None:
    size = PageSize(1000)

    shrunk = [size.rows for _ in range(5) if size.shrink()]
    limit_s = size.limit_s
    for _ in range(12):
        size.grow()

    assert shrunk == [250, 62, 15, 10]
    assert not PageSize(10).shrink()
    assert (size.rows, size.limit_s, limit_s) == (1000, 300.0, 300.0)
