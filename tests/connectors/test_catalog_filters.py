"""Whether the filter by date of a catalog is to be believed, used, tried again, or blamed."""

from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from typing import Any

import pytest

from rowen.connectors.catalog.changes import IGNORED
from rowen.connectors.catalog.listing import FAR_FUTURE, FAR_PAST, ListingPage
from rowen.connectors.catalog.portal_client import SourceBusyError, TooMuchError
from rowen.errors import FetchTimeoutError, SourceError
from rowen.model.items import Complete
from tests.portals.shelf import Catalog, Index, NamedCatalog, NamedShelf, Shelf, expected

REJECTED = SourceError("No such parameter: since.")


class Filtered(Shelf):
    """Raises errors for questions with a date, or for all; notes of which dates the number of records was asked."""

    def __init__(self, catalog: Catalog, **how: Any) -> None:
        super().__init__(catalog, **how)
        self.counted: list[datetime] = []
        self.problem: SourceError | None = None
        self.pages_before = 0
        self.counts_by_date = True
        self.is_down = False

    async def read_pages(self, *, since: datetime | None = None, **how: Any) -> AsyncGenerator[ListingPage]:
        left = self.pages_before
        async for page in super().read_pages(since=since, **how):
            if self.is_down or (since and self.problem and not left):
                raise self.problem or SourceError("The catalog is down.")
            left -= 1
            yield page

    async def count(self, since: datetime | None = None) -> int | None:
        if self.is_down:
            raise SourceError("The catalog is down.")
        if since:
            self.counted.append(since)
            if self.problem or not self.counts_by_date:
                raise self.problem or SourceError("Dates cannot be counted.")
        return await super().count(since)


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog(size=40)
    catalog.fill(80)
    return catalog


@pytest.fixture
def index() -> Index:
    return Index()


async def fail(index: Index, listing: Shelf) -> SourceError:
    with pytest.raises(SourceError) as caught:
        await index.sync(listing)
    return caught.value


@pytest.mark.parametrize("problem", [FetchTimeoutError, SourceBusyError, TooMuchError])
async def test_a_busy_catalog_that_breaks_off_changes_does_not_discredit_the_filter(
    catalog: Catalog, index: Index, problem: type[SourceError]
) -> None:
    await index.sync(Shelf(catalog))
    for number in range(50):
        catalog.put(f"n{number:03}", "Edited.")
    breaking = Filtered(catalog)
    breaking.problem, breaking.pages_before = problem("It took too long."), 1
    catalog.asked.clear()
    failed = await fail(index, breaking)
    breaking.problem = None
    await index.sync(breaking)

    assert (failed.__class__, index.fell_back) == (problem, [])
    assert "page" not in catalog.asked
    assert index.items == expected(catalog)


