"""Socrata portals: what is stored of them, and how the latest assets are told from the rest."""

import pytest

from rowen.connectors.probe import Probe
from rowen.connectors.registry import check_options
from rowen.connectors.socrata import Socrata
from rowen.errors import UsageError
from rowen.net.client import Client
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.portals.catalogs import keep
from tests.portals.socrata import SocrataPortal


@pytest.fixture
def portal(opened: Opened) -> SocrataPortal:
    return opened(SocrataPortal)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("socrata:https://data.example", "https://data.example"),
        ("socrata:https://data.example/browse?category=Farming", "https://data.example"),
        ("https://data.example/api/catalog/v1?limit=10", "https://data.example"),
        ("https://opendata.socrata.com", "https://opendata.socrata.com"),
        ("https://api.us.socrata.com/api/catalog/v1?domains=data.example&only=datasets", "https://data.example"),
        ("https://api.us.socrata.com/api/catalog/v1", None),
        ("https://api.eu.socrata.com/api/catalog/v1?domains=a.example,b.example", None),
        ("https://data.example", None),
        ("https://socrata.com.example", None),
        ("https://data.example/?next=https://opendata.socrata.com/", None),
        ("socrata:nonsense", None),
        ("socrata:https://[", None),
    ],
)
def test_only_addresses_that_show_socrata_are_recognised(address: str, url: str | None) -> None:
    assert Socrata.recognise(address) == url
    assert url is None or Socrata.accept(url) == url


async def test_a_portal_is_found_by_one_question(database: ScratchDatabase, portal: SocrataPortal) -> None:
    async with Client(database.settings()) as client:
        found = await Socrata.probe(Probe(client, f"{portal.url}/browse"))
        portal.body = b'{"results": []}'
        other = await Socrata.probe(Probe(client, portal.url))
        portal.body = b"<html>"
        page = await Socrata.probe(Probe(client, portal.url))

    assert (found, other, page) == (portal.url, None, None)
    assert len(portal.log) == 3


def test_a_token_is_a_reference_never_a_value() -> None:
    with pytest.raises(UsageError):
        check_options("socrata", {"app_token": "0123-4567"})
    with pytest.raises(UsageError):
        check_options("socrata", {"only": ["nonsense"]})


async def test_an_asset_is_stored_whole(database: ScratchDatabase, portal: SocrataPortal) -> None:
    classes = {
        "domain_tags": ["hay"],
        "categories": ["environment"],
        "domain_category": "Farming",
        "domain_metadata": [
            {"key": "Coverage_Spatial-extent", "value": "The meadow"},
            {"key": "Coverage_Temporal-extent", "value": "2019"},
            {"key": None, "value": None},
        ],
    }
    portal.make("abcd-1234", "Hay", classification=classes, odd={"kept": [1, None]})
    async with database.open() as r:
        await keep(r, portal)

    [(url, title, text, tags, record)] = database.query("select url, title, text, tags, record from item")
    assert (url, title, tags) == (f"{portal.url}/d/abcd-1234", "Hay", ["Farming", "environment", "hay"])
    assert text == "All about abcd-1234."
    assert (record["publisher"], record["licence"]) == ("The Farm", "CC0")
    assert (record["issued"], record["modified"]) == ("2020-01-31T00:00:00Z", "2024-01-01T02:00:00Z")
    assert (record["spatial"], record["temporal"]) == ("The meadow", "2019")
    assert record["landing_page"] == f"{portal.url}/Farming/Hay/abcd-1234"
    assert [one["format"] for one in record["resources"]] == ["CSV", "JSON"]
    assert record["source"]["odd"] == {"kept": [1, None]}
    assert {"page_views", "download_count"}.isdisjoint(record["source"]["resource"])


async def test_records_with_nulls_are_items_all_the_same(database: ScratchDatabase, portal: SocrataPortal) -> None:
    nothing = dict.fromkeys(("name", "description", "attribution", "type", "createdAt"))
    portal.make("bare", resource=nothing, classification=None, metadata=None, owner=7, link=None, permalink=None)
    portal.make("odd", 707, resource={"type": "file"}, classification={"domain_tags": None, "domain_metadata": [None]})
    async with database.open() as r:
        run = await keep(r, portal, only=[])

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 2, 0)
    assert sorted(database.query("select title from item")) == [("707",), ("bare",)]


