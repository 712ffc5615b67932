"""The door over HTTP: an application for a server that has already found out who asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from rowen.mcp.server import AssistantServer, Profile

if TYPE_CHECKING:
    from rowen.service import Rowen

__all__ = ["McpApp"]


class McpApp:
    """An ASGI application for one route, such as `/mcp`; `close()` ends it.

    It begins with its first request, so that a host need not know how. Requests stand by themselves: any of several
    processes may answer the next one. Who asks is read from `request.state.principal`; names of hosts and origins are
    the host's to check.
    """

    def __init__(self, rowen: Rowen, *, allow_writes: bool, profile: Profile = "rowen") -> None:
        self._rowen = rowen
        self._server = AssistantServer(self._opened, allow_writes=allow_writes, profile=profile, sessions=False)
        self._manager = StreamableHTTPSessionManager(
            self._server.protocol,
            stateless=True,
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
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
        await self._ready.wait()
        await self._manager.asgi_app(scope, receive, send)

    async def close(self) -> None:
        """End all streams, and what was begun."""
        self._ending.set()
        await self._server.close()
        if self._begun is not None:
            await asyncio.gather(self._begun, return_exceptions=True)

    async def _run(self) -> None:
        """Keep the group of tasks open that requests run in; it has to be opened and closed by one task."""
        async with self._manager.run():
            self._ready.set()
            await self._ending.wait()

    async def _opened(self) -> Rowen:
        return self._rowen
