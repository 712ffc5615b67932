"""Records over which every page fails: nobody can name them, and one clean run after they recover reads them."""

import pytest

from rowen.operations.summary import remarks
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import titles
from tests.portals.arcgis import GeoPortal, HubSite
from tests.portals.catalogs import Portal, keep
from tests.portals.ckan import CkanPortal
from tests.portals.csw import CswService
from tests.portals.dcat import PagedDcat, UdataPortal
from tests.portals.oai import OaiRepository
from tests.portals.opendatasoft import OpenDataSoftPortal
from tests.portals.socrata import SocrataPortal
from tests.portals.sparql import SparqlEndpoint
from tests.portals.stac import StacApi

KINDS: list[type[Portal] | type[StacApi]] = [
    CkanPortal,
    CswService,
    GeoPortal,
    HubSite,
    OaiRepository,
    OpenDataSoftPortal,
    PagedDcat,
    SocrataPortal,
    SparqlEndpoint,
    StacApi,
    UdataPortal,
]
HOW = ["status 500", "status 400", "garbage", "truncated"]


@pytest.fixture(params=KINDS)
def portal(request: pytest.FixtureRequest, opened: Opened) -> Portal:
    made: type[Portal] = request.param
    return opened(made)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("places", [[17], [17, 18, 31]])
@pytest.mark.parametrize("page_size", [1, 20])
async def test_a_record_that_was_not_received_in_some_runs_is_read_by_the_first_run_after(
    database: ScratchDatabase, portal: Portal, how: str, places: list[int], page_size: int
) -> None:
    portal.fill(40)
    names = sorted(portal.records)
    portal.stuck, portal.stuck_how = {names[place] for place in places}, how
    count = len(names)
    options = {"page_size": page_size}
    if isinstance(portal, StacApi):
        portal.page_size, options = page_size, {}
    async with database.open(fetch_tries=1) as r:
        await r.sources.add(portal.address, name="portal", options=options)
        broken = [await r.sync("portal") for _ in range(3)]
        portal.stuck = set()
        healed = await r.sync("portal")
        after = await r.sync("portal")

    assert not any(run.status == "completed" and run.stats.missing != len(places) for run in broken), broken
    assert (healed.status, healed.complete, healed.stats.failed, healed.stats.missing) == ("completed", True, 0, 0)
    assert len(titles(database)) == count
    assert (after.status, after.stats.rows_written) == ("completed", 0)
    assert database.query("select count(*) from quarantine") == [(0,)]


def write(portal: Portal | StacApi, name: str, title: str, *, tick_h: float) -> None:
    if isinstance(portal, StacApi):
        portal.put(name, title)
    else:
        portal.make(name, title, tick_h=tick_h)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("size", [1, 20, 100])
@pytest.mark.parametrize("held", [0, 39])
async def test_a_count_that_is_too_low_does_not_hide_the_last_record_while_it_fails(
    database: ScratchDatabase, portal: Portal | StacApi, how: str, size: int, held: int
) -> None:
    portal.miscount = -1
    for number in range(39):
        write(portal, f"d{number:05}", "As it was", tick_h=0.001)
    options = {"page_size": size}
    if isinstance(portal, StacApi):
        portal.page_size, options = size, {}
    async with database.open(fetch_tries=1) as r:
        await r.sources.add(portal.address, name="portal", options=options)
        if held:
            await r.sync("portal")
        write(portal, "zz-last", "It fails at first", tick_h=100)
        portal.stuck, portal.stuck_how = {"zz-last"}, how
        broken = [await r.sync("portal") for _ in range(3)]
        write(portal, "d00001", "Edited so long after that nobody asks for what was before", tick_h=200)
        broken.append(await r.sync("portal"))
        portal.stuck = set()
        healed = await r.sync("portal")

    assert not any(run.status == "completed" and not run.stats.missing for run in broken), broken
    assert (healed.status, healed.stats.failed, healed.stats.missing) == ("completed", 0, 0)
    assert len(titles(database)) == len(portal.records)


