"""Clients that keep connections of the server busy: slow headers and bodies, answers that nobody reads, too many."""

import asyncio
import json
import re
import resource
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from typing import Any

import httpx
import pytest

from rowen.server import connections, layers
from rowen.server.connections import raise_file_limit
from tests.conftest import ScratchDatabase
from tests.server.test_serving import environment, served

LIMIT_S = 60.0
HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
STREAM = b"GET /api/v1/changes/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Client:
    """One connection, and what came back on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def line(self) -> bytes:
        return await asyncio.wait_for(self.reader.readline(), LIMIT_S)

    async def rest(self) -> bytes:
        """All that comes until the server closes the connection."""
        received = b""
        async with asyncio.timeout(LIMIT_S):
            with suppress(ConnectionError):
                while piece := await self.reader.read(65536):
                    received += piece
        return received


@asynccontextmanager
async def server(database: ScratchDatabase, **settings: Any) -> AsyncIterator["Server"]:
    """The whole server in this process."""
    async with database.open(port=0, **settings) as rowen, served(rowen) as (http, _):
        clients = Server(str(http.base_url.host), http.base_url.port or 0)
        try:
            yield clients
        finally:
            for writer in clients.writers:
                writer.transport.abort()


class Server:
    """A server to connect to."""

    def __init__(self, host: str, port: int) -> None:
        self.address = host, port
        self.writers: list[asyncio.StreamWriter] = []

    async def client(self, *sent: bytes, **how: Any) -> Client:
        client = Client(*await asyncio.open_connection(*self.address, **how))
        self.writers.append(client.writer)
        for data in sent:
            client.writer.write(data)
        return client

    async def answers(self) -> bytes:
        """The status line of a new request."""
        client = await self.client(HEAD, b"Connection: close\r\n\r\n")
        return (await client.rest()).partition(b"\r\n")[0]


@contextmanager
def serving_process(database: ScratchDatabase, files: tuple[int, int], **settings: str) -> Iterator[tuple[str, int]]:
    """`rowen serve` in a process that may open so many files; gives its address and number."""
    command = [sys.executable, "-m", "rowen", "serve", "--port", "0", "--no-worker"]
    env = environment(database) | {f"ROWEN_{name.upper()}": value for name, value in settings.items()}

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, files)

    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True, preexec_fn=limited) as serving:
        try:
            lines = (re.search(r"Serving on (http://\S+)", line) for line in serving.stderr or ())
            yield next(found[1] for found in lines if found), serving.pid
        finally:
            serving.kill()


@pytest.mark.parametrize("files", [(1024, 1024), (256, 2048)])
def test_headers_that_never_end_do_not_keep_others_out(database: ScratchDatabase, files: tuple[int, int]) -> None:
    assert raise_file_limit() > 1200
    with serving_process(database, files) as (url, _), ExitStack() as opened:
        host, port = httpx.URL(url).host, httpx.URL(url).port or 0
        for _ in range(1100):
            client = opened.enter_context(closing(socket.create_connection((host, port), LIMIT_S)))
            client.sendall(HEAD)
        answers = [httpx.get(f"{url}/healthz", timeout=LIMIT_S).status_code for _ in range(20)]

    assert answers == [200] * 20


def test_a_server_may_open_as_many_files_as_the_system_allows(database: ScratchDatabase) -> None:
    with serving_process(database, (256, 2048)) as (_, pid):
        limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)

    assert limit == (2048, 2048)


async def test_headers_have_to_arrive_in_time_however_they_trickle_in(database: ScratchDatabase) -> None:
    async with server(database, header_limit_s=1) as it:
        silent, begun, trickling = await it.client(), await it.client(HEAD), await it.client(HEAD)

        async def trickle() -> None:
            while True:
                trickling.writer.write(b"X-More: 1\r\n")
                await asyncio.sleep(0.05)

        sending = asyncio.create_task(trickle())
        nothing, answer = await silent.rest(), await begun.rest()
        # What is still under way when the connection is closed may reset it, and the answer is lost with it.
        await trickling.rest()
        sending.cancel()
    head, _, body = answer.partition(b"\r\n\r\n")

    assert nothing == b""
    assert head.startswith(b"HTTP/1.1 408 Request Timeout")
    assert b"connection: close" in head.lower()
    assert json.loads(body)["code"] == "usage"


async def test_the_headers_of_a_second_request_have_to_arrive_in_time_too(database: ScratchDatabase) -> None:
    async with server(database, header_limit_s=1) as it:
        client = await it.client(HEAD + b"\r\n" + HEAD)
        answer = await client.rest()

    assert answer.count(b"HTTP/1.1 ") == 2
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408" in answer


@pytest.mark.parametrize("path", ["/api/v1/poke", "/login"])
async def test_a_body_has_to_arrive_in_time(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(layers, "BODY_S", 0.5)
    async with server(database) as it:
        client = await it.client(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nx".encode())
        status = await client.line()

    assert status.startswith(b"HTTP/1.1 408")


async def test_a_body_that_nobody_wants_keeps_no_connection(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BODY_S", 0.5)
    monkeypatch.setattr(connections, "_BODY_GRACE_S", 0.5)
    # The answer comes before the body, which then trickles in.
    async with server(database) as it:
        client = await it.client(HEAD + b"Content-Length: 1000\r\n\r\n")

        async def trickle() -> None:
            while True:
                client.writer.write(b"x")
                await asyncio.sleep(0.05)

        sending = asyncio.create_task(trickle())
        answer = await client.rest()
        sending.cancel()

    assert answer.startswith(b"HTTP/1.1 200")


async def test_an_answer_that_nobody_reads_keeps_no_connection(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_UNREAD_S", 0.5)
    ask = b"GET /api/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    lost = asyncio.Event()
    losing = connections.HttpConnection.connection_lost

    def noticed(self: connections.HttpConnection, problem: Exception | None) -> None:
        losing(self, problem)
        lost.set()

    monkeypatch.setattr(connections.HttpConnection, "connection_lost", noticed)
    async with server(database) as it:
        with closing(socket.socket()) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await asyncio.to_thread(client.connect, it.address)
            client.sendall(ask * 20)
            await asyncio.wait_for(lost.wait(), LIMIT_S)

    assert lost.is_set()


async def test_where_an_address_has_too_many_connections_the_slowest_makes_room(database: ScratchDatabase) -> None:
    async with server(database, connections_per_address=2) as it:
        first, second = await it.client(HEAD), await it.client(HEAD)
        status = await it.answers()
        gone = await first.rest()
        second.writer.write(b"\r\n")
        answered = await second.line()

    assert (status, gone) == (b"HTTP/1.1 200 OK", b"")
    assert answered.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("settings", "status", "code"),
    [
        ({"connections_per_address": 2}, b"HTTP/1.1 429 Too Many Requests", "too_many_requests"),
        ({"connections_at_once": 2}, b"HTTP/1.1 503 Service Unavailable", "overloaded"),
    ],
)
async def test_a_connection_is_refused_where_all_others_are_being_answered(
    database: ScratchDatabase, settings: dict[str, int], status: bytes, code: str
) -> None:
    async with server(database, **settings) as it:
        streams = [await it.client(STREAM) for _ in range(2)]
        for stream in streams:
            assert (await stream.line()).startswith(b"HTTP/1.1 200")
        refused = await (await it.client()).rest()
        streams[0].writer.transport.abort()
        async with asyncio.timeout(LIMIT_S):
            while await it.answers() != b"HTTP/1.1 200 OK":
                pass

    head, _, body = refused.partition(b"\r\n\r\n")
    assert head.startswith(status)
    assert b"\r\nretry-after: 5" in head.lower()
    assert json.loads(body)["code"] == code


async def test_those_who_come_through_a_proxy_are_not_taken_for_one(database: ScratchDatabase) -> None:
    async with server(database, connections_per_address=1, proxies="127.0.0.1/32") as it:
        clients = [await it.client(HEAD) for _ in range(3)]
        for client in clients:
            client.writer.write(b"\r\n")
        statuses = [await client.line() for client in clients]

    assert statuses == [b"HTTP/1.1 200 OK\r\n"] * 3


@pytest.mark.parametrize(
    "head",
    [
        b"POST /api/v1/poke HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"POST /api/v1/poke HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"POST /api/v1/poke HTTP/1.0\r\nTransfer-Encoding: chunked\r\n",
        b"POST /api/v1/poke HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
    ],
)
async def test_a_request_whose_end_is_ambiguous_is_refused_with_all_that_follows(
    database: ScratchDatabase, head: bytes
) -> None:
    async with server(database) as it:
        client = await it.client(head + b"Host: 127.0.0.1\r\n\r\n0\r\n\r\n" + HEAD + b"\r\n")
        answer = await client.rest()

    assert answer.startswith(b"HTTP/1.1 400 Bad Request")
    assert answer.count(b"HTTP/1.1 ") == 1


async def test_a_broken_body_after_the_answer_has_begun_only_ends_the_connection(
    database: ScratchDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    async with server(database) as it:
        client = await it.client(STREAM.removesuffix(b"\r\n") + b"Transfer-Encoding: chunked\r\n\r\n")
        status = await client.line()
        client.writer.write(b"nonsense\r\n")
        await client.rest()

    assert status.startswith(b"HTTP/1.1 200")
    assert [line for line in caplog.records if line.levelname in ("ERROR", "CRITICAL")] == []
