"""STAC catalogs join the machine."""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import House, Server
from tests.portals.stac import ChangingStacApi, ChangingStaticStac
from tests.refresh.machine import PROFILE, RefreshEqualsRebuild


@pytest.mark.parametrize("world", [ChangingStacApi, ChangingStaticStac])
def test_refreshing_a_stac_catalog_equals_rebuilding_it(
    server: Server, new_house: Callable[[], House], world: type[ChangingStacApi | ChangingStaticStac]
) -> None:
    class Catalogs(RefreshEqualsRebuild):
        pass

    Catalogs.server = server
    Catalogs.new_house = staticmethod(new_house)
    Catalogs.new_world = staticmethod(world)
    run_state_machine_as_test(Catalogs, settings=settings(PROFILE, max_examples=max(3, PROFILE.max_examples // 3)))
