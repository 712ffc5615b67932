"""What an unchanged record costs, kind by kind: `python -m bench.kinds [--records 1000] [KIND ...]`.

A portal of each kind is walked whole by its connector, twice; nothing has changed in between. The second walk is
divided by what it takes to parse the same bytes (JSON by `json`, XML by `ElementTree`, RDF by its parser) and to hash
them by SHA-256. Only the CPU of our own thread counts: the portal has another.
"""

import argparse
import asyncio
import hashlib
import json
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any
from xml.etree import ElementTree as ET

from pyoxigraph import RdfFormat, parse

from rowen.connectors import registry
from rowen.connectors.base import Meter, StoredState, Tools
from rowen.harvest.run import seldom_collecting
from rowen.model.items import Fetched, Unchanged
from rowen.net.client import Client
from rowen.net.sessions import Exchange
from rowen.settings import Settings
from tests.portals.arcgis import GeoPortal, HubSite
from tests.portals.ckan import CkanPortal
from tests.portals.csw import CswService
from tests.portals.dcat import DcatPortal
from tests.portals.oai import OaiRepository
from tests.portals.opendatasoft import OpenDataSoftPortal
from tests.portals.socrata import SocrataPortal
from tests.portals.sparql import SparqlEndpoint

MOST_TIMES_PARSED = 3.0

Parser = Callable[[bytes], object]


def _turtle(body: bytes) -> int:
    return sum(1 for _ in parse(body, RdfFormat.TURTLE, base_iri="http://127.0.0.1/", lenient=True))


# Records of tests are small, and what each costs whatever its size would stand for all: with these they have some kB.
_WORDS = [f"{beginning}{ending}" for beginning in ("hay", "clover", "meadow", "barn") for ending in range(20)]
_JSON = {"extras": [{"key": word, "value": f"{word} and what else grows there"} for word in _WORDS]}
_RDF = {"dcat_keyword": _WORDS}

PORTALS: dict[str, tuple[Callable[[], Any], Parser, dict[str, Any]]] = {
    "arcgis, a hub": (HubSite, json.loads, _JSON),
    "arcgis, a portal": (GeoPortal, json.loads, _JSON),
    "ckan": (CkanPortal, json.loads, _JSON),
    "csw": (CswService, ET.fromstring, {}),
    "dcat": (DcatPortal, _turtle, _RDF),
    "oai": (OaiRepository, ET.fromstring, {"subject": _WORDS}),
    "opendatasoft": (OpenDataSoftPortal, json.loads, _JSON),
    "socrata": (SocrataPortal, json.loads, _JSON),
    "sparql": (SparqlEndpoint, json.loads, _RDF),
}


class Keeping:
    """What is known of a portal that was walked once, or never."""

    mode = "full"
    cursor: Any = None
    failed: Sequence[Any] = ()

    def __init__(self, held: Mapping[str, StoredState]) -> None:
        self._held = held
        self.count = self.losable = len(held)

    async def look_up(self, urls: Sequence[str]) -> Mapping[str, StoredState]:
        return {url: self._held[url] for url in urls if url in self._held}

    async def everything(self) -> AsyncIterator[Sequence[StoredState]]:
        yield list(self._held.values())

    async def recall(self, room: str, names: Sequence[str]) -> Mapping[str, Any]:
        return {}

    async def recall_all(self, room: str) -> AsyncIterator[Mapping[str, Any]]:
        for nothing in ():
            yield nothing


class Tap:
    """Keeps the bodies that come in."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._pieces = Exchange.pieces

    def open(self) -> None:
        pieces, bodies = self._pieces, self.bodies

        async def kept(exchange: Exchange, limit_bytes: int) -> AsyncGenerator[bytes, None]:
            body = bytearray()
            async for piece in pieces(exchange, limit_bytes):
                body += piece
                yield piece
            bodies.append(bytes(body))

        Exchange.pieces = kept  # type: ignore[method-assign]

    def close(self) -> None:
        Exchange.pieces = self._pieces  # type: ignore[method-assign]


async def walk(address: str, known: Keeping) -> tuple[dict[str, StoredState], int, float]:
    """What a walk fetched, how much it found unchanged, and the CPU of this thread."""
    settings = Settings(host_delay_s=0, allow_addresses=(ip_network("127.0.0.0/8"),), proxy=None)
    meter = Meter()

    @asynccontextmanager
    async def client() -> AsyncIterator[Client]:
        async with Client(settings, meter=meter) as opened:
            yield opened

    kind, url = registry.recognise(address)
    now = datetime(2030, 1, 1, tzinfo=UTC)
    tools = Tools(read=None, meter=meter, client=client, settings=settings, now=lambda: now)  # type: ignore[arg-type]
    connector = registry.connector(kind)(url, registry.check_options(kind, {}), tools)
    fetched: dict[str, StoredState] = {}
    unchanged = 0
    begun = time.thread_time()
    with seldom_collecting():
        async for seen in connector.pull(known):  # type: ignore[arg-type]
            if isinstance(seen, Fetched):
                document: Any = seen.item
                said = document.validators
                fetched[document.url] = StoredState(document.url, said.etag, said.last_modified, said.body_hash, (), 0)
            unchanged += isinstance(seen, Unchanged)
    return fetched, unchanged, time.thread_time() - begun


def parsing_s(bodies: Sequence[bytes], parser: Parser) -> float:
    """What it takes to read and hash all bodies: the least of some rounds."""
    found = []
    for _ in range(3):
        begun = time.thread_time()
        for body in bodies:
            parser(body)
            hashlib.sha256(body).digest()
        found.append(time.thread_time() - begun)
    return min(found)


async def measure(name: str, records: int) -> None:
    make, parser, more = PORTALS[name]
    with closing(make()) as portal:
        for number in range(records):
            portal.make(f"d{number:05}", tick_h=0.001, **more)
        held, _, first_s = await walk(portal.address, Keeping({}))
        tap = Tap()
        tap.open()
        try:
            _, unchanged, _ = await walk(portal.address, Keeping(held))
        finally:
            tap.close()
        walked_s = min([(await walk(portal.address, Keeping(held)))[2] for _ in range(3)])
    parsed_s = parsing_s([body for body in tap.bodies if body], parser)
    size = sum(map(len, tap.bodies))
    miss = "" if walked_s <= MOST_TIMES_PARSED * parsed_s else "  more than wanted"
    print(
        f"{name:18}{len(held):7,}{unchanged:11,}{size / max(1, len(held)):9,.0f}"
        f"{first_s / max(1, len(held)) * 1e6:10.0f}{walked_s / max(1, len(held)) * 1e6:11.0f}"
        f"{parsed_s / max(1, len(held)) * 1e6:9.0f}{walked_s / parsed_s:8.2f}{miss}",
        flush=True,
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("kinds", nargs="*", choices=[*PORTALS, []], default=[])
    arguments.add_argument("--records", type=int, default=1_000)
    chosen = arguments.parse_args()
    print(f"load {' '.join(f'{load:.2f}' for load in os.getloadavg())}; times in µs a record, at most", end=" ")
    print(f"{MOST_TIMES_PARSED:g} times parsing and hashing wanted\n")
    print(f"{'':18}{'records':>7}{'unchanged':>11}{'bytes':>9}{'first':>10}{'unchanged':>11}{'parsing':>9}{'ratio':>8}")
    for name in chosen.kinds or PORTALS:
        asyncio.run(measure(name, chosen.records))


if __name__ == "__main__":
    main()
