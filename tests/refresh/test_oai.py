"""OAI-PMH repositories join the machine."""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import House, Server
from tests.portals.oai import ChangingOai, ForgetfulOai
from tests.refresh.machine import PROFILE, RefreshEqualsRebuild


@pytest.mark.parametrize("world", [ChangingOai, ForgetfulOai])
def test_refreshing_a_repository_equals_rebuilding_it(
    server: Server, new_house: Callable[[], House], world: type[ChangingOai]
) -> None:
    class Repositories(RefreshEqualsRebuild):
        pass

    Repositories.server = server
    Repositories.new_house = staticmethod(new_house)
    Repositories.new_world = staticmethod(world)
    run_state_machine_as_test(Repositories, settings=settings(PROFILE, max_examples=max(3, PROFILE.max_examples // 3)))
