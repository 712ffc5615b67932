"""CKAN portals: what is stored of them, what a run costs, and how deletions are found."""

import json
from pathlib import Path
from typing import Any

import pytest

from rowen.connectors.ckan import Ckan, listing
from rowen.connectors.ckan.address import CkanAddress
from rowen.connectors.registry import check_options
from rowen.errors import UsageError
from rowen.formats.json import read_json
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal


@pytest.fixture
def portal(opened: Opened) -> CkanPortal:
    return opened(CkanPortal)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("ckan:https://data.example", "https://data.example"),
        ("ckan:https://data.example/base/", "https://data.example/base"),
        ("https://data.example/base/api/3", "https://data.example/base"),
        ("https://data.example/api/3/action", "https://data.example"),
        ("https://data.example/api/3/action/package_search?q=a", "https://data.example"),
        ("https://api.gsa.gov/technology/datagov/v3/action/", "https://api.gsa.gov/technology/datagov/v3/action"),
        ("https://data.example", None),
        ("https://data.example/dataset/hay", None),
        ("ckan:nonsense", None),
        ("ckan:https://[", None),
        ("/api/3", None),
    ],
)
def test_only_addresses_that_show_ckan_are_recognised(address: str, url: str | None) -> None:
    assert Ckan.recognise(address) == url
    assert url is None or Ckan.accept(url) == url


def test_a_page_of_a_portal_stands_for_the_portal_when_the_kind_is_given() -> None:
    assert Ckan.accept("https://data.example/base/dataset/hay") == "https://data.example/base"
    assert CkanAddress.of("https://data.example/base").action == "https://data.example/base/api/3/action"


def test_a_key_is_a_reference_never_a_value() -> None:
    with pytest.raises(UsageError):
        check_options("ckan", {"api_key": "0123-4567"})


