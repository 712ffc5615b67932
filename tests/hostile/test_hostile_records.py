"""A record in which any value is replaced by something hostile costs at most that record.

Each kind of portal lists a few records. In one of them each value in turn, whatever it is, becomes each of the hostile
ones. The build tries some of these, always the same; `make fuzz` tries others for as long as `ROWEN_FUZZ_SECONDS` says.
"""

import json
import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from rowen import Rowen, Run
from rowen.connectors.packages import Npm, PyPI
from tests.conftest import ScratchDatabase
from tests.hostile.twisting import MARK, VALUES, Twister, spoiled, twisted
from tests.logical import index_of
from tests.portals.arcgis import GeoPortal, HubSite
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal
from tests.portals.csw import CswService
from tests.portals.datajson import DataJsonSite
from tests.portals.dcat import DcatPortal
from tests.portals.feed import FeedSite
from tests.portals.github import Portal as GitHubPortal
from tests.portals.ldes import Event, LdesSite
from tests.portals.oai import OaiRepository
from tests.portals.opendatasoft import OpenDataSoftPortal
from tests.portals.packages import NpmRegistry, PythonIndex
from tests.portals.sdmx import SdmxService
from tests.portals.site import Page, Site
from tests.portals.socrata import SocrataPortal
from tests.portals.sparql import SparqlEndpoint
from tests.portals.stac import StacApi

SECONDS = float(os.environ.get("ROWEN_FUZZ_SECONDS", "0"))
SEED = int(os.environ.get("ROWEN_FUZZ_SEED", "0"))
TRIES = 6
"""So many are tried for each kind in the build: 19 kinds with four runs each are then done in less than a minute."""

NAMES = ("a0", "b1", f"m-{MARK}", "x3")


class Kind(NamedTuple):
    """How a portal of a kind is made and filled; `whole` tells that it is one document, which broken XML breaks.

    What a `window` no longer shows stays, under whatever name it had.
    """

    portal: Callable[[], Any]
    fill: Callable[[Any], None]
    whole: bool = False
    path: str = ""
    options: Callable[[Any], dict[str, Any]] = lambda _: {}
    window: bool = False


def _make(portal: Any) -> None:
    for name in NAMES:
        portal.make(name)


def _of(make: Callable[[], Any], **more: Any) -> Callable[[], Any]:
    def made() -> Any:
        portal = make()
        for name, value in more.items():
            setattr(portal, name, value)
        return portal

    return made


def _add_flows(service: SdmxService) -> None:
    for name in NAMES:
        service.add(name.upper() if MARK not in name else name)


def _add_records(site: DataJsonSite) -> None:
    for name in NAMES:
        site.add(f"http://portal.example/datasets/{name}")


def _put_collections(api: StacApi) -> None:
    for name in NAMES:
        api.put(name)


def _put_pages(site: Site) -> None:
    site.address = site.url  # type: ignore[attr-defined]
    site.put("/", "Home", "All pages.", links=("/a0",))
    for name in NAMES:
        site.put(f"/{name}", f"Page {name}", f"All about {name}.")
    entries = "".join(f"<url><loc>{site.url}/{name}</loc><lastmod>2024-01-01</lastmod></url>" for name in NAMES)
    site.pages["/sitemap.xml"] = Page(f"<urlset>{entries}</urlset>".encode(), validator="none")


class HostileGitHub(GitHubPortal):
    """A repository whose listings of issues and releases can be changed."""

    async def _answer_for(self, request: web.BaseRequest) -> web.StreamResponse:
        return await GitHubPortal._answer(self, request)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self._answer_for(request)


def _add_talk(portal: HostileGitHub) -> None:
    for number, name in enumerate(NAMES[:3], start=1):
        row = {"number": number, "title": f"Issue {name}", "body": f"All about {name}.", "user": {"login": "a"}}
        portal.repository.issues.append(
            {**row, "labels": [{"name": "hay"}], "state": "open", "created_at": "2024-01-01"}
        )
    portal.repository.releases.append({"tag_name": "v1", "name": "One", "body": "First.", "author": {"login": "a"}})


def _talking(portal: HostileGitHub) -> dict[str, Any]:
    return {"api_url": f"{portal.web}/api/v3", "issues": True, "releases": True, "delay_s": 0}


def _publish(site: LdesSite) -> None:
    site.leaves["/root"].events = [Event(name, number) for number, name in enumerate(NAMES)]


