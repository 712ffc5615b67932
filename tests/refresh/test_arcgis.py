"""ArcGIS joins the machine, with a site and with a portal."""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import House, Server
from tests.portals.arcgis import ChangingGeoPortal, ChangingHub
from tests.refresh.machine import PROFILE, RefreshEqualsRebuild


@pytest.mark.parametrize("world", [ChangingGeoPortal, ChangingHub])
def test_refreshing_arcgis_equals_rebuilding_it(
    server: Server, new_house: Callable[[], House], world: type[ChangingGeoPortal | ChangingHub]
) -> None:
    class Searches(RefreshEqualsRebuild):
        pass

    Searches.server = server
    Searches.new_house = staticmethod(new_house)
    Searches.new_world = staticmethod(world)
    run_state_machine_as_test(Searches, settings=settings(PROFILE, max_examples=max(3, PROFILE.max_examples // 6)))
