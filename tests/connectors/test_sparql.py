"""SPARQL endpoints: identifiers in their order, batches made smaller where they are cut off, all languages kept."""

import json
from datetime import timedelta

import pytest
from aiohttp import web

from rowen.connectors.registry import check_options
from rowen.connectors.sparql import Sparql, resolve_endpoint
from rowen.connectors.sparql.endpoint import read_rows
from rowen.errors import UsageError
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import titles
from tests.portals.catalogs import keep
from tests.portals.sparql import SparqlEndpoint, day

GOVDATA = (
    "/data/catalogues/govdata?locale=de",
    "/data/de/catalogues/govdata/",
    "/data/datasets?locale=de&catalog=govdata",
    "/88u/catalogue/govdata",
    "/api/hub/repo/catalogues/govdata/datasets",
)


@pytest.fixture
def portal(opened: Opened) -> SparqlEndpoint:
    return opened(SparqlEndpoint)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("https://data.example/sparql", "https://data.example/sparql"),
        ("https://data.example/base/sparql/", "https://data.example/base/sparql/"),
        ("sparql:https://data.example/query", "https://data.example/query"),
        ("https://data.example/sparql/help", None),
        ("https://data.example/", None),
        ("sparql:nonsense", None),
        *((f"https://data.europa.eu{path}", "https://data.europa.eu/data/catalogues/govdata") for path in GOVDATA),
        ("https://data.europa.eu/data/datasets?catalog=govdata&catalog=dados", None),
        ("https://data.europa.eu/data/datasets/hay", None),
        ("https://other.example/data/catalogues/govdata", None),
    ],
)
def test_only_addresses_that_show_an_endpoint_are_recognised(address: str, url: str | None) -> None:
    assert Sparql.recognise(address) == url
    assert url is None or Sparql.accept(url) == url


def test_a_catalogue_of_data_europa_eu_is_requested_at_its_endpoint() -> None:
    expected = ("https://data.europa.eu/sparql", "http://data.europa.eu/88u/catalogue/govdata")

    assert resolve_endpoint("https://data.europa.eu/data/catalogues/govdata", None) == expected
    assert resolve_endpoint("https://data.europa.eu/sparql", "govdata") == expected
    assert resolve_endpoint("https://p.example/query", "urn:x:1") == ("https://p.example/query", "urn:x:1")
    assert resolve_endpoint("https://p.example/query", None) == ("https://p.example/query", None)
    with pytest.raises(UsageError, match="named by an IRI"):
        check_options("sparql", {"catalogue": "a> b"})


async def test_one_catalogue_of_several_is_read_alone(database: ScratchDatabase, portal: SparqlEndpoint) -> None:
    portal.fill(6)
    portal.catalogues = dict.fromkeys(list(portal.records)[:2], "http://portal.example/barn")
    chosen = {"catalogue": "http://portal.example/barn"}
    async with database.open() as r:
        first = await keep(r, portal, **chosen)
        portal.catalogues.popitem()
        second = await r.sync("portal")
        third = await r.sync("portal")
        await r.sources.edit("portal", options={"catalogue": "http://portal.example/none"})
        wrong = await r.sync("portal")

    assert (first.complete, first.stats.created, first.stats.requests) == (True, 2, 5)
    assert (second.complete, second.stats.deleted, third.stats.rows_written) == (True, 1, 0)
    assert (wrong.status, wrong.stats.deleted) == ("failed", 0)
    assert "no statements about the catalogue http://portal.example/none" in (wrong.error or "")


async def test_a_dataset_is_stored_whole_with_its_blank_nodes(
    database: ScratchDatabase, portal: SparqlEndpoint
) -> None:
    portal.make(
        "hay",
        [("Heu", "de"), ("Foin", "fr"), ("Heno", "es")],
        dct_description=[("Zweimal.", "de"), ("Deux fois.", "fr")],
        dct_license="<https://creativecommons.org/publicdomain/zero/1.0/>",
        dct_temporal={"dcat:startDate": "2019-01-01", "dcat:endDate": "2019-12-31"},
        dcat_contactPoint={"vcard:fn": "The Office", "vcard:hasAddress": {"vcard:locality": "Barn"}},
        dcat_distribution=[
            {"dct:title": "Table", "dcat:accessURL": "<https://files.example/1>", "dct:license": {"dct:title": "CC"}},
            {"@id": "https://files.example/2", "dct:title": "Tree", "dct:format": "XML"},
        ],
    )
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 1)
    [(url, title, text, record)] = database.query("select url, title, text, record from item")
    assert (url, title) == ("https://portal.example/dataset/hay", "Heu")
    assert "## Foin (fr)\n\nDeux fois." in text
    assert "## Heno (es)" in text
    assert (record["publisher"], record["temporal"]) == ("The Farm", "2019-01-01/2019-12-31")
    assert [file["name"] for file in record["resources"]] == ["Table", "Tree"]
    source = record["source"]
    assert source["dcat:contactPoint"]["vcard:hasAddress"] == {"vcard:locality": "Barn"}
    assert source["dcat:distribution"][1]["dct:license"] == {"dct:title": "CC"}


