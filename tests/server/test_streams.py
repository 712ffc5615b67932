"""Streams of events: how many one caller and the server may have open, and when they end."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from rowen import Rowen
from rowen.model.access import Credential
from rowen.server import streams
from tests.conftest import ScratchDatabase
from tests.server.test_serving import served

LIMIT_S = 30.0
# A proxy is named, so that nobody is taken for who sits at this machine.
BEHIND_A_PROXY = {"port": 0, "proxies": "10.0.0.0/8"}
PATHS = ["/live", "/api/v1/changes/events"]
LISTEN = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "subscriptions/listen",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
        "notifications": {"resourcesListChanged": True},
    },
}
LISTEN_HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "subscriptions/listen",
}


class Reader:
    """One caller that opens streams."""

    def __init__(self, http: httpx.AsyncClient, stack: AsyncExitStack, headers: dict[str, str]) -> None:
        self.http, self.stack, self.headers = http, stack, headers

    async def open(self, path: str = "/live") -> httpx.Response:
        """Open a stream, and wait until it has begun."""
        how: dict[str, Any] = {"headers": self.headers}
        method = "GET"
        if path == "/mcp":
            method, how = "POST", {"headers": {**self.headers, **LISTEN_HEADERS}, "json": LISTEN}
        answer = await self.stack.enter_async_context(self.http.stream(method, path, **how))
        if answer.status_code != 200:
            await answer.aread()
        return answer

    async def opens(self, path: str = "/live") -> httpx.Response:
        """Open a stream as soon as one more is allowed."""
        async with asyncio.timeout(LIMIT_S):
            while (answer := await self.open(path)).status_code != 200:
                pass
        return answer


@asynccontextmanager
async def reading(rowen: Rowen, http: httpx.AsyncClient, *names: str) -> AsyncIterator[list[Reader]]:
    """Callers with tokens of these names; with none, the caller at this machine."""
    async with AsyncExitStack() as stack:
        readers = []
        for name in names or [""]:
            secret = (await rowen.access.add_token(name)).secret if name else None
            readers.append(Reader(http, stack, {"Authorization": f"Bearer {secret}"} if secret else {}))
        yield readers


async def rest(answer: httpx.Response) -> bytes:
    """All that comes until the stream ends."""
    async with asyncio.timeout(LIMIT_S):
        return b"".join([piece async for piece in answer.aiter_raw()])


@pytest.mark.parametrize("path", [*PATHS, "/mcp"])
async def test_the_streams_of_a_caller_are_limited_and_others_still_get_theirs(
    database: ScratchDatabase, path: str
) -> None:
    async with (
        database.open(**BEHIND_A_PROXY, streams_per_caller=2) as rowen,
        served(rowen) as (http, _),
        reading(rowen, http, "ann", "bob") as (ann, bob),
    ):
        begun = [(await ann.open(path)).status_code, (await ann.open("/live")).status_code]
        refused = await ann.open(path)
        other = await bob.open(path)
        question = await http.get("/api/v1/sources", headers=ann.headers)

    assert begun == [200, 200]
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
    assert refused.headers["retry-after"] == "5"
    assert "2 streams of this caller are open" in refused.json()["detail"]
    assert (other.status_code, question.status_code) == (200, 200)


async def test_the_server_has_so_many_streams_of_all_callers_together(database: ScratchDatabase) -> None:
    async with (
        database.open(**BEHIND_A_PROXY, streams_at_once=2) as rowen,
        served(rowen) as (http, _),
        reading(rowen, http, "ann", "bob") as (ann, bob),
    ):
        begun = [(await ann.open()).status_code, (await bob.open()).status_code]
        refused = await bob.open()

    assert begun == [200, 200]
    assert (refused.status_code, refused.json()["code"]) == (503, "overloaded")
    assert refused.headers["retry-after"] == "5"


async def test_callers_without_a_token_are_counted_by_their_address(database: ScratchDatabase) -> None:
    async with (
        database.open(**BEHIND_A_PROXY, streams_per_caller=1, public_read=True) as rowen,
        served(rowen) as (http, _),
        reading(rowen, http) as (anybody,),
    ):
        statuses = [(await anybody.open()).status_code for _ in range(2)]

    assert statuses == [200, 429]


@pytest.mark.parametrize("path", [*PATHS, "/mcp"])
@pytest.mark.parametrize("leaves", ["by closing", "by aborting"])
async def test_a_caller_that_left_a_stream_may_open_another(database: ScratchDatabase, path: str, leaves: str) -> None:
    async with (
        database.open(**BEHIND_A_PROXY, streams_per_caller=1) as rowen,
        served(rowen) as (http, _),
        reading(rowen, http, "ann") as (ann,),
    ):
        first = await ann.open(path)
        if leaves == "by aborting":
            # A reset instead of an orderly end.
            connection = first.extensions["network_stream"].get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await first.aclose()
        again = await ann.opens(path)

    assert (first.status_code, again.status_code) == (200, 200)


@pytest.mark.parametrize("path", [*PATHS, "/mcp"])
async def test_a_stream_ends_when_its_token_is_revoked(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(streams, "_CHECK_S", 0.01)
    async with (
        database.open(**BEHIND_A_PROXY, streams_per_caller=1) as rowen,
        served(rowen) as (http, _),
        reading(rowen, http, "ann", "bob") as (ann, bob),
    ):
        ended, kept = await ann.open(path), await bob.open(path)
        await rowen.access.revoke_token("ann")
        await rest(ended)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(rest(kept), 0.1)

    assert [line.message for line in caplog.records if line.levelname == "ERROR"] == []


async def test_a_stream_ends_when_its_token_or_its_session_expires(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_CHECK_S", 0.01)
    async with (
        database.open(**BEHIND_A_PROXY) as rowen,
        served(rowen) as (http, _),
        reading(rowen, http, "ann", "bob") as (ann, bob),
    ):
        session = await rowen.access.open_session(bob.headers["Authorization"].removeprefix("Bearer "))
        assert session is not None
        bob.headers = {"Cookie": f"rowen_session={session.secret}"}
        by_token, by_session = await ann.open(), await bob.open()
        database.execute("update access_token set expires_at = now() where name = 'ann'")
        await rest(by_token)
        await rowen.access.close_session(session.secret)
        await rest(by_session)

    assert (by_token.status_code, by_session.status_code) == (200, 200)


async def test_all_streams_of_a_server_cost_one_check_of_their_tokens(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    monkeypatch.setattr(streams, "_CHECK_S", 0.2)
    async with (
        database.open(**BEHIND_A_PROXY) as rowen,
        served(rowen) as (http, _),
        reading(rowen, http, *[f"reader-{number}" for number in range(10)]) as readers,
    ):
        opened = [await reader.open() for reader in readers]
        statements.clear()
        await rowen.access.revoke_token("reader-0")
        await rest(opened[0])
        checks = [one for one in statements if "any(%(digests)b)" in one]

    assert 1 <= len(checks) <= 2


async def test_the_head_of_a_stream_is_answered_and_not_followed_by_anything(database: ScratchDatabase) -> None:
    async with database.open(port=0, streams_per_caller=1) as rowen, served(rowen) as (http, _):
        answers = [await asyncio.wait_for(http.head("/live"), LIMIT_S) for _ in range(3)]

    assert {answer.status_code for answer in answers} == {200}
    assert answers[0].headers["content-type"].startswith("text/event-stream")


async def test_a_signed_token_holds_until_the_moment_that_its_provider_named(database: ScratchDatabase) -> None:
    noon = datetime(2026, 6, 1, 12, tzinfo=UTC)
    over, valid = Credential(expires_at=noon), Credential(expires_at=noon + timedelta(seconds=2))
    async with database.open() as rowen:
        made = await rowen.access.add_token("ann")
        principal = await rowen.access.identify(made.secret)
        assert principal is not None
        assert principal.credential is not None
        held = await rowen.access.valid_credentials(
            {over, valid, principal.credential, Credential(b"unknown")}, now=noon + timedelta(seconds=1)
        )

    assert held == {valid, principal.credential}