async def test_a_dataset_and_its_map_are_two_items_and_stories_are_none(
    database: ScratchDatabase, portal: SocrataPortal
) -> None:
    portal.make("aaaa-0001", "Trees")
    portal.make("aaaa-0002", "Trees", resource={"type": "map"})
    portal.make("aaaa-0003", "Trees", resource={"type": "story"})
    async with database.open() as r:
        await r.sources.add(portal.address, name="portal")
        first = await r.sync("portal")
        again = await r.sync("portal")

    assert (first.status, first.stats.created) == ("completed", 2)
    assert (again.stats.requests, again.stats.rows_written) == (1, 0)
    assert {asked["only"] for asked in portal.questions()} == {"datasets,maps"}


async def test_all_assets_are_scrolled_through_whatever_the_window(
    database: ScratchDatabase, portal: SocrataPortal
) -> None:
    portal.fill(450)
    portal.window = 100
    async with database.open() as r:
        await r.sources.add(portal.address, name="portal", options={"page_size": 100})
        run = await r.sync("portal")

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 451)
    scrolled = [asked["scroll_id"] for asked in portal.questions() if "scroll_id" in asked]
    assert scrolled == ["", "d00099", "d00199", "d00299", "d00399", "zz-last"]


async def test_a_portal_that_cannot_scroll_is_walked_by_number(
    database: ScratchDatabase, portal: SocrataPortal
) -> None:
    portal.fill(45)
    portal.ignores = {"filter"}
    async with database.open() as r:
        run = await keep(r, portal, page_size=10)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 46)


async def test_a_portal_that_cannot_scroll_and_is_larger_than_the_window_proves_nothing(
    database: ScratchDatabase, portal: SocrataPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.socrata.WINDOW", 20)
    portal.fill(45)
    portal.ignores = {"filter"}
    async with database.open() as r:
        run = await keep(r, portal, page_size=10)

    assert (run.status, run.complete, run.stats.created) == ("partial", False, 20)
    assert "no more than 20 records" in (run.error or "")


async def test_many_changes_are_read_in_pages_that_grow(database: ScratchDatabase, portal: SocrataPortal) -> None:
    portal.fill(300)
    async with database.open() as r:
        await keep(r, portal)
        for number in range(120):
            portal.make(f"d{number:05}", "Edited", tick_h=0.01)
        portal.log.clear()
        run = await r.sync("portal")

    assert (run.status, run.stats.updated, run.stats.fell_back, run.stats.requests) == ("completed", 120, 0, 3)
    assert [asked["limit"] for asked in portal.questions()] == ["10", "40", "160"]


async def test_more_changes_than_the_window_shows_are_found_by_a_walk(
    database: ScratchDatabase, portal: SocrataPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.socrata.WINDOW", 50)
    portal.fill(100)
    async with database.open() as r:
        await keep(r, portal)
        for number in range(90):
            portal.make(f"d{number:05}", "Edited", tick_h=0.01)
        run = await r.sync("portal")

    assert (run.status, run.complete, run.stats.updated, run.stats.fell_back) == ("completed", True, 90, 1)


async def test_a_token_is_sent_to_the_portal(
    database: ScratchDatabase, portal: SocrataPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTAL_TOKEN", "hay-and-clover")
    portal.fill(2)
    async with database.open() as r:
        await r.sources.add(portal.address, name="portal", options={"app_token": "env:PORTAL_TOKEN"})
        await r.sync("portal")

    assert {asked["header:X-App-Token"] for asked in portal.questions()} == {"hay-and-clover"}
    assert "hay-and-clover" not in str(database.query("select options, cursor from source"))


async def test_an_error_of_the_portal_is_told(database: ScratchDatabase, portal: SocrataPortal) -> None:
    portal.body = b'{"error": "Domain not found: data.example"}'
    async with database.open() as r:
        run = await keep(r, portal)

    assert run.status == "failed"
    assert "Domain not found" in (run.error or "")


async def test_strange_json_is_read_as_far_as_it_goes(database: ScratchDatabase, portal: SocrataPortal) -> None:
    record = b'{"resource": {"id": "a", "id": "b", "name": "Caf\xe9", "size": NaN, "updatedAt": "31 February"}}'
    portal.body = b'\xef\xbb\xbf{"results": [%s], "resultSetSize": 1}' % record
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 1)
    assert database.query("select title from item") == [("Caf\ufffd",)]