KINDS = {
    "ckan": Kind(CkanPortal, _make),
    "ckan in pages": Kind(_of(CkanPortal, page_max=2), _make),
    "socrata": Kind(SocrataPortal, _make),
    "opendatasoft": Kind(OpenDataSoftPortal, _make),
    "arcgis hub": Kind(HubSite, _make),
    "arcgis portal": Kind(GeoPortal, _make),
    "datajson": Kind(DataJsonSite, _add_records),
    "stac": Kind(StacApi, _put_collections),
    "sdmx json": Kind(_of(SdmxService, notation="json"), _add_flows, whole=True),
    "sdmx": Kind(SdmxService, _add_flows, whole=True),
    "csw": Kind(CswService, _make),
    "oai": Kind(OaiRepository, _make),
    "dcat turtle": Kind(_of(DcatPortal, syntax="ttl"), _make, whole=True),
    "dcat json-ld": Kind(_of(DcatPortal, syntax="jsonld"), _make, whole=True),
    "dcat rdf/xml": Kind(_of(DcatPortal, syntax="rdf"), _make, whole=True),
    "dcat n-triples": Kind(_of(DcatPortal, syntax="nt"), _make, whole=True),
    "sparql": Kind(SparqlEndpoint, _make),
    "feed": Kind(FeedSite, _make, whole=True, window=True),
    "feed atom": Kind(_of(FeedSite, format="atom"), _make, whole=True, window=True),
    "feed json": Kind(_of(FeedSite, format="json"), _make, window=True),
    "ldes turtle": Kind(LdesSite, _publish, whole=True, window=True),
    "ldes json-ld": Kind(_of(LdesSite, syntax="jsonld"), _publish, whole=True, window=True),
    "sitemap": Kind(Site, _put_pages, True, "/sitemap.xml", lambda _: {"robots": False}),
    "github": Kind(HostileGitHub, _add_talk, False, "/api/v3/repos/me/it/issues", _talking),
}


def others(database: ScratchDatabase) -> dict[str, Any]:
    """What is stored of the other records."""
    return {row[1]: row for row in index_of(database) if MARK not in str(row)}


def judge(run: Run, *, breaks: bool) -> None:
    """A hostile record may fail, and what it does to its listing may make a run partial; it never stops the others."""
    assert "connector of kind" not in (run.error or ""), run.error
    if breaks:
        return
    assert run.status in ("completed", "partial"), (run.status, run.error)
    assert run.stats.failed <= 1, run.stats
    assert run.stats.created + run.stats.updated + run.stats.amended + run.stats.unchanged >= len(NAMES) - 1, run.stats


def choices(twister: Twister, seed: int) -> list[tuple[str, int]]:
    """All pairs of a value and a place, in an order that the seed tells."""
    pairs = [(name, place) for name in VALUES for place in range(twister.places)]
    Random(seed).shuffle(pairs)
    return pairs


class Trial:
    """One portal, harvested once, which is made hostile and healed again and again."""

    def __init__(self, r: Rowen, database: ScratchDatabase, portal: Any, kind: Kind) -> None:
        self.twister = twisted(portal, kind.path)
        self._r = r
        self._scratch = database
        self._portal = portal
        self._whole = kind.whole
        self._window = kind.window
        self._options = kind.options(portal)

    async def begin(self) -> None:
        """Harvest it as it should be."""
        await self._r.sources.add(self._portal.address, name="portal", options=self._options)
        run = await self._r.sync("portal")
        assert run.status == "completed", run.error
        assert run.stats.created >= len(NAMES)
        self._kept, self._clean = others(self._scratch), index_of(self._scratch)
        assert len(self._kept) >= len(NAMES) - 1
        assert self.twister.places

    async def again(self) -> None:
        """Begin anew after something went wrong."""
        self.twister.value = None
        await self._r.sources.remove("portal")
        await self.begin()

    async def make(self, name: str, place: int) -> None:
        """Put a value to a place, harvest, heal, harvest."""
        self.twister.value, self.twister.place = VALUES[name], place
        judge(await self._r.sync("portal", full=True), breaks=self._whole or VALUES[name].breaks_xml)
        now = others(self._scratch)
        assert {url: now.get(url) for url in self._kept} == self._kept
        judge(await self._r.sync("portal"), breaks=True)
        self.twister.value = None
        await self._r.sync("portal")
        healed = await self._r.sync("portal", full=True, accept_deletions=True)
        assert healed.status == "completed", healed.error
        shown = {row[1] for row in self._clean}
        assert [row for row in index_of(self._scratch) if not self._window or row[1] in shown] == self._clean


