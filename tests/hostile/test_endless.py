"""Listings and repositories without end are left; what was read is kept, and the message says how to go on."""

import itertools
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import web

from rowen.connectors.catalog import state
from tests.conftest import ScratchDatabase
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal
from tests.portals.datajson import DataJsonSite
from tests.portals.github import Portal as GitHubPortal
from tests.portals.oai import HEAD
from tests.portals.site import Page, Site

MOST = 60


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a test can reach."""
    monkeypatch.setattr(state, "MOST_UNDECLARED", MOST)
    monkeypatch.setattr(state, "MOST_RECORDS", 4 * MOST)
    monkeypatch.setattr(state, "LEAST_GROWN", MOST)


class Endless(Site):
    """Answers every question with another page of new records, and the way to the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count()
        self.answers: Callable[[web.Request, list[int]], tuple[str, str]]
        self.rows = 10
        self.most_pages = 200

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        numbers = list(itertools.islice(self.numbers, self.rows))
        if numbers[0] > self.rows * self.most_pages:
            return web.Response(status=500, text="That should have been enough.")
        kind, text = self.answers(request, numbers)
        return web.Response(text=text, content_type=kind)


def _oai(request: web.Request, numbers: list[int]) -> tuple[str, str]:
    body = HEAD.decode()
    match request.query["verb"]:
        case "Identify":
            body += "<Identify><deletedRecord>no</deletedRecord></Identify>"
        case "ListMetadataFormats":
            body += "<ListMetadataFormats/>"
        case verb:
            records = "".join(
                f"<record><header><identifier>oai:a:{n}</identifier><datestamp>2024-01-01</datestamp></header><metadata>"
                f'<dc xmlns="http://purl.org/dc/elements/1.1/"><title>Paper {n}</title></dc></metadata></record>'
                for n in numbers
            )
            body += f"<{verb}>{records}<resumptionToken>t{numbers[-1]}</resumptionToken></{verb}>"
    return "text/xml", body + "</OAI-PMH>"


def _stac(request: web.Request, numbers: list[int]) -> tuple[str, str]:
    root = f"http://{request.host}/v1"
    if not request.path.endswith("/collections"):
        links = f'[{{"rel": "data", "href": "{root}/collections"}}]'
        return "application/json", f'{{"type": "Catalog", "stac_version": "1.0.0", "id": "a", "links": {links}}}'
    found = ", ".join(f'{{"type": "Collection", "stac_version": "1.0.0", "id": "c{n}"}}' for n in numbers)
    links = f'[{{"rel": "next", "href": "{root}/collections?token={numbers[-1]}"}}]'
    return "application/json", f'{{"collections": [{found}], "links": {links}}}'


def _dcat(request: web.Request, numbers: list[int]) -> tuple[str, str]:
    names = "@prefix dcat: <http://www.w3.org/ns/dcat#> . @prefix dct: <http://purl.org/dc/terms/> .\n"
    names += "@prefix hydra: <http://www.w3.org/ns/hydra/core#> .\n"
    found = "".join(f'<https://a.example/{n}> a dcat:Dataset ; dct:title "Set {n}" .\n' for n in numbers)
    following = f"<http://{request.host}/c?page={numbers[-1]}>"
    return "text/turtle", f"{names}{found}<> a hydra:PartialCollectionView ; hydra:next {following} .\n"


def _socrata(request: web.Request, numbers: list[int]) -> tuple[str, str]:
    found = ", ".join(f'{{"resource": {{"id": "{n:09}", "name": "Asset {n}"}}}}' for n in numbers)
    return "application/json", f'{{"results": [{found}], "resultSetSize": {10**15}}}'


def _opendatasoft(request: web.Request, numbers: list[int]) -> tuple[str, str]:
    found = ", ".join(f'{{"dataset_id": "d{n}", "metas": {{"default": {{"title": "Set {n}"}}}}}}' for n in numbers)
    return "application/json", f'{{"results": [{found}], "total_count": {10**15}}}'


ENDLESS = {
    "oai": (_oai, "oai:{}/oai"),
    "stac": (_stac, "stac:{}/v1/"),
    "dcat": (_dcat, "dcat:{}/c"),
    "socrata": (_socrata, "socrata:{}"),
    "opendatasoft": (_opendatasoft, "opendatasoft:{}"),
}


@pytest.fixture
def endless() -> Iterator[Endless]:
    with closing(Endless()) as site:
        yield site


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", ENDLESS)
async def test_a_listing_with_ever_new_records_is_left_and_the_next_run_does_not_go_on(
    database: ScratchDatabase, endless: Endless, kind: str
) -> None:
    endless.answers, address = ENDLESS[kind]
    async with database.open() as r:
        await r.sources.add(address.format(endless.url), name="portal")
        runs = [await r.sync("portal") for _ in range(2)]

    for run in runs:
        assert (run.status, run.complete, run.stats.deleted) == ("partial", False, 0), run.error
        assert "does not end" in (run.error or ""), run.error
        assert "max_records" in (run.error or "")
        assert run.stats.created <= 4 * MOST + 2 * endless.rows


async def test_the_option_says_how_much_is_believed(database: ScratchDatabase, endless: Endless) -> None:
    endless.answers = _stac
    async with database.open() as r:
        await r.sources.add(f"stac:{endless.url}/v1/", name="portal", options={"max_records": 35})
        run = await r.sync("portal")

    assert (run.status, run.stats.created) == ("partial", 40)
    assert "more than 35" in (run.error or "")


