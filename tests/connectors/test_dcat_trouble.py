"""RDF catalogs that lie, break and change under our feet, and documents made to harm."""

import pytest
from aiohttp import web

from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import contents, titles
from tests.portals.catalogs import keep
from tests.portals.dcat import DcatPortal


@pytest.fixture
def portal(opened: Opened) -> DcatPortal:
    return opened(DcatPortal)


HEAD = b"@prefix dcat: <http://www.w3.org/ns/dcat#> . @prefix dct: <http://purl.org/dc/terms/> .\n"
NO_CATALOGS = [
    b"",
    b"<!doctype html><title>Maintenance</title>",
    b"<html><body>Maintenance</body></html>",
    b"{}",
    b"[]",
    b"null",
    b'{"error": "none"}',
    b"Service unavailable",
    HEAD + b"<http://portal.example/> a dcat:Catalog .",
    HEAD + b"<http://portal.example/> a dcat:Catalog ; dct:title ",
    b"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'/>",
    b"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>",
    b"\x1f\x8b\x08\x00 not really packed",
    b'{"@graph": ' * 5000,
]


@pytest.mark.parametrize("paged", [True, False])
async def test_d2_an_answer_that_is_no_catalog_deletes_nothing(
    database: ScratchDatabase, portal: DcatPortal, paged: bool
) -> None:
    portal.fill(20)
    portal.page_size = 10 if paged else None
    async with database.open() as r:
        await keep(r, portal)
        for portal.body in NO_CATALOGS:
            run = await r.sync("portal", full=not paged, accept_deletions=True)

            assert run.status in ("failed", "partial"), portal.body
            assert run.error
            assert len(contents(database)) == 20
        portal.body = None
        assert (await r.sync("portal")).stats.rows_written == 0


