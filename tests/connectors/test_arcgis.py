"""ArcGIS Hub sites and portal searches: what is stored of them, and whose items they are."""

import json

import pytest
from aiohttp import web

from rowen.connectors.arcgis import ArcGis
from rowen.connectors.probe import Probe
from rowen.net.client import Client
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.portals.arcgis import GeoPortal, HubSite
from tests.portals.catalogs import keep


@pytest.fixture
def site(opened: Opened) -> HubSite:
    return opened(HubSite)


@pytest.fixture
def portal(opened: Opened) -> GeoPortal:
    return opened(GeoPortal)


SEARCH = "https://geo.example/portal/sharing/rest/search"


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("arcgis:https://data.example", "https://data.example"),
        ("arcgis:https://data.example/search?collection=dataset", "https://data.example"),
        ("https://farm.hub.arcgis.com/pages/home", "https://farm.hub.arcgis.com"),
        ("https://farm.opendata.arcgis.com", "https://farm.opendata.arcgis.com"),
        ("https://data.example/api/search/v1/collections/dataset/items?limit=9", "https://data.example"),
        (f"{SEARCH}?f=json&q=orgid:a%20b&num=5", f"{SEARCH}?q=orgid%3Aa+b"),
        (SEARCH, None),
        (f"{SEARCH}?q=", None),
        ("https://data.example", None),
        ("https://www.arcgis.com/home/index.html", None),
        ("https://hub.arcgis.com.example/", None),
        ("https://farm.opendata.arcgis.com.example/", None),
        ("arcgis:nonsense", None),
        ("arcgis:https://[", None),
    ],
)
def test_only_addresses_that_show_arcgis_are_recognised(address: str, url: str | None) -> None:
    assert ArcGis.recognise(address) == url
    assert url is None or ArcGis.accept(url) == url


async def test_a_site_is_found_by_one_question(database: ScratchDatabase, site: HubSite) -> None:
    site.fill(3)
    async with Client(database.settings()) as client:
        found = await ArcGis.probe(Probe(client, f"{site.url}/pages/home"))
        site.body = b'{"features": []}'
        other = await ArcGis.probe(Probe(client, site.url))
        site.body = b"<html>"
        page = await ArcGis.probe(Probe(client, site.url))

    assert (found, other, page) == (site.url, None, None)
    assert len(site.log) == 3


async def test_an_item_of_a_site_is_stored_whole(database: ScratchDatabase, site: HubSite) -> None:
    more = {
        "categories": ["/Categories/Environment", "/Categories/Land/Use"],
        "culture": "en-us",
        "extent": [[-77.5, 38.8], [-76.9, 39]],
        "size": 4096,
        "odd": {"kept": [1, None]},
    }
    site.make("abc_0", "Hay", **more)
    async with database.open() as r:
        await keep(r, site)

    [(url, title, text, tags, language, record)] = database.query(
        "select url, title, text, tags, language, record from item"
    )
    assert (url, title, language) == (f"{site.url}/datasets/abc_0", "Hay", "en")
    assert (text, tags) == ("All about abc_0.", ["Environment", "Land/Use", "hay"])
    assert (record["publisher"], record["licence"], record["spatial"]) == ("The Farm", "CC0", "-77.5,38.8,-76.9,39")
    assert (record["issued"], record["modified"]) == ("2020-01-31T00:00:00Z", "2024-01-01T02:00:00Z")
    [service] = record["resources"]
    assert (service["url"][-14:], service["format"], service["size_bytes"]) == (
        "/FeatureServer",
        "Feature Service",
        4096,
    )
    assert record["source"]["properties"]["odd"] == {"kept": [1, None]}
    assert "numViews" not in record["source"]["properties"]


async def test_an_item_of_a_portal_is_known_by_its_page(database: ScratchDatabase, portal: GeoPortal) -> None:
    portal.make("abc", "Hay", license=None, licenseInfo="<p>Free to use</p>", source=None, owner="farmer")
    async with database.open() as r:
        await keep(r, portal)

    [(url, record)] = database.query("select url, record from item")
    assert url == f"{portal.url}/portal/home/item.html?id=abc"
    assert (record["publisher"], record["licence"]) == ("farmer", "Free to use")


