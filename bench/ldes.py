"""What an event stream costs: `python -m bench.ldes [--members 50000] [--pages 200] [--order ascending]`.

A stream is served by a process of its own. It is read by the connector alone: its members as a client hands them on,
and with items made of them, nothing stored. Then it is harvested into a database: whole, again unchanged, and with a
member more.
"""

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from aiohttp import web
from pyoxigraph import RdfFormat, parse

import rowen
from rowen.connectors.base import Meter, StoredState, Tools
from rowen.connectors.ldes import Ldes, LdesOptions, walk
from rowen.connectors.ldes.members import StreamMember
from rowen.connectors.ldes.walk import Decision, Versions
from rowen.harvest.parse_pool import Workers
from rowen.harvest.run import seldom_collecting
from rowen.model.items import Checkpoint, Fetched
from rowen.net.client import Client
from rowen.settings import Settings

PREFIXES = """@prefix ldes: <https://w3id.org/ldes#> .
@prefix tree: <https://w3id.org/tree#> .
@prefix prov: <http://www.w3.org/ns/prov#> .
@prefix dct: <http://purl.org/dc/terms/> .
@prefix foaf: <http://xmlns.com/foaf/0.1/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""


def moment(number: int) -> str:
    """Every member a second later than the one before it."""
    return (datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=number)).isoformat()


def member(base: str, number: int) -> str:
    """A publication of ten quads and 700 bytes, as in the stream that the peer client was measured with."""
    name = f"{number:08x}-7600-4577-b24e-c7c29e0eb773"
    return (
        f"<{base}/v/{number}> a foaf:Document ;\n"
        f"  dct:isVersionOf <http://data.lblod.example/id/publications/{name}> ;\n"
        f'  dct:title "Besluitenlijst van de gemeenteraad, zitting {number} van het jaar 2024"@nl ;\n'
        f"  prov:atLocation <https://raadpleeg-town.example/zittingen/{name}/besluitenlijst?page=1> ;\n"
        f"  dct:type <https://data.vlaanderen.example/id/concept/BesluitDocumentType/{number % 4}fa67785-ffdc-4b30> ;\n"
        f'  prov:generatedAtTime "{moment(number)}"^^xsd:dateTime ;\n'
        f"  dct:publisher <http://data.lblod.example/id/bestuurseenheden/{number % 300:08x}-b9f5-4d2f-8a1c> ;\n"
        f'  dct:relation [ dct:identifier "urn:publicatie:{name}" ] .\n'
    )


def page(base: str, number: int, pages: int, size: int, extra: int) -> str:
    begin = number * size
    members = range(begin, begin + size + (extra if number == pages - 1 else 0))
    lines = [PREFIXES, f"<{base}/ldes> tree:member {', '.join(f'<{base}/v/{n}>' for n in members)} ."]
    if number < pages - 1:
        lines.append(f"<{base}/p/{number}> ldes:immutable true .")
    lines += [member(base, n) for n in members]
    return "\n".join(lines)


def serve(pages: int, size: int) -> None:
    """The stream, in a process of its own; it prints its port."""
    extra = 0
    kept: dict[tuple[int, int], bytes] = {}

    async def answer(request: web.Request) -> web.Response:
        nonlocal extra
        base = f"http://127.0.0.1:{request.url.port}"
        if request.path == "/more":
            extra += 1
            return web.Response()
        if request.path == "/root":
            lines = [
                PREFIXES,
                f"<{base}/ldes> a ldes:EventStream ; tree:view <{base}/root> .",
                f"<{base}/ldes> ldes:timestampPath prov:generatedAtTime ; ldes:versionOfPath dct:isVersionOf .",
            ]
            lines += [
                f"<{base}/root> tree:relation [ a tree:GreaterThanOrEqualToRelation ; tree:path prov:generatedAtTime ;"
                f' tree:value "{moment(number * size)}"^^xsd:dateTime ; tree:node <{base}/p/{number}> ] .'
                for number in range(pages)
            ]
            body, tag = "\n".join(lines).encode(), '"root"'
        else:
            number = int(request.path.rpartition("/")[2])
            key = number, extra if number == pages - 1 else 0
            if key not in kept:
                kept[key] = page(base, number, pages, size, extra).encode()
            body, tag = kept[key], f'"{key}"'
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers={"ETag": tag})
        return web.Response(body=body, headers={"ETag": tag, "Content-Type": "text/turtle"})

    async def run() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())


class Nothing:
    """What is known of a stream that was never read."""

    mode = "full"
    cursor: Any = None
    count = 0
    failed: Sequence[Any] = ()
    losable = 0

    async def look_up(self, urls: Sequence[str]) -> Mapping[str, StoredState]:
        return {}

    async def recall(self, room: str, names: Sequence[str]) -> Mapping[str, Any]:
        return {}

    async def recall_all(self, room: str) -> AsyncIterator[Mapping[str, Any]]:
        for nothing in ():
            yield nothing


def cpu_s() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def parse_alone(pages: int, size: int) -> None:
    """What the parser takes for the same pages, every quad dropped: what all figures can be divided by."""
    spent, quads = 0.0, 0
    for number in range(pages):
        body = page("http://127.0.0.1:1", number, pages, size, 0).encode()
        began = cpu_s()
        quads += sum(1 for _ in parse(body, RdfFormat.TURTLE, lenient=True))
        spent += cpu_s() - began
    print(f"the parser alone: {quads:,} quads: {spent:.2f} s CPU")


class Counting(Versions):
    """Takes members as they were read, as a client hands them on, and makes no items of them."""

    async def decide(self, members: Sequence[StreamMember]) -> Decision:
        """All of them are counted."""
        return Decision([], {}, len(members), None)


async def read_alone(url: str, settings: Settings, order: str, *, in_workers: bool, items: bool = True) -> None:
    """The connector by itself: its observations are counted and dropped."""
    meter = Meter()
    vars(walk)["Versions"] = Versions if items else Counting

    @asynccontextmanager
    async def client() -> AsyncIterator[Client]:
        async with Client(settings, meter=meter) as opened:
            yield opened

    workers = Workers(1 if in_workers else 0)
    began, spent = time.monotonic(), cpu_s()
    tools = Tools(read=None, meter=meter, client=client, parse=workers.call, settings=settings)  # type: ignore[arg-type]
    made = checkpoints = members = 0
    with seldom_collecting():
        async for seen in Ldes(url, LdesOptions(order=order), tools).pull(Nothing()):  # type: ignore[arg-type]
            made += isinstance(seen, Fetched)
            if isinstance(seen, Checkpoint):
                checkpoints, members = checkpoints + 1, seen.cursor["members"]
    await workers.close()
    where = "one worker" if in_workers else "no worker"
    cost = f"{cpu_s() - spent:.2f} s CPU, {time.monotonic() - began:.2f} s, {peak_mb():.0f} MB"
    print(
        f"connector, {where}: {members:,} members, {made:,} items, {meter.requests} requests, "
        f"{meter.bytes / 1e6:.1f} MB, {checkpoints} checkpoints: {cost}"
    )


async def harvest(url: str, settings: Settings, order: str) -> None:
    async with rowen.open(settings) as r:
        await r.sources.add(f"ldes:{url}", name="stream", options={"order": order})
        for what in ("first", "unchanged", "a member more"):
            if what == "a member more":
                async with Client(settings) as client:
                    await client.get(url.replace("/root", "/more"))
            began, spent = time.monotonic(), cpu_s()
            run = await r.sync("stream")
            stats = run.stats
            print(
                f"stored, {what}: {run.status}, {stats.created:,} created, {stats.requests} requests "
                f"({stats.not_modified} not modified), {stats.bytes / 1e6:.1f} MB, {stats.rows_written:,} rows: "
                f"{cpu_s() - spent:.2f} s CPU of this process, {time.monotonic() - began:.2f} s, {peak_mb():.0f} MB"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=50_000)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--order", choices=["fast", "ascending", "descending"], default="fast")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--alone", action="store_true", help="without a database")
    asked = parser.parse_args()
    size = asked.members // asked.pages
    if asked.serve:
        return serve(asked.pages, size)
    command = [
        sys.executable,
        "-m",
        "bench.ldes",
        "--serve",
        "--members",
        str(asked.members),
        "--pages",
        str(asked.pages),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, tempfile.TemporaryDirectory() as home:
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/root"
            loopback = (ip_network("127.0.0.0/8"),)
            settings = Settings(home=Path(home), host_delay_s=0, allow_addresses=loopback, proxy=None, embedder="none")
            print(f"{os.cpu_count()} processors, order {asked.order}")
            parse_alone(asked.pages, size)
            for in_workers in (False, True):
                asyncio.run(read_alone(url, settings, asked.order, in_workers=in_workers, items=False))
                asyncio.run(read_alone(url, settings, asked.order, in_workers=in_workers))
            if not asked.alone:
                asyncio.run(harvest(url, settings, asked.order))
        finally:
            server.terminate()
    return None


if __name__ == "__main__":
    main()