async def test_a_dataset_is_stored_whole(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.make("a1", "Hay", notes="<p>Cut <b>twice</b>.</p>", license_title="CC0", size=3)
    async with database.open() as r:
        await keep(r, portal)

    [(url, title, text, tags, record)] = database.query("select url, title, text, tags, record from item")
    assert (url, title, tags) == (f"{portal.url}/dataset/a1", "Hay", ["hay"])
    assert text == "Cut twice.\n\n## Resources\n\n- Table (CSV)"
    assert (record["publisher"], record["licence"]) == ("The Farm", "CC0")
    assert record["landing_page"].endswith("/dataset/slug-of-a1")
    assert record["source"]["size"] == 3
    assert "package_count" not in record["source"]["organization"]


async def test_nothing_changed_costs_two_requests_and_no_row(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(2500)
    async with database.open() as r:
        first = await keep(r, portal)
        again = await r.sync("portal")

    assert (first.status, first.complete, first.stats.created) == ("completed", True, 2501)
    assert (again.status, again.stats.requests, again.stats.rows_written) == ("completed", 2, 0)
    assert again.stats.bytes < 2000
    assert database.query("select count(*) from item_check") == [(0,)]


async def test_a_thousandth_changed_costs_what_changed(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(3000)
    async with database.open() as r:
        await keep(r, portal)
        for number in range(3):
            portal.make(f"d{number * 900:05}", "Another title", tick_h=0.1)
        run = await r.sync("portal")

    assert (run.stats.updated, run.stats.unchanged, run.stats.not_asked, run.stats.requests) == (3, 1, 2997, 2)
    assert run.stats.rows_written <= 2 * 3 * 3


async def test_a_full_walk_without_changes_writes_nothing(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(1200)
    async with database.open() as r:
        await keep(r, portal)
        portal.records["d00001"]["organization"]["package_count"] = 99
        portal.records["d00002"]["tracking_summary"] = {"total": 7}
        run = await r.sync("portal", full=True)

    assert (run.mode, run.stats.unchanged, run.stats.rows_written) == ("full", 1201, 0)


async def test_a_changed_count_reveals_a_deletion_and_the_identifiers_prove_it(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.fill(2500)
    async with database.open() as r:
        await keep(r, portal)
        del portal.records["d00007"]
        run = await r.sync("portal")
        quiet = await r.sync("portal")

    assert (run.status, run.complete, run.stats.deleted, run.stats.unchanged) == ("completed", True, 1, 2500)
    assert run.stats.bytes < 120_000
    assert (quiet.stats.requests, quiet.stats.rows_written) == (2, 0)


async def test_an_item_that_comes_back_with_its_old_date_is_created_again(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        back = portal.records.pop("d00007")
        await r.sync("portal")
        portal.records["d00007"] = back
        run = await r.sync("portal")

    assert (run.status, run.stats.created) == ("completed", 1)


async def test_a_dataset_said_to_be_deleted_is_deleted_at_once(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00001", state="deleted")
        run = await r.sync("portal")
        quiet = await r.sync("portal")
        portal.make("d00001")
        back = await r.sync("portal")

    assert (run.stats.deleted, quiet.stats.rows_written, back.stats.created) == (1, 0, 1)


async def test_harvest_jobs_are_no_datasets(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(5)
    portal.make("job", type="harvest")
    async with database.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal")

    assert (run.status, run.stats.created) == ("completed", 6)
    assert (again.status, again.stats.requests) == ("completed", 2)


async def test_a_reconciliation_finds_what_kept_its_date(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(5)
    async with database.open() as r:
        await keep(r, portal)
        portal.records["d00001"]["title"] = "Changed in silence"
        silent = await r.sync("portal")
        database.execute("update source set cursor = jsonb_set(cursor, '{walked}', '\"2020-01-01T00:00:00Z\"')")
        run = await r.sync("portal")

    assert (silent.stats.updated, run.stats.updated, run.complete) == (0, 1, True)


async def test_a_cursor_of_the_former_walk_is_dropped_and_the_portal_walked_whole(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.fill(20)
    place = {"since": None, "position": 9, "after": "d00008", "clock": "2024-01-01T00:00:00.000Z", "newest": None}
    former = {"modified": "2024-01-05T06:00:00.000Z", "walked": "2024-01-06T00:00:00.000Z", "filters": True}
    former |= {"probed": "2024-01-06T00:00:00.000Z", "unheld": ["job"], "proved": True, "place": place}
    async with database.open() as r:
        await keep(r, portal)
        portal.records["d00001"]["title"] = "Changed in silence"
        database.execute(f"update source set cursor = '{json.dumps(former)}'")
        run = await r.sync("portal")
        quiet = await r.sync("portal")

    assert (run.status, run.complete, run.stats.updated, run.stats.deleted) == ("completed", True, 1, 0)
    assert (quiet.stats.requests, quiet.stats.rows_written) == (2, 0)


async def test_a_key_is_sent_to_the_portal(
    database: ScratchDatabase, portal: CkanPortal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTAL_KEY", "hay-and-clover")
    portal.fill(2)
    async with database.open() as r:
        await r.sources.add(
            portal.address, name="portal", options={"api_key": "env:PORTAL_KEY", "include_private": True}
        )
        await r.sync("portal")

    assert {asked["header:Authorization"] for asked in portal.questions()} == {"hay-and-clover"}
    assert {asked["include_private"] for asked in portal.questions()} == {"true"}
    assert "hay-and-clover" not in str(database.query("select options, cursor from source"))


async def test_a_filter_of_the_user_narrows_the_portal(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(5)
    portal.make("mine", organization={"name": "mill"})
    async with database.open() as r:
        run = await keep(r, portal, filter="organization:mill")
        portal.make("mine", "Edited", organization={"name": "mill"})
        again = await r.sync("portal")

    assert (run.stats.created, again.stats.updated, again.stats.requests) == (1, 1, 2)


async def test_a_record_whose_bytes_are_the_same_is_not_even_parsed(
    database: ScratchDatabase, portal: CkanPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    portal.fill(20)
    parsed: list[bytes] = []

    def reading(body: bytes, where: str) -> Any:
        parsed.append(body)
        return read_json(body, where)

    async with database.open() as r:
        await keep(r, portal)
        portal.records["d00001"]["tracking_summary"] = {"total": 7}
        portal.make("d00002", "Another title")
        monkeypatch.setattr(listing, "read_json", reading)
        run = await r.sync("portal", full=True)

    assert (run.stats.updated, run.stats.unchanged) == (1, 20)
    assert sorted(json.loads(body)["id"] for body in parsed) == ["d00001", "d00002"]
