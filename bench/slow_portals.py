"""Many slow CKAN portals in one process, each at an address of its own, and a log of when each request came."""

import asyncio
import json
import multiprocessing
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

__all__ = ["SlowPortals", "host", "slow_portals"]

# Of Linux, which Python has no names for: notes of the kernel with what is received, made by software.
_SO_TIMESTAMPING = 37
_NOTE_ARRIVALS = 1 << 3 | 1 << 4
_TIMESPEC = struct.Struct("qq")
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


class _Answering:
    """One connection. It is read by hand: what the kernel notes of a packet is given with it, and to nobody else."""

    def __init__(self, connection: socket.socket, records: int, answer_s: float, log: list[float]) -> None:
        self._connection, self._records, self._answer_s, self._log = connection, records, answer_s, log
        self._unread = b""
        connection.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connection, self._read)

    def _read(self) -> None:
        try:
            data, notes, _, _ = self._connection.recvmsg(1 << 16, 1 << 10)
        except OSError:
            data, notes = b"", []
        if not data:
            self._loop.remove_reader(self._connection)
            self._connection.close()
            return
        *requests, self._unread = (self._unread + data).split(b"\r\n\r\n")
        for request in requests:
            self._log.append(_arrival(notes))
            query = parse_qs(urlsplit(request.split(b" ", 2)[1].decode()).query)
            self._loop.call_later(self._answer_s, self._answer, query)

    def _answer(self, query: dict[str, list[str]]) -> None:
        start, rows = (int(query.get(name, ["0"])[0]) for name in ("start", "rows"))
        end = min(start + rows, self._records) if "fq" not in query else 0
        found = [_record(number) for number in range(start, end)]
        body = json.dumps({"success": True, "result": {"count": self._records, "results": found}}).encode()
        with suppress(OSError):
            self._connection.send(_HEAD % len(body) + body)


def _arrival(notes: list[tuple[int, int, bytes]]) -> float:
    """When the kernel got a packet: a server that is starved of its processor looks at its clock too late."""
    for _, kind, note in notes:
        if kind == _SO_TIMESTAMPING:
            seconds, nanoseconds = _TIMESPEC.unpack_from(note)
            return float(seconds) + float(nanoseconds) / 1e9
    raise ValueError("the kernel notes no arrivals")


def _serve(pipe: Connection, records: int, answer_s: float) -> None:
    log: list[float] = []

    def told() -> None:
        pipe.recv()
        pipe.send(sorted(log))
        log.clear()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = socket.create_server(("0.0.0.0", 0), backlog=1024)
        server.setblocking(False)
        server.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, _NOTE_ARRIVALS)
        loop.add_reader(pipe.fileno(), told)
        pipe.send(server.getsockname()[1])
        while True:
            connection, _ = await loop.sock_accept(server)
            _Answering(connection, records, answer_s, log)

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
