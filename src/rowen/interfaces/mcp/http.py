"""The interface over HTTP: an application for a server that has already authenticated the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from rowen.interfaces.mcp.server import AssistantServer, Profile
    from rowen.operations import Rowen


class McpApp:
    """An ASGI application for one route, such as `/mcp`; `end_streams()` and `close()` end it.

    It starts at its first request, since its imports take half a second that a server without assistants can save.
    Requests are independent of each other: any of several processes may answer the next request. The caller is
    `request.state.principal`; the server checks host names and origins.
    """

    def __init__(self, rowen: Rowen, *, allow_writes: bool, profile: Profile = "rowen") -> None:
        self._rowen = rowen
        self._allow_writes, self._profile = allow_writes, profile
        self._server: AssistantServer | None = None
        self._manager: StreamableHTTPSessionManager | None = None
        self._begun: asyncio.Task[None] | None = None
        self._ready, self._ending = asyncio.Event(), asyncio.Event()

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Answer one request."""
        if self._begun is None:
            self._begun = asyncio.create_task(self._run())
        ready = asyncio.ensure_future(self._ready.wait())
        await asyncio.wait({ready, self._begun}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._manager is None:
            self._begun.result()
            raise RuntimeError("The interface for assistants is closed.")
        await self._manager.asgi_app(scope, receive, send)

    def end_streams(self) -> None:
        """End the streams of changes; otherwise a stopping server would wait for their clients."""
        if self._server is not None:
            self._server.watch.end_streams()

    async def close(self) -> None:
        """End all streams and all work in progress."""
        self._ending.set()
        if self._server is not None:
            await self._server.close()
        if self._begun is not None:
            await asyncio.gather(self._begun, return_exceptions=True)

    async def _run(self) -> None:
        """Keep the task group of the requests open; the same task must open and close it."""
        module = await asyncio.to_thread(import_module, "rowen.interfaces.mcp.server")
        from mcp.server import streamable_http_manager, transport_security

        server: AssistantServer = module.AssistantServer(
            self._opened, allow_writes=self._allow_writes, profile=self._profile, sessions=False
        )
        self._server = server
        manager = streamable_http_manager.StreamableHTTPSessionManager(
            server.protocol,
            stateless=True,
            security_settings=transport_security.TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        async with manager.run():
            self._manager = manager
            self._ready.set()
            await self._ending.wait()
            self._manager = None

    async def _opened(self) -> Rowen:
        return self._rowen
