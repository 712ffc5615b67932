"""An address that may be any site's is asked what it is: briefly, and the answer is the right kind or none."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from aiohttp import web

from rowen.connectors import registry
from rowen.connectors.options import Options
from rowen.connectors.probe import MOST_REQUESTS, Probe
from rowen.errors import AddressRefusedError, ConnectError, SourceError, UsageError
from rowen.net.client import Client
from rowen.operations import discovery
from rowen.operations.discovery import Discovery
from rowen.settings import load
from tests.conftest import ScratchDatabase
from tests.portals.arcgis import HubSite
from tests.portals.ckan import CkanPortal
from tests.portals.csw import CswService
from tests.portals.datajson import DataJsonSite
from tests.portals.dcat import DcatPortal
from tests.portals.feed import FeedSite
from tests.portals.ldes import LdesSite
from tests.portals.oai import OaiRepository
from tests.portals.opendatasoft import OpenDataSoftPortal
from tests.portals.sdmx import SdmxService
from tests.portals.site import Page, Site, hang
from tests.portals.socrata import SocrataPortal
from tests.portals.sparql import SparqlEndpoint
from tests.portals.stac import StacApi, StaticStac


@dataclass(frozen=True)
class Typed:
    """What a user types, what it is, and what it may cost to find out."""

    kind: str
    portal: Callable[[], Any]
    path: str
    requests: int

    def __str__(self) -> str:
        return f"{self.kind}{self.path}"


TYPED = [
    Typed("arcgis", HubSite, "", 2),
    Typed("ckan", CkanPortal, "", 3),
    Typed("ckan", CkanPortal, "/dataset/slug-of-a", 3),
    Typed("csw", CswService, "", 8),
    Typed("datajson", DataJsonSite, "", MOST_REQUESTS),
    Typed("dcat", DcatPortal, "/everything.ttl", 1),
    Typed("feed", FeedSite, "/news", 1),
    Typed("ldes", LdesSite, "/root", 1),
    Typed("oai", OaiRepository, "", 7),
    Typed("opendatasoft", OpenDataSoftPortal, "/pages/home/", 4),
    Typed("sdmx", SdmxService, "/rest", 5),
    Typed("sdmx", SdmxService, "/flows", 1),
    Typed("socrata", SocrataPortal, "", 5),
    Typed("sparql", SparqlEndpoint, "", 9),
    Typed("stac", StacApi, "/v1/", 1),
    Typed("stac", StaticStac, "/catalog.json", 1),
]


def fill(portal: Any) -> None:
    """Something to be found."""
    match portal:
        case StaticStac():
            portal.grow(3)
        case SdmxService():
            portal.fill(3)
            portal.pages["/flows"] = Page(portal.document())
        case SparqlEndpoint():
            portal.make("a")
        case DcatPortal():
            portal.path = "/everything"
            portal.make("a")
        case _:
            portal.fill(3)


@pytest.fixture(params=TYPED, ids=str)
def typed(request: pytest.FixtureRequest) -> Iterator[tuple[Typed, Any]]:
    with closing(request.param.portal()) as portal:
        fill(portal)
        yield request.param, portal


@pytest.fixture
def site() -> Iterator[Site]:
    with closing(Site()) as site:
        site.grow(3)
        yield site


def probing() -> list[str]:
    return [kind for kind in registry.kinds() if hasattr(registry.connector(kind), "probe")]


async def test_a_portal_is_found_to_be_its_kind_at_little_cost(
    database: ScratchDatabase, typed: tuple[Typed, Any]
) -> None:
    case, portal = typed
    discoveries: list[Discovery] = []
    async with database.open(probe=True) as r:
        source = await r.sources.add(f"{portal.url}{case.path}", found=discoveries.append)
        requests = len(portal.log)
        run = await r.sync(source.name)

    assert (source.kind, discoveries) == (case.kind, [Discovery(source.kind, source.url)])
    assert requests <= case.requests
    assert run.status == "completed"
    assert run.stats.created > 0


async def test_a_portal_is_no_other_kind(typed: tuple[Typed, Any]) -> None:
    case, portal = typed
    kinds = []
    for kind in probing():
        async with Client(load(allow_addresses="127.0.0.0/8", host_delay_s=0)) as client:
            probe = Probe(client, f"{portal.url}{case.path}")
            await probe.begin()
            try:
                url = await registry.connector(kind).probe(probe)  # type: ignore[attr-defined]
            except SourceError:
                url = None
            kinds += [kind] if url else []

    assert kinds == [case.kind]


def test_every_kind_with_a_probe_is_tried_here() -> None:
    assert {case.kind for case in TYPED} == set(probing())


async def test_a_plain_site_stays_one(database: ScratchDatabase, site: Site) -> None:
    discoveries: list[Discovery] = []
    async with database.open(probe=True) as r:
        source = await r.sources.add(f"{site.url}/", name="site", found=discoveries.append)
        requests = [request.path for request in site.log]
        again = await r.sync(f"{site.url}/")

    assert (source.kind, source.url, discoveries) == ("web", f"{site.url}/", [])
    assert requests[0] == "/"
    assert len(requests) <= MOST_REQUESTS
    assert len(requests) <= 1 + len(probing())
    assert (again.source, again.stats.created) == ("site", 3)


async def test_a_site_that_answers_everything_alike_stays_one(database: ScratchDatabase, site: Site) -> None:
    site.default = site.pages["/"]
    async with database.open(probe=True) as r:
        assert (await r.sources.add(site.url)).kind == "web"


NO_CATALOGS = [
    b"{}",
    b"[]",
    b'{"links": [], "collections": [], "conformsTo": []}',
    b'{"success": true, "result": []}',
    b'{"dataset": [1, 2]}',
    b'{"results": [], "total": 0}',
    b"<?xml version='1.0'?><opml version='2.0'><body/></opml>",
    b"<a><b/></a>",
]


async def test_data_that_is_no_catalog_is_none(database: ScratchDatabase, site: Site) -> None:
    async with database.open(probe=True) as r:
        for number, body in enumerate(NO_CATALOGS):
            site.default = site.pages["/"] = Page(body, headers={"Content-Type": "application/json"})
            source = await r.sources.add(site.url, name=f"source-{number}")

            assert source.kind == "web", body


async def test_who_names_a_kind_or_switches_it_off_is_not_second_guessed(database: ScratchDatabase) -> None:
    with closing(CkanPortal()) as portal:
        portal.make("a")
        async with database.open(probe=True) as r:
            named = await r.sources.add(portal.url, kind="web", name="named")
        async with database.open() as r:
            formal = await r.sources.add(portal.url, name="formal")

        assert (named.kind, formal.kind, portal.log) == ("web", "web", [])


async def test_stored_records_are_not_requested_again(database: ScratchDatabase) -> None:
    with closing(CkanPortal()) as portal:
        portal.make("a")
        async with database.open(probe=True) as r:
            await r.sync(f"{portal.url}/")
            portal.log.clear()
            again = await r.sync(f"{portal.url}/")
            with pytest.raises(UsageError, match="is kept already"):
                await r.sources.add(f"{portal.url}/")

        assert (again.kind, again.stats.requests, len(portal.log)) == ("ckan", 2, 2)


async def test_a_dry_run_looks_and_keeps_nothing(database: ScratchDatabase) -> None:
    with closing(CkanPortal()) as portal:
        portal.make("a")
        async with database.open(probe=True) as r:
            run = await r.sync(portal.url, dry_run=True)

            assert (run.kind, run.stats.created, await r.sources.list()) == ("ckan", 1, [])


async def test_a_site_that_is_down_is_not_added_and_says_why(database: ScratchDatabase, site: Site) -> None:
    site.down = True
    with closing(Site()) as closed:
        pass
    async with database.open(probe=True) as r:
        with pytest.raises(SourceError, match="answered with status 503") as down:
            await r.sources.add(site.url)
        with pytest.raises(ConnectError) as gone:
            await r.sources.add(closed.url)

        assert await r.sources.list() == []
    assert "--kind" in (down.value.hint or "")
    assert "--kind" in (gone.value.hint or "")


async def test_a_page_that_is_missing_is_left_to_the_crawl(database: ScratchDatabase, site: Site) -> None:
    async with database.open(probe=True) as r:
        assert (await r.sources.add(f"{site.url}/nothing/here")).kind == "web"


async def test_a_private_address_is_refused(database: ScratchDatabase, site: Site) -> None:
    async with database.open(probe=True, allow_addresses="") as r:
        with pytest.raises(AddressRefusedError):
            await r.sources.add(site.url)

        assert (await r.sources.list(), site.log) == ([], [])


async def test_a_site_is_not_waited_for_without_end(
    database: ScratchDatabase, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "LIMIT_S", 0.3)
    site.default = Page(handler=hang)
    async with database.open(probe=True) as r, asyncio.timeout(60):
        assert (await r.sources.add(site.url)).kind == "web"


class Almanac:
    """A kind of another package."""

    kind: ClassVar[str] = "almanac"
    Options: ClassVar[type[Options]] = Options

    @classmethod
    def recognise(cls, address: str) -> str | None:
        return address.removeprefix("almanac:") if address.startswith("almanac:") else None

    accept = recognise

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        if probe.page is None or b"ALMANAC" not in probe.page.body:
            raise SourceError("No almanac here.")
        return f"almanac:{probe.url}"


async def test_kinds_of_other_packages_are_probed_as_well_and_may_fail(
    database: ScratchDatabase, site: Site, kinds: Callable[[Any], None]
) -> None:
    kinds(Almanac)
    async with database.open(probe=True) as r:
        plain = await r.sources.add(site.url, name="plain")
        site.log.clear()
        site.pages["/"] = Page(b"ALMANAC 2024")
        almanac = await r.sources.add(site.url, name="almanac")

    assert (plain.kind, almanac.kind, len(site.log)) == ("web", "almanac", 1)


async def test_the_beginning_of_a_large_answer_is_enough(database: ScratchDatabase, site: Site) -> None:
    sent = 0

    async def large(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"conformsTo": "https://project-open-data.cio.gov/v1.1/schema", "dataset": [')
        for _ in range(1000):
            await response.write(b'{"title": "' + b"x" * 100_000 + b'"},')
            sent += 100_000
        return response

    site.pages["/"] = Page(handler=large)
    async with database.open(probe=True) as r:
        source = await r.sources.add(f"{site.url}/", name="large")

    assert source.kind == "datajson"
    assert sent < 50_000_000
