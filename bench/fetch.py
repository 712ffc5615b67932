"""What the client costs over the bare library: 304s on loopback, in CPU time and by the clock."""

import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from ipaddress import ip_network
from multiprocessing.connection import Connection

import aiohttp

from rowen.net.client import Client
from rowen.settings import Settings

REQUESTS, CONCURRENCY, ROUNDS = 6000, 16, 5
ETAG = '"5f3a-60c1"'
ANSWER = (
    b'HTTP/1.1 304 Not Modified\r\nETag: "5f3a-60c1"\r\nServer: bench\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n'
)


class Unmodified(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(ANSWER * data.count(b"\r\n\r\n"))


def serve(pipe: Connection) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Unmodified, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


async def drive(ask: Callable[[str], Awaitable[None]], base: str) -> tuple[float, float]:
    urls = iter([f"{base}/docs/page-{number}.html" for number in range(REQUESTS)])

    async def worker() -> None:
        for url in urls:
            await ask(url)

    cpu_s, wall_s = time.process_time(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    return time.process_time() - cpu_s, time.perf_counter() - wall_s


async def compare(base: str) -> None:
    near = (ip_network("127.0.0.0/8"),)
    settings = Settings(allow_addresses=near, host_delay_s=0, host_concurrency=CONCURRENCY, proxy=None)
    async with Client(settings) as client, aiohttp.ClientSession() as session:

        async def ours(url: str) -> None:
            assert (await client.get(url, etag=ETAG)).not_modified

        async def bare(url: str) -> None:
            async with session.get(url, headers={"If-None-Match": ETAG}) as answer:
                assert (answer.status, await answer.read()) == (304, b"")

        rounds = [(await drive(bare, base), await drive(ours, base)) for _ in range(ROUNDS)]
    (bare_cpu, bare_wall), (our_cpu, our_wall) = (tuple(map(min, *(one[i] for one in rounds))) for i in (0, 1))
    for name, cpu_s, wall_s in (("aiohttp", bare_cpu, bare_wall), ("rowen", our_cpu, our_wall)):
        print(f"{name:8} {cpu_s * 1000 / REQUESTS:.4f} CPU-ms a 304, {REQUESTS / wall_s:,.0f} a second")
    print(f"ratio    {our_cpu / bare_cpu:.2f} CPU, {our_wall / bare_wall:.2f} wall")


def main() -> None:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    asyncio.run(compare(f"http://127.0.0.1:{ours.recv()}"))
    server.kill()


if __name__ == "__main__":
    main()