async def test_records_with_nulls_are_items_all_the_same(database: ScratchDatabase, site: HubSite) -> None:
    names = ("title", "description", "tags", "source", "license", "created", "url", "type", "extent", "culture")
    site.unwrap(site.make("bare")).update(dict.fromkeys(names))
    site.make("odd", 707, tags="one", categories=[None, 7], extent=[[1], None], snippet="<b>In short</b>", size="big")
    site.store("flat", {"id": "flat", "properties": None, "title": "Flat"})
    async with database.open() as r:
        run = await keep(r, site)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 3, 0)
    assert sorted(database.query("select title from item")) == [("707",), ("Flat",), ("bare",)]


async def test_a_site_without_a_scope_is_refused(database: ScratchDatabase, site: HubSite) -> None:
    site.fill(30)
    async with database.open() as r:
        for scope in ([], [{"predicates": []}], [None]):
            site.scope = scope
            await r.sources.add(site.address, name="site")
            run = await r.sync("site")
            await r.sources.remove("site")

            assert (run.status, run.stats.created) == ("failed", 0)
            assert "has no scope" in (run.error or "")
    assert not site.questions("/items")


async def test_a_site_that_loses_its_scope_brings_in_nothing_foreign(database: ScratchDatabase, site: HubSite) -> None:
    site.fill(30)
    async with database.open() as r:
        await keep(r, site)
        site.scope = []
        for number in range(150):
            site.make(f"foreign{number}", tick_h=0.01)
        run = await r.sync("portal", accept_deletions=True)

    assert run.status == "failed"
    assert database.query("select count(*) from item") == [(31,)]


async def test_a_site_that_tells_nothing_of_its_catalog_is_read(database: ScratchDatabase, site: HubSite) -> None:
    site.fill(5)
    site.has_catalog = False
    async with database.open() as r:
        run = await keep(r, site)

    assert (run.status, run.stats.created) == ("completed", 6)


async def test_more_items_than_are_counted_are_seen_whole(database: ScratchDatabase, site: HubSite) -> None:
    site.fill(450)
    site.window = 200
    async with database.open() as r:
        run = await keep(r, site)
        again = await r.sync("portal")

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 451)
    assert (again.stats.requests, again.stats.rows_written) == (2, 0)


