"""CKAN portals that lie, break and change under our feet: the defects D1 to D14 of other harvesters, and bad input."""

import json

import pytest
from aiohttp import web

from tests.conftest import House
from tests.connectors.conftest import Opened
from tests.logical import titles
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal, nested


@pytest.fixture
def portal(opened: Opened) -> CkanPortal:
    return opened(CkanPortal)


async def test_d4_records_with_nulls_are_items_all_the_same(house: House, portal: CkanPortal) -> None:
    nothing = dict.fromkeys(("title", "notes", "tags", "resources", "organization", "extras", "groups", "name"))
    portal.records["bare"] = {"id": "bare", "metadata_modified": "2024-01-01T00:00:00", **nothing}
    portal.make("odd", {"de": None, "fr": "Foin"}, resources=[None, 7, {"url": None}], tags=[None, {"name": None}, "x"])
    portal.make("number", 707)
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created, run.tally.failed) == ("completed", 3, 0)
    assert titles(house) == {"bare": "bare", "odd": "Foin", "number": "707"}


async def test_d4_one_unreadable_record_is_quarantined_and_the_rest_goes_on(house: House, portal: CkanPortal) -> None:
    portal.fill(20)
    portal.make("deep", extras=nested(900))
    portal.records["?"] = {"title": "No identifier", "metadata_modified": "2024-01-01T00:00:00"}
    async with house.open() as r:
        first = await keep(r, portal)
        again = await r.sync("portal")
        portal.make("deep")
        healed = await r.sync("portal")

    assert (first.status, first.tally.created, first.tally.failed) == ("completed", 21, 2)
    assert again.tally.requests == 2
    assert (healed.tally.created, healed.tally.failed) == (1, 0)
    [(payload,)] = house.query("select payload from quarantine")
    assert json.loads(bytes(payload))["title"] == "No identifier"


async def test_d4_a_record_too_large_or_broken_costs_only_itself(house: House, portal: CkanPortal) -> None:
    portal.fill(30)
    portal.make("d00011", notes="x" * 3_000_000)
    async with house.open(body_limit_bytes=1_000_000) as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created, run.tally.failed) == ("completed", 30, 1)
    assert house.query("select url from quarantine") == [(f"{portal.url}/dataset/d00011",)]


async def test_d7_an_addition_during_the_walk_is_not_lost(house: House, portal: CkanPortal) -> None:
    portal.fill(40)
    portal.page_max = 10

    def disturb(start: int) -> None:
        if start >= 9:
            portal.after_page = None
            portal.make("a-new")

    portal.after_page = disturb
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.tally.created) == ("completed", True, 42)


async def test_d8_duplicates_across_pages_do_not_stop_the_sweep(house: House, portal: CkanPortal) -> None:
    portal.fill(10)
    portal.records["twin"] = portal.records["d00003"]
    async with house.open() as r:
        await keep(r, portal)
        portal.miscount = -1
        del portal.records["d00004"]
        run = await r.sync("portal", full=True)

    assert (run.status, run.tally.deleted) == ("completed", 1)


@pytest.mark.parametrize("lie", ["everything", "nothing"])
async def test_d10_a_portal_that_ignores_the_filter_is_walked_whole(
    house: House, portal: CkanPortal, caplog: pytest.LogCaptureFixture, lie: str
) -> None:
    portal.fill(20)
    portal.ignores = {"filter"} if lie == "everything" else set()
    portal.empty_when_filtered = lie == "nothing"
    async with house.open() as r:
        await keep(r, portal)
        assert "ignores the modified filter" in caplog.text

        portal.make("d00001", "Edited")
        del portal.records["d00002"]
        run = await r.sync("portal")

    assert (run.complete, run.tally.updated, run.tally.deleted, run.tally.fell_back) == (True, 1, 1, 0)


@pytest.mark.parametrize("lie", ["everything", "nothing"])
async def test_d10_a_filter_that_stops_working_is_found_out(
    house: House, portal: CkanPortal, caplog: pytest.LogCaptureFixture, lie: str
) -> None:
    portal.fill(20)
    async with house.open() as r:
        await keep(r, portal)
        portal.ignores = {"filter"} if lie == "everything" else set()
        portal.empty_when_filtered = lie == "nothing"
        portal.make("d00001", "Edited")
        run = await r.sync("portal")

    assert (run.status, run.complete, run.tally.updated, run.tally.fell_back) == ("completed", True, 1, 1)
    assert "ignores the modified filter" in caplog.text


