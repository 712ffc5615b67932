"""Catalogs whose records were all stamped in the same hour: nothing new costs a few requests, and nothing is missed."""

from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import titles
from tests.portals.arcgis import HubSite
from tests.portals.catalogs import Portal, keep
from tests.portals.ckan import CkanPortal
from tests.portals.opendatasoft import OpenDataSoftPortal
from tests.portals.shelf import Catalog, Index, Shelf, expected

QUIET = ["count", "since", "count"]


@pytest.fixture
def catalog() -> Catalog:
    """250 records, stamped one after the other in a quarter of an hour."""
    catalog = Catalog()
    for number in range(250):
        catalog.put(f"n{number:03}", hours=0.001)
    return catalog


@pytest.fixture
def index() -> Index:
    return Index()


def edit(catalog: Catalog, name: str, *, seconds: float = 0) -> None:
    """Edit a record so many seconds after the newest date; a listing stays in the order of dates."""
    newest = max(at for at in catalog.dates.values() if at)
    catalog.words[name] = "Edited."
    catalog.dates[name] = newest + timedelta(seconds=seconds)
    catalog.dates = dict(sorted(catalog.dates.items(), key=lambda pair: str(pair[1])))


@pytest.mark.parametrize("rising", [True, False])
async def test_an_unchanged_catalog_stamped_alike_costs_three_requests(
    catalog: Catalog, index: Index, rising: bool
) -> None:
    await index.sync(Shelf(catalog, rising=rising))
    before = index.cursor
    for _ in range(3):
        catalog.asked.clear()
        await index.sync(Shelf(catalog, rising=rising))

        assert catalog.asked == QUIET
        assert (index.cursor, index.ending) == (before, None)


async def test_a_count_that_is_not_exact_proves_nothing(catalog: Catalog, index: Index) -> None:
    class Rounding(Shelf):
        counts_changes = False

    await index.sync(Rounding(catalog))
    catalog.asked.clear()
    await index.sync(Rounding(catalog))

    assert "overlap" not in index.cursor
    assert catalog.asked.count("since") == 25


@pytest.mark.parametrize("name", ["n003", "n249"])
@pytest.mark.parametrize("seconds", [0, 0.5, 60, 40_000])
async def test_an_edit_at_the_newest_date_or_later_is_read(
    catalog: Catalog, index: Index, name: str, seconds: float
) -> None:
    await index.sync(Shelf(catalog))
    edit(catalog, name, seconds=seconds)
    catalog.asked.clear()
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)
    assert len(catalog.asked) <= 6 or catalog.asked.count("since") >= 25


async def test_edits_in_every_run_cost_what_was_edited(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    for number in range(5):
        edit(catalog, f"n{number:03}", seconds=30)
        catalog.asked.clear()
        await index.sync(Shelf(catalog))

        assert catalog.asked.count("since") == 1
        assert index.items == expected(catalog)


async def test_a_record_that_is_indexed_late_is_read_at_once(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    catalog.put("late", hours=0)
    edit(catalog, "late", seconds=-120)
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)


async def test_an_edit_that_is_indexed_late_is_read_when_the_overlap_has_passed(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    edit(catalog, "n003", seconds=-120)
    index.now += timedelta(hours=1.1)
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)
    catalog.asked.clear()
    await index.sync(Shelf(catalog))
    assert catalog.asked == QUIET


async def test_an_edit_that_is_indexed_late_is_not_lost_to_newer_ones(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    edit(catalog, "n003", seconds=-120)
    for number in range(100, 103):
        edit(catalog, f"n{number}", seconds=2000)
        index.now += timedelta(minutes=25)
        await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)


async def test_a_deletion_in_the_overlap_is_found(catalog: Catalog, index: Index) -> None:
    await index.sync(Shelf(catalog))
    del catalog.dates["n003"]
    catalog.put("new", hours=0.001)
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)


@pytest.mark.parametrize("has_passed", [False, True])
async def test_records_of_one_moment_are_left_out_once_the_catalog_has_left_it(
    catalog: Catalog, index: Index, has_passed: bool
) -> None:
    catalog.dates = dict.fromkeys(catalog.dates, catalog.clock)
    catalog.clock += timedelta(hours=3 if has_passed else 0)
    await index.sync(Shelf(catalog))
    catalog.asked.clear()
    await index.sync(Shelf(catalog))
    assert (catalog.asked == QUIET) == has_passed

    catalog.words["n003"] = "Edited."
    catalog.dates["n003"] = catalog.clock
    catalog.dates = dict(sorted(catalog.dates.items(), key=lambda pair: str(pair[1])))
    await index.sync(Shelf(catalog))
    assert index.items == expected(catalog)


async def test_records_of_the_present_moment_are_read_until_it_has_passed(catalog: Catalog, index: Index) -> None:
    catalog.dates = dict.fromkeys(catalog.dates, catalog.clock)
    await index.sync(Shelf(catalog))
    catalog.words["n003"] = "Edited."
    catalog.clock += timedelta(minutes=5)
    await index.sync(Shelf(catalog))
    assert index.items == expected(catalog)

    catalog.asked.clear()
    await index.sync(Shelf(catalog))
    assert catalog.asked == QUIET


@pytest.mark.parametrize("lie", ["ignores_filter", "empty_when_filtered"])
async def test_a_filter_that_begins_to_lie_is_found_out(catalog: Catalog, index: Index, lie: str) -> None:
    await index.sync(Shelf(catalog))
    setattr(catalog, lie, True)
    edit(catalog, "n003", seconds=60)
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)


@pytest.mark.parametrize("die_after", [1, 2, 5])
async def test_a_run_that_is_killed_in_the_middle_of_changes_loses_none(
    catalog: Catalog, index: Index, die_after: int
) -> None:
    await index.sync(Shelf(catalog))
    for number in range(60):
        edit(catalog, f"n{number:03}", seconds=1)
    await index.sync(Shelf(catalog), die_after=die_after)
    edit(catalog, "n070")
    await index.sync(Shelf(catalog))

    assert index.items == expected(catalog)


@pytest.mark.parametrize("make", [CkanPortal, HubSite, OpenDataSoftPortal])
async def test_a_nightly_job_that_stamps_everything_makes_no_run_a_walk(
    database: ScratchDatabase, opened: Opened, make: type[Any]
) -> None:
    portal: Portal = opened(make)
    portal.page_max = 100
    for number in range(400):
        portal.make(f"d{number:05}", tick_h=0.001)
    async with database.open() as r:
        first = await keep(r, portal)
        quiet = await r.sync("portal")
        portal.make("d00003", "Edited", tick_h=0)
        edited = await r.sync("portal")
        portal.remove("d00004")
        deleted = await r.sync("portal")

    assert (first.status, first.stats.created) == ("completed", 400)
    assert (quiet.status, quiet.stats.requests, quiet.stats.rows_written) == ("completed", 3, 0)
    assert quiet.stats.bytes < 20_000
    assert (edited.status, edited.stats.updated, edited.stats.fell_back) == ("completed", 1, 0)
    assert (deleted.status, deleted.stats.deleted) == ("completed", 1)
    assert set(titles(database)) == portal.names()
