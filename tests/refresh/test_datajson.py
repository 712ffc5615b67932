"""Documents of catalogs join the machine."""

from collections.abc import Callable

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import House, Server
from tests.portals.datajson import ChangingDataJson
from tests.refresh.machine import PROFILE, RefreshEqualsRebuild


def test_refreshing_a_data_json_equals_rebuilding_it(server: Server, new_house: Callable[[], House]) -> None:
    class Documents(RefreshEqualsRebuild):
        pass

    Documents.server = server
    Documents.new_house = staticmethod(new_house)
    Documents.new_world = staticmethod(ChangingDataJson)
    run_state_machine_as_test(Documents, settings=settings(PROFILE, max_examples=(PROFILE.max_examples + 1) // 2))
