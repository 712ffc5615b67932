"""Catalogue services join the machine."""

from collections.abc import Callable

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import House, Server
from tests.portals.csw import ChangingCsw
from tests.refresh.machine import PROFILE, RefreshEqualsRebuild


def test_refreshing_a_catalogue_equals_rebuilding_it(server: Server, new_house: Callable[[], House]) -> None:
    class Catalogues(RefreshEqualsRebuild):
        pass

    Catalogues.server = server
    Catalogues.new_house = staticmethod(new_house)
    Catalogues.new_world = staticmethod(ChangingCsw)
    run_state_machine_as_test(Catalogues, settings=settings(PROFILE, max_examples=max(3, PROFILE.max_examples // 3)))
