"""The door on standard input and output: one client, which started this process and ends it."""

from __future__ import annotations

import asyncio
import gc
from importlib import import_module
from typing import TYPE_CHECKING

from mcp.server.stdio import stdio_server

from rowen.mcp.server import AssistantServer, Profile

if TYPE_CHECKING:
    from rowen.service import Rowen
    from rowen.settings import Settings

__all__ = ["serve"]


class Opening:
    """Rowen, opened while the first answers are given; what failed is tried again when it is needed next."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._task: asyncio.Task[Rowen] | None = None

    def begin(self) -> asyncio.Task[Rowen]:
        """Open it, unless that was begun."""
        if self._task is None or (self._task.done() and (self._task.cancelled() or self._task.exception())):
            self._task = asyncio.create_task(self._open())
        return self._task

    async def __call__(self) -> Rowen:
        """Rowen, as soon as it is there."""
        return await asyncio.shield(self.begin())

    async def close(self) -> None:
        """Close it, or leave off opening it."""
        if self._task is None:
            return
        if not self._task.done():
            self._task.cancel()
        [found] = await asyncio.gather(self._task, return_exceptions=True)
        if not isinstance(found, BaseException):
            await found.close()

    async def _open(self) -> Rowen:
        # Half a second of imports: meanwhile the client is told what there is to call.
        try:
            service = await asyncio.to_thread(import_module, "rowen.service")
        finally:
            gc.freeze()
            gc.enable()
        rowen: Rowen = service.Rowen(self._settings)
        await rowen.start()
        return rowen


async def serve(settings: Settings, *, allow_writes: bool, local_files: bool, profile: Profile) -> None:
    """Answer until the client closes its end."""
    opening = Opening(settings)
    server = AssistantServer(opening, allow_writes=allow_writes, local_files=local_files, profile=profile)
    try:
        async with stdio_server() as (read, write):
            opening.begin()
            await server.protocol.run(read, write, server.protocol.create_initialization_options())
    finally:
        await server.close()
        await opening.close()