async def test_d2_a_document_cut_between_two_statements_is_noticed_by_what_its_catalog_names(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.fill(30)
    portal.syntax = "nt"
    async with database.open() as r:
        await keep(r, portal)
        lines = portal.document().splitlines(keepends=True)
        named = [line for line in lines if b"#dataset>" in line or b"#Catalog>" in line]
        rest = [line for line in lines if line not in named and b"/d0001" not in line]
        portal.body = b"".join(named + rest)
        run = await r.sync("portal", accept_deletions=True)

    assert (run.status, len(contents(database))) == ("partial", 30)
    assert "declares 30" in (run.error or "")


async def test_one_broken_statement_costs_its_dataset_and_deletes_nothing(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        body = HEAD
        for key in portal.records:
            oops = "dct:issued oops ; " if key == "d00003" else ""
            said = f'<{portal.iri(key)}> a dcat:Dataset ; dct:title "New {key}" ; {oops}dct:description "x" .\n'
            body += said.encode()
        portal.body = body
        run = await r.sync("portal", accept_deletions=True)

    assert (run.status, run.stats.updated, run.stats.failed, run.stats.deleted) == ("completed", 19, 1, 0)
    assert len(contents(database)) == 20
    payloads = [bytes(payload) for (payload,) in database.query("select payload from quarantine") if payload]
    assert any(b"dct:issued oops" in payload for payload in payloads)
    assert ("Dataset d00003",) in database.query("select title from item")


@pytest.mark.parametrize("syntax", ["ttl", "rdf", "jsonld", "nt"])
async def test_addresses_with_blanks_and_odd_letters_are_read(
    database: ScratchDatabase, portal: DcatPortal, syntax: str
) -> None:
    portal.syntax = syntax
    portal.make("a", dcat_landingPage="<http://portal.example/placeholder>", dct_title="Caf\u00e9 \u2603")
    portal.body = portal.document().replace(b"portal.example/placeholder", b"portal.example/a page|with {odd} letters")
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 1)
    [(title, page)] = database.query("select title, record->>'landing_page' from item")
    assert (title, page) == ("Café ☃", "http://portal.example/a page|with {odd} letters")


async def test_xml_of_another_charset_with_blanks_before_it_and_control_characters_is_read(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.syntax, portal.media_type = "rdf", "text/xml"
    portal.body = (
        '\n <?xml version="1.0" encoding="ISO-8859-1"?>'
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
        'xmlns:dcat="http://www.w3.org/ns/dcat#" xmlns:dct="http://purl.org/dc/terms/"><dcat:Dataset '
        'rdf:about="http://portal.example/a"><dct:title>Caf\u00e9\x0b</dct:title></dcat:Dataset></rdf:RDF>'
    ).encode("latin-1")
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 1)
    assert database.query("select title from item") == [("Caf\u00e9\ufffd",)]


BOMB = "<!DOCTYPE rdf:RDF [<!ENTITY a 'aaaaaaaaaa'>%s]>" % "".join(  # noqa: UP031 - entities are full of braces
    f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>" for n in range(9)
)


@pytest.mark.parametrize("prolog", [BOMB, "<!-- x --><!DOCTYPE rdf:RDF SYSTEM 'file:///etc/passwd'>", "<!doctype x>"])
async def test_document_types_and_with_them_entity_bombs_are_refused(
    database: ScratchDatabase, portal: DcatPortal, prolog: str
) -> None:
    portal.syntax = "rdf"
    portal.body = (
        f'<?xml version="1.0"?>{prolog}<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
        'xmlns:dct="http://purl.org/dc/terms/"><rdf:Description rdf:about="http://a"><dct:title>&j;</dct:title>'
        "</rdf:Description></rdf:RDF>"
    ).encode()
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("failed", 0)
    assert "document type" in (run.error or "")


async def test_more_triples_than_allowed_are_not_read(database: ScratchDatabase, portal: DcatPortal) -> None:
    portal.fill(30)
    async with database.open() as r:
        run = await keep(r, portal, max_triples=100)

    assert run.status == "failed"
    assert "max_triples" in (run.error or "")


async def test_a_record_that_unfolds_without_end_costs_only_itself(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    """Nodes that each name the next one twice: as a tree, a million million of them."""
    portal.fill(3)
    portal.syntax = "nt"
    chain = "".join(
        f"_:n{n} <http://purl.org/dc/terms/{word}> _:n{n + 1} .\n" for n in range(28) for word in ("relation", "source")
    )
    deep = "".join(f"_:m{n} <http://purl.org/dc/terms/relation> _:m{n + 1} .\n" for n in range(5000))
    circle = "_:c <http://purl.org/dc/terms/relation> _:c .\n"
    wide = (
        f"<{portal.iri('d00000')}> <http://purl.org/dc/terms/provenance> _:n0 .\n"
        f"<{portal.iri('d00001')}> <http://purl.org/dc/terms/provenance> _:m0 .\n"
        f"<{portal.iri('zz-last')}> <http://purl.org/dc/terms/provenance> _:c .\n"
    )
    portal.body = portal.document() + (wide + chain + deep + circle).encode()
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 1, 2)
    [(source,)] = database.query("select record->'source'->'dct:provenance' from item")
    assert source == {"dct:relation": {"@up": 1}}


async def test_d4_records_without_title_and_with_wrong_dates_are_items_all_the_same(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    nothing = dict.fromkeys(("dct_description", "dct_publisher", "dcat_distribution", "dcat_keyword"))
    portal.make("bare", dct_modified=None, **nothing)
    del portal.records["bare"]["dct:title"]
    portal.make("dates", dct_modified=["31 February", "0001-01-01T00:00:00"], dct_issued="yesterday", dct_title=" ")
    portal.records["empty"] = {"@type": "dcat:Dataset"}
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 3, 0)
    assert database.query("select count(*) from item where record ? 'modified'") == [(0,)]


async def test_a_single_page_of_a_round_number_proves_nothing(database: ScratchDatabase, portal: DcatPortal) -> None:
    portal.fill(100)
    portal.ignores_page = True
    async with database.open() as r:
        await keep(r, portal, whole=True)
        portal.records.pop("d00007")
        portal.make("new")
        trusted = await r.sync("portal")
        await r.sources.edit("portal", options={"whole": False})
        portal.records.pop("d00008")
        portal.make("newer")
        doubted = await r.sync("portal")

    assert (trusted.status, trusted.stats.deleted) == ("completed", 1)
    assert (doubted.status, doubted.stats.created, doubted.stats.deleted) == ("partial", 1, 0)
    assert "exactly 100" in (doubted.error or "")


async def test_pages_that_nothing_tells_of_are_read_by_number(database: ScratchDatabase, portal: DcatPortal) -> None:
    portal.fill(230)
    portal.page_size, portal.hydra = 100, "none"
    portal._paging = lambda *_: []  # type: ignore[method-assign]
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 230)