async def test_nothing_changed_costs_three_small_questions(database: ScratchDatabase, portal: SparqlEndpoint) -> None:
    portal.fill(95)
    async with database.open() as r:
        first = await keep(r, portal, page_size=40)
        run = await r.sync("portal")

    assert (first.status, first.stats.created) == ("completed", 95)
    assert first.stats.requests == 1 + 1 + 3 + 2
    assert portal.kinds_asked() == ["identifiers", "descriptions", "count"]
    assert (run.status, run.stats.rows_written, run.stats.unchanged) == ("completed", 0, 1)


async def test_what_was_modified_is_read_alone(database: ScratchDatabase, portal: SparqlEndpoint) -> None:
    portal.fill(95)
    async with database.open() as r:
        await keep(r, portal)
        portal.clock += timedelta(days=9)
        portal.make("d00003", "Edited")
        portal.make("new")
        run = await r.sync("portal")

    assert (run.stats.updated, run.stats.created, run.stats.unchanged) == (1, 1, 1)
    assert set(titles(database)) == set(portal.records)


async def test_undated_records_and_days_without_a_time_are_in_every_run(
    database: ScratchDatabase, portal: SparqlEndpoint
) -> None:
    portal.fill(20)
    portal.make("undated", dct_modified=None)
    portal.make("odd", dct_modified="last summer")
    portal.make("day", dct_modified=day(portal.clock))
    async with database.open() as r:
        await keep(r, portal)
        for key in ("undated", "odd", "day"):
            portal.records[key]["dct:title"] = "Edited"
        run = await r.sync("portal")

    assert (run.status, run.stats.updated) == ("completed", 3)


async def test_deletions_are_found_by_the_count(database: ScratchDatabase, portal: SparqlEndpoint) -> None:
    portal.fill(30)
    async with database.open() as r:
        await keep(r, portal)
        del portal.records["d00003"]
        run = await r.sync("portal")
        portal.make("d00003")
        revived = await r.sync("portal")

    assert (run.status, run.complete, run.stats.deleted) == ("completed", True, 1)
    assert revived.stats.created == 1


@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize("cap", [30, 100, 37])
async def test_silently_truncated_answers_are_requested_in_smaller_parts(
    database: ScratchDatabase, portal: SparqlEndpoint, cap: int, tells: bool
) -> None:
    portal.fill(20)
    portal.rows_max, portal.tells_cap = cap, tells
    async with database.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal", full=True)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 20, 0)
    assert database.query("select count(*) from item where jsonb_array_length(record->'resources') = 1") == [(20,)]
    assert (again.stats.unchanged, again.stats.rows_written) == (20, 0)


async def test_a_batch_that_is_too_much_is_halved(database: ScratchDatabase, portal: SparqlEndpoint) -> None:
    portal.fill(40)
    portal.broken_above = 12
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 40)
    assert run.stats.requests < 20


async def test_one_dataset_that_breaks_the_endpoint_costs_only_itself(
    database: ScratchDatabase, portal: SparqlEndpoint
) -> None:
    portal.fill(20)
    portal.broken_for = "d00007"
    async with database.open() as r:
        run = await keep(r, portal)
        portal.broken_for = None
        healed = await r.sync("portal", full=True)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 19, 1)
    assert (healed.stats.created, healed.stats.failed) == (1, 0)


async def test_a_dataset_larger_than_the_cap_is_quarantined(database: ScratchDatabase, portal: SparqlEndpoint) -> None:
    portal.fill(5)
    portal.make("huge", dcat_keyword=[f"word {number}" for number in range(60)])
    portal.rows_max = 50
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 5, 1)
    [(error,)] = database.query("select error from quarantine")
    assert "50 rows" in error


