"""The engine behind catalogs whose identifiers can be listed alone: what names prove, and what they do not."""

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


async def test_a_deletion_shows_in_the_count_and_is_proved_by_names(catalog: NamedCatalog, index: Index) -> None:
    await index.sync(NamedShelf(catalog))
    del catalog.dates["n003"]
    catalog.asked.clear()
    await index.sync(NamedShelf(catalog))

    assert catalog.asked == ["since", "count", "names", "names"]
    assert (index.ending, index.deleted) == (Complete(expected=34), {url_of("n003")})


async def test_an_item_that_comes_back_with_its_old_date_is_read_by_its_name(
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


async def test_records_that_are_no_items_are_not_asked_for_in_every_roll_call(
    catalog: NamedCatalog, index: Index
) -> None:
    catalog.gone, catalog.broken = {"n001", "n002"}, frozenset({"n005"})
    await index.sync(NamedShelf(catalog))
    del catalog.dates["n003"]
    catalog.asked.clear()
    await index.sync(NamedShelf(catalog))

    assert catalog.asked == ["since", "record", "count", "names", "names"]
    assert index.deleted == {url_of("n003")}


async def test_a_record_that_stops_being_an_item_costs_no_roll_call(catalog: NamedCatalog, index: Index) -> None:
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
    # In a first walk, all that is known is that nothing was edited before the newest date of its first page.
    is_proved = not ignores_filter and not is_first
    assert ("names" in catalog.asked) == is_proved
    assert catalog.asked.count("page") <= (3 if is_proved else 5)


async def test_names_prove_nothing_where_a_filter_begins_to_lie(catalog: NamedCatalog, index: Index) -> None:
    await index.sync(NamedShelf(catalog))
    index.now += timedelta(days=8)
    await index.sync(NamedShelf(catalog), die_after=2)
    catalog.words["n001"] = "Edited in silence."
    catalog.empty_when_filtered = True
    await index.sync(NamedShelf(catalog))

    assert index.items == expected(catalog)


async def test_a_record_that_slipped_past_a_walk_is_read_and_not_only_named(
    catalog: NamedCatalog, index: Index
) -> None:
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


async def test_a_roll_call_that_falls_short_deletes_nothing(catalog: NamedCatalog, index: Index) -> None:
    await index.sync(NamedShelf(catalog))
    del catalog.dates["n003"]
    catalog.forgets = 1
    await index.sync(NamedShelf(catalog))

    assert isinstance(index.ending, Incomplete)
    assert "declares 34 records, but it lists 33" in index.ending.why
    assert len(index.items) == 35


async def test_a_name_that_was_lost_deletes_nothing_at_once(catalog: NamedCatalog, index: Index) -> None:
    await index.sync(NamedShelf(catalog))
    del catalog.dates["n003"]
    catalog.nameless.add("n005")
    await index.sync(NamedShelf(catalog))

    assert index.fell_back
    assert isinstance(index.ending, Incomplete)
    assert len(index.items) == 35


async def test_a_list_of_changes_that_was_interrupted_is_resumed(catalog: NamedCatalog, index: Index) -> None:
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


async def test_a_list_of_changes_that_was_interrupted_is_not_resumed_where_a_walk_is_wanted(
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


async def test_what_was_read_again_by_a_run_that_did_not_end_is_not_taken_for_no_item(
    catalog: NamedCatalog, index: Index
) -> None:
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
async def test_what_an_interrupted_full_walk_left_unread_is_not_proved_by_its_name(
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
