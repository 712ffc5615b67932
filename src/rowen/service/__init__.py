"""What every door may ask: one object, opened with the settings in force."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rowen.service.apply import Applying
from rowen.service.care import Caring
from rowen.service.export import Exporting
from rowen.settings import Settings, load

__all__ = ["Rowen", "open"]


class Rowen(Caring, Applying, Exporting):
    """An open house: sources, runs, items and the change log of one database."""

    async def start(self) -> None:
        """Open the database."""
        await self._database.open()

    async def close(self) -> None:
        """End worker processes and close the database."""
        await self._workers.close()
        await self._embedding.close()
        await self._database.close()


@asynccontextmanager
async def open(settings: Settings | None = None, **flags: Any) -> AsyncIterator[Rowen]:  # noqa: A001 (rowen.open())
    """Open Rowen; settings may be given by name, such as `home="…"` or `database_url="…"`."""
    rowen = Rowen(settings or load(**flags))
    await rowen.start()
    try:
        yield rowen
    finally:
        await rowen.close()