async def test_d2_an_outage_in_mid_walk_deletes_nothing_and_the_walk_goes_on(
    database: ScratchDatabase, portal: SparqlEndpoint
) -> None:
    portal.fill(95)
    kinds: list[str] = []

    def fail(kind: str) -> None:
        kinds.append(kind)
        portal.down = kinds.count("descriptions") >= 5

    portal.after_question = fail
    async with database.open() as r:
        broken = await keep(r, portal, page_size=10)
        portal.after_question, portal.down = None, False
        portal.make("d00001", "Edited behind the walk")
        del portal.records["d00002"]
        run = await r.sync("portal")

    assert (broken.status, broken.stats.created) == ("partial", 50)
    assert (run.status, run.complete, run.stats.updated, run.stats.deleted) == ("completed", True, 1, 1)
    assert set(titles(database)) == set(portal.records)


async def test_an_endpoint_that_cannot_count_is_walked_to_an_empty_page(
    database: ScratchDatabase, portal: SparqlEndpoint
) -> None:
    portal.fill(20)
    portal.no_count = True
    async with database.open() as r:
        run = await keep(r, portal)
        del portal.records["d00003"]
        swept = await r.sync("portal", full=True)

    assert (run.status, run.stats.created) == ("completed", 20)
    assert (swept.status, swept.stats.deleted) == ("completed", 1)


async def test_d10_an_endpoint_that_refuses_the_filter_is_walked_whole(
    database: ScratchDatabase, portal: SparqlEndpoint
) -> None:
    portal.fill(25)
    async with database.open() as r:
        await keep(r, portal)
        portal.refuses_filter = True
        portal.make("d00001", "Edited")
        run = await r.sync("portal")
        again = await r.sync("portal")

    assert (run.status, run.complete, run.stats.updated, run.stats.fell_back) == ("completed", True, 1, 1)
    assert (again.status, again.complete, again.stats.fell_back) == ("completed", True, 1)


async def test_a_named_graph_is_read_alone(database: ScratchDatabase, portal: SparqlEndpoint) -> None:
    portal.fill(5)
    portal.graph = "http://portal.example/graph"
    async with database.open() as r:
        run = await keep(r, portal, graph="http://portal.example/graph")
        with pytest.raises(UsageError, match="named by an IRI"):
            await r.sources.add("sparql:https://other.example/sparql", name="x", options={"graph": "a> <b"})

    assert (run.status, run.stats.created) == ("completed", 5)


async def test_series_and_services_are_items_and_blank_nodes_are_not(
    database: ScratchDatabase, portal: SparqlEndpoint
) -> None:
    portal.make("series", **{"@type": "dcat:DatasetSeries"})
    portal.make("service", **{"@type": "dcat:DataService", "dcat_endpointURL": "<https://api.example/>"})
    portal.make("?nameless")
    portal.make("urn:uuid:7")
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 3)


async def test_a_busy_endpoint_is_waited_for(database: ScratchDatabase, portal: SparqlEndpoint) -> None:
    portal.fill(20)
    portal.failures = [web.Response(status=429, headers={"Retry-After": "0"}) for _ in range(2)]
    async with database.open(fetch_tries=3) as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 20)


async def test_an_answer_that_the_endpoint_marks_as_partial_proves_nothing(
    database: ScratchDatabase, portal: SparqlEndpoint
) -> None:
    portal.fill(4)
    portal.headers = {"X-SQL-State": "S1TAT"}
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.stats.created, run.stats.failed) == (0, 4)


def test_rows_are_read_without_unbound_cells() -> None:
    answer = {
        "head": {"vars": ["a", "b", "c"]},
        "results": {
            "bindings": [
                {"a": {"type": "literal", "value": "x", "xml:lang": "de"}, "b": {"type": "odd"}, "c": None},
                {"c": {"type": "typed-literal", "value": "5", "datatype": "http://www.w3.org/2001/XMLSchema#integer"}},
                None,
            ]
        },
    }

    assert read_rows(json.loads(json.dumps(answer)), "here", "a") == [
        {"a": ("x", "de", None)},
        {"c": ("5", None, "xsd:integer")},
    ]
