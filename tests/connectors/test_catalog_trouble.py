"""Catalogs of every kind that lie, break and change under our feet: the same trouble ends in the same way."""

import re

import pytest
from aiohttp import web

from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import contents, titles
from tests.portals.arcgis import GeoPortal, HubSite
from tests.portals.catalogs import Portal, keep
from tests.portals.ckan import CkanPortal
from tests.portals.csw import CswService
from tests.portals.dcat import PagedDcat
from tests.portals.oai import OaiRepository
from tests.portals.opendatasoft import OpenDataSoftPortal
from tests.portals.socrata import SocrataPortal
from tests.portals.sparql import SparqlEndpoint

SEARCHES: list[type[Portal]] = [HubSite, OpenDataSoftPortal, SocrataPortal, CkanPortal]
STALE = "update source set cursor = jsonb_set(cursor, '{walked}', '\"2020-01-01T00:00:00Z\"')"
STRANGE = [b"<!doctype html><title>Maintenance</title>", b"", b"null", b"[]", b"[" * 100_000, b'{"results": null}']


@pytest.fixture
def portal(request: pytest.FixtureRequest, opened: Opened) -> Portal:
    made: type[Portal] = request.param
    return opened(made)


def of(*kinds: type[Portal]) -> pytest.MarkDecorator:
    """Each of these kinds of portals."""
    return pytest.mark.parametrize("portal", kinds, indirect=True)


@pytest.mark.parametrize("full", [True, False])
@of(*SEARCHES, CswService, OaiRepository, SparqlEndpoint)
async def test_d2_an_answer_that_is_no_listing_deletes_nothing(
    database: ScratchDatabase, portal: Portal, full: bool
) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        for body in [*STRANGE, *portal.no_listings]:
            portal.body = body
            run = await r.sync("portal", full=full, accept_deletions=True)

            assert run.status in ("failed", "partial"), body
            assert run.error
            assert len(contents(database)) == len(portal.records)
        portal.body = None
        assert (await r.sync("portal")).stats.rows_written == 0


@pytest.mark.parametrize("most", [1, 2, 7, 10, 100])
@of(*SEARCHES, CswService)
async def test_d2_a_portal_that_gives_less_than_asked_for_is_walked_to_its_end(
    database: ScratchDatabase, portal: Portal, most: int
) -> None:
    portal.fill(30)
    portal.page_max = most
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 31)


@of(*SEARCHES, OaiRepository, PagedDcat, SparqlEndpoint)
async def test_d2_a_listing_that_falls_short_of_its_count_deletes_nothing(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.fill(20)
    portal.page_max = 10
    held = len(portal.records)
    async with database.open() as r:
        await keep(r, portal)
        del portal.records["d00003"]
        portal.miscount = 3
        run = await r.sync("portal", full=True)

    assert (run.status, run.stats.deleted, len(contents(database))) == ("partial", 0, held)
    assert f"declares {held + 2}" in (run.error or "")


@pytest.mark.parametrize("miscount", [-25, -1, 0])
@of(CkanPortal, OaiRepository)
async def test_a_count_that_says_less_than_is_there_loses_nothing(
    database: ScratchDatabase, portal: Portal, miscount: int
) -> None:
    portal.fill(30)
    portal.page_max = 10
    portal.miscount = miscount
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 31)


@of(*SEARCHES)
async def test_d3_what_was_lost_here_is_asked_for_again(database: ScratchDatabase, portal: Portal) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        database.execute("delete from item where url like '%d00003%'")
        run = await r.sync("portal")

    assert (run.status, run.stats.created, len(contents(database))) == ("completed", 1, 21)


@of(*SEARCHES)
async def test_d7_a_deletion_during_the_walk_hides_no_other_record(database: ScratchDatabase, portal: Portal) -> None:
    portal.fill(40)
    portal.page_max = 10

    def disturb() -> None:
        portal.remove("d00002")
        portal.make("zzz-new")

    async with database.open() as r:
        await keep(r, portal)
        portal.after(1, disturb)
        run = await r.sync("portal", full=True)
        await r.sync("portal")

    assert run.stats.deleted <= 1
    assert set(titles(database)) == portal.names()


