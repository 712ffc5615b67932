"""No regular expression takes more than linear time, whatever it is given.

Each pattern that stands in the code gets texts made of its own parts. One that is made at run time is linear by how it
is made, and has a test of its own below.
"""

import re
from functools import partial
from typing import Any

import pytest

from rowen.connectors.files.gitignore import any_of
from rowen.connectors.web.options import WebOptions
from rowen.content import markdown
from rowen.formats.xml import _tags_of
from rowen.model.passages import pattern as snippet_pattern
from rowen.model.search import Query
from tests.hostile.clock import FLOOR_S, TooSlowError, cheapest_s, grows
from tests.hostile.patterns import Use, held, made_at_run_time, patterns, worst_texts

SIZES = (10_000, 20_000, 40_000)
GLANCE_SIZE = 5_000
GLANCE_S = 0.0003
"""What a text of 5 kB may cost without a closer look: linear work is a tenth of it, quadratic work ten times."""

MOST_SUSPECTS = 4

# `title_and_anchor` cuts a heading to 800 characters first.
_OF_HEADINGS = (markdown._ANCHOR, markdown._CLOSING, markdown._IMAGE_OR_LINK, markdown._EMPHASIS, markdown._ESCAPE)
BOUNDED = dict.fromkeys((*_OF_HEADINGS, markdown._MARKED, markdown._NOT_IN_SLUG), 800)
"""The longest text that a pattern ever sees, where the code cuts it; nothing else is exempt."""

MADE = {
    "rowen.model.passages.pattern",
    "rowen.connectors.files.gitignore._Decision.__init__",
    "rowen.connectors.files.gitignore.any_of",
    "rowen.connectors.web.options.UrlPatterns.__init__",
    "rowen.content.chunks._Cutter._rarely",
    "rowen.formats.xml._tags_of",
    "rowen.model.versions._term",
}
"""Who makes patterns at run time."""


@pytest.mark.parametrize("use", patterns(), ids=lambda use: use.place.removeprefix("rowen."))
def test_a_pattern_takes_linear_time_on_the_texts_that_are_worst_for_it(use: Use) -> None:
    bound = BOUNDED.get(use.pattern)

    growth = (_growth(use, number, bound) for number in _suspects(use, bound or GLANCE_SIZE))

    assert (trouble := next(filter(None, growth), None)) is None, f"{use.pattern.pattern!r} {trouble}"


def test_all_patterns_are_known() -> None:
    assert not held() - {use.pattern for use in patterns()}
    assert len(patterns()) > 250


def test_who_makes_patterns_at_run_time_is_known_and_tested_here() -> None:
    assert made_at_run_time() == MADE


def test_the_measure_finds_patterns_that_are_not_linear() -> None:
    for source in (r"(?:a|a)*$", r"\s+$", r"<!--.*?-->"):
        use = Use("here", re.compile(source, re.DOTALL))

        assert any(_growth(use, number, None) for number in _suspects(use, GLANCE_SIZE)), source


def _suspects(use: Use, size: int) -> list[int]:
    """Those few of the worst texts that cost most, if it is more than a glance."""
    prices: list[tuple[float, int]] = []
    for number, text in enumerate(worst_texts(use.pattern, size)):
        work = partial(_apply, use, text)
        try:
            if cheapest_s(work, limit_s=1) > GLANCE_S and (price_s := cheapest_s(work, tries=2)) > GLANCE_S:
                prices.append((price_s, number))
        except TooSlowError:
            return [number]
    return [number for _, number in sorted(prices, reverse=True)[:MOST_SUSPECTS]]


def _growth(use: Use, number: int, bound: int | None) -> str | None:
    def prepared(size: int) -> Any:
        text = next(text for at, text in enumerate(worst_texts(use.pattern, size)) if at == number)
        return partial(_apply, use, text)

    if bound is not None:
        return None if cheapest_s(prepared(bound), tries=3) < FLOOR_S else f"takes too long for {bound} characters"
    return grows(prepared, SIZES)


def _apply(use: Use, text: str | bytes) -> None:
    if use.method == "search":
        for _ in use.pattern.finditer(text):
            pass
    else:
        getattr(use.pattern, use.method)(text)


def test_patterns_for_urls_take_linear_time_and_match_as_before() -> None:
    """A star stands for any part of a URL, also where the parts around it overlap."""
    options = WebOptions(exclude="https://a/*aa*aab*b")
    excluded = options.excluded
    assert excluded is not None

    assert grows(lambda size: partial(excluded.search, "https://a/" + "a" * size), SIZES) is None
    for url, expected in (("https://a/xaayaabzb", True), ("https://a/aaab", False), ("https://a/aaaaabb", True)):
        assert bool(excluded.search(url)) is expected


def test_patterns_for_paths_take_linear_time() -> None:
    for glob in ("*a*a*a*a*b", "**/a/**/a/**/b", "[a]*[a]*b", "a*/**/b"):
        pattern = any_of([glob])

        for unit in ("a", "a/", "/", "aab"):
            prepared = partial(_matched, pattern, unit)
            assert grows(prepared, SIZES) is None, (glob, unit)


def _matched(pattern: re.Pattern[str], unit: str, size: int) -> Any:
    return partial(pattern.fullmatch, unit * (size // len(unit)) + "\x01")


def test_patterns_for_the_words_of_a_query_take_linear_time() -> None:
    pattern = snippet_pattern(Query.parse('prefix* word "some phrase" 漢字 aa*'))
    assert pattern is not None

    for unit in ("prefix", "word", "words ", "a", " ", "漢", "some phrase", "\n"):
        assert grows(partial(_found, pattern, unit), SIZES) is None, unit


def test_patterns_for_the_tags_of_a_record_take_linear_time() -> None:
    pattern = _tags_of("record")

    for unit in (
        "<record",
        "<record ",
        "</record>",
        '<record a="',
        "<record a='b' ",
        "<!--",
        "<![CDATA[",
        "<?",
        "<record/",
    ):
        assert grows(partial(_found, pattern, unit), SIZES) is None, unit


def _found(pattern: re.Pattern[str], unit: str, size: int) -> Any:
    return partial(pattern.sub, "", unit * (size // len(unit)))
