"""Sites join the machine."""

from collections.abc import Callable

from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import House, Server
from tests.portals.site import ChangingSite
from tests.refresh.machine import PROFILE, RefreshEqualsRebuild


def test_refreshing_a_site_equals_rebuilding_it(server: Server, new_house: Callable[[], House]) -> None:
    class Sites(RefreshEqualsRebuild):
        pass

    Sites.server = server
    Sites.new_house = staticmethod(new_house)
    Sites.new_world = staticmethod(ChangingSite)
    run_state_machine_as_test(Sites, settings=PROFILE)
