"""CKAN portals that cannot be searched: they are read by their lists, or dataset by dataset."""

import pytest

from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import titles
from tests.portals.catalogs import POISON, keep
from tests.portals.ckan import CkanPortal


@pytest.fixture
def portal(opened: Opened) -> CkanPortal:
    portal = opened(CkanPortal)
    portal.has_lists = True
    portal.without_search = 404
    return portal


@pytest.mark.parametrize("records", [True, False])
@pytest.mark.parametrize("status", [200, 400, 403, 404])
async def test_a_portal_without_search_is_read_whole_in_each_run(
    database: ScratchDatabase, portal: CkanPortal, status: int, records: bool
) -> None:
    portal.without_search, portal.has_records, portal.page_max = status, records, 10
    portal.fill(44)
    async with database.open() as r:
        first = await keep(r, portal)
        portal.make("d00001", "Edited")
        portal.remove("d00002")
        portal.make("new")
        run = await r.sync("portal")
        quiet = await r.sync("portal")

    assert (first.status, first.complete, first.stats.created) == ("completed", True, 45)
    assert (run.status, run.complete) == ("completed", True)
    assert (run.stats.created, run.stats.updated, run.stats.deleted) == (1, 1, 1)
    assert (quiet.complete, quiet.stats.rows_written, quiet.stats.unchanged) == (True, 0, 45)
    # The search, twice if it failed; the names; whether the list of records works; five pages, or each dataset.
    assert quiet.stats.requests == (3 if status == 200 else 4) + (5 if records else 45)
    assert set(titles(database)) == portal.names()


async def test_datasets_keep_their_identity_when_the_search_goes_and_comes(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.without_search = None
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        portal.without_search = 404
        portal.make("d00001", "Edited")
        portal.remove("d00002")
        without = await r.sync("portal")
        portal.without_search = None
        portal.make("d00003", "Edited")
        again = await r.sync("portal")
        for _ in range(3):
            await r.sync("portal")
        quiet = await r.sync("portal")

    assert (without.status, without.complete, without.stats.fell_back) == ("completed", True, 1)
    assert (without.stats.created, without.stats.updated, without.stats.deleted) == (0, 1, 1)
    assert (again.status, again.stats.created, again.stats.updated) == ("completed", 0, 1)
    assert (quiet.stats.requests, quiet.stats.rows_written) == (2, 0)


async def test_an_interrupted_run_resumes_behind_the_last_dataset_that_was_stored(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.fill(70)
    async with database.open(fetch_tries=1, host_concurrency=1) as r:
        await r.sources.add(portal.address, name="portal")
        left = 50

        def count(_: int) -> None:
            nonlocal left
            left -= 1
            portal.down = portal.down or not left

        portal.after_show = count
        interrupted = await r.sync("portal")
        portal.after_show, portal.down = None, False
        portal.log.clear()
        run = await r.sync("portal")

    asked = [one["id"] for one in portal.questions("/package_show")]
    assert interrupted.status in ("failed", "partial")
    assert interrupted.stats.created == 40
    assert asked[0] == "slug-of-d00040"
    assert (run.status, len(titles(database))) == ("completed", 71)


async def test_a_dataset_that_cannot_be_received_or_is_not_shown_costs_only_itself(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00005", POISON)
        portal.make("secret")
        portal.hidden = {"secret"}
        portal.make("d00001", "Edited")
        run = await r.sync("portal")
        portal.make("d00005", "Whole again")
        again = await r.sync("portal")

    assert (run.stats.updated, run.stats.deleted, len(titles(database))) == (1, 0, 21)
    assert (again.stats.updated, again.stats.failed) == (1, 0)
    assert titles(database)["d00005"] == "Whole again"


async def test_a_portal_that_offers_neither_search_nor_lists_fails_and_names_the_search(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.has_lists = False
    portal.fill(5)
    async with database.open() as r:
        run = await keep(r, portal)

    assert run.status == "failed"
    assert "package_search" in (run.error or "")


async def test_lists_are_not_read_where_a_filter_was_chosen(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(5)
    async with database.open() as r:
        run = await keep(r, portal, filter="organization:farm")

    assert (run.status, run.stats.created) == ("failed", 0)
