"""The engine behind all catalogs: what it asks, what it proves, and what it leaves alone."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest

from rowen.connectors.catalog.cursor import CatalogCursor
from rowen.connectors.catalog.listing import ListingPage
from rowen.model.items import Complete, Failed, Incomplete
from tests.portals.shelf import Catalog, Index, Shelf, expected, url_of


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog()
    catalog.fill(35)
    return catalog


@pytest.fixture
def index() -> Index:
    return Index()


async def test_a_first_run_walks_everything_and_tries_the_filter(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)
    assert catalog.asked == ["page"] * 4 + ["count"] * 2
    assert index.ending == Complete(expected=35)
    assert index.cursor["filters"] is True


async def test_an_unchanged_catalog_costs_two_requests_and_no_checkpoint(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    catalog.asked.clear()
    before = index.cursor
    await index.sync(Shelf(catalog))

    assert catalog.asked == ["since", "count"]
    assert (index.cursor, index.ending) == (before, None)


async def test_changes_are_read_and_move_the_cursor(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    catalog.put("n003", "Edited.")
    catalog.put("new")
    catalog.asked.clear()
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)
    assert catalog.asked == ["since", "count"]
    assert index.cursor["modified"].startswith(catalog.clock.isoformat()[:19])


async def test_a_deletion_shows_in_the_count_and_is_proved_by_a_walk(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    del catalog.dates["n003"]
    await index.sync(Shelf(catalog))

    assert index.deleted == {url_of("n003")}
    assert index.items == expected(catalog)


async def test_a_catalog_that_no_longer_counts_is_walked_once_for_what_was_deleted(
    catalog: Catalog, index: Index
) -> None:
    await index.sync(Shelf(catalog))
    del catalog.dates["n003"]
    catalog.counts = False
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)

    catalog.asked.clear()
    await index.sync(Shelf(catalog))
    assert catalog.asked == ["since"]


async def test_one_added_and_one_deleted_at_once_are_both_found(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    del catalog.dates["n003"]
    catalog.put("new")
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)


async def test_a_listing_with_deletions_needs_no_count(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog, tells=True))
    catalog.put("n003")
    catalog.gone.add("n003")
    catalog.asked.clear()
    await index.sync(Shelf(catalog, tells=True))

    assert catalog.asked == ["since"]
    assert index.items == expected(catalog)


@pytest.mark.parametrize("die_after", [1, 2, 3])
@pytest.mark.parametrize("again", [None, 1, 2])
async def test_a_killed_walk_resumes_and_is_exact(
    catalog: Catalog, index: Index, die_after: int, again: int | None
) -> None:
    await index.sync(Shelf(catalog), die_after=die_after)
    assert index.cursor["place"] == die_after * 10
    del catalog.dates["n000"]
    catalog.put("n030", "Edited.")
    await index.sync(Shelf(catalog), die_after=again)
    await index.sync(Shelf(catalog))
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)


async def test_a_resumed_walk_reads_hardly_a_page_twice(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog), die_after=3)
    catalog.asked.clear()
    await index.sync(Shelf(catalog))

    assert catalog.asked.count("page") <= 5
    assert isinstance(index.ending, Complete)


async def test_an_edit_that_a_resumed_walk_missed_is_not_deleted(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog), die_after=2)

    def move(following: int) -> None:
        if following == 35:
            catalog.after_page = None
            catalog.put("n001", "Edited.")
            del catalog.dates["n034"]

    catalog.after_page = move
    await index.sync(Shelf(catalog))

    assert url_of("n001") in index.items
    await index.sync(Shelf(catalog))
    assert index.items == expected(catalog)


async def test_an_expired_place_is_dropped(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog), die_after=2)
    catalog.expired = True
    await index.sync(Shelf(catalog))

    assert isinstance(index.ending, Complete)
    assert index.items == expected(catalog)


async def test_an_ignored_filter_is_detected(catalog: Catalog, index: Index) -> None:
    catalog.ignores_filter = True
    await index.sync(Shelf(catalog))
    assert index.cursor["filters"] is False

    catalog.words["n001"] = "Edited in silence."
    catalog.asked.clear()
    await index.sync(Shelf(catalog))

    assert catalog.asked == ["page"] * 4
    assert index.items == expected(catalog)


@pytest.mark.parametrize("lie", ["ignores_filter", "empty_when_filtered"])
async def test_a_filter_that_begins_to_lie_is_found_out(catalog: Catalog, index: Index, lie: str) -> None:
    await index.sync(Shelf(catalog))
    setattr(catalog, lie, True)
    catalog.put("n001", "Edited.")
    await index.sync(Shelf(catalog))

    assert len(index.fell_back) == 1
    assert "filter" in index.fell_back[0]
    assert index.items == expected(catalog)
    assert index.cursor["filters"] is False


async def test_undated_records_do_not_hide_an_empty_list_of_changes(catalog: Catalog, index: Index) -> None:
    class WithUndated(Shelf):
        async def read_pages(self, **how: Any) -> AsyncGenerator[ListingPage]:
            async for page in super().read_pages(**how):
                yield ListingPage([self._row("n000"), *page.rows], page.place, page.declared, page.clock)

    catalog.dates["n000"] = None
    await index.sync(Shelf(catalog))
    catalog.empty_when_filtered = True
    catalog.put("n001", "Edited.")
    await index.sync(WithUndated(catalog))

    assert index.fell_back
    assert index.items == expected(catalog)


async def test_a_list_of_changes_that_falls_short_is_not_trusted(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog, rising=False))
    for number in range(5):
        catalog.put(f"n{number:03}", "Edited.")
    catalog.short_when_filtered = 2
    await index.sync(Shelf(catalog, rising=False))

    assert index.fell_back
    assert index.items == expected(catalog)


async def test_undated_records_do_not_count_against_the_filter(catalog: Catalog, index: Index) -> None:
    for number in range(20):
        catalog.put(f"undated{number}", dated=False)
    await index.sync(Shelf(catalog))

    assert index.cursor["filters"] is True


async def test_a_count_that_is_wrong_by_one_costs_one_second_walk(catalog: Catalog, index: Index) -> None:
    catalog.miscount = 1
    await index.sync(Shelf(catalog))
    assert (catalog.asked.count("page"), index.ending) == (8, Complete(expected=35))

    catalog.asked.clear()
    await index.sync(Shelf(catalog))
    assert catalog.asked == ["since", "count"]

    del catalog.dates["n003"]
    catalog.asked.clear()
    await index.sync(Shelf(catalog))
    assert catalog.asked.count("page") == 4
    assert index.items == expected(catalog)


async def test_permanent_duplicates_do_not_prevent_deletions(index: Index) -> None:
    catalog = Catalog()
    catalog.fill(150)
    catalog.twice = ["n001"]
    await index.sync(Shelf(catalog))
    del catalog.dates["n003"]
    catalog.asked.clear()
    await index.sync(Shelf(catalog))

    assert index.deleted == {url_of("n003")}
    assert catalog.asked.count("page") == 15


async def test_a_listing_far_short_of_its_count_deletes_nothing(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    del catalog.dates["n003"]
    catalog.miscount = 5
    await index.sync(Shelf(catalog))

    assert isinstance(index.ending, Incomplete)
    assert "declares 39" in index.ending.why
    assert url_of("n003") in index.items


async def test_pages_that_come_again_delete_nothing_even_if_little_is_missing(index: Index) -> None:
    catalog = Catalog(size=110)
    catalog.fill(111)
    await index.sync(Shelf(catalog))
    catalog.repeats = True
    await index.sync(Shelf(catalog), full=True)

    assert isinstance(index.ending, Incomplete)
    assert len(index.items) == 111


async def test_an_empty_listing_deletes_nothing(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    catalog.lists_nothing = True
    for full in (True, False):
        await index.sync(Shelf(catalog), full=full)

        assert isinstance(index.ending, Incomplete)
        assert len(index.items) == 35


async def test_an_empty_catalog_is_complete(index: Index) -> None:
    await index.sync(Shelf(Catalog()))

    assert index.ending == Complete(expected=0)


async def test_a_doubt_deletes_nothing(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    catalog.doubt_at = 15
    await index.sync(Shelf(catalog), full=True)

    assert index.ending == Incomplete("The window is full.")
    assert len(index.items) == 35


async def test_a_doubt_in_the_rest_of_a_resumed_walk_counts(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog), die_after=2)
    catalog.doubt_at = 34
    await index.sync(Shelf(catalog))

    assert index.ending == Incomplete("The window is full.")


async def test_a_deletion_during_a_walk_is_found_by_the_next_run(catalog: Catalog, index: Index) -> None:
    def remove(following: int) -> None:
        catalog.after_page = None
        catalog.dates.pop("n034")
        catalog.put("n001", "Edited.")
        del catalog.dates["n001"]

    catalog.after_page = remove
    await index.sync(Shelf(catalog))
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)


async def test_a_count_that_is_too_low_is_believed_the_second_time(catalog: Catalog, index: Index) -> None:
    catalog.miscount = -1
    await index.sync(Shelf(catalog))
    await index.sync(Shelf(catalog))
    catalog.asked.clear()
    await index.sync(Shelf(catalog))

    assert catalog.asked == ["since", "count"]
    del catalog.dates["n003"]
    await index.sync(Shelf(catalog))
    assert index.items == expected(catalog)


async def test_a_date_in_the_future_hides_nothing(catalog: Catalog, index: Index) -> None:
    catalog.dates["n000"] = catalog.clock + timedelta(days=900)
    await index.sync(Shelf(catalog))
    catalog.put("n001", "Edited.")
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)
    assert not index.fell_back


async def test_an_edit_during_the_run_is_read_by_the_next(catalog: Catalog, index: Index) -> None:
    def edit(following: int) -> None:
        catalog.after_page = None
        catalog.words["n001"] = "Edited."
        catalog.dates["n001"] = catalog.clock + timedelta(minutes=1)
        catalog.clock += timedelta(hours=30)

    catalog.after_page = edit
    catalog.put("last", hours=20)
    catalog.dates["last"] = catalog.clock + timedelta(hours=29)
    await index.sync(Shelf(catalog))
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)


@pytest.mark.parametrize("unsorted", [False, True])
async def test_the_cursor_moves_on_the_way_only_if_the_oldest_came_first(
    catalog: Catalog, index: Index, unsorted: bool
) -> None:
    await index.sync(Shelf(catalog))
    for number in range(25):
        catalog.put(f"n{number:03}", "Edited.", hours=2)
    if unsorted:
        catalog.dates = dict(sorted(catalog.dates.items(), reverse=True))
    await index.sync(Shelf(catalog), die_after=1)
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)


async def test_a_reconciliation_is_due_after_a_while(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog), reconcile_days=7)
    catalog.words["n003"] = "Edited in silence."
    for days, pages in ((6.9, 0), (0.2, 4), (1, 0)):
        index.now += timedelta(days=days)
        catalog.asked.clear()
        await index.sync(Shelf(catalog), reconcile_days=7)

        assert catalog.asked.count("page") == pages
    assert index.items == expected(catalog)


async def test_an_unchanged_document_costs_one_request(catalog: Catalog, index: Index) -> None:
    catalog.size, catalog.etag = 1000, "a"
    await index.sync(Shelf(catalog, dated=False))
    catalog.asked.clear()
    await index.sync(Shelf(catalog, dated=False))

    assert catalog.asked == ["tokens"]
    assert (index.unchanged, index.ending) == (35, Complete(expected=35))

    catalog.put("n003", "Edited.")
    catalog.etag = "b"
    await index.sync(Shelf(catalog, dated=False))
    assert index.items == expected(catalog)


async def test_a_broken_record_fails_again_while_its_document_is_unchanged(catalog: Catalog, index: Index) -> None:
    catalog.size, catalog.etag, catalog.broken = 1000, "a", frozenset({"n003"})
    await index.sync(Shelf(catalog, dated=False))
    await index.sync(Shelf(catalog, dated=False))
    catalog.asked.clear()
    seen = [one async for one in index.refresh(Shelf(catalog, dated=False)).pull() if isinstance(one, Failed)]

    assert catalog.asked == ["tokens"]
    assert seen == [Failed(url_of("n003"), "broken")]

    catalog.broken, catalog.etag = frozenset(), "b"
    await index.sync(Shelf(catalog, dated=False))
    assert index.items == expected(catalog)


async def test_a_partly_read_document_is_not_taken_for_the_previous_one(catalog: Catalog, index: Index) -> None:
    catalog.size, catalog.etag = 10, "a"
    before = dict(catalog.words)
    await index.sync(Shelf(catalog, dated=False))
    catalog.words["n003"], catalog.etag = "Edited.", "b"
    await index.sync(Shelf(catalog, dated=False), die_after=2)
    catalog.words, catalog.etag = before, "a"
    await index.sync(Shelf(catalog, dated=False))

    assert index.items == expected(catalog)


async def test_a_broken_record_does_not_cause_whole_walks(catalog: Catalog, index: Index) -> None:
    catalog.broken = frozenset({"n003"})
    await index.sync(Shelf(catalog))
    catalog.asked.clear()
    await index.sync(Shelf(catalog))
    assert catalog.asked == ["since", "record", "count"]

    catalog.broken = frozenset()
    catalog.put("n003", "Healed.")
    await index.sync(Shelf(catalog))
    await index.sync(Shelf(catalog))
    catalog.asked.clear()
    await index.sync(Shelf(catalog))

    assert catalog.asked == ["since", "count"]
    assert index.items == expected(catalog)


async def test_a_catalog_without_a_count_is_walked_to_its_end(catalog: Catalog, index: Index) -> None:
    catalog.counts = False
    await index.sync(Shelf(catalog, dated=False))
    del catalog.dates["n003"]
    await index.sync(Shelf(catalog, dated=False))

    assert index.items == expected(catalog)


async def test_a_cursor_of_another_record_version_is_dropped(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    index.cursor = {**index.cursor, "version": 0}
    catalog.asked.clear()
    await index.sync(Shelf(catalog))

    assert catalog.asked.count("page") == 4


def test_a_cursor_that_names_unidentified_records_as_before_is_understood() -> None:
    former = {"version": 1, "modified": "2024-01-05T06:00:00.000Z", "strangers": ["a", "b"], "surplus": 2}
    cursor = CatalogCursor.of(former, 1)

    assert (cursor.unidentified, cursor.surplus) == (["a", "b"], 2)
    assert CatalogCursor.of(cursor.to_json(), 1) == cursor


async def test_a_listing_without_end_is_left(catalog: Catalog, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowen.connectors.catalog.state.LEAST_GROWN", 50)
    catalog.lists_nothing = catalog.endless = True
    await index.sync(Shelf(catalog))

    assert isinstance(index.ending, Incomplete)
    assert "does not end" in index.ending.why
    assert "place" not in index.cursor


async def test_a_second_walk_ends_where_pages_repeat(index: Index) -> None:
    catalog = Catalog()
    catalog.fill(200)
    catalog.miscount = 1

    def begin_to_repeat() -> None:
        catalog.repeats = catalog.asked.count("page") > 20

    catalog.after_page = lambda following: begin_to_repeat()
    await index.sync(Shelf(catalog))

    assert isinstance(index.ending, Incomplete)
    assert catalog.asked.count("page") < 30
