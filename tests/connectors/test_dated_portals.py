"""Portals that can be asked for what was modified: what a run costs, and what becomes of one that lies or breaks."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from rowen import Rowen, Run
from rowen.connectors.arcgis import ArcGis
from rowen.connectors.opendatasoft import OpenDataSoft
from rowen.connectors.socrata import Socrata
from tests.conftest import House
from tests.logical import contents, index_of
from tests.portals.arcgis import HubSite
from tests.portals.catalogs import Portal
from tests.portals.opendatasoft import OpenDataSoftPortal
from tests.portals.socrata import SocrataPortal

PORTALS = [HubSite, OpenDataSoftPortal, SocrataPortal]
STALE = "update source set cursor = jsonb_set(cursor, '{walked}', '\"2020-01-01T00:00:00Z\"')"


@pytest.fixture(autouse=True)
def _kinds(kinds: Any) -> None:
    for connector in (ArcGis, OpenDataSoft, Socrata):
        kinds(connector)


@pytest.fixture(params=PORTALS, ids=lambda made: made.__name__)
def portal(request: pytest.FixtureRequest) -> Iterator[Portal]:
    portal = request.param()
    yield portal
    portal.close()


async def keep(r: Rowen, portal: Portal, **options: Any) -> Run:
    await r.add(portal.address, name="portal", options=options)
    run = await r.sync("portal")
    portal.log.clear()
    return run


def titles(house: House) -> dict[str, str]:
    """By the name that ends each URL, whatever stands before it."""
    found = house.query("select url, title from item")
    return {re.split(r"[/=]", url.rstrip("/"))[-1]: title for url, title in found}


async def test_nothing_changed_costs_two_requests_and_no_row(house: House, portal: Portal) -> None:
    portal.fill(250)
    async with house.open() as r:
        first = await keep(r, portal)
        again = await r.sync("portal")

    assert (first.status, first.complete, first.tally.created) == ("completed", True, 251)
    assert (again.status, again.tally.requests, again.tally.rows_written) == ("completed", portal.quiet_requests, 0)
    assert again.tally.bytes < portal.quiet_bytes


async def test_what_changed_costs_what_changed(house: House, portal: Portal) -> None:
    portal.fill(300)
    async with house.open() as r:
        await keep(r, portal)
        for number in range(3):
            portal.make(f"d{number * 90:05}", "Another title", tick_h=0.1)
        run = await r.sync("portal")

    assert (run.tally.updated, run.tally.unchanged, run.tally.requests) == (3, 1, portal.quiet_requests)
    assert run.tally.rows_written <= 2 * 3 * 3


async def test_a_full_walk_without_changes_writes_nothing(house: House, portal: Portal) -> None:
    portal.fill(150)
    async with house.open() as r:
        await keep(r, portal)
        portal.stir()
        run = await r.sync("portal", full=True)

    assert (run.mode, run.tally.unchanged, run.tally.rows_written) == ("full", 151, 0)


async def test_a_deletion_is_found_and_an_item_that_comes_back_is_created_again(house: House, portal: Portal) -> None:
    portal.fill(120)
    async with house.open() as r:
        await keep(r, portal)
        back, at = portal.records["d00007"], portal.dates["d00007"]
        portal.remove("d00007")
        run = await r.sync("portal")
        portal.records["d00007"], portal.dates["d00007"] = back, at
        revived = await r.sync("portal")
        quiet = await r.sync("portal")

    assert (run.complete, run.tally.deleted, revived.tally.created) == (True, 1, 1)
    assert (quiet.tally.requests, quiet.tally.rows_written) == (portal.quiet_requests, 0)


async def test_one_added_and_one_deleted_at_once_are_both_found(house: House, portal: Portal) -> None:
    portal.fill(20)
    async with house.open() as r:
        await keep(r, portal)
        portal.remove("d00007")
        portal.make("new")
        run = await r.sync("portal")

    assert (run.tally.created, run.tally.deleted) == (1, 1)


async def test_d1_another_licence_arrives_and_nothing_is_cut_anew(house: House, portal: Portal) -> None:
    portal.fill(5)
    async with house.open() as r:
        await keep(r, portal)
        portal.make("d00001", licence="Another")
        run = await r.sync("portal")

    assert (run.tally.amended, run.tally.chunks_written) == (1, 0)


@pytest.mark.parametrize("most", [1, 7])
async def test_d2_a_portal_that_gives_less_than_asked_for_is_walked_to_its_end(
    house: House, portal: Portal, most: int
) -> None:
    portal.fill(30)
    portal.page_max = most
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.tally.created) == ("completed", True, 31)


@pytest.mark.parametrize("full", [True, False])
async def test_d2_an_answer_that_is_no_listing_deletes_nothing(house: House, portal: Portal, full: bool) -> None:
    portal.fill(20)
    strange = [b"<!doctype html><title>Maintenance</title>", b"", b"null", b"[]", b"[" * 100_000, b'{"results": null}']
    async with house.open() as r:
        await keep(r, portal)
        for body in [*strange, *portal.no_listings]:
            portal.body = body
            run = await r.sync("portal", full=full, accept_deletions=True)

            assert run.status in ("failed", "partial"), body
            assert run.error
            assert len(contents(house)) == 21
        portal.body = None
        assert (await r.sync("portal")).tally.rows_written == 0


async def test_d2_a_listing_that_falls_short_of_its_count_deletes_nothing(house: House, portal: Portal) -> None:
    portal.fill(20)
    async with house.open() as r:
        await keep(r, portal)
        portal.remove("d00003")
        portal.miscount = 3
        run = await r.sync("portal", full=True)

    assert (run.status, run.tally.deleted, len(contents(house))) == ("partial", 0, 21)
    assert "declares 23" in (run.error or "")


async def test_d3_what_was_lost_here_is_asked_for_again(house: House, portal: Portal) -> None:
    portal.fill(20)
    async with house.open() as r:
        await keep(r, portal)
        house.execute("delete from item where url like '%d00003%'")
        run = await r.sync("portal")

    assert (run.status, run.tally.created, len(contents(house))) == ("completed", 1, 21)


async def test_d7_a_deletion_during_the_walk_hides_no_other_record(house: House, portal: Portal) -> None:
    portal.fill(40)
    portal.page_max = 10
    async with house.open() as r:
        await keep(r, portal)

        def disturb() -> None:
            portal.after_page = None
            portal.remove("d00002")
            portal.make("zzz-new")

        portal.after_page = disturb
        run = await r.sync("portal", full=True)
        await r.sync("portal")

    assert run.tally.deleted <= 1
    assert set(titles(house)) == set(portal.records)


async def test_d7_an_unstable_order_never_deletes_what_is_there(house: House, portal: Portal) -> None:
    portal.fill(40)
    portal.page_max = 10
    async with house.open() as r:
        await keep(r, portal)
        portal.ignores = {"order"}
        await r.sync("portal", full=True)

    assert set(titles(house)) == set(portal.records)


async def test_d8_records_that_come_twice_do_not_stop_the_sweep(house: House, portal: Portal) -> None:
    portal.fill(20)
    portal.twice = ["d00003"]
    async with house.open() as r:
        first = await keep(r, portal)
        portal.remove("d00004")
        run = await r.sync("portal")
        quiet = await r.sync("portal")

    assert (first.status, first.tally.created) == ("completed", 21)
    assert (run.status, run.tally.deleted) == ("completed", 1)
    assert (quiet.tally.requests, quiet.tally.rows_written) == (portal.quiet_requests, 0)


async def test_d9_an_edit_inside_the_overlap_is_seen(house: House, portal: Portal) -> None:
    portal.fill(5)
    async with house.open() as r:
        await keep(r, portal)
        portal.make("d00001", "Edited a little earlier", tick_h=-0.5)
        run = await r.sync("portal")

    assert run.tally.updated == 1


async def test_d9_a_portal_whose_clock_is_far_ahead_is_read_by_its_own_clock(house: House, portal: Portal) -> None:
    portal.fill(5)
    portal.tick(24 * 365 * 10)
    portal.make("d00002")
    async with house.open() as r:
        await keep(r, portal)
        portal.make("d00001", "Edited")
        run = await r.sync("portal")
        quiet = await r.sync("portal")

    assert (run.tally.updated, quiet.tally.requests, quiet.tally.rows_written) == (1, portal.quiet_requests, 0)


async def test_d9_a_record_dated_in_the_future_hides_no_later_edit(house: House, portal: Portal) -> None:
    portal.fill(5)
    portal.tick(24 * 900)
    portal.make("future")
    portal.tick(-24 * 900)
    async with house.open() as r:
        await keep(r, portal)
        portal.tick(48)
        portal.make("d00001", "Edited")
        run = await r.sync("portal")

    assert run.tally.updated == 1


@pytest.mark.parametrize("lie", ["everything", "nothing"])
async def test_d10_a_filter_that_stops_working_is_found_out(house: House, portal: Portal, lie: str) -> None:
    portal.fill(20)
    async with house.open() as r:
        await keep(r, portal)
        portal.tick(50)
        portal.make("d00001", "Edited")
        portal.lie(lie)
        run = await r.sync("portal")
        portal.remove("d00002")
        portal.records["d00003"] = portal.make("d00003", "Edited too")
        again = await r.sync("portal")

    assert (run.status, run.complete, run.tally.updated, run.tally.fell_back) == ("completed", True, 1, 1)
    assert (again.complete, again.tally.updated, again.tally.deleted) == (True, 1, 1)


async def test_a_page_that_repeats_is_noticed(house: House, portal: Portal) -> None:
    portal.fill(30)
    portal.page_max = 10
    portal.ignores = {"start", "filter"}
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete) == ("partial", False)
    assert run.error


async def test_a_walk_that_broke_off_goes_on_where_it_was(house: House, portal: Portal) -> None:
    portal.fill(95)
    portal.page_max = 10
    pages = 0

    def fail() -> None:
        nonlocal pages
        pages += 1
        portal.down = pages > 6

    async with house.open() as r:
        await keep(r, portal)
        house.execute(STALE)
        portal.after_page = fail
        broken = await r.sync("portal")
        portal.after_page, portal.down = None, False
        portal.make("d00001", "Edited behind the walk")
        portal.make("d00000-new")
        portal.remove("d00002")
        portal.log.clear()
        run = await r.sync("portal")

    assert broken.status == "partial"
    assert portal.went_on()
    assert (run.status, run.complete) == ("completed", True)
    assert (run.tally.updated, run.tally.created, run.tally.deleted) == (1, 1, 1)
    assert set(titles(house)) == set(portal.records)


async def test_a_portal_too_slow_for_large_pages_is_asked_for_small_ones(house: House, portal: Portal) -> None:
    portal.fill(150)
    portal.broken_above = 70
    async with house.open() as r:
        run = await keep(r, portal, page_size=100)

    assert (run.status, run.tally.created) == ("completed", 151)


async def test_a_page_that_takes_too_long_is_made_smaller(
    house: House, portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.catalog.pages.FIRST_LIMIT_S", 0.2)
    portal.fill(50)
    portal.slow_above = 20
    async with house.open(total_limit_s=0.2, idle_limit_s=0.2) as r:
        run = await keep(r, portal, page_size=60)

    assert (run.status, run.tally.created) == ("completed", 51)


async def test_a_busy_portal_is_waited_for_without_losing_the_place(house: House, portal: Portal) -> None:
    portal.fill(30)
    portal.page_max = 10

    def busy() -> None:
        portal.after_page = None
        portal.failures = [web.Response(status=429, headers={"Retry-After": "0"}) for _ in range(2)]

    portal.after_page = busy
    async with house.open(fetch_tries=3) as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created) == ("completed", 31)


async def test_one_broken_record_is_quarantined_and_the_rest_goes_on(house: House, portal: Portal) -> None:
    portal.fill(20)
    portal.spoil("odd")
    portal.make_nameless()
    async with house.open() as r:
        first = await keep(r, portal)
        tried = await r.sync("portal")
        again = await r.sync("portal")
        portal.make("odd")
        healed = await r.sync("portal")

    assert (first.status, first.tally.created, first.tally.failed) == ("completed", 21, 2)
    assert (tried.status, tried.tally.failed) == ("completed", 2)
    assert again.tally.requests == portal.quiet_requests
    assert (healed.status, healed.tally.created) == ("completed", 1)
    assert house.query("select count(*) from quarantine where payload is not null") == [(1,)]


async def test_an_edit_that_kept_its_date_is_found_by_a_reconciliation(house: House, portal: Portal) -> None:
    portal.fill(5)
    async with house.open() as r:
        await keep(r, portal)
        at = portal.clock
        portal.make("d00001", "Changed in silence")
        portal.backdate("d00001")
        portal.clock = at
        silent = await r.sync("portal")
        house.execute(STALE)
        run = await r.sync("portal")

    assert (silent.tally.updated, run.tally.updated, run.complete) == (0, 1, True)


async def test_a_refused_request_says_so(house: House, portal: Portal) -> None:
    portal.failures = [web.Response(status=401) for _ in range(3)]
    async with house.open() as r:
        run = await keep(r, portal)

    assert run.status == "failed"
    assert "401" in (run.error or "")
    assert "env:NAME" in (run.error or "")


async def test_refreshing_equals_rebuilding_after_some_edits(house: House, portal: Portal, new_house: Any) -> None:
    portal.fill(30)
    portal.page_max = 7
    async with house.open() as r:
        await keep(r, portal)
        for number in range(0, 30, 7):
            portal.make(f"d{number:05}", "Edited")
        portal.remove("d00011")
        await r.sync("portal")
    rebuilt = new_house()
    async with rebuilt.open() as r:
        await keep(r, portal)

    assert index_of(house) == index_of(rebuilt)