async def test_d11_a_renamed_dataset_stays_itself(house: House, portal: CkanPortal) -> None:
    portal.fill(5)
    async with house.open() as r:
        await keep(r, portal)
        portal.make("d00001", name="another-slug")
        run = await r.sync("portal")

    assert (run.tally.created, run.tally.amended, run.tally.deleted) == (0, 1, 0)


async def test_d12_every_language_is_kept(house: House, portal: CkanPortal) -> None:
    portal.make("a", {"de": "Heu", "fr": "Foin", "it": "", "rm": "Heu"}, notes={"de": "Zweimal", "fr": "Deux fois"})
    async with house.open() as r:
        await keep(r, portal)

    [(title, text, language, languages)] = house.query("select title, text, language, record->'languages' from item")
    assert (title, language, languages) == ("Heu", None, ["de", "fr", "rm"])
    assert "Zweimal" in text
    assert "## Foin (fr)\n\nDeux fois" in text


async def test_d12_the_preferred_language_is_the_main_one(house: House, portal: CkanPortal) -> None:
    portal.make("a", {"de": "Heu", "fr": "Foin"}, notes={"de": "Zweimal", "fr": "Deux fois"})
    async with house.open() as r:
        await keep(r, portal, language="fr")

    assert house.query("select title, language from item") == [("Foin", "fr")]


async def test_d14_a_title_that_contains_test_is_a_title(house: House, portal: CkanPortal) -> None:
    portal.make("a", "Latest test results")
    async with house.open() as r:
        await keep(r, portal)

    assert titles(house) == {"a": "Latest test results"}


async def test_d9_an_edit_during_a_long_walk_is_read_by_the_next_run(house: House, portal: CkanPortal) -> None:
    portal.fill(60)
    portal.page_max = 10
    async with house.open() as r:
        await keep(r, portal)
        house.execute("update source set cursor = jsonb_set(cursor, '{walked}', '\"2020-01-01T00:00:00Z\"')")

        def fail(start: int) -> None:
            portal.down = start > 20

        def edit(start: int) -> None:
            if start > 45:
                portal.after_page = None
                portal.make("d00032", "Edited behind the walk", tick_h=3)
                portal.make("d00033", "Edited much later", tick_h=3)

        portal.after_page = fail
        await r.sync("portal")
        portal.down, portal.after_page = False, edit
        await r.sync("portal")
        await r.sync("portal")

    assert (titles(house)["d00032"], titles(house)["d00033"]) == ("Edited behind the walk", "Edited much later")


async def test_a_listing_that_never_ends_is_left(
    house: House, portal: CkanPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.catalog.bounds.LEAST_GROWN", 50)
    portal.fill(5)
    portal.page_max = 20
    portal.endless = True
    async with house.open() as r:
        run = await keep(r, portal)

    assert run.status == "partial"
    assert "does not end" in (run.error or "")


async def test_a_broken_connection_is_tried_again(house: House, portal: CkanPortal) -> None:
    portal.fill(30)
    portal.page_max = 10

    def drop(start: int) -> None:
        if start > 15:
            portal.after_page = None
            portal.drops = 1

    portal.after_page = drop
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created) == ("completed", 31)


async def test_a_portal_without_the_envelope_is_read(house: House, portal: CkanPortal) -> None:
    portal.fill(5)
    portal.envelope = False
    async with house.open() as r:
        run = await keep(r, portal)

    assert run.tally.created == 6


async def test_strange_json_is_read_as_far_as_it_goes(house: House, portal: CkanPortal) -> None:
    record = b'{"id": "a", "id": "b", "title": "Caf\xe9", "size": NaN, "metadata_modified": "31 February"}'
    portal.body = b'\xef\xbb\xbf{"success": true, "result": {"count": 1, "results": [%s]}}' % record
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created) == ("completed", 1)
    assert titles(house) == {"b": "Caf\ufffd"}


async def test_a_refused_request_names_the_key(house: House, portal: CkanPortal) -> None:
    portal.failures = [web.Response(status=403) for _ in range(2)]
    async with house.open() as r:
        run = await keep(r, portal)

    assert run.status == "failed"
    assert "api_key" in (run.error or "")
