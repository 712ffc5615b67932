"""A small world to fetch from: servers on loopback, time that does not pass by itself, names that lead anywhere."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from rowen.net.client import Client
from rowen.settings import Settings

T = TypeVar("T")
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def run(work: Coroutine[Any, Any, T], *, limit_s: float = 60.0) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(work, limit_s)

    return asyncio.run(bounded())


def settings(**changes: Any) -> Settings:
    given = {"allow_addresses": "127.0.0.0/8", "host_delay_s": 0, "proxy": None, "no_proxy": ()} | changes
    return Settings(**given)


@dataclass
class FakeTime:
    at: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.at

    async def sleep(self, wait_s: float) -> None:
        self.slept.append(wait_s)
        self.at += wait_s
        await asyncio.sleep(0)


@dataclass
class Counts:
    requests: int = 0
    not_modified: int = 0
    bytes: int = 0


def client(time: FakeTime | None = None, /, *, meter: Counts | None = None, **changes: Any) -> Client:
    """A client for loopback; what is no setting is handed to the client itself."""
    own = {name: changes.pop(name) for name in ("resolver", "tls", "now", "breakers", "throttle") if name in changes}
    time = time or FakeTime()
    return Client(settings(**changes), meter=meter, clock=time.clock, sleep=time.sleep, **own)


@asynccontextmanager
async def serve(answer: Answer, *, host: str = "127.0.0.1", tls: Any = None) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, host, 0, ssl_context=tls).start()
    try:
        yield f"{'https' if tls else 'http'}://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serve_raw(talk: Talk) -> AsyncIterator[str]:
    """A server that says exactly what it is told to say, after each request's head."""
    talks: set[asyncio.Task[None]] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    await reader.readuntil(b"\r\n\r\n")
                    await talk(reader, writer)
                    await writer.drain()
        finally:
            writer.transport.abort()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks.add(asyncio.create_task(converse(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        await asyncio.sleep(0)


def saying(*lines: bytes, close: bool = False) -> Talk:
    """A talk that answers every request with the same bytes."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"".join(lines))
        if close:
            writer.write_eof()
            await reader.read()
            raise ConnectionResetError

    return talk


class Names(AbstractResolver):
    """A resolver that gives the answers it was told to give, the last one again and again."""

    def __init__(self, **addresses: list[list[str]]) -> None:
        self.addresses = {name.replace("_", "."): list(answers) for name, answers in addresses.items()}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        answers = self.addresses.get(host)
        if not answers:
            raise OSError(None, "no such name")
        now = answers.pop(0) if len(answers) > 1 else answers[0]
        return [self._result(host, port, address) for address in now]

    def _result(self, host: str, port: int, address: str) -> ResolveResult:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return ResolveResult(
            hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST
        )

    async def close(self) -> None:
        pass
