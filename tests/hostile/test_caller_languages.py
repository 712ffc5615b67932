"""Texts in the small languages that callers write are read, and evaluated, in a time that does not depend on them."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from rowen.connectors.files.options import FilesOptions, Selection
from rowen.connectors.web.options import UrlPatterns, WebOptions
from rowen.errors import RowenError, UsageError
from rowen.formats.rdf.profile import profile_in
from rowen.harvest.parse_pool import Workers
from rowen.harvest.parse_worker import Prepared, Refused
from rowen.model.dates import parse_since
from rowen.model.items import Raw
from rowen.model.rdf import StatementProfile
from rowen.model.schedules import Schedule
from rowen.model.search import Condition, Query, plain
from rowen.model.text import linear_search, pattern_states
from rowen.model.url import Address
from rowen.model.versions import VersionSpec
from rowen.operations.paging import decoded
from tests.conftest import ScratchDatabase
from tests.hostile.clock import at_most, cheapest_s, costs_at_most, slowness
from tests.hostile.families import LANGUAGES

pytestmark = pytest.mark.unwatched

NOW = datetime(2026, 1, 1, tzinfo=UTC)
VERSIONS = [f"{major}.{minor}" for major in range(30) for minor in range(30)]
LONG_URL = "https://h.example/" + "a" * 2_000
SIZES = (200, 990, 3_990, 40_000, 900_000)
"""Just below the bounds of different languages, and far beyond."""

READ_S = 0.25


def _schedule(**how: Any) -> None:
    schedule = Schedule.declared(**how)
    assert schedule is not None
    schedule.words()
    schedule.next_after(NOW, salt=1)
    if schedule.hours:
        schedule.hours.closes(NOW)


READERS: dict[str, dict[str, Callable[[str], object]]] = {
    "schedule": {
        "cron": lambda text: _schedule(cron=text),
        "during": lambda text: _schedule(every="1h", during=text),
        "every": lambda text: _schedule(every=text),
        "zone": lambda text: _schedule(cron="* * * * *", tz=text),
        "canonical": Schedule.parse,
    },
    "version": {"spec": lambda text: VersionSpec.parse(text).best(VERSIONS)},
    "query": {"words": Query.parse, "sentence": plain},
    "condition": {"condition": Condition.parse},
    "cursor": {"cursor": lambda text: decoded(text, "list")},
    "time": {"since": parse_since},
    "patterns": {
        "one of a site": lambda text: UrlPatterns((text,)).search(LONG_URL),
        "those of a site": lambda text: UrlPatterns(tuple(text.split(","))).search(LONG_URL),
        "those of a folder": lambda text: Selection(FilesOptions(include=text)).takes("a/" * 100 + "a" * 200),  # type: ignore[arg-type]
    },
    "SHACL": {"shapes": profile_in},
    "CSS": {"selector": lambda text: WebOptions(select=text)},
    "address": {"address": Address.of},
}


@pytest.mark.parametrize(
    ("language", "reader"), [(language, reader) for language, readers in READERS.items() for reader in readers]
)
def test_the_worst_texts_of_a_language_are_read_or_refused_in_no_time(language: str, reader: str) -> None:
    def read(text: str) -> None:
        with suppress(RowenError, ValueError, OverflowError):
            READERS[language][reader](text)

    limit_s = 1.0 if language == "SHACL" else READ_S  # shapes are read beside the event loop
    slow = [
        f"{family} of {size:,} characters"
        for family, made in LANGUAGES[language].families.items()
        for size in SIZES
        if cheapest_s(partial(read, made(size))) > limit_s * slowness()
    ]

    assert slow == []


@pytest.mark.parametrize("cron", ["0 0 30 2 *", "0 0 31 4 *", "0 0 * 2 1#5", "0 0 29 2 */7", "30 2 29 2 *"])
def test_the_next_time_of_a_rare_schedule_is_found_or_refused_at_once(cron: str) -> None:
    with costs_at_most(0.25), at_most(5.0 * slowness()):
        try:
            _schedule(cron=cron, tz="Europe/Brussels")
            is_rare = True
        except RowenError:
            is_rare = False

    assert is_rare == (cron not in ("0 0 30 2 *", "0 0 31 4 *"))


def test_an_expression_for_urls_is_matched_without_backtracking() -> None:
    options = WebOptions(exclude=r"/(a+)+!$/,/\.pdf$/,*/draft/*")  # type: ignore[arg-type]
    excluded = options.excluded
    assert excluded is not None

    with costs_at_most(0.25), at_most(5.0 * slowness()):
        assert not excluded.search(LONG_URL)
    matched = [
        url for url in ("https://h/a.pdf", "https://h/draft/x", "https://h/aa!", "https://h/b") if excluded.search(url)
    ]
    assert matched == ["https://h/a.pdf", "https://h/draft/x", "https://h/aa!"]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("/^(?!.*draft)/", "look-around"),
        (r"/(a)\1/", "linear time"),
        ("/(/", "unclosed group"),
        ("/((((a{99}){99}){99}){99}){99}/", "repeats too much"),
        ("x" * 5_000, "more than 4,000 characters"),
    ],
)
def test_an_expression_that_cannot_be_matched_in_linear_time_is_refused_with_the_reason(
    pattern: str, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        WebOptions(include=(pattern,))


@pytest.mark.parametrize(
    ("pattern", "least"),
    [
        ("a{1000}", 1_000),
        ("(?:ab{3}){100}", 400),
        ("((a{9}){9}){9}", 729),
        ("[abc]{50}", 50),
        (r"[\p{L}\d]{20}", 1_000),
        (r"[[:alpha:]\p{L}]{20}", 1_000),
        (r"\w{20}", 1_000),
        ("(?x) (a {9}) {9}", 81),
        (r"\{9}", 1),
        (")" * 9, 1),
        ("a{999999999}" * 9, 1_000_000_000),
    ],
)
def test_repetitions_are_counted_before_a_pattern_is_compiled(pattern: str, least: int) -> None:
    assert least <= pattern_states(pattern) <= max(10 * least, 200)


def test_a_pattern_of_many_states_is_refused() -> None:
    assert linear_search("^a{9}$", most_states=100)("a" * 9)
    with pytest.raises(ValueError, match="repeats too much"):
        linear_search("a{101}", most_states=100)


SHAPES = (
    "@prefix sh: <http://www.w3.org/ns/shacl#> . <urn:x> a sh:NodeShape ; sh:targetClass <urn:c> ; "
    'sh:property [ sh:path <urn:p> ; sh:pattern "(a|b)*a(a|b){500}c" ] .'
)


@pytest.mark.parametrize(
    "how",
    [
        {"select": ":is(html:has(" * 60 + "*" + ") *)" * 60},
        {"ignore": ":has(" * 12 + "z" + ")" * 12},
        {"statements": "all", "profile": StatementProfile(SHAPES, drop=True)},
    ],
    ids=["select", "ignore", "shapes"],
)
async def test_a_small_page_is_read_apart_where_selectors_or_shapes_can_be_costly(how: dict[str, Any]) -> None:
    page = b"<title>Hay</title>" + b"<div>" * 200
    workers = Workers(1, time_limit_s=5.0)
    try:
        with costs_at_most(READ_S):  # of this process
            [answer] = await workers.prepare([Raw("https://h.example/", page, "a", "text/html", **how)])
        is_apart = bool(workers._all)
    finally:
        await workers.close()

    assert isinstance(answer, Prepared | Refused)
    assert is_apart


async def test_many_conditions_are_refused_before_the_database_plans_them(database: ScratchDatabase) -> None:
    many = [f"price{number}<1" for number in range(200)]
    async with database.open() as r:
        for asked in (
            r.search("hay", where=many),
            r.extraction.list(where=many),
            r.extraction.attach("none", "product@1", conditions=many),
        ):
            with pytest.raises(UsageError, match="at most 10"):
                await asked
        assert len(await r.search("hay", where=many[:10])) == 0
