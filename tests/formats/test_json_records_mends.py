"""A broken record costs itself: the splitter finds the next one, and never takes a torn document for whole."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.connectors.datajson.record import is_record
from rowen.errors import SourceError
from rowen.formats.json_records import Cut, Splitter

PIECES = [10**9, 1000, 7]


def record(number: int, **more: Any) -> dict[str, Any]:
    files = [{"title": "T", "downloadURL": f"https://f.example/{at}", "format": "csv"} for at in range(2)]
    return {
        "publisher": {"name": "Farm", "identifier": "farm"},
        "identifier": f"r{number}",
        "title": "A {title}, with [brackets]",
        "keyword": ["a", "b"],
        "distribution": files,
        "modified": "2024",
        **more,
    }


def split(body: bytes, size: int, **more: Any) -> list[Cut]:
    splitter = Splitter(frozenset({"dataset"}), frozenset({"catalog"}), is_record=is_record, **more)
    found = [cut for at in range(0, len(body), size) for cut in splitter.feed(body[at : at + size])]
    found += splitter.finish()
    splitter.close()
    return found


def written(indent: int | None, count: int = 9) -> bytes:
    return json.dumps({"dataset": [record(at) for at in range(count)], "after": [{"x": 1}]}, indent=indent).encode()


def spoil(body: bytes, which: int, old: bytes, new: bytes) -> bytes:
    """The document with something else in the one record."""
    at = body.index(b'"r%d"' % which)
    assert old in body[at:]
    return body[:at] + body[at:].replace(old, new, 1)


BREAKS = [
    (b"A {title}", b'A "{title}'),
    (b"A {title}", b'A "x" {title}'),
    (b'[brackets]"', b"[brackets]"),
    (b'"modified"', b"modified"),
    (b'"2024"', b"nonsense"),
    (b'"b"', b"b"),
    (b'"keyword":', b'"keyword"'),
    (b'brackets]",', b'brackets]"],'),
    (b'"csv"', b'"csv'),
    (b'"csv"', b'"c"s"v"'),
]


@pytest.mark.parametrize("size", PIECES)
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("which", [0, 4])
@pytest.mark.parametrize(("old", "new"), BREAKS)
def test_a_record_broken_in_any_way_costs_only_itself(
    old: bytes, new: bytes, which: int, indent: int | None, size: int
) -> None:
    body = spoil(written(indent), which, old, new)

    cuts = split(body, size)

    good = [cut.value["identifier"] for cut in cuts if cut.problem is None]
    [broken] = [cut for cut in cuts if cut.problem is not None]
    assert good == [f"r{at}" for at in range(9) if at != which]
    assert (broken.number, body[broken.offset :].startswith(broken.body)) == (which + 1, True)
    assert [cut.number for cut in cuts] == list(range(1, 10))


@pytest.mark.parametrize("size", PIECES)
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(("old", "new"), BREAKS[:8])
def test_the_last_record_ends_where_its_other_fields_do(old: bytes, new: bytes, indent: int | None, size: int) -> None:
    cuts = split(spoil(written(indent), 8, old, new), size)

    assert [cut.problem is None for cut in cuts] == [True] * 8 + [False]


@pytest.mark.parametrize("lost", [b"}, {", b"}]}"])
def test_a_record_without_its_last_bracket_ends_where_the_next_one_begins(lost: bytes) -> None:
    body = json.dumps({"dataset": [record(at) for at in range(9)]}).encode()
    at = body.rindex(lost)
    torn = body[:at] + body[at + 1 :]

    cuts = split(torn, 100)

    assert [cut.value["identifier"] for cut in cuts if cut.problem is None][:7] == [f"r{at}" for at in range(7)]
    assert sum(cut.problem is not None for cut in cuts) == 1


def test_two_stray_quotes_do_not_hide_the_records_between_them() -> None:
    body = spoil(spoil(written(None), 2, b"A {title}", b'A "{title}'), 5, b"A {title}", b'A "{title}')

    cuts = split(body, 500)

    assert [cut.number for cut in cuts if cut.problem] == [3, 6]
    assert len(cuts) == 9


def test_what_is_no_object_is_given_too() -> None:
    body = b'{"dataset": [null, "{", 7, ["x", {"identifier": "no"}], {"identifier": 1}, tru, {"identifier": 2}, {}}]}'

    cuts = split(body, 3)

    assert [cut.value for cut in cuts] == [
        None, "{", 7, ["x", {"identifier": "no"}], {"identifier": 1}, None, {"identifier": 2}, {}, None
    ]  # fmt: skip
    assert [cut.number for cut in cuts if cut.problem] == [6, 9]


@given(st.integers(0, 8), st.sampled_from(BREAKS), st.data())
def test_a_broken_document_cut_off_anywhere_is_never_taken_for_whole(
    which: int, spoiled: tuple[bytes, bytes], data: st.DataObject
) -> None:
    body = spoil(written(None), which, *spoiled)
    kept = data.draw(st.integers(0, len(body) - 1))

    with pytest.raises(SourceError, match=r"byte|Nothing"):
        split(body[:kept], data.draw(st.sampled_from(PIECES)))


def test_a_document_that_is_cut_off_says_where() -> None:
    body = written(None)[:1200]

    with pytest.raises(SourceError, match=r"Record \d, which begins at byte \d+, is cut off.* at byte 1200"):
        split(body, 100)


def test_a_broken_record_without_another_one_in_sight_is_given_up_in_bounded_memory() -> None:
    body = b'{"dataset": [{"identifier": 1}, {"a": "b"c", "d": "' + b"x\\\\" * (1 << 20)

    with pytest.raises(SourceError, match="Record 2, which begins at byte 32, is broken"):
        split(body, 60_000, most_bytes=1 << 20)


def test_a_record_larger_than_allowed_is_passed_over_and_what_follows_is_read() -> None:
    body = json.dumps({"dataset": [record(0), record(1, text="x{" * (1 << 20)), record(2)]}).encode()

    cuts = split(body, 60_000, most_bytes=1 << 20)

    assert [(cut.number, cut.whole) for cut in cuts] == [(1, True), (2, False), (3, True)]