@of(*SEARCHES, CswService)
async def test_d7_an_unstable_order_never_deletes_what_is_there(database: ScratchDatabase, portal: Portal) -> None:
    portal.fill(40)
    portal.page_max = 10
    async with database.open() as r:
        await keep(r, portal)
        portal.ignores = {"order"}
        await r.sync("portal", full=True, accept_deletions=True)

    assert set(titles(database)) == portal.names()


@of(*SEARCHES)
async def test_d9_an_edit_inside_the_overlap_is_seen(database: ScratchDatabase, portal: Portal) -> None:
    portal.fill(5)
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00001", "Edited a little earlier", tick_h=-0.5)
        run = await r.sync("portal")

    assert run.stats.updated == 1


@of(*SEARCHES, CswService, OaiRepository)
async def test_d9_a_portal_whose_clock_is_years_ahead_is_read_by_its_own_clock(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.tick(24 * 365 * 20)
    portal.fill(250)
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00001", "Edited")
        run = await r.sync("portal")
        quiet = await r.sync("portal")

    assert (run.stats.updated, run.stats.requests) == (1, portal.quiet_requests)
    assert (quiet.stats.requests, quiet.stats.rows_written) == (portal.quiet_requests, 0)


@of(*SEARCHES, CswService, OaiRepository)
async def test_d9_a_record_dated_in_the_future_hides_no_later_edit(database: ScratchDatabase, portal: Portal) -> None:
    portal.fill(5)
    portal.tick(24 * 365 * 975)
    portal.make("future")
    portal.tick(-24 * 365 * 975)
    async with database.open() as r:
        await keep(r, portal)
        portal.tick(48)
        portal.make("d00001", "Edited")
        run = await r.sync("portal")

    assert run.stats.updated == 1


@pytest.mark.parametrize("lie", ["everything", "nothing"])
@of(HubSite, OpenDataSoftPortal, SocrataPortal, CswService, PagedDcat, SparqlEndpoint)
async def test_d10_a_filter_that_stops_working_is_found_out(
    database: ScratchDatabase, portal: Portal, lie: str
) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        portal.tick(50)
        portal.make("d00001", "Edited")
        portal.lie(lie)
        run = await r.sync("portal")
        portal.remove("d00002")
        portal.make("d00003", "Edited too")
        again = await r.sync("portal")

    assert (run.status, run.complete, run.stats.updated, run.stats.fell_back) == ("completed", True, 1, 1)
    assert (again.complete, again.stats.updated, again.stats.deleted) == (True, 1, 1)


@of(*SEARCHES, CswService)
async def test_a_page_that_repeats_is_noticed(database: ScratchDatabase, portal: Portal) -> None:
    portal.fill(30)
    portal.page_max = 10
    portal.ignores = {"start", "filter"}
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created) == ("partial", False, 10)
    assert re.search("came (twice|again)", run.error or "")


@of(*SEARCHES)
async def test_a_walk_that_broke_off_goes_on_where_it_was(database: ScratchDatabase, portal: Portal) -> None:
    portal.fill(95)
    portal.page_max = 10

    def fail() -> None:
        portal.down = True

    async with database.open() as r:
        await keep(r, portal)
        database.execute(STALE)
        portal.after(7, fail)
        broken = await r.sync("portal")
        portal.down = False
        portal.make("d00001", "Edited behind the walk")
        portal.make("d00000-new")
        portal.remove("d00002")
        portal.log.clear()
        run = await r.sync("portal")

    assert broken.status == "partial"
    assert portal.went_on(70)
    assert (run.status, run.complete) == ("completed", True)
    assert (run.stats.updated, run.stats.created, run.stats.deleted) == (1, 1, 1)
    assert set(titles(database)) == portal.names()


