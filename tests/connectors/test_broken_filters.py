"""Catalogs whose filter by date breaks, or never worked: each run walks the catalog whole until the filter works."""

import pytest
from aiohttp import web

from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import titles
from tests.portals.arcgis import GeoPortal, HubSite
from tests.portals.catalogs import Portal, keep
from tests.portals.ckan import CkanPortal
from tests.portals.csw import CswService
from tests.portals.dcat import PagedDcat
from tests.portals.oai import OaiRepository
from tests.portals.opendatasoft import OpenDataSoftPortal
from tests.portals.socrata import SocrataPortal
from tests.portals.sparql import SparqlEndpoint


class ForgetfulRepository(OaiRepository):
    """A repository that does not list what it deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = "no"


KINDS: list[type[Portal]] = [
    CkanPortal,
    HubSite,
    GeoPortal,
    OpenDataSoftPortal,
    SocrataPortal,
    CswService,
    PagedDcat,
    ForgetfulRepository,
    SparqlEndpoint,
]
# Each of them is asked at most so often beyond a walk where the filter fails: CSW and OAI ask in several ways.
TRIAL_REQUESTS = 8


@pytest.fixture(params=KINDS)
def portal(request: pytest.FixtureRequest, opened: Opened) -> Portal:
    made: type[Portal] = request.param
    return opened(made)


rejecting = pytest.mark.parametrize("status", [400, 409, 500])


async def _check(database: ScratchDatabase, portal: Portal, status: int) -> None:
    portal.fill(20)
    portal.page_max = 10
    async with database.open() as r:
        await keep(r, portal)
        walked = await r.sync("portal", full=True)
        portal.rejects = status
        portal.make("d00001", "Edited")
        portal.remove("d00002")
        portal.make("new")
        broken = await r.sync("portal")
        portal.make("d00003", "Edited")
        portal.remove("d00004")
        portal.filtered = 0
        without = await r.sync("portal")

    assert (broken.status, broken.complete, broken.error, broken.stats.fell_back) == ("completed", True, None, 1)
    assert (broken.stats.updated, broken.stats.deleted, broken.stats.created) == (1, 1, 1)
    assert broken.stats.requests <= walked.stats.requests + TRIAL_REQUESTS
    assert (without.status, without.complete, without.stats.fell_back) == ("completed", True, 1)
    assert (without.stats.updated, without.stats.deleted, without.stats.created) == (1, 1, 0)
    assert without.stats.requests <= walked.stats.requests
    assert set(titles(database)) == portal.names()


@rejecting
async def test_a_filter_that_is_rejected_later_costs_a_whole_walk_in_the_same_run(
    database: ScratchDatabase, portal: Portal, status: int
) -> None:
    await _check(database, portal, status)


async def test_a_ckan_portal_that_reports_an_error_for_the_filter_is_walked_whole(
    database: ScratchDatabase, opened: Opened
) -> None:
    await _check(database, opened(CkanPortal), 200)


@rejecting
@pytest.mark.parametrize("full", [True, False])
async def test_a_filter_that_never_worked_keeps_no_run_from_being_complete(
    database: ScratchDatabase, portal: Portal, status: int, full: bool
) -> None:
    portal.rejects = status
    portal.fill(20)
    async with database.open() as r:
        first = await keep(r, portal)
        portal.make("d00001", "Edited")
        portal.remove("d00002")
        run = await r.sync("portal", full=full)

    assert (first.status, first.complete, first.error) == ("completed", True, None)
    assert (run.status, run.complete, run.stats.updated, run.stats.deleted) == ("completed", True, 1, 1)


async def test_a_filter_is_tried_again_at_growing_intervals_and_used_once_it_works(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.fill(20)
    tried = []
    async with database.open() as r:
        await keep(r, portal)
        usual = await r.sync("portal")
        portal.rejects = 400
        for _ in range(9):
            portal.filtered = 0
            run = await r.sync("portal")
            assert (run.complete, run.stats.fell_back) == (True, 1)
            tried.append(portal.filtered > 0)
        portal.rejects = None
        for _ in range(3):
            await r.sync("portal")
        portal.make("d00001", "Edited")
        portal.remove("d00002")
        healed = await r.sync("portal")
        quiet = await r.sync("portal")

    # Between two trials 1, 2, 4 … runs go by.
    if not isinstance(portal, OpenDataSoftPortal):  # It is walked by date, and says in each walk that it cannot be.
        assert tried == [True, False, True, False, False, True, False, False, False]
    assert (healed.stats.fell_back, healed.stats.updated, healed.stats.deleted) == (0, 1, 1)
    assert (quiet.stats.fell_back, quiet.stats.rows_written) == (0, 0)
    assert quiet.stats.requests <= usual.stats.requests


async def test_a_filter_is_tried_after_a_day_by_one_request(database: ScratchDatabase, opened: Opened) -> None:
    portal = opened(CkanPortal)
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        portal.rejects = 500
        for _ in range(3):
            await r.sync("portal")
        portal.rejects = 400
        portal.filtered = 0
        await r.sync("portal")
        waiting = portal.filtered
        database.execute("update source set cursor = jsonb_set(cursor, '{probed}', '\"2020-01-01T00:00:00Z\"')")
        await r.sync("portal")
        tried = portal.filtered
        portal.rejects = None
        database.execute("update source set cursor = jsonb_set(cursor, '{probed}', '\"2020-01-01T00:00:00Z\"')")
        await r.sync("portal")
        portal.log.clear()
        quiet = await r.sync("portal")

    assert (waiting, tried) == (0, 1)
    assert (quiet.stats.requests, quiet.stats.rows_written, quiet.stats.fell_back) == (2, 0, 0)


@pytest.mark.parametrize("status", [500, 503])
async def test_a_portal_that_fails_over_everything_is_not_walked(
    database: ScratchDatabase, portal: Portal, status: int
) -> None:
    portal.fill(40)
    portal.page_max = 2
    async with database.open() as r:
        await keep(r, portal)
        before = titles(database)
        portal.failures = [web.Response(status=status) for _ in range(50)]
        run = await r.sync("portal")
        failed = portal.failures
        portal.failures = []
        portal.make("d00001", "Edited")
        again = await r.sync("portal")

    assert (run.status, run.stats.deleted) == ("failed", 0)
    assert 50 - len(failed) <= 12
    assert (again.stats.updated, again.stats.fell_back) == (1, 0)
    assert titles(database).keys() == before.keys()


async def test_an_interrupted_list_of_changes_whose_filter_then_breaks_is_walked_whole(
    database: ScratchDatabase, opened: Opened
) -> None:
    portal = opened(CkanPortal)
    portal.fill(40)
    async with database.open() as r:
        await keep(r, portal)
        portal.page_max = 5
        for number in range(20):
            portal.make(f"d{number:05}", "Edited", tick_h=0.001)
        portal.after(2, lambda: setattr(portal, "down", True))
        interrupted = await r.sync("portal")
        portal.down, portal.rejects = False, 500
        run = await r.sync("portal")

    assert interrupted.status in ("failed", "partial")
    assert (run.status, run.complete, run.stats.fell_back) == ("completed", True, 1)
    assert sum(title == "Edited" for title in titles(database).values()) == 20
