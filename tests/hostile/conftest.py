"""Every attack is made on the flow as users run it, with worker processes, and under the eyes of the watchdog."""

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rowen.settings import Settings
from tests.cli.conftest import cli, docs
from tests.conftest import ScratchDatabase
from tests.hostile.watchdog import unblocked_loop
from tests.imports import import_everything

__all__ = ["cli", "docs"]


class WorkingDatabase(ScratchDatabase):
    """A database whose bodies are read by a worker process, as by default."""

    def settings(self, **more: Any) -> Settings:
        return super().settings(**{"workers": 1, **more})


@pytest.fixture
def database(new_database: Callable[[], ScratchDatabase]) -> ScratchDatabase:
    made = new_database()
    return WorkingDatabase(made.conninfo, made.home)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "unwatched: blocks the event loop on purpose")


@pytest.fixture(scope="session")
def _imported() -> None:
    """What is imported when it is first used takes its time, once; that is not what these tests are about."""
    import_everything()
    importlib.import_module("playwright.async_api")


@pytest.fixture(autouse=True)
def _watched(_imported: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """No test here may block the event loop, but those that are about that."""
    if request.node.get_closest_marker("unwatched"):
        yield
        return
    with unblocked_loop():
        yield
