"""Over HTTP: a server that knows who asks mounts the door, and what may be done depends on them."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import uvicorn
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.routing import Route

from mcp import Client
from rowen import mcp as door
from rowen.mcp.addresses import item_uri
from rowen.model.access import Principal, Scope
from rowen.service import Rowen
from tests.mcp.conftest import HAY, small_library, text_of
from tests.mcp.test_watching import LONG_S, changed

PRINCIPALS = {"r": Principal("reader", Scope.READ), "w": Principal("writer", Scope.WRITE)}


class Host:
    """What a server does before the door: it finds out who asks, and turns others away."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        token = dict(scope.get("headers", ())).get(b"authorization", b"").decode().removeprefix("Bearer ")
        if scope["type"] == "http" and token not in PRINCIPALS:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body"})
            return
        scope.setdefault("state", {})["principal"] = PRINCIPALS.get(token)
        await self._app(scope, receive, send)


@asynccontextmanager
async def serving(rowen: Rowen, **how: Any) -> AsyncIterator[str]:
    """The door on loopback."""
    app = door.http_app(rowen, **how)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(Host(Starlette(routes=[Route("/mcp", app)])), log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        await app.close()
        server.should_exit = True
        await task
        listener.close()


@asynccontextmanager
async def connected(url: str, token: str, mode: str = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=LONG_S, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


async def test_who_may_read_searches_and_hears_of_changes_and_who_may_write_adds(library):
    uri = item_uri("https://example.org/hay")
    async with library() as rowen, serving(rowen, allow_writes=True) as url, asyncio.timeout(LONG_S):
        async with connected(url, "r") as reader:
            tools = {tool.name for tool in (await reader.list_tools()).tools}
            found = await reader.call_tool("search", {"query": "hay"})
            refused = await reader.call_tool("sync_source", {"name": "field"})
            async with reader.listen(resource_subscriptions=[uri]) as events:
                await changed(rowen, HAY.replace("three", "nine"))
                told = await anext(events)
        async with connected(url, "w", mode="legacy") as writer:
            written = {tool.name for tool in (await writer.list_tools()).tools}
            subscribes = writer.server_capabilities.resources.subscribe
            small_library()
            synced = await writer.call_tool("sync_source", {"name": "field"})
        async with httpx2.AsyncClient(trust_env=False) as stranger:
            turned_away = await stranger.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})

    assert "sync_source" not in tools
    assert "sync_source" in written
    assert "https://example.org/hay" in text_of(found)
    assert (refused.is_error, refused.structured_content["code"]) == (True, "refused")
    assert told.uri == uri
    assert not subscribes
    assert (synced.structured_content["status"], synced.structured_content["updated"]) == ("completed", 1)
    assert turned_away.status_code == 401


async def test_without_writes_nobody_writes_over_http(library):
    async with (
        library() as rowen,
        serving(rowen, allow_writes=False) as url,
        connected(url, "w") as writer,
        asyncio.timeout(LONG_S),
    ):
        tools = {tool.name for tool in (await writer.list_tools()).tools}
        refused = await writer.call_tool("remove_source", {"name": "field", "items": 3})
        held = await rowen.sources()

    assert "remove_source" not in tools
    assert refused.structured_content["code"] == "refused"
    assert len(held) == 1


async def test_the_server_has_a_page_for_models_that_find_it(library):
    async with library() as rowen:
        for number in range(60):
            await rowen.add(f"scripted:{number}", name=f"barn-{number:03}-{'x' * 60}")
        told = await door.llms_txt(rowen, base="https://rowen.example/base/")

    assert told.startswith("# Rowen\n\n> ")
    assert "<https://rowen.example/base/mcp>" in told
    assert "](<scripted:0>): scripted, 0 items, checked never" in told
    assert "more sources: call `list_sources`." in told
    assert len(told) < 7_000
