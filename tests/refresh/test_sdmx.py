"""SDMX services join the machine."""

from collections.abc import Callable

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import House, Server
from tests.portals.sdmx import ChangingSdmx
from tests.refresh.machine import PROFILE, RefreshEqualsRebuild


def test_refreshing_an_sdmx_service_equals_rebuilding_it(server: Server, new_house: Callable[[], House]) -> None:
    class Services(RefreshEqualsRebuild):
        pass

    Services.server = server
    Services.new_house = staticmethod(new_house)
    Services.new_world = staticmethod(ChangingSdmx)
    run_state_machine_as_test(Services, settings=settings(PROFILE, max_examples=max(3, PROFILE.max_examples // 3)))
