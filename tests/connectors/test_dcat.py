"""RDF catalogs: every syntax says the same, nothing changed costs one request, and pages are followed to their end."""

from datetime import timedelta

import pytest

from rowen.connectors.dcat import Dcat
from rowen.connectors.probe import Probe
from rowen.net.client import Client
from rowen.settings import load
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import contents, titles
from tests.portals.catalogs import keep
from tests.portals.dcat import FORMATS, DcatPortal
from tests.portals.site import Page, html


@pytest.fixture
def portal(opened: Opened) -> DcatPortal:
    return opened(DcatPortal)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("https://data.example/catalog.ttl", "https://data.example/catalog.ttl"),
        ("https://data.example/catalog.rdf?profiles=x", "https://data.example/catalog.rdf?profiles=x"),
        ("https://data.example/api/1/site/catalog.jsonld", "https://data.example/api/1/site/catalog.jsonld"),
        ("https://hub.example/api/feed/dcat-ap/2.0.1.json", "https://hub.example/api/feed/dcat-ap/2.0.1.json"),
        (
            "https://ec.example/api/dissemination/catalogue/dcat/ESTAT/FULL",
            "https://ec.example/api/dissemination/catalogue/dcat/ESTAT/FULL",
        ),
        ("dcat:https://data.example/anything", "https://data.example/anything"),
        ("https://data.example/catalog.xml", None),
        ("https://data.example/page.ttl", None),
        ("https://data.example/", None),
        ("dcat:nonsense", None),
        ("catalog.ttl", None),
    ],
)
def test_only_addresses_that_show_a_catalog_are_recognised(address: str, url: str | None) -> None:
    assert Dcat.recognise(address) == url
    assert url is None or Dcat.accept(url) == url


FULL = {
    "dct_title": [("Heu", "de"), ("Foin", "fr")],
    "dct_description": [("<p>Zweimal <b>gemäht</b>.</p>", "de"), ("Fauché deux fois.", "fr")],
    "dcat_theme": ["<http://publications.europa.eu/resource/authority/data-theme/AGRI>", "<http://x.example/theme/7>"],
    "dct_license": "<https://creativecommons.org/publicdomain/zero/1.0/>",
    "dct_language": ["<http://publications.europa.eu/resource/authority/language/DEU>", "fr"],
    "dct_issued": "2020-01-31",
    "dct_spatial": {"@type": "dct:Location", "dcat:bbox": "POLYGON((1 2,3 4,5 6,1 2))"},
    "dct_temporal": {"@type": "dct:PeriodOfTime", "dcat:startDate": "2019-01-01", "dcat:endDate": "2019-12-31"},
    "dcat_landingPage": "<https://portal.example/pages/hay>",
    "dcat_contactPoint": {"@type": "vcard:Kind", "vcard:fn": "The Office"},
    "dcat_distribution": {
        "@type": "dcat:Distribution",
        "dct:title": ("Tabelle", "de"),
        "dcat:accessURL": "<https://files.example/hay.csv>",
        "dct:format": "<http://publications.europa.eu/resource/authority/file-type/CSV>",
        "dcat:mediaType": "<https://www.iana.org/assignments/media-types/text/csv>",
        "dcat:byteSize": "1024.0",
    },
}


@pytest.mark.parametrize("syntax", FORMATS)
async def test_a_record_is_stored_whole_from_every_syntax(
    database: ScratchDatabase, portal: DcatPortal, syntax: str
) -> None:
    portal.syntax = syntax
    portal.make("hay", **FULL)
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 1)
    [(url, title, text, tags, record)] = database.query("select url, title, text, tags, record from item")
    assert (url, title, tags) == ("https://portal.example/dataset/hay", "Heu", ["AGRI", "clover", "hay"])
    assert text == "Zweimal gemäht.\n\n## Foin (fr)\n\nFauché deux fois.\n\n## Resources\n\n- Tabelle (CSV)"
    assert record["publisher"] == "The Farm"
    assert record["licence"] == "https://creativecommons.org/publicdomain/zero/1.0/"
    assert (record["issued"], record["modified"][:10]) == ("2020-01-31", "2024-01-01")
    assert record["languages"] == ["de", "fr"]
    assert (record["temporal"], record["spatial"]) == ("2019-01-01/2019-12-31", "POLYGON((1 2,3 4,5 6,1 2))")
    assert record["landing_page"] == "https://portal.example/pages/hay"
    [file] = record["resources"]
    assert (file["url"], file["format"], file["media_type"], file["size_bytes"]) == (
        "https://files.example/hay.csv",
        "CSV",
        "text/csv",
        1024,
    )
    assert record["source"]["dcat:contactPoint"] == {"@type": ["vcard:Kind"], "vcard:fn": "The Office"}


