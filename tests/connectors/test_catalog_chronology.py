"""Listings in the order of dates: every record is met, whatever happens to others on the way."""

import asyncio
import os
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowen.connectors.catalog.chronology import DatedAnswer, DatedQuestion, chronology
from rowen.connectors.catalog.listing import ListingPage, Row
from rowen.model.items import Failed
from tests.portals.shelf import Catalog, Index, Shelf, expected, url_of

LATE = datetime.max.replace(tzinfo=UTC)


class Dated(Shelf):
    """The catalog as one that sorts and filters by date, oldest first, undated records last."""

    def __init__(self, catalog: Catalog, *, window: int = 1000, undated_kept: bool = True) -> None:
        super().__init__(catalog)
        self.window = window
        self.undated_kept = undated_kept
        self.minds: set[str] = {"after", "order"}
        self.asked: list[DatedQuestion] = []

    def read_pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Any = None
    ) -> AsyncGenerator[ListingPage]:
        return chronology(self._ask, window=self.window, undated_kept=self.undated_kept, since=since, place=place)

    async def _ask(self, question: DatedQuestion) -> DatedAnswer:
        catalog = self._catalog
        self.asked.append(question)
        assert question.skip < self.window
        names = [name for name in catalog.dates if self._is_after(name, question.after)]
        if "order" in self.minds:
            names.sort(key=lambda name: (catalog.dates[name] or LATE, name))
        shown = names[question.skip :][: catalog.size]
        answer = DatedAnswer(
            [*map(self._row, shown)], len(names), catalog.clock, question.skip + len(shown) < len(names)
        )
        if catalog.after_page:
            catalog.after_page(len(self.asked))
        return answer

    def _is_after(self, name: str, after: datetime | None) -> bool:
        at = self._catalog.dates[name]
        if after is None or "after" not in self.minds:
            return True
        return self.undated_kept if at is None else at >= after


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog()
    catalog.fill(35)
    return catalog


async def names(listing: Dated, **how: Any) -> list[str]:
    return [row.url.rpartition("/")[2] async for page in listing.read_pages(**how) for row in page.rows]


async def test_each_record_comes_once_and_in_order(catalog: Catalog) -> None:
    listing = Dated(catalog)

    assert await names(listing) == [f"n{number:03}" for number in range(35)]
    assert len(listing.asked) == 4
    assert {question.skip for question in listing.asked} == {0}


async def test_records_of_one_second_are_skipped_by_number(catalog: Catalog) -> None:
    for number in range(25):
        catalog.put(f"same{number:02}", hours=0)
        catalog.dates[f"same{number:02}"] = catalog.clock + timedelta(milliseconds=number)
    listing = Dated(catalog)

    assert len(set(await names(listing))) == len(await names(listing)) == 60
    assert max(question.skip for question in listing.asked) == 20


@pytest.mark.parametrize("kept", [True, False])
async def test_undated_records_come_last_or_are_looked_for_at_the_end(catalog: Catalog, kept: bool) -> None:
    for number in range(15):
        catalog.put(f"undated{number:02}", dated=False)
    listing = Dated(catalog, undated_kept=kept)

    found = await names(listing)
    assert len(found) == len(set(found)) == 50


@pytest.mark.parametrize("size", [1, 2, 10])
async def test_records_that_cannot_be_read_hide_no_others(catalog: Catalog, size: int) -> None:
    catalog.size = size
    catalog.broken = frozenset({"n009", "n010", "n019", "n034"})
    for number in range(3):
        catalog.put(f"undated{number}", dated=False)

    class UnparsedRecord(Dated):
        def _row(self, name: str) -> Row:
            row = super()._row(name)
            return row._replace(modified=None) if isinstance(row.seen, Failed) else row

    assert set(await names(UnparsedRecord(catalog))) == set(catalog.dates)


async def test_pages_may_become_smaller_on_the_way(catalog: Catalog) -> None:
    sizes = iter([10, 1, 1, 2, 1, 10, 3])
    catalog.after_page = lambda asked: setattr(catalog, "size", next(sizes, 4))

    assert set(await names(Dated(catalog))) == set(catalog.dates)


async def test_only_what_is_newer_is_asked_for(catalog: Catalog) -> None:
    listing = Dated(catalog)

    assert await names(listing, since=catalog.clock - timedelta(hours=2)) == ["n032", "n033", "n034"]
    assert len(listing.asked) == 1


@pytest.mark.parametrize("ignored", ["after", "order"])
async def test_a_source_that_ignores_the_question_is_walked_by_number(catalog: Catalog, ignored: str) -> None:
    listing = Dated(catalog)
    listing.minds -= {ignored}
    if ignored == "order":
        catalog.dates = dict(sorted(catalog.dates.items(), key=lambda item: item[0][::-1]))

    assert set(await names(listing)) == set(catalog.dates)


async def test_more_of_one_second_than_may_be_skipped_is_doubtful(catalog: Catalog) -> None:
    for number in range(60):
        catalog.put(f"same{number:02}", hours=0)
    pages = [page async for page in Dated(catalog, window=30).read_pages()]

    assert pages[-1].place is None
    assert "no more than 30" in (pages[-1].doubt or "")


async def test_a_place_leads_to_the_rest(catalog: Catalog) -> None:
    first = await anext(Dated(catalog).read_pages())

    assert await names(Dated(catalog), place=first.place) == [f"n{number:03}" for number in range(10, 35)]


CHANGE = st.tuples(st.integers(0, 12), st.sampled_from(["put", "remove", "undated"]), st.sampled_from([0, 0.1, 3]))


@settings(max_examples=int(os.environ.get("ROWEN_TEST_EXAMPLES", "120")))
@given(
    runs=st.lists(st.tuples(st.lists(CHANGE, max_size=6), st.booleans(), st.integers(0, 4)), max_size=5),
    size=st.sampled_from([2, 3, 5]),
)
def test_changes_on_the_way_delete_nothing_that_is_there(runs: list[Any], size: int) -> None:
    asyncio.run(_live(runs, size))


async def _live(runs: list[Any], size: int) -> None:
    catalog, index = Catalog(size=size), Index()
    catalog.fill(8)
    for changes, full, die_after in runs:
        waiting = list(changes)

        def disturb(asked: int, waiting: list[Any] = waiting) -> None:
            if waiting:
                _change(catalog, *waiting.pop())

        catalog.after_page = disturb
        removed = {url_of(f"n{number:03}") for number, what, _ in changes if what == "remove"}
        always = index.items.keys() & expected(catalog).keys() - removed
        await index.sync(Dated(catalog), full=full, die_after=die_after or None)
        assert always <= index.items.keys()
    catalog.after_page = None
    await index.sync(Dated(catalog))
    assert index.items == expected(catalog)


def _change(catalog: Catalog, number: int, what: str, hours: float) -> None:
    name = f"n{number:03}"
    if what == "remove":
        catalog.dates.pop(name, None)
    else:
        catalog.put(name, f"Put at {catalog.clock}.", hours=hours, dated=what == "put")


async def test_a_listing_that_only_an_empty_page_ends_must_keep_undated_records() -> None:
    async def ask(question: DatedQuestion) -> DatedAnswer:
        raise AssertionError(question)

    with pytest.raises(ValueError, match="undated_kept"):
        await anext(chronology(ask, window=10, undated_kept=False, confirmed=True))