@pytest.mark.parametrize("made", [HubSite, GeoPortal])
async def test_a_count_at_its_limit_is_not_believed(
    database: ScratchDatabase, made: type[HubSite | GeoPortal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.arcgis.CLAMP", 200)
    source = made()
    source.fill(450)
    source.clamp = source.window = 200
    async with database.open() as r:
        first = await keep(r, source)
        source.make("d00007", "Edited")
        source.remove("d00008")
        run = await r.sync("portal")
        whole = await r.sync("portal", full=True)
    source.close()

    assert (first.status, first.complete, first.stats.created) == ("completed", True, 451)
    assert (run.status, run.stats.updated, run.stats.deleted) == ("completed", 1, 0)
    assert (whole.status, whole.stats.deleted) == ("completed", 1)


async def test_items_without_a_date_are_found_at_the_end(database: ScratchDatabase, site: HubSite) -> None:
    site.fill(30)
    site.page_max = 10
    for number in range(15):
        site.make(f"undated{number}", dated=False)
    async with database.open() as r:
        first = await keep(r, site)
        site.remove("undated3")
        run = await r.sync("portal")

    assert (first.status, first.complete, first.stats.created) == ("completed", True, 46)
    assert (run.status, run.complete, run.stats.deleted) == ("completed", True, 1)


async def test_an_item_that_cannot_be_received_costs_only_itself_but_then_nothing_is_deleted(
    database: ScratchDatabase, site: HubSite
) -> None:
    site.fill(30)
    async with database.open(body_limit_bytes=1_000_000) as r:
        await keep(r, site)
        site.make("d00011", description="x" * 3_000_000)
        site.make("d00012", "Edited")
        site.remove("d00013")
        run = await r.sync("portal")
        site.make("d00011", "Healed")
        healed = await r.sync("portal")

    assert (run.status, run.complete, run.stats.failed, run.stats.updated, run.stats.deleted) == (
        "partial",
        False,
        1,
        1,
        0,
    )
    assert "could not be received" in (run.error or "")
    assert (healed.status, healed.complete, healed.stats.updated, healed.stats.deleted) == ("completed", True, 1, 1)


@pytest.mark.parametrize(("code", "hint"), [(498, "env:NAME"), (400, "")])
async def test_an_error_with_status_200_is_told(
    database: ScratchDatabase, portal: GeoPortal, code: int, hint: str
) -> None:
    portal.body = json.dumps({"error": {"code": code, "message": "Something is wrong.", "details": []}}).encode()
    async with database.open() as r:
        run = await keep(r, portal)

    assert run.status == "failed"
    assert "Something is wrong." in (run.error or "")
    assert hint in (run.error or "")


async def test_a_private_organisation_says_so_and_deletes_nothing(database: ScratchDatabase, site: HubSite) -> None:
    site.fill(5)
    async with database.open() as r:
        await keep(r, site)
        site.failures = [web.Response(status=401) for _ in range(4)]
        run = await r.sync("portal", full=True)

    assert run.status == "failed"
    assert "401" in (run.error or "")
    assert database.query("select count(*) from item") == [(6,)]


async def test_a_token_is_sent_to_the_portal(
    database: ScratchDatabase, portal: GeoPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTAL_TOKEN", "hay-and-clover")
    portal.fill(2)
    async with database.open() as r:
        headers = {"X-Esri-Authorization": "Bearer env:PORTAL_TOKEN"}
        await r.sources.add(portal.address, name="portal", options={"headers": headers})
        await r.sync("portal")

    assert {asked["header:X-Esri-Authorization"] for asked in portal.questions()} == {"Bearer hay-and-clover"}
    assert "hay-and-clover" not in str(database.query("select options, cursor from source"))


async def test_a_search_of_a_portal_is_kept_in_step(database: ScratchDatabase, portal: GeoPortal) -> None:
    portal.fill(250)
    async with database.open() as r:
        first = await keep(r, portal)
        quiet = await r.sync("portal")
        portal.make("d00007", "Edited")
        portal.remove("d00008")
        run = await r.sync("portal")
        portal.body = b'{"total": 0, "start": 1, "num": 0, "nextStart": -1, "results": []}'
        nothing = await r.sync("portal", full=True, accept_deletions=True)

    assert (first.status, first.complete, first.stats.created) == ("completed", True, 251)
    assert (quiet.stats.requests, quiet.stats.rows_written) == (2, 0)
    assert (run.complete, run.stats.updated, run.stats.deleted) == (True, 1, 1)
    assert (nothing.status, nothing.stats.deleted) == ("failed", 0)


async def test_the_words_of_a_search_stay_together(database: ScratchDatabase, portal: GeoPortal) -> None:
    portal.address = f"arcgis:{portal.url}/portal/sharing/rest/search?q=orgid%3Afarm+OR+owner%3Afarm"
    portal.fill(2)
    async with database.open() as r:
        await keep(r, portal)
        portal.log.clear()
        await r.sync("portal")

    [since, count] = portal.questions()
    assert since["q"].startswith("(orgid:farm OR owner:farm) AND modified:[0000001704")
    assert count["q"] == "orgid:farm OR owner:farm"


async def test_strange_json_is_read_as_far_as_it_goes(database: ScratchDatabase, site: HubSite) -> None:
    record = b'{"id": "a", "id": "b", "properties": {"title": "Caf\xe9", "size": NaN, "modified": "31 February"}}'
    site.body = b'\xef\xbb\xbf{"features": [%s], "numberMatched": 1, "links": [null]}' % record
    async with database.open() as r:
        run = await keep(r, site)

    assert (run.status, run.stats.created) == ("completed", 1)
    assert database.query("select title from item") == [("Caf\ufffd",)]
