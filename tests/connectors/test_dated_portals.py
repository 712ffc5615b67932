"""Portals that can be asked for what was modified: what a run costs, and what it finds."""

from typing import Any

import pytest
from aiohttp import web

from rowen.connectors.catalog.dataset import Dataset
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import index_of
from tests.portals.arcgis import HubSite
from tests.portals.catalogs import DatedPortal, Portal, keep
from tests.portals.ckan import CkanPortal
from tests.portals.csw import CswService
from tests.portals.oai import OaiRepository
from tests.portals.opendatasoft import OpenDataSoftPortal
from tests.portals.socrata import SocrataPortal
from tests.portals.sparql import SparqlEndpoint

STALE = "update source set cursor = jsonb_set(cursor, '{walked}', '\"2020-01-01T00:00:00Z\"')"


DATED = [HubSite, OpenDataSoftPortal, SocrataPortal]

and_ckan = pytest.mark.parametrize("portal", [*DATED, CkanPortal], indirect=True)


@pytest.fixture(params=DATED)
def portal(request: pytest.FixtureRequest, opened: Opened) -> DatedPortal:
    made: type[DatedPortal] = request.param
    return opened(made)


async def test_nothing_changed_costs_two_requests_and_no_row(database: ScratchDatabase, portal: DatedPortal) -> None:
    portal.fill(250)
    async with database.open() as r:
        first = await keep(r, portal)
        again = await r.sync("portal")

    assert (first.status, first.complete, first.stats.created) == ("completed", True, 251)
    assert (again.status, again.stats.requests, again.stats.rows_written) == ("completed", portal.quiet_requests, 0)
    assert again.stats.bytes < portal.quiet_bytes


async def test_what_changed_costs_what_changed(database: ScratchDatabase, portal: DatedPortal) -> None:
    portal.fill(300)
    async with database.open() as r:
        await keep(r, portal)
        for number in range(3):
            portal.make(f"d{number * 90:05}", "Another title", tick_h=0.1)
        run = await r.sync("portal")

    assert (run.stats.updated, run.stats.unchanged, run.stats.requests) == (3, 1, portal.quiet_requests)
    assert run.stats.rows_written <= 2 * 3 * 3


def reversed_fields(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: reversed_fields(one) for name, one in reversed(value.items())}
    return value


