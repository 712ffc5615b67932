"""OpenDataSoft portals: what is stored of them, and how more than their window is seen."""

import json

import pytest

from rowen.connectors.opendatasoft import OpenDataSoft, OpenDataSoftAddress
from rowen.connectors.probe import Probe
from rowen.connectors.registry import check_options
from rowen.errors import UsageError
from rowen.net.client import Client
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.portals.catalogs import keep
from tests.portals.opendatasoft import OpenDataSoftPortal
from tests.portals.site import Page, Site


@pytest.fixture
def portal(opened: Opened) -> OpenDataSoftPortal:
    return opened(OpenDataSoftPortal)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("opendatasoft:https://data.example", "https://data.example"),
        ("opendatasoft:https://data.example/explore/?sort=modified", "https://data.example"),
        ("opendatasoft:https://data.example/explore/dataset/hay/information/", "https://data.example"),
        ("https://data.example/api/explore/v2.1/catalog/datasets?limit=20", "https://data.example"),
        ("https://data.example/api/explore/v2.0/catalog", "https://data.example/api/explore/v2.0"),
        ("opendatasoft:https://data.example/api/v2/catalog/datasets", "https://data.example/api/v2"),
        ("https://data.example/api/v2/catalog/datasets?limit=1", "https://data.example/api/v2"),
        ("https://data.example/api/explore/v2.1", "https://data.example"),
        ("https://data.example/api/datasets/1.0/search/?q=", "https://data.example"),
        ("https://data.example/base/api/records/1.0/search", "https://data.example/base"),
        ("https://data.example/api/v2", None),
        ("https://data.example/api/datasets/2.0", None),
        ("https://farm.opendatasoft.com/explore/", "https://farm.opendatasoft.com"),
        ("https://farm.opendatasoft.com", "https://farm.opendatasoft.com"),
        ("https://data.example", None),
        ("https://data.example/explore/", None),
        ("https://data.example/?see=https://farm.opendatasoft.com/", None),
        ("https://opendatasoft.com.example/", None),
        ("opendatasoft:nonsense", None),
        ("opendatasoft:https://[", None),
    ],
)
def test_only_addresses_that_show_opendatasoft_are_recognised(address: str, url: str | None) -> None:
    assert OpenDataSoft.recognise(address) == url
    assert url is None or OpenDataSoft.accept(url) == url


def test_an_address_tells_api_and_pages() -> None:
    old = OpenDataSoftAddress.of("https://data.example/api/v2")

    assert (
        OpenDataSoftAddress.of("https://data.example").datasets
        == "https://data.example/api/explore/v2.1/catalog/datasets"
    )
    assert (old.datasets, old.site) == ("https://data.example/api/v2/catalog/datasets", "https://data.example")
    assert old.item("a b@c") == "https://data.example/explore/dataset/a%20b@c/"


async def test_a_portal_is_found_by_one_question(database: ScratchDatabase, portal: OpenDataSoftPortal) -> None:
    async with Client(database.settings()) as client:
        found = await OpenDataSoft.probe(Probe(client, f"{portal.url}/pages/home/"))
        portal.body = b'{"results": []}'
        other = await OpenDataSoft.probe(Probe(client, f"{portal.url}/pages/home/"))
        portal.body = b"<html>"
        page = await OpenDataSoft.probe(Probe(client, portal.url))

    assert (found, other, page) == (portal.url, None, None)
    assert len(portal.log) == 3


@pytest.mark.parametrize("root", ["/api/v2", "/api/explore/v2.0"])
async def test_the_root_of_the_api_is_found(database: ScratchDatabase, opened: Opened, root: str) -> None:
    site = opened(Site)
    links = [{"rel": "self", "href": f"{site.url}{root}"}, {"rel": "catalog", "href": f"{site.url}{root}/catalog"}]
    site.pages[root] = Page(json.dumps({"links": links}).encode())
    async with database.open(probe=True) as r:
        source = await r.sources.add(f"{site.url}{root}")

    assert (source.kind, source.url) == ("opendatasoft", f"{site.url}{root}")


def test_a_key_is_a_reference_never_a_value() -> None:
    with pytest.raises(UsageError):
        check_options("opendatasoft", {"api_key": "0123-4567"})


