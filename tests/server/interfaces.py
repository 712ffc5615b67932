"""All interfaces over HTTP on a database of the test's own, asked in this process without a socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from rowen import Rowen
from rowen.server.app import Interfaces, assemble
from tests.conftest import ScratchDatabase

HERE = "http://127.0.0.1:8400"


@dataclass
class Interface:
    """Rowen, and a client that asks it over HTTP."""

    rowen: Rowen
    http: httpx.AsyncClient
    interfaces: Interfaces

    async def token(self, scope: str, name: str | None = None) -> dict[str, str]:
        """The headers of who has a new token of this scope."""
        made = await self.rowen.access.add_token(name or scope, scope=scope)
        return {"Authorization": f"Bearer {made.secret}"}


@asynccontextmanager
async def interface(
    database: ScratchDatabase,
    *,
    trusts_loopback: bool = True,
    client: str = "127.0.0.1",
    base: str = HERE,
    **settings: Any,
) -> AsyncIterator[Interface]:
    """The interfaces of a database; what its client sends comes from this address."""
    async with database.open(**settings) as rowen:
        interfaces = assemble(rowen, trusts_loopback=trusts_loopback)
        transport = httpx.ASGITransport(interfaces.asgi, client=(client, 5000), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=base) as http:
            yield Interface(rowen, http, interfaces)
