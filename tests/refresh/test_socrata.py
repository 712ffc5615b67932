"""Socrata portals join the machine."""

from collections.abc import Callable

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import House, Server
from tests.portals.socrata import ChangingSocrata
from tests.refresh.machine import PROFILE, RefreshEqualsRebuild


def test_refreshing_a_socrata_portal_equals_rebuilding_it(server: Server, new_house: Callable[[], House]) -> None:
    class Portals(RefreshEqualsRebuild):
        pass

    Portals.server = server
    Portals.new_house = staticmethod(new_house)
    Portals.new_world = staticmethod(ChangingSocrata)
    run_state_machine_as_test(Portals, settings=settings(PROFILE, max_examples=max(3, PROFILE.max_examples // 3)))
