"""The engine of catalogs whose identifiers can be listed alone: what identifiers prove, and what they do not."""

from datetime import timedelta

import pytest

from rowen.connectors.base import FailedBefore, unread_url
from rowen.model.items import Complete, Incomplete
from tests.portals.shelf import Index, NamedCatalog, NamedShelf, expected, url_of


@pytest.fixture
def catalog() -> NamedCatalog:
    catalog = NamedCatalog()
    catalog.fill(35)
    return catalog


@pytest.fixture
def index() -> Index:
    return Index()


async def test_a_changed_count_makes_a_run_list_identifiers_which_prove_a_deletion(
    catalog: NamedCatalog, index: Index
) -> None:
    await index.sync(NamedShelf(catalog))
    del catalog.dates["n003"]
    catalog.asked.clear()
    await index.sync(NamedShelf(catalog))

    assert catalog.asked == ["since", "count", "names", "names"]
    assert (index.ending, index.deleted) == (Complete(expected=34), {url_of("n003")})


async def test_an_item_that_comes_back_with_its_old_date_is_requested_by_its_identifier(
    catalog: NamedCatalog, index: Index
) -> None:
    await index.sync(NamedShelf(catalog))
    at = catalog.dates.pop("n003")
    await index.sync(NamedShelf(catalog))
    catalog.dates["n003"] = at
    catalog.asked.clear()
    await index.sync(NamedShelf(catalog))

    assert catalog.asked == ["since", "count", "names", "names", "record"]
    assert index.items == expected(catalog)


async def test_records_that_are_no_items_are_not_requested_with_each_identifier_listing(
    catalog: NamedCatalog, index: Index
) -> None:
    catalog.gone, catalog.broken = {"n001", "n002"}, frozenset({"n005"})
    await index.sync(NamedShelf(catalog))
    del catalog.dates["n003"]
    catalog.asked.clear()
    await index.sync(NamedShelf(catalog))

    assert catalog.asked == ["since", "record", "count", "names", "names"]
    assert index.deleted == {url_of("n003")}


async def test_a_record_that_stops_being_an_item_costs_no_identifier_listing(
    catalog: NamedCatalog, index: Index
) -> None:
    await index.sync(NamedShelf(catalog))
    catalog.put("n003")
    catalog.gone.add("n003")
    catalog.asked.clear()
    await index.sync(NamedShelf(catalog))

    assert catalog.asked == ["since", "count"]
    assert index.items == expected(catalog)