@pytest.mark.parametrize(
    "portal",
    [CkanPortal, CswService, GeoPortal, HubSite, OpenDataSoftPortal, SocrataPortal, UdataPortal],
    indirect=True,
)
async def test_it_costs_one_request_a_run_while_it_fails_and_one_walk_when_it_recovers(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.fill(120)
    async with database.open(fetch_tries=1) as r:
        await keep(r, portal)
        quiet = await r.sync("portal")
        walked = await r.sync("portal", full=True)
        portal.make("new", "Written while it failed")
        portal.stuck = {"new"}
        broke = await r.sync("portal")
        # Socrata lists at least the ten latest, and is asked for fewer as long as one of these fails.
        for number in range(9):
            portal.make(f"d{number:05}", "Much later", tick_h=portal.pause_h)
        portal.make("zz-last", "Later still", tick_h=portal.pause_h)
        await r.sync("portal")
        failing = [await r.sync("portal") for _ in range(3)]
        portal.stuck = set()
        healed = await r.sync("portal")
        after = await r.sync("portal")

    assert (broke.stats.failed, broke.stats.missing) == (1, 1)
    # In the order of dates it has two places: in the whole listing, and as the first of what was modified.
    places = 1 if isinstance(portal, CkanPortal) else 2
    assert all(1 <= run.stats.missing == run.stats.failed <= places for run in failing), failing
    # CSW services fail behind their end as well: of a place among changes it is asked whether so many were modified.
    asked = places + isinstance(portal, CswService)
    assert all(run.stats.requests <= quiet.stats.requests + asked for run in failing), failing
    assert [run.stats.rows_written for run in failing] == [0] * 3
    assert healed.stats.requests <= quiet.stats.requests + 1 + walked.stats.requests
    assert (healed.status, healed.complete, healed.stats.created, healed.stats.missing) == ("completed", True, 1, 0)
    assert "A record that could not be identified may be readable now." in " ".join(map(str, remarks(healed)))
    assert (after.stats.requests, after.stats.rows_written) == (quiet.stats.requests, 0)


@pytest.mark.parametrize("portal", [CkanPortal], indirect=True)
async def test_rows_that_move_meanwhile_do_not_hide_that_a_record_of_ckan_still_fails(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.fill(60)
    portal.stuck = {"d00030"}
    async with database.open(fetch_tries=1) as r:
        await keep(r, portal)
        for name in ("c1", "c2", "c3"):
            portal.make(name)
        moved = await r.sync("portal")
        portal.log.clear()
        known = await r.sync("portal")
        portal.stuck = set()
        healed = await r.sync("portal")

    assert (moved.stats.created, moved.stats.missing, moved.stats.fell_back) == (3, 1, 0)
    assert (known.stats.missing, known.stats.fell_back) == (1, 0)
    assert (healed.status, healed.complete, healed.stats.missing) == ("completed", True, 0)


@pytest.mark.parametrize("portal", [CkanPortal, HubSite, OpenDataSoftPortal, SocrataPortal], indirect=True)
async def test_what_is_gone_is_deleted_by_a_later_walk_although_a_held_record_still_fails(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.fill(30)
    async with database.open(fetch_tries=1) as r:
        await keep(r, portal)
        portal.stuck = {"d00017"}
        portal.remove("d00005")
        first = await r.sync("portal", full=True)
        held = len(titles(database))
        second = await r.sync("portal", full=True)

    assert (first.status, first.stats.deleted, held) == ("partial", 0, 31)
    assert (second.status, second.complete, second.stats.deleted) == ("completed", True, 1)
    assert "Dataset d00017" in titles(database).values() or len(titles(database)) == 30


@pytest.mark.parametrize("portal", [CswService], indirect=True)
async def test_a_service_without_places_is_not_believed_to_be_whole_while_pages_fail(
    database: ScratchDatabase, portal: Portal
) -> None:
    portal.fill(5)
    portal.page_max, portal.ignores = 4, {"order", "start"}
    async with database.open(fetch_tries=1) as r:
        await r.sources.add(portal.address, name="portal")
        portal.make("new")
        portal.stuck = {"new"}
        broken = [await r.sync("portal", full=True) for _ in range(12)]
        portal.stuck, portal.ignores = set(), set()
        healed = await r.sync("portal")

    assert not any(run.status == "completed" and not run.stats.missing for run in broken), broken
    assert (healed.status, healed.stats.missing, len(titles(database))) == ("completed", 0, 7)
