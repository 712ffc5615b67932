"""Over HTTP: the server knows who asks, and what may be done depends on them."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from rowen.interfaces.mcp.addresses import item_uri
from tests.mcp.conftest import HAY, small_library, text_of
from tests.mcp.test_watching import LONG_S, changed
from tests.server.interfaces import interface
from tests.server.test_serving import served

# A proxy is named, so that nobody is taken for who sits at this machine.
BEHIND_A_PROXY = {"port": 0, "proxies": "10.0.0.0/8"}


@asynccontextmanager
async def connected(url: str, token: str | None, mode: str = "auto") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=LONG_S, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


async def test_who_may_read_searches_and_hears_of_changes_and_who_may_write_syncs(library):
    uri = item_uri("https://example.org/hay")
    async with library(**BEHIND_A_PROXY, mcp_writes=True) as rowen, served(rowen) as (http, stop):
        url = f"{http.base_url}/mcp"
        tokens = {scope: (await rowen.access.add_token(scope, scope=scope)).secret for scope in ("read", "write")}
        async with asyncio.timeout(LONG_S), connected(url, tokens["write"], mode="legacy") as writer:
            written = {tool.name for tool in (await writer.list_tools()).tools}
            subscribes = writer.server_capabilities.resources.subscribe
            small_library(HAY.replace("three", "two"))
            synced = await writer.call_tool("sync_source", {"name": "field"})
        async with asyncio.timeout(LONG_S), connected(url, tokens["read"]) as reader:
            tools = {tool.name for tool in (await reader.list_tools()).tools}
            found = await reader.call_tool("search", {"query": "hay"})
            refused = await reader.call_tool("sync_source", {"name": "field"})
            async with reader.listen(resource_subscriptions=[uri]) as events:
                await changed(rowen, HAY.replace("three", "nine"))
                told = await anext(events)
                # A server that stops waits for its readers: they are told to go.
                stop()
                rest = [event async for event in events]
        audit = [(line.principal, line.path, line.status) for line in await rowen.access.audit_log()]

    assert "sync_source" not in tools
    assert "sync_source" in written
    assert "https://example.org/hay" in text_of(found)
    assert (refused.is_error, refused.structured_content["code"]) == (True, "refused")
    assert (told.uri, rest) == (uri, [])
    assert not subscribes
    assert (synced.structured_content["status"], synced.structured_content["updated"]) == ("completed", 1)
    assert audit == [("token:read", "/mcp/sync_source", 403), ("token:write", "/mcp/sync_source", 200)]


async def test_nobody_asks_without_a_token_and_nobody_writes_where_that_was_not_allowed(library):
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with library(**BEHIND_A_PROXY) as rowen, served(rowen) as (http, _):
        secret = (await rowen.access.add_token("writer", scope="write")).secret
        turned_away = await http.post("/mcp", json=asked)
        foreign = await http.post(
            "/mcp", json=asked, headers={"Authorization": f"Bearer {secret}", "Host": "evil.example"}
        )
        async with asyncio.timeout(LONG_S), connected(f"{http.base_url}/mcp", secret) as writer:
            tools = {tool.name for tool in (await writer.list_tools()).tools}
            refused = await writer.call_tool("remove_source", {"name": "field", "items": 3})
        held = await rowen.sources.list()

    assert (turned_away.status_code, foreign.status_code) == (401, 403)
    assert "remove_source" not in tools
    assert refused.structured_content["code"] == "refused"
    assert len(held) == 1


async def test_the_server_has_a_page_for_models_that_find_it(database):
    async with interface(database, public_url="https://rowen.example/base", hosts="127.0.0.1") as here:
        database.execute(
            "insert into source (name, kind, url) select format('barn-%s', n), 'web',"
            " format('https://example.org/%s/%s', repeat('x', 60), n) from generate_series(100, 180) n"
        )
        told = await here.http.get("/base/llms.txt")

    assert told.status_code == 200
    assert told.text.startswith("# Rowen\n\n> ")
    assert "<https://rowen.example/base/mcp>" in told.text
    assert "- [barn-100](<https://example.org/xxx" in told.text
    assert "more sources: call `list_sources`." in told.text
    assert len(told.text) < 7_000


async def test_every_address_of_ours_in_llms_txt_answers(library):
    async with library(port=0) as rowen, served(rowen) as (http, _):
        page = (await http.get("/llms.txt")).text
        named = [url for url in re.findall(r"<([^>]+)>", page) if url.startswith(str(http.base_url))]
        answered = {}
        async with asyncio.timeout(LONG_S):
            for url in named:
                if url.endswith("/mcp"):
                    async with connected(url, None) as client:
                        answered[url] = 200 if (await client.list_tools()).tools else 0
                else:
                    answered[url] = (await http.get(url)).status_code

    assert answered == dict.fromkeys(named, 200)
    assert len(named) == 3


async def test_a_stream_on_which_nothing_would_ever_be_sent_is_not_begun(library):
    async with library(port=0) as rowen, served(rowen) as (http, _):
        for method in ("GET", "DELETE"):
            async with http.stream(method, "/mcp", headers={"Accept": "text/event-stream"}) as answer:
                assert answer.status_code == 405
                assert answer.headers["allow"] == "POST"


async def test_llms_txt_names_no_protocol_that_the_server_does_not_speak(library, monkeypatch):
    monkeypatch.setattr("rowen.server.app.find_spec", lambda _: None)
    async with library(port=0) as rowen, served(rowen) as (http, _):
        page = (await http.get("/llms.txt")).text
        absent = await http.get("/mcp")

    assert "/mcp" not in page
    assert absent.status_code == 404