@of(CswService, OaiRepository)
async def test_a_first_walk_that_broke_off_goes_on_where_it_was(database: ScratchDatabase, portal: Portal) -> None:
    portal.fill(95)
    portal.page_max = 10

    def fail(start: int) -> None:
        portal.down = start == 60

    portal.after_page = fail
    async with database.open() as r:
        broken = await keep(r, portal)
        portal.after_page, portal.down = None, False
        portal.make("d00001", "Edited behind the walk")
        portal.remove("d00002")
        portal.log.clear()
        run = await r.sync("portal")

    assert broken.status == "partial"
    assert portal.went_on(70)
    assert (run.status, run.complete, run.stats.updated, run.stats.deleted) == ("completed", True, 1, 1)
    assert set(titles(database)) == portal.names()


@of(*SEARCHES)
async def test_a_portal_too_slow_for_large_pages_is_asked_for_small_ones(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.fill(150)
    portal.broken_above = 20
    async with database.open() as r:
        run = await keep(r, portal, page_size=100)

    assert (run.status, run.stats.created) == ("completed", 151)


@of(*SEARCHES, CswService)
async def test_a_page_that_takes_too_long_is_made_smaller(
    database: ScratchDatabase, portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.catalog.portal_client.FIRST_LIMIT_S", 1.0)
    portal.fill(50)
    portal.slow_above = 20
    async with database.open(total_limit_s=1.0, idle_limit_s=1.0) as r:
        run = await keep(r, portal, page_size=60)

    assert (run.status, run.stats.created) == ("completed", 51)


@pytest.mark.parametrize("status", [429, 503])
@of(*SEARCHES, CswService, OaiRepository)
async def test_a_busy_portal_is_waited_for_without_losing_the_place(
    database: ScratchDatabase, portal: Portal, status: int
) -> None:
    portal.fill(30)
    portal.page_max = 10

    def be_busy() -> None:
        portal.failures = [web.Response(status=status, headers={"Retry-After": "0"}) for _ in range(2)]

    portal.after(2, be_busy)
    async with database.open(fetch_tries=3) as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created, portal.failures) == ("completed", 31, [])


@pytest.mark.parametrize("depth", [50, 90, 400])
@of(CswService, OaiRepository)
async def test_a_record_nested_deeply_costs_at_most_itself(
    database: ScratchDatabase, portal: CswService | OaiRepository, depth: int
) -> None:
    portal.fill(5)
    portal.make_nested("deep", depth)
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created + run.stats.failed) == ("completed", True, 7)
    assert run.stats.failed == (depth > 99)


@of(CswService, OaiRepository)
async def test_records_of_the_same_identifier_are_one_item(
    database: ScratchDatabase, portal: CswService | OaiRepository
) -> None:
    portal.fill(10)
    portal.make_twin("d00003")
    async with database.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal", full=True)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 11)
    assert (again.complete, again.stats.rows_written) == (True, 0)


@of(*SEARCHES, GeoPortal, CswService, OaiRepository, PagedDcat, SparqlEndpoint)
async def test_a_portal_that_gives_less_than_it_counts_has_nothing_written_for_what_is_held(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.fill(30)
    portal.page_max, portal.miscount = 10, 9
    async with database.open() as r:
        first = await keep(r, portal)
        before = _written(database)
        second = await r.sync("portal")

    # A catalogue service can be shown to count what it does not have.
    status = "completed" if isinstance(portal, CswService) else "partial"
    assert (first.status, second.status, second.stats.rows_written) == (status, status, 0)
    assert len(contents(database)) == len(portal.records)
    assert _written(database) == before


def _written(database: ScratchDatabase) -> list[tuple[object, ...]]:
    """Which transaction wrote each row that a run may write, but for its own."""
    tables = ("item", "item_check", "item_gone", "chunk", "revision", "change", "quarantine")
    rows = " union all ".join(f"select '{table}', xmin::text, ctid::text from {table}" for table in tables)
    return database.query(f"{rows} order by 1, 2, 3")
