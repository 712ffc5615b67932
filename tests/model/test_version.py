"""Versions: their order, and what is meant by a wish."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.model.versions import VersionSpec, parse

HELD = ["0.9", "1.0", "1.2.0", "1.9", "1.20", "2.0rc1", "2.0", "2.1.3", "2.10", "3.0.0-canary.1", "latest", "main"]


@pytest.mark.parametrize(
    "ascending",
    [
        ["1.0.dev1", "1.0a1.dev1", "1.0a1", "1.0b2", "1.0rc1", "1.0", "1.0.post1.dev1", "1.0.post1", "1.1"],
        ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0-rc.1", "1.0.0"],
        ["1.0.0-0", "1.0.0-canary.2", "1.0.0-canary.10", "1.0.0"],
        ["1.2", "1.10", "1.20", "2", "10", "1!0.1"],
        ["2023-12-31", "2024-01-05", "2024.2.1", "20250101"],
        ["v1.9", "1.10.0", "V2", "release-3.1"],
    ],
)
def test_versions_are_ordered_as_they_were_released(ascending: list[str]) -> None:
    parsed = [version for version in map(parse, ascending) if version]

    assert len(parsed) == len(ascending)
    assert parsed == sorted(parsed)
    assert len(set(parsed)) == len(parsed)


@pytest.mark.parametrize(("one", "other"), [("1.0", "v1.0.0"), ("1.0+build.5", "1"), ("2024-01-05", "2024.1.5")])
def test_spellings_of_one_version_are_equal(one: str, other: str) -> None:
    assert parse(one) == parse(other)


@pytest.mark.parametrize("text", ["", "latest", "main", "2.x", "1.*", "v", "1 2", "9" * 10_000, "1/2", "١.٢"])
def test_words_and_patterns_are_no_versions(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("wish", "best"),
    [
        ("2", "2.10"),
        ("2.x", "2.10"),
        ("v2.*", "2.10"),
        ("2.0", "2.0"),
        ("2.0.0", "2.0"),
        ("1.2", "1.2.0"),
        ("1.20", "1.20"),
        ("^2.1", "2.10"),
        ("^0.9", "0.9"),
        ("^0.2.3", None),
        ("~2.1", "2.1.3"),
        ("~=2.1", "2.10"),
        ("~=2.1.0", "2.1.3"),
        (">=1.0,<2", "1.20"),
        (">= 1.0 < 2", "1.20"),
        ("<2", "1.20"),
        ("!=2.10, 2", "2.1.3"),
        ("==2.*", "2.10"),
        ("=2.1.3", "2.1.3"),
        ("1.2 - 2.1", "2.1.3"),
        ("0.x || 1.0", "1.0"),
        ("latest", "2.10"),
        ("*", "2.10"),
        ("", "2.10"),
        ("main", "main"),
        ("2.0rc1", "2.0rc1"),
        (">=3.0.0-0", "3.0.0-canary.1"),
        ("3", "3.0.0-canary.1"),
        ("4", None),
        ("nightly", None),
    ],
)
def test_the_highest_version_that_is_meant_is_the_best(wish: str, best: str | None) -> None:
    assert VersionSpec.parse(wish).best(HELD) == best


@pytest.mark.parametrize(
    ("wish", "held"), [("2024-01", "2024-01-15"), ("2024", "2024-01-15"), ("2.x", "2.x"), ("Jammy", "jammy")]
)
def test_dates_patterns_and_words_are_found_under_their_own_name(wish: str, held: str) -> None:
    assert VersionSpec.parse(wish).best([held, "1.0", "focal"]) == held


def test_pre_releases_count_where_they_are_wished_for() -> None:
    assert VersionSpec.parse("latest").best(HELD, pre=True) == "3.0.0-canary.1"


@pytest.mark.parametrize("wish", [">=soon", "^x", "1.0 - soon"])
def test_a_comparison_with_no_version_is_an_error(wish: str) -> None:
    with pytest.raises(ValueError, match="needs a version"):
        VersionSpec.parse(wish)


@given(st.text(max_size=300))
def test_any_text_is_a_version_or_a_word(text: str) -> None:
    parsed = parse(text)

    assert parsed is None or parsed == parse(f" {text} ")


@given(st.text("0123456789.x*v-+!^~=<>|, abcrd", max_size=40), st.text("0123456789.-abcrdv", max_size=20))
def test_no_wish_does_anything_but_choose_or_complain(wish: str, version: str) -> None:
    best = None
    with suppress(ValueError):
        best = VersionSpec.parse(wish).best([version, "1.0"])

    assert best in (None, version, "1.0")


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30)), min_size=1))
def test_of_plain_numbers_the_latest_is_the_greatest(numbers: list[tuple[int, int, int]]) -> None:
    versions = [".".join(map(str, number)) for number in numbers]

    assert VersionSpec.parse("latest").best(versions) == ".".join(map(str, max(numbers)))
