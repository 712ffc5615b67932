"""What it costs to tell others: `python -m bench.publishing [--changes 10000]`.

Makes so many small items, then prints the CPU of a page of 100 changes as Atom, JSON Feed and LDES beside that of
reading the same lines of the log and writing them as JSON, and how many webhooks a second a receiver gets.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web

import rowen
from rowen import Complete, Document, Fetched, Known, Observation, Options, Tools
from rowen.connectors import registry

TEXT = "Barley, oats and hay grow on this field, which is told of in some sentences. " * 20


class Fields:
    """A source of made-up items."""

    kind = "fields"
    Options = Options

    def __init__(self, url: str, options: Options, tools: Tools) -> None:
        self._count = int(url.partition(":")[2])

    @classmethod
    def recognise(cls, address: str) -> str | None:
        return address if address.startswith("fields:") else None

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        for number in range(self._count):
            yield Fetched(Document(f"https://example.org/{number}", f"Field {number}", f"{TEXT} {number}"))
        yield Complete()


async def _cpu_ms(made: Callable[[], Awaitable[Any]], *, times: int = 20) -> float:
    await made()
    began = time.process_time()
    for _ in range(times):
        await made()
    return (time.process_time() - began) / times * 1000


async def _receive(hits: list[int]) -> tuple[web.AppRunner, str]:
    async def take(request: web.Request) -> web.Response:
        await request.read()
        hits[0] += 1
        return web.Response()

    app = web.Application()
    app.router.add_post("/hook", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}/hook"


async def _plain(r: rowen.Rowen) -> str:
    return json.dumps([rowen.fact(change) for change in await r.changes(since=100, limit=100)], default=str)


async def main(count: int) -> None:
    registry.register(Fields)
    os.environ["BENCH_SECRET"] = "a secret for the benchmark"
    with tempfile.TemporaryDirectory() as home:
        async with rowen.open(home=Path(home), embedder="none", allow_addresses="127.0.0.0/8", workers=0) as r:
            await r.sync(f"fields:{count}")
            plain = await _cpu_ms(lambda: _plain(r))
            print(f"100 lines of the log as JSON          {plain:6.2f} ms CPU   1.0")
            for name, made in {
                "Atom": lambda: r.feeds.feed("atom"),
                "JSON Feed": lambda: r.feeds.feed("json"),
                "LDES page (whole texts)": lambda: r.feeds.event_stream("pages/1"),
            }.items():
                spent = await _cpu_ms(made)
                print(f"100 changes as {name:24}{spent:6.2f} ms CPU   {spent / plain:.1f}")
            hits = [0]
            runner, url = await _receive(hits)
            await r.webhooks.add("bench", url, secret="env:BENCH_SECRET", since=0)
            wall, cpu = time.perf_counter(), time.process_time()
            await r.webhooks.deliver("bench")
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            print(f"{hits[0]} webhooks: {hits[0] / wall:.0f} a second, {cpu / hits[0] * 1e3:.2f} ms CPU each, the")
            print("receiver's included, which runs in the same process")
            await runner.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=10_000)
    asyncio.run(main(parser.parse_args().changes))
