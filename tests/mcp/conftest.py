"""A small library with three pages, and assistants that ask for them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from mcp import Client

from rowen import Complete, Fetched
from rowen.interfaces.mcp.server import AssistantServer
from rowen.operations import Rowen
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows

HAY = "# Hay\n\n## Drying\n\nHay dries for three days in the sun before it is baled.\n"
GOATS = "# Goats\n\nGoats eat what they find, also the fence.\n"

Asking = Callable[..., AbstractAsyncContextManager[Client]]


def small_library(hay: str = HAY) -> None:
    shows(
        Fetched(page("hay", hay, title="Hay", tags=("field",))),
        Fetched(page("goats", GOATS, title="Goats")),
        Fetched(page("empty", "Nothing of note.", title="Empty")),
        Complete(),
    )


@asynccontextmanager
async def asking(rowen: Rowen, *, mode: str = "auto", messages: Any = None, **how: Any) -> AsyncIterator[Client]:
    """An assistant that asks in this process."""

    async def opened() -> Rowen:
        return rowen

    server = AssistantServer(opened, **{"allow_writes": False, **how})
    try:
        async with Client(server.protocol, mode=mode, message_handler=messages) as client:
            yield client
    finally:
        await server.close()


@pytest.fixture
def library(
    database: ScratchDatabase, kinds: Callable[[Any], None]
) -> Callable[..., AbstractAsyncContextManager[Rowen]]:
    """Rowen with the small library in it, as the source `field`."""
    kinds(Scripted)

    @asynccontextmanager
    async def filled(**settings: Any) -> AsyncIterator[Rowen]:
        async with database.open(**settings) as rowen:
            small_library()
            await rowen.sources.add("scripted:field", name="field")
            await rowen.sync("field")
            yield rowen

    return filled


def text_of(result: Any) -> str:
    """What a model reads."""
    return "".join(block.text for block in result.content)
