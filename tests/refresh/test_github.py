"""Repositories on GitHub join the machine."""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import House, Server
from tests.portals.github import Portal
from tests.refresh.machine import PROFILE, RefreshEqualsRebuild


def test_refreshing_a_github_repository_equals_rebuilding_it(
    server: Server, new_house: Callable[[], House], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWEN_ALLOW_ADDRESSES", "127.0.0.0/8")
    monkeypatch.setenv("ROWEN_FETCH_TRIES", "1")

    class Repositories(RefreshEqualsRebuild):
        pass

    Repositories.server = server
    Repositories.new_house = staticmethod(new_house)
    Repositories.new_world = staticmethod(Portal)
    run_state_machine_as_test(Repositories, settings=settings(PROFILE, max_examples=(PROFILE.max_examples + 1) // 2))