async def test_a_page_that_comes_again_is_noticed(database: ScratchDatabase, portal: DcatPortal) -> None:
    portal.fill(30)
    portal.page_size, portal.ignores_page = 10, True
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("partial", 10)
    assert run.stats.requests <= 4


async def test_d10_a_catalog_that_never_minded_the_filter_is_walked_whole(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.fill(25)
    portal.page_size, portal.ignores = 10, {"filter"}
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00001", "Edited")
        run = await r.sync("portal")

    assert (run.complete, run.stats.updated) == (True, 1)
    assert not any("modified_since" in asked.path for asked in portal.log)


async def test_d8_duplicates_across_pages_do_not_stop_the_sweep(database: ScratchDatabase, portal: DcatPortal) -> None:
    portal.fill(24)
    portal.page_size = 10
    portal.make("?twin", dct_identifier="http://portal.example/dataset/d00003")
    async with database.open() as r:
        await keep(r, portal)
        del portal.records["d00004"]
        run = await r.sync("portal", full=True)

    assert (run.status, run.stats.deleted) == ("completed", 1)


async def test_d7_deletions_and_edits_during_the_walk_hide_no_other_dataset(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.fill(45)
    portal.page_size = 10

    def disturb(page: int) -> None:
        if page == 2:
            portal.after_page = None
            del portal.records["d00040"]
            portal.make("d00001", "Edited during the walk")

    async with database.open() as r:
        await keep(r, portal)
        portal.after_page = disturb
        run = await r.sync("portal", full=True)
        await r.sync("portal")

    assert run.stats.deleted <= 1
    assert set(titles(database)) == set(portal.records)


@pytest.mark.parametrize("apart", [None, "before", "after"])
async def test_an_interrupted_walk_goes_on_where_it_was(
    database: ScratchDatabase, portal: DcatPortal, apart: str | None
) -> None:
    portal.fill(95)
    portal.page_size, portal.apart = 10, apart

    def fail(page: int) -> None:
        portal.down = page >= 6

    portal.after_page = fail
    async with database.open() as r:
        broken = await keep(r, portal)
        portal.after_page, portal.down = None, False
        portal.make("d00090", "Edited behind the walk")
        del portal.records["d00002"]
        run = await r.sync("portal")
        again = await r.sync("portal", full=True)

    assert broken.status == "partial"
    assert apart or "page=7" in portal.log[0].path
    assert (run.status, run.complete) == ("completed", True)
    assert set(titles(database)) == set(portal.records)
    assert (again.stats.unchanged, again.stats.rows_written) == (94, 0)


async def test_a_busy_catalog_is_waited_for_without_losing_the_place(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.fill(35)
    portal.page_size = 10

    def busy(page: int) -> None:
        if page == 2:
            portal.after_page = None
            portal.failures = [web.Response(status=429, headers={"Retry-After": "0"}) for _ in range(2)]

    portal.after_page = busy
    async with database.open(fetch_tries=3) as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 35)


async def test_a_page_that_is_missing_for_good_leaves_the_walk_unproved(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.fill(35)
    portal.page_size = 10

    def lose(page: int) -> None:
        if page == 2:
            portal.failures = [web.Response(status=404)]

    async with database.open() as r:
        await keep(r, portal)
        portal.after_page = lose
        del portal.records["d00003"]
        run = await r.sync("portal", full=True, accept_deletions=True)

    assert (run.status, run.stats.deleted, len(contents(database))) == ("partial", 0, 35)
    assert "404" in (run.error or "")


@pytest.mark.parametrize("always", [True, False])
async def test_d10_a_catalog_that_refuses_the_filter_is_walked_whole(
    database: ScratchDatabase, portal: DcatPortal, always: bool
) -> None:
    portal.fill(25)
    portal.page_size, portal.refuses_filter = 10, always
    async with database.open() as r:
        first = await keep(r, portal)
        portal.refuses_filter = True
        portal.make("d00001", "Edited")
        run = await r.sync("portal")

    assert (first.status, first.complete) == ("completed", True)
    assert (run.status, run.complete, run.stats.updated, run.stats.fell_back) == ("completed", True, 1, int(not always))
