"""RDF catalogs join the machine."""

from collections.abc import Callable

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import House, Server
from tests.portals.dcat import ChangingDcat
from tests.refresh.machine import PROFILE, RefreshEqualsRebuild


def test_refreshing_an_rdf_catalog_equals_rebuilding_it(server: Server, new_house: Callable[[], House]) -> None:
    class Catalogs(RefreshEqualsRebuild):
        pass

    Catalogs.server = server
    Catalogs.new_house = staticmethod(new_house)
    Catalogs.new_world = staticmethod(ChangingDcat)
    run_state_machine_as_test(Catalogs, settings=settings(PROFILE, max_examples=max(3, PROFILE.max_examples // 3)))
