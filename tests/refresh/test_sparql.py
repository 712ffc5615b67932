"""SPARQL endpoints join the machine."""

from collections.abc import Callable

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import House, Server
from tests.portals.sparql import ChangingSparql
from tests.refresh.machine import PROFILE, RefreshEqualsRebuild


def test_refreshing_a_sparql_endpoint_equals_rebuilding_it(server: Server, new_house: Callable[[], House]) -> None:
    class Endpoints(RefreshEqualsRebuild):
        pass

    Endpoints.server = server
    Endpoints.new_house = staticmethod(new_house)
    Endpoints.new_world = staticmethod(ChangingSparql)
    run_state_machine_as_test(Endpoints, settings=settings(PROFILE, max_examples=max(3, PROFILE.max_examples // 3)))
