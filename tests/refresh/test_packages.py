"""Packages join the machine: releases come, links and files change, the registry and the documentation fail."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis.stateful import run_state_machine_as_test

from rowen.connectors.packages import PyPI
from tests.conftest import House, Server
from tests.portals.packages import PythonIndex
from tests.portals.site import WORDS, ChangingSite
from tests.refresh.machine import PROFILE, RefreshEqualsRebuild


class ChangingPackage:
    """A registry with one package, and its documentation."""

    address = "pypi:hay"
    kind = "pypi"
    registry = ""

    def __init__(self) -> None:
        self.index = PythonIndex()
        self.docs = ChangingSite()
        ChangingPackage.registry = self.index.url
        self.index.publish("hay", "1.0", description="# Hay\n")

    def change(self, chance: Random) -> None:
        match chance.randrange(6):
            case 0 | 1:
                self._publish(chance)
            case 2:
                self.index.down = not self.index.down
            case 3:
                self.docs.down = not self.docs.down
            case _:
                self.docs.change(chance)

    def _publish(self, chance: Random) -> None:
        version = f"{chance.randrange(3)}.{chance.randrange(3)}{chance.choice(['', '', 'rc1'])}"
        readme = chance.choice(["", "# Hay\n\n" + " ".join(chance.choices(WORDS, k=30))])
        links = chance.choice([{}, {"Documentation": self.docs.address}, {"Docs": self.docs.url + "/p0"}])
        name = chance.choice(["README.md", "CHANGES.md"])
        files = chance.choice([None, {name: f"# {version}\n\n{chance.choice(WORDS)}\n"}])
        # A file of a release never changes once it is published.
        version += f".{len(self.index.pages)}"
        self.index.publish("hay", version, description=readme, project_urls=links, files=files)

    def heal(self) -> None:
        self.index.down = False
        self.docs.heal()
        self.docs.put("/p0", "Docs", "Here.", links=("/p1", "/p2"))

    def close(self) -> None:
        self.index.close()
        self.docs.close()


def test_refreshing_a_package_equals_rebuilding_it(
    server: Server,
    new_house: Callable[[], House],
    kinds: Callable[[Any], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds(PyPI)

    async def told(address: object) -> str:
        return ChangingPackage.registry

    monkeypatch.setattr("rowen.connectors.packages.package.registry_of", told)

    class Packages(RefreshEqualsRebuild):
        def a_run_is_killed(self) -> None:  # type: ignore[override]
            """Not here: another process would ask pip for the registry."""

    Packages.server = server
    Packages.new_house = staticmethod(new_house)
    Packages.new_world = staticmethod(ChangingPackage)
    run_state_machine_as_test(Packages, settings=PROFILE)
