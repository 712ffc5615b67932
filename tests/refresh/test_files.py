"""Folders join the machine."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import House, Server
from tests.portals.folder import Folder
from tests.refresh.machine import PROFILE, RefreshEqualsRebuild


def test_refreshing_a_folder_equals_rebuilding_it(
    server: Server, new_house: Callable[[], House], tmp_path: Path
) -> None:
    numbers = count()

    class Folders(RefreshEqualsRebuild):
        pass

    Folders.server = server
    Folders.new_house = staticmethod(new_house)
    Folders.new_world = staticmethod(lambda: Folder(tmp_path / f"world {next(numbers)}"))
    run_state_machine_as_test(Folders, settings=PROFILE)
