"""CKAN portals that lie, break and change under our feet: the defects D1 to D14 of other harvesters, and bad input."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from rowen import Rowen, Run
from rowen.connectors.ckan import Ckan
from tests.conftest import House
from tests.logical import contents
from tests.portals.ckan import CkanPortal, nested


@pytest.fixture(autouse=True)
def _kind(kinds: Any) -> None:
    kinds(Ckan)


@pytest.fixture
def portal() -> Iterator[CkanPortal]:
    portal = CkanPortal()
    yield portal
    portal.close()


async def keep(r: Rowen, portal: CkanPortal, **options: Any) -> Run:
    await r.add(portal.address, name="portal", options=options)
    run = await r.sync("portal")
    portal.log.clear()
    return run


def titles(house: House) -> dict[str, str]:
    return {url.rpartition("/")[2]: title for url, title in house.query("select url, title from item")}


async def test_d1_changed_licences_and_resources_arrive(house: House, portal: CkanPortal) -> None:
    portal.fill(5)
    async with house.open() as r:
        await keep(r, portal)
        portal.put("d00001", license_title="CC0")
        run = await r.sync("portal")

    assert (run.tally.amended, run.tally.chunks_written) == (1, 0)


@pytest.mark.parametrize("most", [1, 2, 7, 100])
async def test_d2_a_portal_that_clamps_rows_is_walked_to_its_end(house: House, portal: CkanPortal, most: int) -> None:
    portal.fill(30)
    portal.rows_max = most
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.tally.created) == ("completed", True, 31)


NO_LISTINGS = [
    b'{"success": true, "result": {"count": 0, "results": []}}',
    b"<!doctype html><title>Maintenance</title>",
    b'{"success": true, "result": {"count": 21, "resu',
    b'{"success": false, "error": {"message": "Search error"}}',
    b'{"success": true, "result": {"count": 21, "results": null}}',
    b'{"success": true, "result": []}',
    b"[]",
    b"",
    b"null",
    b"[" * 100_000,
]


@pytest.mark.parametrize("full", [True, False])
async def test_d2_an_answer_that_is_no_listing_deletes_nothing(house: House, portal: CkanPortal, full: bool) -> None:
    portal.fill(20)
    async with house.open() as r:
        await keep(r, portal)
        for portal.body in NO_LISTINGS:
            run = await r.sync("portal", full=full, accept_deletions=True)

            assert run.status in ("failed", "partial"), portal.body
            assert run.error
            assert len(contents(house)) == 21
        portal.body = None
        assert (await r.sync("portal")).tally.rows_written == 0


async def test_d2_a_listing_that_falls_short_of_its_count_deletes_nothing(house: House, portal: CkanPortal) -> None:
    portal.fill(20)
    async with house.open() as r:
        await keep(r, portal)
        del portal.records["d00003"]
        portal.miscount = 3
        run = await r.sync("portal", full=True)

    assert (run.status, run.tally.deleted, len(contents(house))) == ("partial", 0, 21)
    assert "declares 23" in (run.error or "")


async def test_d3_what_could_not_be_stored_is_asked_for_again(house: House, portal: CkanPortal) -> None:
    portal.fill(20)
    async with house.open() as r:
        await keep(r, portal)
        house.execute("delete from item where url like '%d00003'")
        run = await r.sync("portal")

    assert (run.status, run.tally.created, len(contents(house))) == ("completed", 1, 21)


async def test_d4_records_with_nulls_are_items_all_the_same(house: House, portal: CkanPortal) -> None:
    nothing = dict.fromkeys(("title", "notes", "tags", "resources", "organization", "extras", "groups", "name"))
    portal.records["bare"] = {"id": "bare", "metadata_modified": "2024-01-01T00:00:00", **nothing}
    portal.put("odd", {"de": None, "fr": "Foin"}, resources=[None, 7, {"url": None}], tags=[None, {"name": None}, "x"])
    portal.put("number", 707)
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created, run.tally.failed) == ("completed", 3, 0)
    assert titles(house) == {"bare": "bare", "odd": "Foin", "number": "707"}


async def test_d4_one_unreadable_record_is_quarantined_and_the_rest_goes_on(house: House, portal: CkanPortal) -> None:
    portal.fill(20)
    portal.put("deep", extras=nested(900))
    portal.records["?"] = {"title": "No identifier", "metadata_modified": "2024-01-01T00:00:00"}
    async with house.open() as r:
        first = await keep(r, portal)
        again = await r.sync("portal")
        portal.put("deep")
        healed = await r.sync("portal")

    assert (first.status, first.tally.created, first.tally.failed) == ("completed", 21, 2)
    assert again.tally.requests == 2
    assert (healed.tally.created, healed.tally.failed) == (1, 0)
    [(payload,)] = house.query("select payload from quarantine")
    assert json.loads(bytes(payload))["title"] == "No identifier"


async def test_d4_a_record_too_large_or_broken_costs_only_itself(house: House, portal: CkanPortal) -> None:
    portal.fill(30)
    portal.put("d00011", notes="x" * 3_000_000)
    async with house.open(body_limit_bytes=1_000_000) as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created, run.tally.failed) == ("completed", 30, 1)
    assert house.query("select url from quarantine") == [(f"{portal.url}/dataset/d00011",)]


async def test_d7_a_deletion_during_the_walk_hides_no_other_dataset(house: House, portal: CkanPortal) -> None:
    portal.fill(40)
    portal.rows_max = 10
    async with house.open() as r:
        await keep(r, portal)

        def disturb(start: int) -> None:
            portal.after_page = None
            del portal.records["d00002"]
            portal.put("zzz-new")

        portal.after_page = disturb
        run = await r.sync("portal", full=True)
        await r.sync("portal")

    assert run.tally.deleted <= 1
    assert set(titles(house)) == set(portal.records)


async def test_d7_an_addition_during_the_walk_is_not_lost(house: House, portal: CkanPortal) -> None:
    portal.fill(40)
    portal.rows_max = 10

    def disturb(start: int) -> None:
        if start >= 9:
            portal.after_page = None
            portal.put("a-new")

    portal.after_page = disturb
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.tally.created) == ("completed", True, 42)


async def test_d7_an_unstable_order_never_deletes_what_is_there(house: House, portal: CkanPortal) -> None:
    portal.fill(40)
    portal.rows_max = 10
    async with house.open() as r:
        await keep(r, portal)
        portal.ignores = {"sort"}
        await r.sync("portal", full=True)

    assert set(titles(house)) == set(portal.records)


async def test_d8_duplicates_across_pages_do_not_stop_the_sweep(house: House, portal: CkanPortal) -> None:
    portal.fill(10)
    portal.records["twin"] = portal.records["d00003"]
    async with house.open() as r:
        await keep(r, portal)
        portal.miscount = -1
        del portal.records["d00004"]
        run = await r.sync("portal", full=True)

    assert (run.status, run.tally.deleted) == ("completed", 1)


async def test_d9_an_edit_inside_the_overlap_is_seen(house: House, portal: CkanPortal) -> None:
    portal.fill(5)
    async with house.open() as r:
        await keep(r, portal)
        portal.put("d00001", "Edited a little earlier", tick_h=-0.5)
        run = await r.sync("portal")

    assert run.tally.updated == 1


async def test_d9_a_record_dated_in_the_future_hides_no_later_edit(house: House, portal: CkanPortal) -> None:
    portal.fill(5)
    portal.put("future", metadata_modified="2999-01-01T00:00:00")
    async with house.open() as r:
        await keep(r, portal)
        portal.tick(48)
        portal.put("d00001", "Edited")
        run = await r.sync("portal")

    assert run.tally.updated == 1


async def test_d9_a_portal_whose_clock_is_a_day_ahead_is_read_by_its_own_clock(
    house: House, portal: CkanPortal
) -> None:
    portal.fill(5)
    portal.tick(24 * 365 * 10)
    portal.put("d00002")
    async with house.open() as r:
        await keep(r, portal)
        portal.put("d00001", "Edited")
        run = await r.sync("portal")
        quiet = await r.sync("portal")

    assert (run.tally.updated, quiet.tally.requests, quiet.tally.rows_written) == (1, 2, 0)


@pytest.mark.parametrize("lie", ["everything", "nothing"])
async def test_d10_a_portal_that_ignores_the_filter_is_walked_whole(
    house: House, portal: CkanPortal, caplog: pytest.LogCaptureFixture, lie: str
) -> None:
    portal.fill(20)
    portal.ignores = {"fq"} if lie == "everything" else set()
    portal.empty_when_filtered = lie == "nothing"
    async with house.open() as r:
        await keep(r, portal)
        assert "does not mind the modified filter" in caplog.text

        portal.put("d00001", "Edited")
        del portal.records["d00002"]
        run = await r.sync("portal")

    assert (run.complete, run.tally.updated, run.tally.deleted, run.tally.fell_back) == (True, 1, 1, 1)


@pytest.mark.parametrize("lie", ["everything", "nothing"])
async def test_d10_a_filter_that_stops_working_is_found_out(
    house: House, portal: CkanPortal, caplog: pytest.LogCaptureFixture, lie: str
) -> None:
    portal.fill(20)
    async with house.open() as r:
        await keep(r, portal)
        portal.ignores = {"fq"} if lie == "everything" else set()
        portal.empty_when_filtered = lie == "nothing"
        portal.put("d00001", "Edited")
        run = await r.sync("portal")

    assert (run.status, run.complete, run.tally.updated, run.tally.fell_back) == ("completed", True, 1, 1)
    assert "ignores the modified filter" in caplog.text


async def test_d11_a_renamed_dataset_stays_itself(house: House, portal: CkanPortal) -> None:
    portal.fill(5)
    async with house.open() as r:
        await keep(r, portal)
        portal.put("d00001", name="another-slug")
        run = await r.sync("portal")

    assert (run.tally.created, run.tally.amended, run.tally.deleted) == (0, 1, 0)


async def test_d12_every_language_is_kept(house: House, portal: CkanPortal) -> None:
    portal.put("a", {"de": "Heu", "fr": "Foin", "it": "", "rm": "Heu"}, notes={"de": "Zweimal", "fr": "Deux fois"})
    async with house.open() as r:
        await keep(r, portal)

    [(title, text, language, languages)] = house.query("select title, text, language, record->'languages' from item")
    assert (title, language, languages) == ("Heu", None, ["de", "fr", "rm"])
    assert "Zweimal" in text
    assert "## Foin (fr)\n\nDeux fois" in text


async def test_d12_the_preferred_language_is_the_main_one(house: House, portal: CkanPortal) -> None:
    portal.put("a", {"de": "Heu", "fr": "Foin"}, notes={"de": "Zweimal", "fr": "Deux fois"})
    async with house.open() as r:
        await keep(r, portal, language="fr")

    assert house.query("select title, language from item") == [("Foin", "fr")]


async def test_d14_a_title_that_contains_test_is_a_title(house: House, portal: CkanPortal) -> None:
    portal.put("a", "Latest test results")
    async with house.open() as r:
        await keep(r, portal)

    assert titles(house) == {"a": "Latest test results"}


async def test_a_page_that_repeats_is_noticed(house: House, portal: CkanPortal) -> None:
    portal.fill(30)
    portal.rows_max = 10
    portal.ignores = {"start"}
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.tally.created) == ("partial", False, 10)
    assert "came twice" in (run.error or "")


async def test_a_count_that_says_less_than_is_there_loses_nothing(house: House, portal: CkanPortal) -> None:
    portal.fill(30)
    portal.rows_max = 10
    portal.miscount = -25
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created) == ("completed", 31)


async def test_an_interrupted_walk_goes_on_where_it_was(house: House, portal: CkanPortal) -> None:
    portal.fill(95)
    portal.rows_max = 10
    async with house.open() as r:
        await keep(r, portal)
        house.execute("update source set cursor = jsonb_set(cursor, '{walked}', '\"2020-01-01T00:00:00Z\"')")

        def fail(start: int) -> None:
            if start > 60:
                portal.down = True

        portal.after_page = fail
        broken = await r.sync("portal")
        portal.after_page, portal.down = None, False
        portal.put("d00001", "Edited behind the walk")
        portal.put("d00000-new")
        del portal.records["d00002"]
        portal.log.clear()
        run = await r.sync("portal")

    assert broken.status == "partial"
    first = portal.questions()[0]
    assert int(first["start"]) > 50
    assert (run.status, run.complete, run.tally.updated, run.tally.created, run.tally.deleted) == (
        "completed",
        True,
        1,
        1,
        1,
    )
    assert set(titles(house)) == set(portal.records)


async def test_d9_an_edit_during_a_long_walk_is_read_by_the_next_run(house: House, portal: CkanPortal) -> None:
    portal.fill(60)
    portal.rows_max = 10
    async with house.open() as r:
        await keep(r, portal)
        house.execute("update source set cursor = jsonb_set(cursor, '{walked}', '\"2020-01-01T00:00:00Z\"')")

        def fail(start: int) -> None:
            portal.down = start > 20

        def edit(start: int) -> None:
            if start > 45:
                portal.after_page = None
                portal.put("d00032", "Edited behind the walk", tick_h=3)
                portal.put("d00033", "Edited much later", tick_h=3)

        portal.after_page = fail
        await r.sync("portal")
        portal.down, portal.after_page = False, edit
        await r.sync("portal")
        await r.sync("portal")

    assert (titles(house)["d00032"], titles(house)["d00033"]) == ("Edited behind the walk", "Edited much later")


async def test_a_listing_that_never_ends_is_left(
    house: House, portal: CkanPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.ckan.walk.MOST_UNDECLARED", 50)
    portal.fill(5)
    portal.rows_max = 20
    portal.endless = True
    async with house.open() as r:
        run = await keep(r, portal)

    assert run.status == "partial"
    assert "does not end" in (run.error or "")


async def test_a_broken_connection_is_tried_again(house: House, portal: CkanPortal) -> None:
    portal.fill(30)
    portal.rows_max = 10

    def drop(start: int) -> None:
        if start > 15:
            portal.after_page = None
            portal.drops = 1

    portal.after_page = drop
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created) == ("completed", 31)


async def test_a_portal_too_slow_for_large_pages_is_asked_for_small_ones(house: House, portal: CkanPortal) -> None:
    portal.fill(150)
    portal.broken_above = 70
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created) == ("completed", 151)


async def test_a_page_that_takes_too_long_is_made_smaller(
    house: House, portal: CkanPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.catalog.pages.FIRST_LIMIT_S", 0.2)
    portal.fill(50)
    portal.slow_above = 20
    async with house.open(total_limit_s=0.2, idle_limit_s=0.2) as r:
        run = await keep(r, portal, page_size=60)

    assert (run.status, run.tally.created) == ("completed", 51)


async def test_a_busy_portal_is_waited_for_without_losing_the_place(house: House, portal: CkanPortal) -> None:
    portal.fill(30)
    portal.rows_max = 10

    def busy(start: int) -> None:
        if start > 15:
            portal.after_page = None
            portal.failures = [web.Response(status=429, headers={"Retry-After": "0"}) for _ in range(2)]

    portal.after_page = busy
    async with house.open(fetch_tries=3) as r:
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