@pytest.mark.usefixtures("small")
async def test_a_portal_that_invents_its_count_as_well_is_left(database: ScratchDatabase) -> None:
    with closing(CkanPortal()) as portal:
        portal.fill(5)
        portal.page_max, portal.endless, portal.miscount = 20, True, 10**15
        async with database.open() as r:
            run = await keep(r, portal)
            again = await r.sync("portal")

    assert (run.status, again.status) == ("partial", "partial")
    assert "max_records" in (run.error or "")
    assert run.stats.created <= 4 * MOST + 20


@pytest.mark.usefixtures("small")
async def test_a_catalog_may_grow_but_not_beyond_reason(database: ScratchDatabase) -> None:
    with closing(DataJsonSite()) as site:
        site.fill(10)
        async with database.open() as r:
            await r.sources.add(site.address, name="portal")
            first = await r.sync("portal")
            site.records.clear()
            site.fill(50)
            grown = await r.sync("portal")
            site.records.clear()
            site.fill(600)
            beyond = await r.sync("portal")

    assert [run.status for run in (first, grown, beyond)] == ["completed", "completed", "partial"]
    assert "max_records" in (beyond.error or "")


async def test_sitemaps_that_name_ever_new_sitemaps_are_left(database: ScratchDatabase) -> None:
    with closing(Site()) as site:
        numbers = itertools.count()

        async def index(request: web.Request) -> web.Response:
            entries = "".join(f"<sitemap><loc>{site.url}/s{next(numbers)}.xml</loc></sitemap>" for _ in range(20))
            return web.Response(text=f"<sitemapindex>{entries}</sitemapindex>", content_type="application/xml")

        site.put("/", "Home", "A page.")
        site.default = Page(handler=index)
        async with database.open() as r:
            await r.sources.add(site.url, name="site", options={"robots": False, "llms": False})
            run = await r.sync("site")

    assert (run.status, run.stats.created) == ("completed", 1)
    assert run.stats.requests < 60


async def test_pages_of_issues_and_discussions_end(database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowen.connectors.github.pages.MOST_PAGES", 5)
    with closing(GitHubPortal()) as portal:
        portal.repository.put("README.md", b"# Hay")
        numbers = itertools.count(1)

        def issues() -> web.Response:
            row = {"number": next(numbers), "title": "Wet hay", "body": "It rained."}
            following = {"Link": f'<{portal.api}/issues?page=9>; rel="next"'}
            return web.json_response([row], headers=following)

        portal.said["/api/v3/repos/me/it/issues"] = issues
        async with database.open() as r:
            options = {"api_url": f"{portal.web}/api/v3", "issues": True, "delay_s": 0}
            await r.sources.add(portal.address, name="it", options=options)
            run = await r.sync("it")

    assert run.status == "partial"
    assert database.query("select count(*) from item where url like '%%/issues/%%'") == [(5,)]
    assert "more than 5 pages" in (run.error or "")


def repository(folder: Path, files: dict[str, bytes]) -> Path:
    """A bare repository with these files."""
    work = folder / "work"
    work.mkdir()
    git = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C", str(work))
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    for name, body in files.items():
        (work / name).write_bytes(body)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "all"], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(folder / "it.git")], check=True)
    return folder / "it.git"


@pytest.mark.parametrize("cached", [False, True])
async def test_a_repository_that_would_fill_the_disk_is_left_and_swept_up(
    database: ScratchDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    temporary, cache = tmp_path / "tmp", tmp_path / "cache"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    noise = Random(0).randbytes(3_000_000)
    bare = repository(tmp_path, {"README.md": b"# Hay", "noise.txt": noise})
    options: dict[str, Any] = {"max_mirror_bytes": 1_000_000, **({"cache": str(cache)} if cached else {})}
    async with database.open() as r:
        await r.sources.add(f"git+file://{bare}", name="it", options=options)
        run = await r.sync("it")
        await r.sources.edit("it", options={**options, "max_mirror_bytes": 100_000_000})
        again = await r.sync("it")

    assert run.status in ("failed", "partial")
    assert "max_mirror_bytes" in (run.error or ""), run.error
    assert again.status == "completed", again.error
    assert not list(temporary.iterdir())
    assert not list(cache.rglob("tmp_*"))


async def test_a_tree_that_names_itself_time_and_again_is_left(
    database: ScratchDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.git.program.MOST_PRINTED_BYTES", 1_000_000)
    bare = repository(tmp_path, {"a.md": b"# Hay"})
    git = ("git", "-C", str(bare))
    blob = subprocess.run([*git, "rev-parse", "main:a.md"], check=True, capture_output=True, text=True).stdout.strip()
    rows = "".join(f"100644 blob {blob}\ta{number}.md\n" for number in range(10))
    for _ in range(7):
        told = subprocess.run([*git, "mktree"], check=True, input=rows, capture_output=True, text=True)
        rows = "".join(f"040000 tree {told.stdout.strip()}\td{number}\n" for number in range(10))
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    commit = subprocess.run(
        ["git", *author, "-C", str(bare), "commit-tree", "-m", "bomb", told.stdout.strip()],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    subprocess.run([*git, "update-ref", "refs/heads/main", commit], check=True)
    async with database.open() as r:
        await r.sources.add(f"git+file://{bare}", name="it")
        run = await r.sync("it")

    assert run.status == "failed"
    assert "too many files" in (run.error or ""), run.error