async def test_a_dataset_is_stored_whole(database: ScratchDatabase, portal: OpenDataSoftPortal) -> None:
    metas = {"theme": "Environment", "keyword": "hay", "territory": ["A", "B"], "metadata_languages": ["de", "fr"]}
    more = {
        "attachments": [{"id": "manual_pdf", "title": "Manual", "mimetype": "application/pdf", "url": "odsfile://x"}],
        "odd": {"kept": [1, None]},
    }
    record = portal.make("hay-1", "Hay", metas=metas, **more)
    record["metas"]["dcat"] |= {"temporal_coverage_start": "2020-01-01", "temporal_coverage_end": None}
    async with database.open() as r:
        await keep(r, portal)

    [(url, title, text, tags, record)] = database.query("select url, title, text, tags, record from item")
    assert (url, title, tags) == (f"{portal.url}/explore/dataset/hay-1/", "Hay", ["Environment", "hay"])
    assert text == "All about hay-1.\n\n## Resources\n\n- Manual (PDF)\n\n## Columns\n\na"
    assert (record["publisher"], record["licence"], record["languages"]) == ("The Farm", "CC0", ["de", "fr"])
    assert (record["issued"], record["modified"]) == ("2020-01-31", "2024-01-01T02:00:00Z")
    assert (record["spatial"], record["temporal"]) == ("A, B", "2020-01-01/")
    assert [(one["url"].partition("/datasets/")[2], one["media_type"]) for one in record["resources"]] == [
        ("hay-1/exports/csv", "text/csv"),
        ("hay-1/exports/json", "application/json"),
        ("hay-1/attachments/manual_pdf", "application/pdf"),
    ]
    assert record["source"]["odd"] == {"kept": [1, None]}
    assert "records_count" not in record["source"]["metas"]["default"]


async def test_records_with_nulls_are_items_all_the_same(database: ScratchDatabase, portal: OpenDataSoftPortal) -> None:
    portal.make("bare", metas=dict.fromkeys(("title", "description", "keyword", "theme", "publisher", "license")))
    portal.store("none", {"dataset_id": "none", "metas": None, "attachments": [None, 7], "has_records": None})
    portal.store("uid", {"dataset_uid": "da_1", "metas": {"default": {"title": 707, "modified": "31 February"}}})
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 3, 0)
    assert sorted(database.query("select title from item")) == [("707",), ("bare",), ("none",)]


async def test_the_older_answer_is_read_as_well(database: ScratchDatabase, portal: OpenDataSoftPortal) -> None:
    portal.fill(5)
    async with database.open() as r:
        await keep(r, portal)
        portal.wrapped = True
        run = await r.sync("portal", full=True)

    assert (run.stats.unchanged, run.stats.rows_written) == (6, 0)


async def test_the_older_api_is_asked_where_the_address_says_so(
    database: ScratchDatabase, portal: OpenDataSoftPortal
) -> None:
    portal.fill(5)
    portal.wrapped = True
    portal.address = f"opendatasoft:{portal.url}/api/v2"
    async with database.open() as r:
        run = await keep(r, portal)

    assert run.stats.created == 6
    assert database.query("select count(*) from item where url like %s", f"{portal.url}/explore/dataset/%") == [(6,)]


async def test_a_catalog_larger_than_the_window_is_seen_whole(
    database: ScratchDatabase, portal: OpenDataSoftPortal
) -> None:
    portal.fill(450)
    portal.window = 200
    async with database.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal")

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 451)
    assert (again.stats.requests, again.stats.rows_written) == (2, 0)


async def test_records_of_one_second_are_all_seen(database: ScratchDatabase, portal: OpenDataSoftPortal) -> None:
    portal.page_max = 10
    for number in range(45):
        portal.make(f"same{number}", tick_h=0)
    portal.make("later")
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created, run.stats.requests) == ("completed", True, 46, 5 + 1 + 2)


async def test_more_records_of_one_second_than_the_window_prove_nothing(
    database: ScratchDatabase, portal: OpenDataSoftPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.opendatasoft.WINDOW", 50)
    for number in range(300):
        portal.make(f"same{number}", tick_h=0)
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete) == ("partial", False)
    assert "no more than 50 records" in (run.error or "")


