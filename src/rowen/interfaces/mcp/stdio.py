"""The interface on standard input and output, for the one client that started this process and ends it."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mcp.server.stdio import stdio_server

from rowen.interfaces.mcp.server import AssistantServer, Profile

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext

    from rowen.operations import Rowen
    from rowen.settings import Settings

# Writing an answer to a pipe takes a millisecond; nobody notices ten.
_ANSWER_IS_OUT_S = 0.01
# 128 and the number of SIGINT, as in shells.
_INTERRUPTED = 130


class Opening:
    """Opens Rowen while the first requests are answered; if that fails, the next request tries again."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._task: asyncio.Task[Rowen] | None = None

    def begin(self) -> None:
        """Start to open Rowen, unless that was started before."""
        if self._task is None:
            self._task = asyncio.create_task(self._open())
            # The error is raised where the client is needed.
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def __call__(self) -> Rowen:
        """Return Rowen as soon as it is open."""
        if self._task is not None and self._task.done() and self._task.exception():
            self._task = None
        self.begin()
        assert self._task is not None  # noqa: S101 (it was begun)
        return await asyncio.shield(self._task)

    async def close(self) -> None:
        """Close Rowen, or cancel its opening."""
        if self._task is None:
            return
        if not self._task.done():
            self._task.cancel()
        [rowen] = await asyncio.gather(self._task, return_exceptions=True)
        if not isinstance(rowen, BaseException):
            await rowen.close()

    async def _open(self) -> Rowen:
        # The imports take half a second; meanwhile the list of tools is sent to the client.
        try:
            service = await asyncio.to_thread(import_module, "rowen.operations")
        finally:
            gc.freeze()
            gc.enable()
        rowen: Rowen = service.Rowen(self._settings)
        await rowen.start()
        return rowen


def _then(begin: Callable[[], object]) -> ServerMiddleware[Any]:
    """Return middleware that calls `begin` after the first answer; both at once would double the client's wait."""

    async def answered(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        try:
            return await call_next(ctx)
        finally:
            # Another task writes the answer in the next iterations of the event loop.
            asyncio.get_running_loop().call_later(_ANSWER_IS_OUT_S, begin)

    return answered


async def serve(settings: Settings, *, allow_writes: bool, local_files: bool, profile: Profile) -> None:
    """Answer requests until the client closes its end.

    A signal ends the process at once, since nothing can interrupt the thread that reads standard input.
    """
    opening = Opening(settings)
    server = AssistantServer(opening, allow_writes=allow_writes, local_files=local_files, profile=profile)
    server.protocol.middleware.append(_then(opening.begin))
    answering = asyncio.create_task(_answer(server))
    try:
        await asyncio.shield(answering)
    except asyncio.CancelledError:
        await _close(server, opening)
        os._exit(_INTERRUPTED)
    finally:
        await _close(server, opening)


async def _answer(server: AssistantServer) -> None:
    async with stdio_server() as (read, write):
        await server.protocol.run(read, write, server.protocol.create_initialization_options())


async def _close(server: AssistantServer, opening: Opening) -> None:
    await server.close()
    await opening.close()