UNSTORABLE = ("surrogate", "NUL", "NUL at the end", "no character")


@pytest.mark.parametrize("kind", [name for name in KINDS if KINDS[name].portal is not SdmxService])
async def test_a_name_that_cannot_be_stored_costs_at_most_its_record(database: ScratchDatabase, kind: str) -> None:
    with closing(KINDS[kind].portal()) as world:
        KINDS[kind].fill(world)
        async with database.open() as r:
            trial = Trial(r, database, world, KINDS[kind])
            await trial.begin()
            for name in UNSTORABLE:
                await trial.make(name, trial.twister.name_at)


async def test_json_ld_that_is_nested_too_deeply_does_not_end_the_process(database: ScratchDatabase) -> None:
    kind = KINDS["dcat json-ld"]
    with closing(kind.portal()) as world:
        kind.fill(world)
        async with database.open() as r:
            trial = Trial(r, database, world, kind)
            await trial.begin()
            await trial.make("5000 levels", trial.twister.name_at)


async def test_a_run_is_closed_whatever_a_portal_says_is_wrong(database: ScratchDatabase) -> None:
    with closing(CkanPortal()) as portal:
        portal.make("a")
        async with database.open() as r:
            await keep(r, portal)
            portal.body = json.dumps({"success": False, "error": {"message": "No\x00 such \ud800 thing"}}).encode()
            run = await r.sync("portal")
            portal.body = None
            again = await r.sync("portal")

    assert (run.status, again.status) == ("failed", "completed")
    assert "No such  thing" in (run.error or "")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_hostile_record_costs_at_most_itself(database: ScratchDatabase, kind: str) -> None:
    until = time.monotonic() + SECONDS / len(KINDS)
    problems: list[str] = []
    with closing(KINDS[kind].portal()) as world:
        KINDS[kind].fill(world)
        async with database.open() as r:
            trial = Trial(r, database, world, KINDS[kind])
            await trial.begin()
            for number, (name, place) in enumerate(choices(trial.twister, SEED)):
                if number >= TRIES and time.monotonic() > until:
                    break
                try:
                    await trial.make(name, place)
                except Exception as problem:  # noqa: BLE001 (whatever it is, it is told)
                    problems.append(f"{name!r} at place {place}: {type(problem).__name__}: {str(problem)[:600]}")
                    await trial.again()

    assert not problems, f"{kind}, seed {SEED}:\n" + "\n".join(problems)


class Registry(NamedTuple):
    """A registry of packages, and how one is published there."""

    make: Callable[[], Any]
    kind: Any
    publish: Callable[[Any], None]


def _to_pypi(index: PythonIndex) -> None:
    told = {"summary": f"About {MARK}.", "keywords": "hay,clover", "license": "MIT", "author": "A. Reaper"}
    index.publish("hay", "1.0", description=f"# {MARK}", home_page=f"{index.url}/none", **told)


def _to_npm(registry: NpmRegistry) -> None:
    registry.publish("hay", "1.0.0", files={"README.md": f"# {MARK}"}, description=f"About {MARK}.", keywords=["hay"])


REGISTRIES = {"pypi": Registry(PythonIndex, PyPI, _to_pypi), "npm": Registry(NpmRegistry, Npm, _to_npm)}


@pytest.mark.parametrize("name", REGISTRIES)
async def test_hostile_metadata_of_a_package_stops_nothing(
    database: ScratchDatabase, name: str, kinds: Callable[[Any], None]
) -> None:
    make, kind, publish = REGISTRIES[name]
    kinds(kind)
    with closing(make()) as world:
        publish(world)
        pages = dict(world.pages)
        async with database.open() as r:
            await r.sources.add(f"{name}:hay", name="package", options={"registry": world.url, "robots": False})
            assert (await r.sync("package")).status == "completed"
            clean = index_of(database)
            chance = Random(SEED)
            for _ in range(max(2 * TRIES, int(SECONDS / 2))):
                value, place = chance.choice(list(VALUES)), chance.randrange(1000)
                for path, page in pages.items():
                    if page.headers.get("Content-Type") == "application/json":
                        world.pages[path] = replace(page, body=spoiled(page.body, VALUES[value], place))
                run = await r.sync("package")
                world.pages.update(pages)
                healed = await r.sync("package", accept_deletions=True)

                said = f"{value!r} at place {place}, seed {SEED}: {run.error}"
                assert "connector of kind" not in (run.error or ""), said
                assert healed.status == "completed", said
                assert index_of(database) == clean, said