async def test_undated_records_are_read_in_every_run(database: ScratchDatabase, portal: OpenDataSoftPortal) -> None:
    portal.fill(30)
    portal.page_max = 10
    for number in range(15):
        portal.make(f"undated{number}", dated=False, tick_h=0)
    async with database.open() as r:
        first = await keep(r, portal)
        portal.make("undated3", "Edited without a date", dated=False, tick_h=5)
        run = await r.sync("portal")

    assert (first.status, first.complete, first.stats.created) == ("completed", True, 46)
    assert (run.status, run.stats.updated, run.stats.fell_back) == ("completed", 1, 0)


async def test_a_portal_of_undated_records_is_walked_whole(
    database: ScratchDatabase, portal: OpenDataSoftPortal
) -> None:
    for number in range(15):
        portal.make(f"undated{number}", dated=False)
    async with database.open() as r:
        await keep(r, portal)
        portal.make("undated3", "Edited without a date", dated=False)
        portal.remove("undated4")
        run = await r.sync("portal")

    assert (run.complete, run.stats.updated, run.stats.deleted) == (True, 1, 1)


async def test_an_edit_during_the_walk_is_met_again(database: ScratchDatabase, portal: OpenDataSoftPortal) -> None:
    portal.fill(40)
    portal.page_max = 10

    portal.after(1, lambda: portal.make("d00025", "Edited on the way"))
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 41)
    assert ("Edited on the way",) in database.query("select title from item")


@pytest.mark.parametrize("what", ["large", "deep"])
async def test_a_record_that_cannot_be_received_costs_only_itself(
    database: ScratchDatabase, portal: OpenDataSoftPortal, what: str
) -> None:
    portal.fill(30)
    odd = {"metas": {"description": "x" * 3_000_000}} if what == "large" else {}
    portal.make("d00011", **odd)
    portal.make("after")
    if what == "deep":
        portal.deep = "d00011"
    async with database.open(body_limit_bytes=1_000_000) as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 31, 1)
    assert database.query("select url from quarantine") == [(f"{portal.url}/explore/dataset/d00011/",)]


async def test_strange_json_is_read_as_far_as_it_goes(database: ScratchDatabase, portal: OpenDataSoftPortal) -> None:
    record = b'{"dataset_id": "a", "dataset_id": "b", "metas": {"default": {"title": "Caf\xe9", "size": NaN}}}'
    portal.body = b'\xef\xbb\xbf{"total_count": 1, "results": [%s]}' % record
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 1)
    assert database.query("select title from item") == [("Caf\ufffd",)]


async def test_a_key_is_sent_to_the_portal(
    database: ScratchDatabase, portal: OpenDataSoftPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTAL_KEY", "hay-and-clover")
    portal.fill(2)
    async with database.open() as r:
        await r.sources.add(portal.address, name="portal", options={"api_key": "env:PORTAL_KEY"})
        await r.sync("portal")

    assert {asked["header:Authorization"] for asked in portal.questions()} == {"Apikey hay-and-clover"}
    assert "hay-and-clover" not in str(database.query("select options, cursor from source"))


async def test_a_filter_of_the_user_narrows_the_portal(database: ScratchDatabase, portal: OpenDataSoftPortal) -> None:
    portal.fill(5)
    portal.make("mine", metas={"theme": "Mill"})
    async with database.open() as r:
        run = await keep(r, portal, filter="theme = 'Mill'")
        portal.make("mine", "Edited", metas={"theme": "Mill"})
        again = await r.sync("portal")

    assert (run.stats.created, again.stats.updated, again.stats.requests) == (1, 1, 2)


async def test_an_error_of_the_portal_is_told(database: ScratchDatabase, portal: OpenDataSoftPortal) -> None:
    portal.body = json.dumps({"error_code": "ODSQLError", "message": "ODSQL query is malformed"}).encode()
    async with database.open() as r:
        run = await keep(r, portal)

    assert run.status == "failed"
    assert "ODSQL query is malformed" in (run.error or "")
