"""Git repositories join the machine."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import House, Server
from tests.portals.git import Repository
from tests.refresh.machine import PROFILE, RefreshEqualsRebuild


def test_refreshing_a_git_repository_equals_rebuilding_it(
    server: Server, new_house: Callable[[], House], tmp_path: Path
) -> None:
    numbers = count()

    class Repositories(RefreshEqualsRebuild):
        pass

    Repositories.server = server
    Repositories.new_house = staticmethod(new_house)
    Repositories.new_world = staticmethod(lambda: Repository(tmp_path / f"world {next(numbers)}"))
    run_state_machine_as_test(Repositories, settings=settings(PROFILE, max_examples=(PROFILE.max_examples + 1) // 2))
