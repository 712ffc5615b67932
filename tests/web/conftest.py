"""One world for all tests that only look; each that does something has a database of its own."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import QUIET, ScratchDatabase, Server
from tests.web.world import Answer, addresses, live, served, sites


@pytest.fixture(scope="session")
def lived_in(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScratchDatabase]:
    """A database with the world in it; nothing may be written to it."""
    name = server.create(template)
    database = ScratchDatabase(server.conninfo(name), tmp_path_factory.mktemp("web") / "home")

    async def fill() -> None:
        with sites() as there:
            async with database.open() as rowen:
                await live(rowen, there)

    before = {key: os.environ.get(key) for key in QUIET}
    os.environ.update(QUIET)
    try:
        asyncio.run(fill())
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
    yield database
    server.drop(name)


@pytest.fixture(scope="session")
def walked(lived_in: ScratchDatabase) -> dict[str, Answer]:
    """Every page as an administrator sees it, by its address; fetched once."""

    async def walk() -> dict[str, Answer]:
        async with lived_in.open(embedder="none") as rowen, served(rowen) as interface:
            return {path: await interface.get(path) for paths in (await addresses(rowen)).values() for path in paths}

    return asyncio.run(walk())


@pytest.fixture
def pictures() -> Path:
    """Where screenshots go: kept as build output, never committed."""
    folder = Path(__file__).parents[2] / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