@pytest.mark.parametrize("ignores_filter", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
async def test_an_edit_before_the_place_of_an_interrupted_walk_is_read(
    catalog: NamedCatalog, index: Index, ignores_filter: bool, is_first: bool
) -> None:
    catalog.ignores_filter = ignores_filter
    if not is_first:
        await index.sync(NamedShelf(catalog))
        index.now += timedelta(days=8)
    await index.sync(NamedShelf(catalog), die_after=2)
    catalog.put("n001", "Edited.", hours=0.1)
    del catalog.dates["n002"]
    catalog.asked.clear()
    await index.sync(NamedShelf(catalog))

    assert isinstance(index.ending, Complete)
    assert index.items == expected(catalog)
    assert catalog.asked.count("page") <= 5


async def test_a_resumed_walk_reads_an_edit_without_a_working_filter(catalog: NamedCatalog, index: Index) -> None:
    await index.sync(NamedShelf(catalog))
    index.now += timedelta(days=8)
    await index.sync(NamedShelf(catalog), die_after=2)
    catalog.words["n001"] = "Edited in silence."
    catalog.empty_when_filtered = True
    await index.sync(NamedShelf(catalog))

    assert index.items == expected(catalog)


async def test_a_record_that_a_walk_missed_is_read_by_its_identifier(catalog: NamedCatalog, index: Index) -> None:
    await index.sync(NamedShelf(catalog))
    catalog.words["n001"] = "Edited in silence."
    catalog.hides, catalog.miscount = {"n001"}, 1

    def show() -> None:
        catalog.miscount = 0
        catalog.hides = set()

    catalog.after_page = lambda following: show() if following == 34 else None
    await index.sync(NamedShelf(catalog), full=True)

    assert isinstance(index.ending, Complete)
    assert index.items == expected(catalog)


async def test_an_identifier_listing_that_falls_short_deletes_nothing(catalog: NamedCatalog, index: Index) -> None:
    await index.sync(NamedShelf(catalog))
    del catalog.dates["n003"]
    catalog.forgets = 1
    await index.sync(NamedShelf(catalog))

    assert isinstance(index.ending, Incomplete)
    assert "declares 34 records, but it lists 33" in index.ending.why
    assert len(index.items) == 35


async def test_a_lost_identifier_deletes_nothing_at_once(catalog: NamedCatalog, index: Index) -> None:
    await index.sync(NamedShelf(catalog))
    del catalog.dates["n003"]
    catalog.nameless.add("n005")
    await index.sync(NamedShelf(catalog))

    assert index.fell_back
    assert isinstance(index.ending, Incomplete)
    assert len(index.items) == 35


async def test_an_interrupted_list_of_changes_is_read_again(catalog: NamedCatalog, index: Index) -> None:
    await index.sync(NamedShelf(catalog))
    for number in range(30):
        catalog.put(f"n{number:03}", "Edited.")
    await index.sync(NamedShelf(catalog), die_after=2)
    catalog.put("n001", "Edited again.", hours=0.1)
    catalog.asked.clear()
    await index.sync(NamedShelf(catalog))

    assert catalog.asked[0] == "since"
    assert "page" not in catalog.asked
    assert index.items == expected(catalog)


async def test_a_whole_walk_that_is_due_replaces_an_interrupted_list_of_changes(
    catalog: NamedCatalog, index: Index
) -> None:
    await index.sync(NamedShelf(catalog))
    catalog.words["n034"] = "Edited in silence."
    for number in range(30):
        catalog.put(f"n{number:03}", "Edited.")
    await index.sync(NamedShelf(catalog), die_after=2)
    index.failed = {"u": FailedBefore(unread_url("https://catalog.example/", 1), 1, index.now, index.now)}
    await index.sync(NamedShelf(catalog))

    assert index.items == expected(catalog)


async def test_a_record_that_an_unfinished_run_read_again_stays_an_item(catalog: NamedCatalog, index: Index) -> None:
    catalog.size = 100
    await index.sync(NamedShelf(catalog))
    catalog.put("m", "New, and broken.")
    catalog.put("o", hours=30)
    catalog.broken = frozenset({"m"})
    await index.sync(NamedShelf(catalog))
    catalog.broken, catalog.miscount = frozenset(), 1
    await index.sync(NamedShelf(catalog))
    assert url_of("m") in index.items
    assert isinstance(index.ending, Incomplete)
    catalog.miscount = 0
    catalog.asked.clear()
    await index.sync(NamedShelf(catalog))

    assert index.items == expected(catalog)
    assert catalog.asked.count("record") == 1


@pytest.mark.parametrize("harm", ["repeats", "deletions"])
async def test_edits_that_an_interrupted_full_walk_did_not_reach_are_read(
    catalog: NamedCatalog, index: Index, harm: str
) -> None:
    await index.sync(NamedShelf(catalog))
    catalog.put("n012", "Edited.")
    catalog.put("n021", "Edited.")
    catalog.put("n000", hours=30)
    catalog.repeats = harm == "repeats"
    await index.sync(NamedShelf(catalog), full=True, die_after=2)
    catalog.repeats = False
    if harm == "deletions":
        # What stood behind the place of the walk stands before it now.
        for name in ("n001", "n002", "n003"):
            del catalog.dates[name]
    await index.sync(NamedShelf(catalog))

    assert index.items == expected(catalog)
