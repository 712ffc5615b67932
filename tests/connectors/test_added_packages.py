"""A package that is added is asked for once: what its registry does not know is not kept."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rowen import Discovery, Unconfirmed, UsageError
from rowen.connectors.packages import Npm, PyPI
from rowen.errors import SourceGoneError
from tests.conftest import ScratchDatabase
from tests.portals.packages import NpmRegistry, PythonIndex
from tests.portals.site import Site

REGISTRIES = {"pypi": PythonIndex, "npm": NpmRegistry}


@pytest.fixture(autouse=True)
def _kinds(kinds: Callable[[Any], None]) -> None:
    kinds(PyPI)
    kinds(Npm)


@pytest.fixture
def index() -> Iterator[PythonIndex]:
    index = PythonIndex()
    index.publish("hay", "1.0", description="Dry grass.")
    yield index
    index.close()


def options(registry: Site) -> dict[str, str]:
    return {"registry": registry.url}


@pytest.mark.parametrize("ecosystem", REGISTRIES)
async def test_a_package_that_its_registry_does_not_know_is_not_added(
    database: ScratchDatabase, ecosystem: str
) -> None:
    registry = REGISTRIES[ecosystem]()
    registry.publish("hay", "1.0")
    async with database.open(probe=True) as r:
        with pytest.raises(SourceGoneError, match=r"no package 'hya'\. Nothing was added\.") as caught:
            await r.sources.add(f"{ecosystem}:hya", options=options(registry))
        refused = len(registry.log)
        added = await r.sources.add(f"{ecosystem}:hay", options=options(registry))
        names = [source.name for source in await r.sources.list()]
    requests = len(registry.log)
    registry.close()

    assert "Check the name" in str(caught.value.hint)
    assert "registry=URL" in str(caught.value.hint)
    assert names == [added.name] == ["hay"]
    assert (refused, requests - refused) == (1, 1)


async def test_a_version_that_was_never_released_is_not_added_and_the_latest_is_named(
    database: ScratchDatabase, index: PythonIndex
) -> None:
    async with database.open(probe=True) as r:
        with pytest.raises(SourceGoneError, match=r"'3\.x' means; the latest is 1\.0\. Nothing was added"):
            await r.sources.add("pypi:hay@3.x", options=options(index))
        with pytest.raises(UsageError, match="names no version"):
            await r.sources.add("pypi:hay@>=", options=options(index))

        assert list(await r.sources.list()) == []


async def test_while_the_registry_is_down_a_package_is_kept_with_a_word(
    database: ScratchDatabase, index: PythonIndex
) -> None:
    events: list[Discovery | Unconfirmed] = []
    index.down = True
    async with database.open(probe=True) as r:
        source = await r.sources.add("pypi:hay", options=options(index), found=events.append)
        index.down = False
        run = await r.sync(source.name)

    assert [type(what) for what in events] == [Unconfirmed]
    assert "Nobody could tell whether there is pypi:hay" in events[0].words
    assert "503" in events[0].words
    assert run.status == "completed"


async def test_no_probe_is_sent_if_it_is_switched_off_or_a_kind_is_named(
    database: ScratchDatabase, index: PythonIndex
) -> None:
    async with database.open(probe=False) as r:
        await r.sources.add("pypi:hya", options=options(index))
    async with database.open(probe=True) as r:
        await r.sources.add("pypi:hya", kind="pypi", name="other", options=options(index))

        assert [source.name for source in await r.sources.list()] == ["hya", "other"]
    assert index.log == []


async def test_wrong_options_are_refused_before_any_request(database: ScratchDatabase, index: PythonIndex) -> None:
    events: list[Discovery | Unconfirmed] = []
    async with database.open(probe=True) as r:
        with pytest.raises(UsageError, match="Option 'docs'"):
            await r.sources.add("pypi:hay", options={**options(index), "docs": "docs.example"}, found=events.append)

    assert (events, index.log) == ([], [])
