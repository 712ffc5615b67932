"""Records over which every page fails: nobody can name them, and one clean run after they recover reads them."""

import pytest

from tests.conftest import House
from tests.connectors.conftest import Opened
from tests.logical import titles
from tests.portals.arcgis import GeoPortal, HubSite
from tests.portals.catalogs import Portal
from tests.portals.ckan import CkanPortal
from tests.portals.csw import CswService
from tests.portals.dcat import PagedDcat
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
    house: House, portal: Portal, how: str, places: list[int], page_size: int
) -> None:
    portal.fill(40)
    names = sorted(portal.records)
    portal.stuck, portal.stuck_how = {names[place] for place in places}, how
    count = len(names)
    options = {"page_size": page_size}
    if isinstance(portal, StacApi):
        portal.page_size, options = page_size, {}
    async with house.open(fetch_tries=1) as r:
        await r.add(portal.address, name="portal", options=options)
        broken = [await r.sync("portal") for _ in range(3)]
        portal.stuck = set()
        healed = await r.sync("portal")
        after = await r.sync("portal")

    assert not any(run.status == "completed" and run.tally.missing != len(places) for run in broken), broken
    assert (healed.status, healed.complete, healed.tally.failed, healed.tally.missing) == ("completed", True, 0, 0)
    assert len(titles(house)) == count
    assert (after.status, after.tally.rows_written) == ("completed", 0)
    assert house.query("select count(*) from quarantine") == [(0,)]
