"""No regular expression takes more than linear time, whatever it is given.

Each pattern that stands in the code gets texts made of its own parts. One that is made at run time is linear by how it
is made, and has a test of its own below.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.hostile.clock import FLOOR_S, TooSlowError, cheapest_s, grows
from tests.hostile.patterns import Use, held, made_at_run_time, patterns, worst_texts

SIZES = (10_000, 20_000, 40_000)
GLANCE_SIZE = 5_000
GLANCE_S = 0.0003
"""What a text of 5 kB may cost without a closer look: linear work is a tenth of it, quadratic work ten times."""

BOUNDED = {
    "rowen.content.headings": 800,  # `title_and_anchor` cuts a heading to 800 characters first
}
"""The longest text that a module's patterns ever see, where the code cuts it; nothing else is exempt."""

MADE = {
    "rowen.cli.snippet.pattern",
    "rowen.connectors.files.gitignore._Matched.__init__",
    "rowen.connectors.files.globs.any_of",
    "rowen.connectors.web.options._any_of",
    "rowen.connectors.web.options.as_regex",
    "rowen.content.pieces._Cutter._rarely",
    "rowen.model.version._numbers",
}
"""Who makes patterns at run time."""


@pytest.mark.parametrize("use", patterns(), ids=lambda use: use.place.removeprefix("rowen."))
def test_a_pattern_takes_linear_time_on_the_texts_that_are_worst_for_it(use: Use) -> None:
    bound = next((bound for module, bound in BOUNDED.items() if use.place.startswith(f"{module}:")), None)

    growth = (_growth(use, number, bound) for number in _suspects(use, bound or GLANCE_SIZE))

    assert (trouble := next(filter(None, growth), None)) is None, f"{use.pattern.pattern!r} {trouble}"


def test_all_patterns_are_known() -> None:
    assert not held() - {use.pattern for use in patterns()}
    assert len(patterns()) > 250


def test_who_makes_patterns_at_run_time_is_known_and_tested_here() -> None:
    assert made_at_run_time() == MADE


def test_the_measure_finds_patterns_that_are_not_linear() -> None:
    for source in (r"(?:a|a)*$", r"\s+$", r"<!--.*?-->", r"(\w+\s?)*:", r"\[[^\]]*\]\("):
        use = Use("here", re.compile(source, re.DOTALL))

        assert any(_growth(use, number, None) for number in _suspects(use, GLANCE_SIZE)), source


def _suspects(use: Use, size: int) -> Iterator[int]:
    """Those of the worst texts that cost more than a glance."""
    for number, text in enumerate(worst_texts(use.pattern, size)):
        work = partial(_apply, use, text)
        try:
            if cheapest_s(work) < GLANCE_S or cheapest_s(work, tries=2) < GLANCE_S:
                continue
        except TooSlowError:
            pass
        yield number


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
