"""Many slow CKAN portals in one process, each at an address of its own, and a log of when each request came."""

import asyncio
import json
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

__all__ = ["SlowPortals", "host", "slow_portals"]

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def host(number: int) -> str:
    """The loopback address of a portal."""
    return f"127.0.{1 + number // 250}.{1 + number % 250}"


def _record(number: int) -> dict[str, object]:
    return {
        "id": f"{number:06}",
        "name": f"name-{number}",
        "title": f"Dataset {number}",
        "notes": f"All about {number}.",
        "metadata_modified": "2024-01-01T00:00:00.000000",
        "resources": [],
    }


class _Answering(asyncio.Protocol):
    def __init__(self, records: int, answer_s: float, log: list[float]) -> None:
        self._records, self._answer_s, self._log = records, answer_s, log
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *requests, self._unread = (self._unread + data).split(b"\r\n\r\n")
        for request in requests:
            self._log.append(time.monotonic())
            query = parse_qs(urlsplit(request.split(b" ", 2)[1].decode()).query)
            asyncio.get_running_loop().call_later(self._answer_s, self._answer, query)

    def _answer(self, query: dict[str, list[str]]) -> None:
        start, rows = (int(query.get(name, ["0"])[0]) for name in ("start", "rows"))
        end = min(start + rows, self._records) if "fq" not in query else 0
        found = [_record(number) for number in range(start, end)]
        body = json.dumps({"success": True, "result": {"count": self._records, "results": found}}).encode()
        if not self._transport.is_closing():
            self._transport.writelines([_HEAD % len(body), body])


def _serve(pipe: Connection, records: int, answer_s: float) -> None:
    log: list[float] = []

    def told() -> None:
        pipe.recv()
        pipe.send(log[:])
        log.clear()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Answering(records, answer_s, log), "0.0.0.0", 0, backlog=1024)
        loop.add_reader(pipe.fileno(), told)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


class SlowPortals(NamedTuple):
    """Running portals."""

    port: int
    pipe: Connection

    def address(self, number: int) -> str:
        """How a portal is added."""
        return f"ckan:http://{host(number)}:{self.port}"

    def log(self) -> list[float]:
        """When requests came since the last time of asking."""
        self.pipe.send(True)
        return list(self.pipe.recv())


@contextmanager
def slow_portals(records: int, answer_s: float) -> Iterator[SlowPortals]:
    """Serve portals of so many records, each answer after a while."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, records, answer_s), daemon=True)
    process.start()
    theirs.close()
    try:
        yield SlowPortals(ours.recv(), ours)
    finally:
        process.terminate()
        process.join(10)