async def test_the_same_record_in_another_syntax_and_order_is_the_same(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.make("hay", **FULL)
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        before = database.query("select url, record_hash from item order by url")
        # What is served under this name is always the syntax that the media type tells.
        served, portal.media_type = portal.address, "text/plain"
        for portal.media_type in ("text/plain", "application/octet-stream", "text/turtle"):
            run = await r.sync("portal", full=True)

            assert (run.stats.unchanged, run.stats.rows_written) == (21, 0)
        assert served == portal.address
    assert database.query("select url, record_hash from item order by url") == before


async def test_blank_nodes_are_compared_by_what_they_say(database: ScratchDatabase, portal: DcatPortal) -> None:
    agents = [{"foaf:name": "A", "dct:type": {"dct:title": "x"}}, {"foaf:name": "B", "dct:type": {"dct:title": "y"}}]
    portal.make("a", dct_creator=agents, dct_publisher=None)
    portal.validator = "none"
    async with database.open() as r:
        await keep(r, portal)
        same = [await r.sync("portal") for _ in range(3)]
        agents[0]["dct:type"]["dct:title"] = "z"  # type: ignore[index]
        changed = await r.sync("portal")

    assert [run.stats.rows_written for run in same] == [0, 0, 0]
    assert (changed.stats.amended, changed.stats.updated) == (1, 0)


@pytest.mark.parametrize("validator", ["etag", "modified"])
async def test_an_unchanged_document_costs_one_request_and_no_body(
    database: ScratchDatabase, portal: DcatPortal, validator: str
) -> None:
    portal.fill(120)
    portal.validator = validator
    async with database.open() as r:
        first = await keep(r, portal)
        run = await r.sync("portal")

    assert (first.status, first.complete, first.stats.created) == ("completed", True, 120)
    assert (run.stats.requests, run.stats.not_modified, run.stats.bytes) == (1, 1, 0)
    assert (run.complete, run.stats.unchanged, run.stats.rows_written) == (True, 120, 0)


async def test_edits_and_deletions_in_a_document_are_found_whatever_its_dates_say(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.fill(30)
    async with database.open() as r:
        await keep(r, portal)
        portal.records["d00003"]["dct:title"] = "Edited"
        portal.records["d00004"]["dcat:distribution"]["dcat:downloadURL"] = "<https://files.example/other.csv>"
        del portal.records["d00005"]
        run = await r.sync("portal")
        portal.make("d00005")
        revived = await r.sync("portal")

    assert (run.stats.updated, run.stats.amended, run.stats.deleted, run.stats.requests) == (1, 1, 1, 1)
    assert revived.stats.created == 1
    assert set(titles(database)) == set(portal.records)


@pytest.mark.parametrize("hydra", ["old", "new"])
@pytest.mark.parametrize("syntax", ["ttl", "jsonld"])
async def test_pages_are_followed_to_their_end(
    database: ScratchDatabase, portal: DcatPortal, hydra: str, syntax: str
) -> None:
    portal.fill(95)
    portal.page_size, portal.hydra, portal.syntax = 10, hydra, syntax
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 95)
    assert run.stats.requests == 10 + 2


async def test_links_to_a_host_that_only_the_portal_knows_are_asked_for_where_we_found_it(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.fill(25)
    portal.page_size, portal.site_url = 10, "http://ckan.internal:5000"
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 25)


async def test_nothing_changed_in_a_catalog_with_pages_costs_two_requests(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.fill(95)
    portal.page_size = 10
    async with database.open() as r:
        await keep(r, portal)
        run = await r.sync("portal")

    assert (run.status, run.stats.requests, run.stats.rows_written) == ("completed", 2, 0)
    assert "modified_since=2024-" in portal.log[0].path


async def test_what_was_modified_is_read_alone(database: ScratchDatabase, portal: DcatPortal) -> None:
    portal.fill(95)
    portal.page_size = 10
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00003", "Edited")
        portal.make("new")
        run = await r.sync("portal")

    assert (run.stats.updated, run.stats.created, run.stats.requests) == (1, 1, 2)
    assert set(titles(database)) == set(portal.records)


async def test_a_deletion_in_a_catalog_with_pages_is_found_by_its_count(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.fill(45)
    portal.page_size = 10
    async with database.open() as r:
        await keep(r, portal)
        del portal.records["d00003"]
        run = await r.sync("portal")

    assert (run.status, run.complete, run.stats.deleted) == ("completed", True, 1)
    assert set(titles(database)) == set(portal.records)


@pytest.mark.parametrize("apart", ["before", "after"])
@pytest.mark.parametrize("path", ["/api/1/site/catalog", "/catalog"])
async def test_files_on_other_pages_than_their_datasets_are_joined(
    database: ScratchDatabase, portal: DcatPortal, apart: str, path: str
) -> None:
    portal.fill(35)
    portal.path, portal.syntax = path, "jsonld"
    portal.page_size, portal.apart = 10, apart
    async with database.open() as r:
        run = await keep(r, portal, page_size=10)
        again = await r.sync("portal", full=True)

    assert (run.status, run.stats.created) == ("completed", 35)
    assert (again.stats.unchanged, again.stats.rows_written) == (35, 0)
    files = database.query("select record->'resources'->0->>'name', jsonb_array_length(record->'resources') from item")
    assert set(files) == {("Table", 1)}


async def test_udata_is_asked_for_pages_of_a_size(database: ScratchDatabase, portal: DcatPortal) -> None:
    portal.fill(35)
    portal.path, portal.syntax, portal.page_size = "/api/1/site/catalog", "jsonld", 100
    async with database.open() as r:
        run = await keep(r, portal, page_size=20)
        quiet = await r.sync("portal")

    assert (run.status, run.stats.created) == ("completed", 35)
    assert (quiet.stats.requests, quiet.stats.rows_written) == (2, 0)
    assert "page_size=20" in portal.log[0].path
    assert "page_size=1" in portal.log[1].path.split("&")


async def test_a_catalog_whose_files_are_described_nowhere_does_not_wait_for_them(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.fill(95)
    portal.page_size = 10
    for key, record in portal.records.items():
        record["dcat:distribution"] = f"<https://files.example/{key}.csv>"
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 95)
    [(url,)] = database.query("select record->'resources'->0->>'url' from item where url like '%zz-last'")
    assert url == "https://files.example/zz-last.csv"


async def test_series_and_services_are_items(database: ScratchDatabase, portal: DcatPortal) -> None:
    portal.make("series", **{"@type": "dcat:DatasetSeries"})
    service = {"@type": "dcat:DataService", "dcat_endpointURL": "<https://api.example/>", "dcat_distribution": None}
    portal.make("service", **service)
    portal.make("member", dcat_inSeries="<http://portal.example/dataset/series>")
    async with database.open() as r:
        run = await keep(r, portal)

    assert run.stats.created == 3
    [(record,)] = database.query("select record from item where url like '%/service'")
    assert record["resources"][0]["url"] == "https://api.example/"
    [(source,)] = database.query("select record->'source' from item where url like '%/member'")
    assert source["dcat:inSeries"] == {"@id": "http://portal.example/dataset/series"}


async def test_a_service_inside_a_file_is_part_of_it(database: ScratchDatabase, portal: DcatPortal) -> None:
    service = {"@type": "dcat:DataService", "dct:title": "Inner", "dcat:endpointURL": "<https://api.example/>"}
    portal.make("a", dcat_distribution={"@type": "dcat:Distribution", "dcat:accessService": service})
    async with database.open() as r:
        run = await keep(r, portal)

    assert run.stats.created == 1
    [(source,)] = database.query("select record->'source' from item")
    assert source["dcat:distribution"]["dcat:accessService"]["dct:title"] == "Inner"


async def test_a_dataset_that_another_one_only_mentions_is_no_item(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    other = {"@id": "http://elsewhere.example/x", "@type": "dcat:Dataset", "dct:title": "Elsewhere"}
    portal.make("a", dct_source=other)
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.stats.created, titles(database)) == (1, {"a": "Dataset a"})


async def test_a_catalog_that_calls_itself_a_dataset_is_no_item(database: ScratchDatabase, portal: DcatPortal) -> None:
    portal.make("a")
    portal.syntax = "nt"
    kind = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://www.w3.org/ns/dcat#Dataset>"
    portal.body = portal.document() + f"<http://portal.example/> {kind} .\n".encode()
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 1)


async def test_a_catalog_record_does_not_stand_for_its_dataset(database: ScratchDatabase, portal: DcatPortal) -> None:
    portal.make("a")
    portal.syntax = "nt"
    extra = (
        "<http://portal.example/record/a> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> "
        "<http://www.w3.org/ns/dcat#CatalogRecord> .\n<http://portal.example/record/a> "
        "<http://xmlns.com/foaf/0.1/primaryTopic> <http://portal.example/other/a> .\n"
    )
    portal.body = portal.document() + extra.encode()
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 1)
    assert database.query("select url from item") == [("https://portal.example/dataset/a",)]


async def test_d11_identifiers_that_are_the_same_in_two_catalogs_are_two_items(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.make("a", dct_identifier="1")
    portal.make("b", dct_identifier="1")
    portal.make("http://portal.example/c#one")
    portal.make("http://portal.example/c#two")
    portal.make("http://portal.example/c")
    portal.make("urn:uuid:7")
    portal.lists = False
    async with database.open() as r:
        run = await keep(r, portal)

    assert run.stats.created == 6


async def test_datasets_without_a_name_are_known_by_what_they_say_of_themselves(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.make("?one", dct_identifier="first")
    portal.make("?two", dcat_landingPage="<https://portal.example/two>")
    portal.make("?three", "Three")
    portal.records["bare"] = {"@type": "dcat:Dataset", "dct:issued": "2020"}
    portal.validator = "none"
    async with database.open() as r:
        first = await keep(r, portal)
        again = await r.sync("portal")
        portal.records["?one"]["dct:title"] = "Renamed"
        portal.records["?two"]["dct:description"] = "Edited"
        edited = await r.sync("portal")

    assert (first.stats.created, again.stats.rows_written) == (4, 0)
    assert (edited.stats.updated, edited.stats.created, edited.stats.deleted) == (2, 0, 0)
    assert titles(database)["bare"] == "http://portal.example/dataset/bare"


async def test_addresses_that_change_their_scheme_stay_the_same_items(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.fill(12)
    portal.syntax, portal.validator = "nt", "none"
    async with database.open() as r:
        await keep(r, portal)
        portal.body = portal.document().replace(b"<http://portal.example/dataset", b"<https://portal.example/dataset")
        run = await r.sync("portal")

    assert (run.stats.created, run.stats.deleted, run.stats.amended) == (0, 0, 12)


async def test_the_preferred_language_is_the_main_one(database: ScratchDatabase, portal: DcatPortal) -> None:
    portal.make("a", **FULL)
    async with database.open() as r:
        await keep(r, portal, language="fr")

    assert database.query("select title, language from item") == [("Foin", "fr")]


async def test_a_remote_context_is_never_fetched(database: ScratchDatabase, portal: DcatPortal) -> None:
    portal.syntax = "jsonld"
    portal.body = f"""{{"@context": ["{portal.url}/context.jsonld", {{"mine": "http://purl.org/dc/terms/"}}],
        "@type": "dcat:Catalog", "dataset": [{{"@id": "http://portal.example/a", "@type": "Dataset", "title": "Hay",
        "mine:description": "Cut twice.", "keyword": ["x"], "strange": "kept",
        "distribution": [{{"@type": "Distribution", "accessURL": "https://files.example/a", "format": "CSV"}}]}}]}}
    """.encode()
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created, run.stats.requests) == ("completed", 1, 1)
    [(title, text, record)] = database.query("select title, text, record from item")
    assert (title, text) == ("Hay", "Cut twice.")
    assert (record["resources"][0]["format"], record["source"]["urn:rowen:word:strange"]) == ("CSV", "kept")


async def test_a_clock_a_day_ahead_and_dates_in_the_future_hide_no_later_edit(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.fill(15)
    portal.page_size = 10
    portal.make("future", dct_modified=portal.clock + timedelta(days=4000))
    portal.clock += timedelta(days=3650)
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00003", "Edited")
        run = await r.sync("portal")

    assert (run.stats.updated, len(contents(database))) == (1, 16)


@pytest.mark.parametrize("where", ["linked", "udata", "nowhere"])
async def test_a_site_with_a_catalog_is_found_by_its_link_or_as_udata(portal: DcatPortal, where: str) -> None:
    portal.make("a")
    link = (
        f'<link rel="alternate" type="text/turtle" href="{portal.path}.ttl?x=1&amp;y=2">' if where == "linked" else ""
    )
    portal.pages["/"] = Page(html("Portal", "Welcome.", head=link))
    if where == "udata":
        portal.path, portal.syntax = "/api/1/site/catalog", "jsonld"
    async with Client(load(allow_addresses="127.0.0.0/8", host_delay_s=0)) as client:
        probe = Probe(client, f"{portal.url}/")
        await probe.begin()
        found = await Dcat.probe(probe)

    expected = {"linked": f"{portal.url}/catalog.ttl?x=1&y=2", "udata": f"{portal.url}/api/1/site/catalog.jsonld"}
    assert found == expected.get(where)
    assert len(portal.log) == 2


async def test_turtle_that_is_declared_as_latin_is_utf_8_all_the_same(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    portal.make("a", "Caf\u00e9")
    portal.media_type = "text/turtle; charset=ISO-8859-1"
    async with database.open() as r:
        await keep(r, portal)

    assert database.query("select title from item") == [("Caf\u00e9",)]
