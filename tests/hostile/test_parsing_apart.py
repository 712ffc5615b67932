"""What is not linear by construction is parsed in a worker process: the event loop never waits for it.

The watchdog is on in all of these: none of them may keep the loop busy for more than a quarter of a second.
"""

import io
import tarfile

import pytest

from rowen.connectors.catalog.text import LONGEST_MARKUP, plain
from rowen.connectors.packages.archive import download
from rowen.errors import ItemError, SourceError
from rowen.formats.rdf.graph import Blank, Graph, Iri, Literal
from rowen.harvest.parse_pool import Workers
from rowen.net.client import Client
from tests.connectors.conftest import opened
from tests.hostile.clock import costs_at_most
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal
from tests.portals.dcat import DcatPortal
from tests.portals.oai import OaiRepository
from tests.portals.site import Page, Site

__all__ = ["opened"]

# Each paragraph opens all the fonts before it again: a parser takes 30 µs for each byte of this.
SLOW = "".join(f"<font c={number}><p>" for number in range(3_000))


async def test_a_page_that_takes_a_parser_long_keeps_nobody_waiting(database, opened):
    site = opened(Site)
    site.put("/", "Root", "Hay.", links=("/slow",))
    site.pages["/slow"] = Page(f"<html><title>Slow</title><body><main>{SLOW}Hay".encode())

    async with database.open() as rowen:
        run = await rowen.sync(site.url)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 2, 0)


async def test_a_large_sitemap_and_a_large_llms_txt_keep_nobody_waiting(database, opened):
    site = opened(Site)
    site.put("/", "Root", "Hay.")
    site.put("/a", "A", "Clover.")
    entries = "".join(f"<url><loc>https://elsewhere.example/{number}</loc></url>\n" for number in range(40_000))
    site.pages["/sitemap.xml"] = Page(f"<urlset>{entries}<url><loc>{site.url}/a</loc></url></urlset>".encode())
    links = "".join(f"- [{number}](https://elsewhere.example/{number})\n" for number in range(20_000))
    site.pages["/llms.txt"] = Page(links.encode(), headers={"Content-Type": "text/plain"})

    async with database.open() as rowen:
        run = await rowen.sync(site.url)

    assert (run.status, run.stats.created) == ("completed", 2)


async def test_a_sitemap_that_cannot_be_read_in_time_deletes_nothing(database, opened, monkeypatch):
    site = opened(Site)
    site.put("/", "Root", "Hay.")
    site.put("/a", "A", "Clover.")
    site.pages["/sitemap.xml"] = Page(f"<urlset><url><loc>{site.url}/a</loc></url></urlset>".encode())

    async with database.open() as rowen:
        await rowen.sync(site.url)
        monkeypatch.setattr(Workers, "call", _hang)
        run = await rowen.sync(site.url)

    assert (run.status, run.stats.deleted) == ("partial", 0)
    assert "sitemap.xml cannot be read: Reading it took longer" in (run.error or "")


async def test_a_catalog_of_many_triples_keeps_nobody_waiting(database, opened):
    portal = opened(DcatPortal)
    portal.fill(1_500)

    async with database.open() as rowen:
        run = await keep(rowen, portal)
        again = await rowen.sync("portal")

    assert (run.status, run.stats.created) == ("completed", 1_500)
    assert (again.status, again.stats.rows_written) == ("completed", 0)


async def test_a_catalog_that_cannot_be_read_in_time_deletes_nothing(database, opened, monkeypatch):
    portal = opened(DcatPortal)
    portal.fill(5)

    async with database.open() as rowen:
        await keep(rowen, portal)
        portal.drop(1)
        monkeypatch.setattr(Workers, "call", _hang)
        run = await rowen.sync("portal")

    assert (run.status, run.stats.deleted) == ("failed", 0)
    assert "took longer" in (run.error or "")


@pytest.mark.parametrize("is_broken", [False, True])
async def test_an_answer_of_megabytes_of_xml_keeps_nobody_waiting(database, opened, is_broken):
    portal = opened(OaiRepository)
    portal.page_size = 1_000
    for number in range(40):
        portal.make(f"r{number}", description=["Hay and clover. " * 20 for _ in range(200)], tick_h=1)
    if is_broken:
        portal.spoil("r7")

    async with database.open() as rowen:
        run = await keep(rowen, portal)

    assert (run.stats.created, run.stats.failed) == (39, 1) if is_broken else (40, 0)


async def test_descriptions_that_take_a_parser_long_keep_nobody_waiting(database, opened):
    portal = opened(CkanPortal)
    for number in range(4):
        portal.make(f"d{number}", notes=f"<p>Hay and clover.</p>{SLOW}", tick_h=1)

    async with database.open() as rowen:
        run = await keep(rowen, portal)
        [hit, *_] = await rowen.search("clover")

    assert (run.status, run.stats.created) == ("completed", 4)
    assert "<" not in hit.text


def test_marks_that_say_nothing_are_left_out_of_a_description_before_it_is_parsed():
    with costs_at_most(1):
        assert (
            plain('<p>Hay <a href="x" title="a > b">and</a> <B>clover</B>.</p><script>x</script>') == "Hay and clover."
        )
        assert plain("a < b <i>c</i>") == "a < b c"
        assert plain(SLOW * 4 + "Hay") == "Hay"
        assert plain("<p>" + "x" * LONGEST_MARKUP).startswith("<p>")


def test_a_graph_comes_back_from_another_process_as_it_was():
    graph = Graph()
    for name, value in (("dct:title", Literal("A", "en", None)), ("dct:title", Literal("A")), ("x", Iri("_:odd"))):
        graph.add(Iri("urn:a"), name, value)
    graph.add(Blank("_:1.b"), "y", Blank("_:1.c"))
    graph.broken.add(Blank("_:1.b"))

    back = Graph.unpacked(graph.packed())

    assert (back.triples, back.broken) == (graph.triples, graph.broken)
    assert [(type(node), node) for node in back] == [(type(node), node) for node in graph]
    assert back.written(Iri("urn:a")) == graph.written(Iri("urn:a"))
    assert [type(value) for value in back.values(Iri("urn:a"), "x")] == [Iri]


async def test_a_release_whose_archive_hangs_deletes_nothing(database, opened):
    site = opened(Site)
    site.pages["/a.tar.gz"] = Page(_archive({"a-1/README.md": b"# Hay"}))
    settings = database.settings()

    async with Client(settings) as client:
        facts = {"max_bytes": 1 << 20, "credentials": None}
        files = await download(client, f"{site.url}/a.tar.gz", **facts, parse=Workers(1).call)
        with pytest.raises(SourceError, match=r"a\.tar\.gz cannot be read: Reading it took longer"):
            await download(client, f"{site.url}/a.tar.gz", **facts, parse=lambda *_: _hang(None))

    assert files.readme is not None
    assert files.readme.body == b"# Hay"


async def _hang(*_):
    raise ItemError("Reading it took longer than 60 s.")


def _archive(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()