async def test_a_rejection_in_the_middle_of_changes_discredits_the_filter(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    for number in range(50):
        catalog.put(f"n{number:03}", "Edited.")
    rejecting = Filtered(catalog)
    rejecting.problem, rejecting.pages_before = REJECTED, 1
    await index.sync(rejecting)

    assert [str(REJECTED) in why for why in index.fell_back] == [True]
    assert isinstance(index.ending, Complete)
    assert index.items == expected(catalog)


async def test_a_catalog_that_is_too_slow_for_the_first_changes_is_walked(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    catalog.put("n003", "Edited.")
    slow = Filtered(catalog)
    slow.problem = FetchTimeoutError("It took too long.")
    await index.sync(slow)

    assert (len(index.fell_back), index.items) == (1, expected(catalog))


async def test_a_failed_run_reports_the_error_of_the_changes_and_not_of_the_check(
    catalog: Catalog, index: Index
) -> None:
    await index.sync(Shelf(catalog))
    down = Filtered(catalog)
    down.problem, down.is_down = REJECTED, True

    assert await fail(index, down) is REJECTED


async def test_a_run_reports_the_latest_error_of_the_filter(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    filtered = Filtered(catalog)
    filtered.problem = REJECTED
    await index.sync(filtered)
    rejected = index.fell_back
    filtered.problem, catalog.ignores_filter = None, True
    index.now += timedelta(days=1)
    await index.sync(filtered)
    ignored = index.fell_back
    index.now += timedelta(days=1)
    await index.sync(filtered)

    assert str(REJECTED) in rejected[0]
    assert ignored == index.fell_back == [IGNORED]


async def trials(index: Index, filtered: Filtered, runs: int) -> list[bool]:
    tried = []
    for _ in range(runs):
        filtered.counted.clear()
        await index.sync(filtered)
        tried.append(bool(filtered.counted))
    return tried


@pytest.mark.parametrize("days", [1, 30], ids=["found by a trial", "found by a whole walk"])
async def test_a_filter_that_worked_in_between_is_tried_again_as_soon_as_the_first_time(
    catalog: Catalog, index: Index, days: int
) -> None:
    filtered = Filtered(catalog)
    await index.sync(filtered)
    outages = []
    for _ in range(2):
        filtered.problem = REJECTED
        await index.sync(filtered)
        outages.append(await trials(index, filtered, 6))
        filtered.problem = None
        index.now += timedelta(days=days)
        await index.sync(filtered)
        assert index.fell_back == []

    assert outages == [[False, True, False, False, True, False]] * 2


async def test_a_filter_that_was_rejected_is_tried_as_it_would_be_used(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    rejecting = Filtered(catalog)
    rejecting.problem = REJECTED
    await index.sync(rejecting)
    rejecting.counted.clear()
    index.now += timedelta(days=1)
    await index.sync(rejecting)

    assert rejecting.counted == [catalog.clock]


async def test_a_filter_that_never_worked_is_detected_by_the_first_walk_and_not_used(
    catalog: Catalog, index: Index
) -> None:
    catalog.ignores_filter = True
    await index.sync(Shelf(catalog))
    catalog.asked.clear()
    await index.sync(Shelf(catalog))

    assert catalog.asked == ["page", "page"]


async def test_a_trial_of_a_filter_that_is_ignored_costs_one_count(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    catalog.ignores_filter = True
    await index.sync(Shelf(catalog))
    filtered = Filtered(catalog)
    index.now += timedelta(days=1)
    catalog.asked.clear()
    await index.sync(filtered, reconcile_days=1000)

    assert (filtered.counted, catalog.asked) == ([FAR_FUTURE], ["count", "page", "page"])


async def test_a_repaired_filter_is_used_although_all_records_have_one_date(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    catalog.ignores_filter = True
    await index.sync(Shelf(catalog))
    assert index.fell_back == [IGNORED]
    catalog.dates = dict.fromkeys(catalog.dates, catalog.clock)
    await index.sync(Shelf(catalog))
    catalog.ignores_filter = False
    index.now += timedelta(days=1)
    await index.sync(Shelf(catalog), reconcile_days=1000)

    assert index.fell_back == []


@pytest.mark.parametrize(("ignores", "fell_back"), [(True, [IGNORED]), (False, [])])
async def test_a_filter_is_obeyed_if_fewer_records_than_all_are_of_the_far_future(
    index: Index, ignores: bool, fell_back: list[str]
) -> None:
    catalog = Catalog()
    catalog.fill(1)
    catalog.put("n001", hours=100)
    await index.sync(Shelf(catalog))
    catalog.ignores_filter = True
    await index.sync(Shelf(catalog))
    assert index.fell_back == [IGNORED]
    catalog.dates["n000"] = FAR_FUTURE
    catalog.ignores_filter = ignores
    index.now += timedelta(days=1)
    await index.sync(Shelf(catalog), reconcile_days=1000)

    assert index.fell_back == fell_back


async def test_a_catalog_that_does_not_count_by_date_is_asked_for_what_changed(catalog: Catalog, index: Index) -> None:
    for number in range(150):
        catalog.put(f"at-once{number}", hours=0.001)
    uncounting = Filtered(catalog)
    uncounting.counts_by_date = False
    await index.sync(uncounting)
    assert uncounting.counted
    catalog.put("n003", "Edited.")
    catalog.asked.clear()
    await index.sync(uncounting)

    assert (index.fell_back, "page" in catalog.asked) == ([], False)
    assert index.items == expected(catalog)


async def test_a_catalog_that_has_lost_everything_by_its_own_word_obeys_its_filter(index: Index) -> None:
    catalog = Catalog()
    catalog.fill(3)
    telling = Shelf(catalog, tells=True)
    await index.sync(telling)
    catalog.gone = set(catalog.dates)
    for name in list(catalog.dates):
        catalog.put(name, hours=100)
    await index.sync(telling)
    index.items.clear()
    catalog.dates.clear()
    await index.sync(telling)

    assert index.fell_back == []


async def test_a_list_of_changes_that_shows_all_is_not_believed_although_changes_are_counted_right(
    index: Index,
) -> None:
    catalog = NamedCatalog()
    catalog.fill(80)
    await index.sync(NamedShelf(catalog))
    index.now += timedelta(days=30)
    await index.sync(NamedShelf(catalog), die_after=2)
    catalog.size = 100

    class LyingList(NamedShelf):
        """Obeys the filter where it counts, and not where it lists."""

        async def read_pages(self, *, since: datetime | None = None, **how: Any) -> AsyncGenerator[ListingPage]:
            async for page in super().read_pages(**how):
                yield page

    await index.sync(LyingList(catalog))

    assert index.items == expected(catalog)
    assert index.cursor["filters"] is False


async def test_a_filter_that_is_repaired_is_used_although_every_record_is_a_change(
    catalog: Catalog, index: Index
) -> None:
    catalog.dates = dict.fromkeys(catalog.dates, catalog.clock)
    filtered = Filtered(catalog)
    await index.sync(filtered)
    filtered.problem = REJECTED
    await index.sync(filtered)
    assert len(index.fell_back) == 1
    filtered.problem = None
    index.now += timedelta(days=1)
    await index.sync(filtered, reconcile_days=1000)

    assert index.fell_back == []


async def test_a_filter_is_tried_by_the_changes_themselves_where_nothing_is_counted(
    catalog: Catalog, index: Index
) -> None:
    catalog.counts, catalog.ignores_filter = False, True
    await index.sync(Shelf(catalog))
    await index.sync(Shelf(catalog))
    assert index.fell_back == [IGNORED]
    catalog.ignores_filter = False
    index.now += timedelta(days=1)
    catalog.asked.clear()
    await index.sync(Shelf(catalog), reconcile_days=1000)

    assert catalog.asked[0] == "since"
    assert IGNORED not in index.fell_back


async def test_a_filter_is_tried_of_a_catalog_that_has_become_empty(catalog: Catalog, index: Index) -> None:
    telling = Filtered(catalog, tells=True)
    await index.sync(telling)
    telling.problem = REJECTED
    await index.sync(telling)
    index.items.clear()
    catalog.dates.clear()
    telling.problem = None
    index.cursor["refused"] = None
    index.now += timedelta(days=1)
    await index.sync(telling, reconcile_days=1000)

    assert index.fell_back == []


@pytest.mark.parametrize(("dated_listing", "dated_records"), [(False, True), (True, False)])
async def test_no_filter_is_tried_where_there_are_no_dates(
    index: Index, dated_listing: bool, dated_records: bool
) -> None:
    catalog = Catalog()
    for number in range(20):
        catalog.put(f"n{number:03}", dated=dated_records)
    filtered = Filtered(catalog, dated=dated_listing)
    for _ in range(2):
        await index.sync(filtered)

    assert filtered.counted == []
    assert isinstance(index.ending, Complete)


@pytest.mark.parametrize(("of_the_past", "obeys"), [(80, True), (76, True), (70, False), (0, False)])
async def test_a_filter_is_obeyed_if_nearly_all_records_are_newer_than_the_far_past(
    catalog: Catalog, index: Index, of_the_past: int, obeys: bool
) -> None:
    class Counting(Shelf):
        async def count(self, since: datetime | None = None) -> int | None:
            return of_the_past if since == FAR_PAST else await super().count(since)

    await index.sync(Counting(catalog))

    assert index.cursor["filters"] is obeys


async def test_new_names_for_all_records_cost_one_walk_and_not_all_changes_as_well(index: Index) -> None:
    catalog = Catalog()
    catalog.fill(80)
    await index.sync(Shelf(catalog))
    for number in range(80):
        del catalog.dates[f"n{number:03}"]
        catalog.put(f"r{number:03}", hours=0.01)
    catalog.asked.clear()
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)
    assert catalog.asked.count("since") <= 2  # the second page is on its way when the first one is looked at
    assert catalog.asked.count("page") == 8


@pytest.mark.parametrize(
    ("new", "edited", "tells", "looks"),
    [(2, 0, False, 0), (3, 0, False, 1), (5, 4, False, 1), (4, 5, False, 0), (9, 0, True, 0)],
)
async def test_a_catalog_is_counted_in_between_only_where_half_of_a_page_and_three_records_are_new(
    index: Index, new: int, edited: int, tells: bool, looks: int
) -> None:
    catalog = Catalog(size=100)
    catalog.fill(80)
    await index.sync(Shelf(catalog, tells=tells))
    for number in range(edited):
        catalog.put(f"n{number:03}", "Edited.")
    for number in range(new):
        catalog.put(f"new{number:03}")
    catalog.asked.clear()
    # The newest record of before comes once more.
    await index.sync(Shelf(catalog, tells=tells), overlap_h=0)

    # One count more tells at the end of each run whether anything went, where the catalog does not tell that itself.
    assert catalog.asked == ["since", *["count"] * (looks + (not tells))]
    assert index.items == expected(catalog)