@and_ckan
async def test_the_same_records_in_another_order_with_their_fields_in_another_order_write_nothing(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.fill(30)
    async with database.open() as r:
        await keep(r, portal)
        records = list(portal.records.items())
        portal.records.clear()
        portal.records.update({name: reversed_fields(record) for name, record in reversed(records)})
        run = await r.sync("portal", full=True)

    assert (run.status, run.stats.unchanged, run.stats.rows_written) == ("completed", 31, 0)


@and_ckan
async def test_a_full_page_does_not_end_a_list_of_changes_because_a_count_says_so(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.page_max = 4
    portal.fill(9)
    async with database.open() as r:
        await keep(r, portal)
        # One record too few in every count: four of five changes fill a page, and so many are declared.
        portal.miscount = -1
        for number in range(4):
            portal.make(f"n{number}", tick_h=0.1)
        await r.sync("portal")

    assert database.query("select count(*) from item") == [(14,)]


async def test_a_full_walk_without_changes_writes_nothing(database: ScratchDatabase, portal: DatedPortal) -> None:
    portal.fill(150)
    async with database.open() as r:
        await keep(r, portal)
        portal.stir()
        run = await r.sync("portal", full=True)

    assert (run.mode, run.stats.unchanged, run.stats.rows_written) == ("full", 151, 0)
    assert (run.stats.stopped_at_body, run.stats.stopped_at_validator) == (151, 0)


@and_ckan
async def test_a_record_that_is_the_one_held_is_not_read(
    database: ScratchDatabase, portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    portal.fill(30)
    read: list[str] = []
    document = Dataset.document
    monkeypatch.setattr(Dataset, "document", lambda one, **how: read.append(one.url) or document(one, **how))
    async with database.open() as r:
        await keep(r, portal)
        read.clear()
        portal.make("d00007", "Another title")
        run = await r.sync("portal", full=True)

    assert (run.stats.updated, run.stats.unchanged, run.stats.stopped_at_body) == (1, 30, 30)
    assert [url.rstrip("/").rpartition("/")[2] for url in read] == ["d00007"]


async def test_a_deletion_is_found_and_an_item_that_comes_back_is_created_again(
    database: ScratchDatabase, portal: DatedPortal
) -> None:
    portal.fill(120)
    async with database.open() as r:
        await keep(r, portal)
        back, at = portal.records["d00007"], portal.dates["d00007"]
        portal.remove("d00007")
        run = await r.sync("portal")
        portal.records["d00007"], portal.dates["d00007"] = back, at
        revived = await r.sync("portal")
        quiet = await r.sync("portal")

    assert (run.complete, run.stats.deleted, revived.stats.created) == (True, 1, 1)
    assert (quiet.stats.requests, quiet.stats.rows_written) == (portal.quiet_requests, 0)


@and_ckan
async def test_one_added_and_one_deleted_at_once_are_both_found(database: ScratchDatabase, portal: Portal) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        portal.remove("d00007")
        portal.make("new")
        run = await r.sync("portal")

    assert (run.stats.created, run.stats.deleted) == (1, 1)


@and_ckan
async def test_d1_another_licence_arrives_and_nothing_is_cut_anew(database: ScratchDatabase, portal: Portal) -> None:
    portal.fill(5)
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00001", licence="Another")
        run = await r.sync("portal")

    assert (run.stats.amended, run.stats.chunks_written) == (1, 0)


async def test_d8_records_that_come_twice_do_not_stop_the_sweep(database: ScratchDatabase, portal: DatedPortal) -> None:
    portal.fill(20)
    portal.twice = ["d00003"]
    async with database.open() as r:
        first = await keep(r, portal)
        portal.remove("d00004")
        run = await r.sync("portal")
        quiet = await r.sync("portal")

    assert (first.status, first.stats.created) == ("completed", 21)
    assert (run.status, run.stats.deleted) == ("completed", 1)
    assert (quiet.stats.requests, quiet.stats.rows_written) == (portal.quiet_requests, 0)


async def test_one_broken_record_is_quarantined_and_the_rest_goes_on(
    database: ScratchDatabase, portal: DatedPortal
) -> None:
    portal.fill(20)
    portal.spoil("odd")
    portal.make_nameless()
    async with database.open() as r:
        first = await keep(r, portal)
        tried = await r.sync("portal")
        again = await r.sync("portal")
        portal.make("odd")
        healed = await r.sync("portal")

    assert (first.status, first.stats.created, first.stats.failed) == ("completed", 21, 2)
    assert (tried.status, tried.stats.failed) == ("completed", 2)
    # One more than usual: the place of the record without an identifier, unless it is among the latest.
    assert portal.quiet_requests <= again.stats.requests <= portal.quiet_requests + 1
    assert (healed.status, healed.stats.created) == ("completed", 1)
    assert database.query("select count(*) from quarantine where payload is not null") == [(1,)]


async def test_an_edit_that_kept_its_date_is_found_by_a_reconciliation(
    database: ScratchDatabase, portal: DatedPortal
) -> None:
    portal.fill(5)
    async with database.open() as r:
        await keep(r, portal)
        at = portal.clock
        portal.make("d00001", "Changed in silence")
        portal.backdate("d00001")
        portal.clock = at
        silent = await r.sync("portal")
        database.execute(STALE)
        run = await r.sync("portal")

    assert (silent.stats.updated, run.stats.updated, run.complete) == (0, 1, True)


async def test_a_refused_request_says_so(database: ScratchDatabase, portal: DatedPortal) -> None:
    portal.failures = [web.Response(status=401) for _ in range(3)]
    async with database.open() as r:
        run = await keep(r, portal)

    assert run.status == "failed"
    assert "401" in (run.error or "")
    assert "env:NAME" in (run.error or "")


@and_ckan
async def test_refreshing_equals_rebuilding_after_some_edits(
    database: ScratchDatabase, portal: Portal, new_database: Any
) -> None:
    portal.fill(30)
    portal.page_max = 7
    async with database.open() as r:
        await keep(r, portal)
        for number in range(0, 30, 7):
            portal.make(f"d{number:05}", "Edited")
        portal.remove("d00011")
        await r.sync("portal")
    rebuilt = new_database()
    async with rebuilt.open() as r:
        await keep(r, portal)

    assert index_of(database) == index_of(rebuilt)


@pytest.mark.parametrize("portal", [*DATED, CkanPortal, CswService, OaiRepository, SparqlEndpoint], indirect=True)
async def test_a_run_that_proves_all_else_unchanged_moves_when_it_was_checked_without_a_row(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.fill(20)

    async with database.open() as r:
        await keep(r, portal)
        urls = [url for (url,) in database.query("select url from item order by url")]
        walked = await r.items.last_checked(urls)
        quiet = await r.sync("portal")
        proved = await r.items.last_checked(urls)
        portal.failures = [web.Response(status=503) for _ in range(20)]
        failed = await r.sync("portal")
        portal.failures = []

        assert (quiet.complete, quiet.stats.rows_written) == (False, 0)
        assert all(proved[one] >= quiet.started_at > walked[one] for one in walked)
        assert failed.status == "failed"
        assert await r.items.last_checked(urls) == proved
