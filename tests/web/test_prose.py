"""Markdown of others becomes HTML that can do no harm, in parts that fit a page; pictures are small and tell all."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.errors import Hint, action
from rowen.interfaces.web import charts, words
from rowen.interfaces.web.prose import MOST_HTML, first_part, prose
from rowen.interfaces.web.view import PageAddresses, joined, local, outside
from rowen.model.runs import Run, RunStats, RunStatus
from rowen.model.sources import Overview

BASE = "https://example.org/docs/page"
ALLOWED = {
    *("p", "a", "em", "strong", "code", "pre", "ul", "ol", "li", "blockquote", "hr", "br", "span"),
    *("h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[a](javascript:alert(1))", "[a](javascript:alert(1))"),
        ("[a](JaVaScRiPt:alert(1))", "[a](JaVaScRiPt:alert(1))"),
        ("[a](data:text/html,x)", "[a](data:text/html,x)"),
        ("[a](file:///etc/passwd)", "[a](file:///etc/passwd)"),
        ("[a](vbscript:x)", "[a](vbscript:x)"),
        ("[a](mailto:x@example.org)", "<a>a</a>"),
        ("[a](../b)", '<a href="https://example.org/b" rel="noreferrer nofollow">a</a>'),
        ("[a](//other.example/x)", '<a href="https://other.example/x" rel="noreferrer nofollow">a</a>'),
        ("![a picture](https://other.example/p.png)", '<span class="quiet">[a picture]</span>'),
        ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
        ("<https://example.org/x>", 'href="https://example.org/x"'),
        ("# Heading", "<h2>Heading</h2>"),
        ("###### Deep", "<h6>Deep</h6>"),
        ("```html\n<script>x</script>\n```", "&lt;script&gt;x&lt;/script&gt;"),
        ('[a](https://example.org/"onmouseover=alert)', "https://example.org/%22onmouseover=alert"),
    ],
)
def test_markdown_is_drawn_without_anything_that_runs_or_asks(text: str, shown: str) -> None:
    assert shown in prose(text, BASE)


@given(st.text(alphabet="<>&\"'[]()!#*`|-\n\\ ajs:/:", max_size=200))
def test_no_text_makes_other_elements_or_attributes(text: str) -> None:
    found = re.findall(r"<\s*/?([a-zA-Z][\w-]*)((?:\s+[^<>]*)?)>", prose(text, BASE))

    assert {name for name, _ in found} <= ALLOWED
    assert {
        attribute for _, rest in found for attribute in re.findall(r"([\w-]+)=", re.sub(r'"[^"]*"', '""', rest))
    } <= {*("href", "rel", "class", "start", "title")}


def test_a_long_text_is_shown_in_parts_that_lose_nothing() -> None:
    text = "\n\n".join(f"Paragraph {number} of the handbook." for number in range(6000))
    start: int | None = 0
    seen: list[str] = []
    while start is not None:
        html, start = first_part(text, BASE, start)
        assert len(html.encode()) <= MOST_HTML
        seen += re.findall(r"Paragraph (\d+) of", html)

    assert seen == [str(number) for number in range(6000)]


def test_a_text_that_grows_as_html_is_cut_earlier() -> None:
    html, rest = first_part("|" + "a|" * 8 + "\n|" + "-|" * 8 + "\n" + ("|" + "&|" * 8 + "\n") * 3000, BASE)

    assert len(html.encode()) <= MOST_HTML
    assert rest


@pytest.mark.parametrize("url", ["javascript:x", "data:,x", "file:///x", "//host/x", "x", "http://", "https://[broken"])
def test_only_web_addresses_are_links(url: str) -> None:
    assert outside(url) == ""
    assert joined("pkg:pypi/x", url) == ""


def test_addresses_are_quoted_and_redirects_stay_local() -> None:
    at = PageAddresses("/hay")

    assert at("sources", "a/b c", q="x&y", empty="", none=None) == "/hay/sources/a%2Fb%20c?q=x%26y"
    assert at.feed("atom", "a b", query="hay") == "/hay/sources/a%20b/feeds/atom?query=hay"
    assert [local(path) for path in ("/runs?x=1", "//evil", "/\\evil", "https://evil", None, "/a\nb")] == [
        *("/runs?x=1", "/", "/", "/", "/", "/")
    ]


def run(status: RunStatus, changed: int) -> Run:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Run(1, "docs", "web", "full", status, True, now, now, RunStats(created=changed))


def test_thirty_runs_are_a_small_labelled_chart() -> None:
    drawn = charts.bars([run("failed" if number % 7 == 0 else "completed", number) for number in range(30)])

    assert len(drawn) < 3000
    assert 'aria-label="30 runs: 5 failed, 25 completed; 435 changes"' in drawn
    assert drawn.count("<rect") == 31


def test_a_series_is_drawn_only_of_numbers() -> None:
    assert charts.spark([1, None, "x", True]) == ""
    assert "from 1 to 3 in 2 versions" in charts.spark([1, None, 3.0])


def standing(**more: object) -> Overview:
    usual = {"deletions_held": 0, "quarantined": 0, "items": 1, "last_run_at": None, "last_complete_at": None}
    told = {
        "name": "docs",
        "kind": "web",
        "url": BASE,
        "state": "active",
        "last_status": "completed",
        "last_error": None,
    }
    return Overview(**{**usual, **told, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "meaning", "word"),
    [
        ({}, "fresh", "fresh"),
        ({"stale": 0.2}, "stale", "20 % stale"),
        ({"state": "paused"}, "stale", "paused"),
        ({"last_status": None}, "waiting", "not read yet"),
        ({"last_status": "running"}, "waiting", "reading now"),
        ({"deletions_held": 52}, "waiting", "52 pending deletions"),
        ({"last_status": "failed"}, "failing", "failed"),
        ({"last_status": "partial"}, "failing", "incomplete"),
    ],
)
def test_a_state_is_one_of_four_shapes_with_its_own_word(more: dict[str, object], meaning: str, word: str) -> None:
    assert words.state_of(standing(**more)) == (meaning, word)


def test_a_hint_leads_on_without_repeating_whom_it_is_about() -> None:
    hint = Hint("docs: down; ", action("sync", "docs"), " tries again.")

    assert [text for text, _ in words.pieces(hint, "docs")] == ["Down; ", "rowen sync docs", " tries again."]
    assert words.pieces(None) == []


def test_a_gist_has_words_and_no_markup() -> None:
    assert words.gist("# Heading\n\nSee [the mill](https://example.org/mill), **now**.") == "See the mill, now."


def test_times_are_absolute_and_relative() -> None:
    now = datetime.now(UTC)

    assert "never" in words.when(None)
    assert f"{now:%Y-%m-%d %H:%M}" in words.when(now)
    assert words.relative("nonsense") == "never"
    assert words.share(0.9999) == "99.9 %"
