"""Search in the version that is meant."""

from collections.abc import Callable
from typing import Any

import pytest

from rowen import Checkpoint, Complete, Fetched, NotFoundError, Rowen, UsageError
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows


class Versions(Scripted):
    """A scripted package."""

    @classmethod
    def recognise(cls, address: str) -> str | None:
        return address if address.startswith("pkg:") else None


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Versions)


async def keep(r: Rowen, address: str, version: str | None) -> None:
    shows(Fetched(page(1, "apple")), Checkpoint({"of": version}, version), Complete())
    await r.sync(address)


async def found(r: Rowen, version: str | None, **more: Any) -> set[str]:
    return {hit.source for hit in await r.search("apple", version=version, **more)}


async def test_each_package_answers_with_its_best_version(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await keep(r, "pkg:generic/hay@1.9", "1.9")
        await keep(r, "pkg:generic/hay@2.0", "2.0")
        await keep(r, "pkg:generic/hay", "2.10")
        await keep(r, "pkg:generic/straw@2.0", "2.0")
        await keep(r, "pkg:generic/loft", None)

        assert await found(r, None) == {"hay@1.9", "hay@2.0", "hay", "straw@2.0", "loft"}
        assert await found(r, "2.x") == {"hay", "straw@2.0"}
        assert await found(r, "<2") == {"hay@1.9"}
        assert await found(r, "latest") == {"hay", "straw@2.0"}
        assert await found(r, "2.x", sources=["hay@2.0", "hay@1.9"]) == {"hay@2.0"}


async def test_a_source_moves_to_the_version_that_its_last_run_read(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await keep(r, "pkg:generic/hay", "1.0")
        await keep(r, "pkg:generic/hay", "2.0")
        await keep(r, "pkg:generic/hay", None)

        assert await found(r, "2") == {"hay"}
        with pytest.raises(NotFoundError):
            await found(r, "1")


async def test_an_unknown_version_is_named_with_the_existing_ones(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await keep(r, "pkg:generic/hay", "1.0")

        with pytest.raises(NotFoundError, match=r"No source has a version that '9\.x' means") as caught:
            await r.search("apple", version="9.x")
        with pytest.raises(UsageError, match="'>=soon' names no version"):
            await r.search("apple", version=">=soon")

    assert caught.value.hint == "There are: hay 1.0."
