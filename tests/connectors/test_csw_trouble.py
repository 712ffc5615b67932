"""Catalogue services that lie, break and change under our feet."""

from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from rowen import Rowen, Run
from rowen.connectors.catalog.xml import Element
from rowen.connectors.csw import Csw, listing
from rowen.connectors.csw.record import dataset_of
from tests.conftest import House
from tests.logical import contents
from tests.portals.csw import CSW, CswService


@pytest.fixture(autouse=True)
def _kind(kinds: Any) -> None:
    kinds(Csw)


@pytest.fixture
def portal() -> Iterator[CswService]:
    portal = CswService()
    yield portal
    portal.close()


async def keep(r: Rowen, portal: CswService, **options: Any) -> Run:
    await r.add(portal.address, name="portal", options=options)
    run = await r.sync("portal")
    portal.log.clear()
    return run


def titles(house: House) -> dict[str, str]:
    return {url.rpartition("=")[2]: title for url, title in house.query("select url, title from item")}


HEAD = f'<csw:GetRecordsResponse xmlns:csw="{CSW["2.0.2"]}"><csw:SearchStatus timestamp="x"/>'.encode()
NO_LISTINGS = [
    HEAD + b'<csw:SearchResults numberOfRecordsMatched="0"/></csw:GetRecordsResponse>',
    HEAD + b'<csw:SearchResults numberOfRecordsMatched="21"/></csw:GetRecordsResponse>',
    HEAD + b"<csw:SearchResults/></csw:GetRecordsResponse>",
    HEAD + b"</csw:GetRecordsResponse>",
    HEAD + b'<csw:SearchResults numberOfRecordsMatched="21"><csw:Record>',
    b"<!doctype html><title>Maintenance</title>",
    b"<html><body>Maintenance</body></html>",
    b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><csw>&b;</csw>',
    b"<rss/>",
    b"{}",
    b"",
]


@pytest.mark.parametrize("full", [True, False])
async def test_an_answer_that_is_no_listing_deletes_nothing(house: House, portal: CswService, full: bool) -> None:
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


@pytest.mark.parametrize("most", [1, 7, 10, 100])
async def test_a_service_that_gives_fewer_than_asked_for_is_walked_to_its_end(
    house: House, portal: CswService, most: int
) -> None:
    portal.fill(30)
    portal.rows_max = most
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.tally.created) == ("completed", True, 31)


@pytest.mark.parametrize("following", ["honest", "lies", "none"])
async def test_what_is_said_of_the_next_record_is_not_believed(
    house: House, portal: CswService, following: str
) -> None:
    portal.fill(250)
    portal.following = following
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.tally.created) == ("completed", True, 251)


async def test_a_blank_line_before_the_document_is_no_trouble(house: House, portal: CswService) -> None:
    portal.fill(5)
    portal.leading = b"\n\n"
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created) == ("completed", 6)


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_a_record_that_fails_its_window_costs_only_itself(house: House, portal: CswService, status: int) -> None:
    portal.fill(150)
    portal.poison = {"d00011"}
    portal.report_status = status
    async with house.open() as r:
        run = await keep(r, portal)
        tried = await r.sync("portal")
        again = await r.sync("portal")
        portal.poison = set()
        portal.put("d00011")
        healed = await r.sync("portal")

    assert (run.status, run.complete, run.tally.created, run.tally.failed) == ("completed", True, 150, 1)
    assert (tried.status, tried.tally.failed) == ("completed", 1)
    assert (again.status, again.tally.requests) == ("completed", 2)
    assert (healed.tally.created, healed.tally.failed) == (1, 0)


async def test_a_record_that_is_no_xml_costs_only_itself(house: House, portal: CswService) -> None:
    portal.fill(50)
    portal.put("d00011", extra="<gmd:open>")
    portal.put("d00012", "Hay\x0b and \x00clover")
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created, run.tally.failed) == ("completed", 50, 1)
    [(url, payload)] = house.query("select url, payload from quarantine")
    assert url.endswith("=d00011")
    assert b"<gmd:open>" in bytes(payload)
    assert titles(house)["d00012"] == "Hay� and �clover"


@pytest.mark.parametrize("depth", [50, 90, 400])
async def test_a_record_nested_deeply_costs_at_most_itself(house: House, portal: CswService, depth: int) -> None:
    portal.fill(5)
    portal.put("deep", extra="<gmd:n><gmd:n/>" * depth + "</gmd:n>" * depth)
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.tally.created + run.tally.failed) == ("completed", True, 7)
    assert run.tally.failed == (depth > 99)


async def test_a_record_too_large_to_be_held_costs_only_itself(house: House, portal: CswService) -> None:
    portal.fill(30)
    portal.put("d00011", abstract="x" * 3_000_000)
    async with house.open(body_limit_bytes=1_000_000) as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.tally.created, run.tally.failed) == ("completed", True, 30, 1)
    [(url,)] = house.query("select url from quarantine")
    assert url.endswith("d00011")


async def test_a_failed_record_that_we_hold_is_kept(house: House, portal: CswService) -> None:
    portal.fill(20)
    async with house.open() as r:
        await keep(r, portal)
        portal.poison = {"d00011"}
        run = await r.sync("portal", full=True, accept_deletions=True)

    assert (run.status, run.tally.failed, run.tally.deleted, len(contents(house))) == ("completed", 1, 0, 21)


async def test_a_record_that_cannot_even_be_named_proves_nothing(house: House, portal: CswService) -> None:
    portal.fill(20)
    async with house.open() as r:
        await keep(r, portal)
        portal.poison = portal.unnameable = {"d00011"}
        run = await r.sync("portal", full=True, accept_deletions=True)

    assert (run.status, run.tally.failed, run.tally.deleted, len(contents(house))) == ("partial", 1, 0, 21)


async def test_a_service_that_fails_again_and_again_is_left(house: House, portal: CswService) -> None:
    portal.fill(60)
    portal.rows_max = 10

    def break_down(start: int) -> None:
        if start >= 20:
            portal.poison = portal.unnameable = set(portal.entries)

    portal.after_page = break_down
    async with house.open() as r:
        run = await keep(r, portal)

    assert run.status == "partial"
    assert "NoApplicableCode" in (run.error or "")
    assert len(portal.log) < 60


async def test_a_record_that_is_declared_and_not_written_is_a_habit(house: House, portal: CswService) -> None:
    portal.fill(150)
    portal.omitted = {"d00011"}
    async with house.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal", full=True)

    assert (run.status, run.complete, run.tally.created) == ("completed", True, 150)
    assert (again.complete, again.tally.rows_written) == (True, 0)


async def test_a_page_that_repeats_is_noticed(house: House, portal: CswService) -> None:
    portal.fill(30)
    portal.rows_max = 10
    portal.ignores = {"start"}
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.tally.created) == ("partial", False, 10)


async def test_a_count_that_says_less_than_is_there_loses_nothing(house: House, portal: CswService) -> None:
    portal.fill(250)
    portal.miscount = -151
    async with house.open() as r:
        run = await keep(r, portal)

    assert run.tally.created == 251


async def test_a_listing_that_falls_short_of_its_count_deletes_nothing(house: House, portal: CswService) -> None:
    portal.fill(20)
    async with house.open() as r:
        await keep(r, portal)
        del portal.entries["d00003"]
        portal.miscount = 3
        run = await r.sync("portal", full=True)

    assert (run.status, run.tally.deleted, len(contents(house))) == ("partial", 0, 21)


async def test_an_unstable_order_never_deletes_what_is_there(house: House, portal: CswService) -> None:
    portal.fill(40)
    portal.rows_max = 10
    async with house.open() as r:
        await keep(r, portal)
        portal.ignores = {"sort"}
        await r.sync("portal", full=True, accept_deletions=True)

    assert set(titles(house)) == set(portal.entries)


@pytest.mark.parametrize("lie", ["everything", "nothing"])
async def test_a_service_that_ignores_the_date_is_walked_whole(house: House, portal: CswService, lie: str) -> None:
    portal.fill(250)
    async with house.open() as r:
        await keep(r, portal)
        portal.ignores = {"since"} if lie == "everything" else set()
        portal.empty_when_filtered = lie == "nothing"
        portal.put("d00003", "Edited")
        run = await r.sync("portal")

    assert (run.status, run.complete, run.tally.updated, run.tally.fell_back) == ("completed", True, 1, 1)


async def test_a_service_that_knows_no_date_is_walked_whole_each_time(house: House, portal: CswService) -> None:
    portal.fill(50)
    portal.dates = set()
    async with house.open() as r:
        await keep(r, portal)
        portal.put("d00003", "Edited")
        del portal.entries["d00004"]
        run = await r.sync("portal")

    assert (run.status, run.complete, run.tally.updated, run.tally.deleted) == ("completed", True, 1, 1)


@pytest.mark.parametrize("counts", ["as many as it shows", "truly"])
async def test_beyond_the_window_records_are_read_by_date(
    house: House, portal: CswService, monkeypatch: pytest.MonkeyPatch, counts: str
) -> None:
    monkeypatch.setattr(listing, "WINDOW", 40)
    portal.window = 40
    portal.counts_to = 40 if counts == "as many as it shows" else 10**9
    for number in range(100):
        portal.put(f"d{number:05}", tick_h=1)
    async with house.open() as r:
        run = await keep(r, portal, page_size=10)
        portal.put("d00003", "Edited")
        del portal.entries["d00004"]
        again = await r.sync("portal", full=True)

    assert (run.status, run.complete, run.tally.created) == ("completed", True, 100)
    assert (again.complete, again.tally.updated, again.tally.deleted) == (True, 1, 1)


@pytest.mark.parametrize("why", ["no date can be asked for", "records have no date"])
async def test_beyond_the_window_nothing_is_proved_without_dates(
    house: House, portal: CswService, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr(listing, "WINDOW", 40)
    portal.counts_to = portal.window = 40
    for number in range(60):
        portal.put(f"d{number:05}", tick_h=1, **({} if why.startswith("no") else {"stamp": ""}))
    portal.dates = set() if why.startswith("no") else portal.dates
    async with house.open() as r:
        run = await keep(r, portal, page_size=10)

    assert (run.status, run.complete) == ("partial", False)
    assert run.tally.created > 30


async def test_an_interrupted_walk_goes_on_where_it_was(house: House, portal: CswService) -> None:
    portal.fill(95)
    portal.rows_max = 10

    def fail(start: int) -> None:
        portal.down = start == 60

    portal.after_page = fail
    async with house.open() as r:
        broken = await keep(r, portal)
        portal.after_page, portal.down = None, False
        portal.put("d00001", "Edited behind the walk")
        del portal.entries["d00002"]
        portal.log.clear()
        run = await r.sync("portal")

    assert broken.status == "partial"
    assert portal.wishes()[0].at == 71
    assert (run.status, run.complete, run.tally.updated, run.tally.deleted) == ("completed", True, 1, 1)
    assert set(titles(house)) == set(portal.entries)


async def test_a_page_that_takes_too_long_is_made_smaller(
    house: House, portal: CswService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.catalog.pages.FIRST_LIMIT_S", 0.2)
    portal.fill(50)
    portal.slow_above = 20
    async with house.open(total_limit_s=0.2, idle_limit_s=0.2) as r:
        run = await keep(r, portal, page_size=60)

    assert (run.status, run.tally.created) == ("completed", 51)


async def test_a_place_beyond_the_end_is_the_end(house: House, portal: CswService) -> None:
    portal.fill(95)
    portal.rows_max = 10

    def fail(start: int) -> None:
        portal.down = start == 80

    portal.after_page = fail
    async with house.open() as r:
        await keep(r, portal)
        portal.after_page, portal.down = None, False
        for number in range(60, 90):
            del portal.entries[f"d{number:05}"]
        run = await r.sync("portal", accept_deletions=True)

    assert (run.status, run.complete, run.tally.failed) == ("completed", True, 0)
    assert set(titles(house)) == set(portal.entries)


async def test_a_busy_service_is_waited_for(house: House, portal: CswService) -> None:
    portal.fill(30)
    portal.rows_max = 10

    def busy(start: int) -> None:
        if start == 10:
            portal.after_page = None
            portal.failures = [web.Response(status=429, headers={"Retry-After": "0"}) for _ in range(2)]

    portal.after_page = busy
    async with house.open(fetch_tries=4) as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created) == ("completed", 31)


async def test_records_without_identifier_or_title_are_known_by_what_they_say(house: House, portal: CswService) -> None:
    portal.put("?1", "Meadows")
    portal.put("?2", "Orchards")
    portal.put("untitled", " ")
    async with house.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal", full=True)

    assert (run.status, run.tally.created) == ("completed", 3)
    assert again.tally.rows_written == 0
    assert sorted(titles(house).values()) == ["Meadows", "Orchards", "untitled"]


async def test_duplicates_are_one_record(house: House, portal: CswService) -> None:
    portal.fill(10)
    portal.put("twin", identifier="d00003")
    async with house.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal", full=True)

    assert (run.status, run.complete, run.tally.created) == ("completed", True, 11)
    assert (again.complete, again.tally.rows_written) == (True, 0)


async def test_a_clock_that_is_years_ahead_is_the_one_that_counts(house: House, portal: CswService) -> None:
    portal.tick(24 * 365 * 20)
    portal.fill(250)
    async with house.open() as r:
        await keep(r, portal)
        portal.put("d00001", "Edited")
        run = await r.sync("portal")

    assert (run.tally.updated, run.tally.requests) == (1, 2)


async def test_a_record_dated_in_the_future_hides_no_later_edit(house: House, portal: CswService) -> None:
    portal.fill(5)
    portal.put("future", stamp="2999-01-01T00:00:00")
    async with house.open() as r:
        await keep(r, portal)
        portal.put("d00001", "Edited")
        run = await r.sync("portal")

    assert run.tally.updated == 1


@pytest.mark.parametrize("stamp", ["", "yesterday", "0001-01-01T00:00:00Z", "2024-02-31"])
async def test_wrong_dates_are_no_dates(house: House, portal: CswService, stamp: str) -> None:
    for number in range(5):
        portal.put(f"d{number}", stamp=stamp)
    async with house.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal")

    assert (run.status, run.tally.created, again.complete, again.tally.rows_written) == ("completed", 5, True, 0)


async def test_an_address_without_a_service_is_told(house: House, portal: CswService) -> None:
    async with house.open() as r:
        await r.add(f"csw:{portal.url}/nothing", name="portal")
        run = await r.sync("portal")

    assert run.status == "failed"
    assert "does not tell what it can do: status 404" in (run.error or "")


def test_a_record_of_nothing_is_a_record() -> None:
    for name in ("{urn:x}MD_Metadata", "Record", "{urn:x}whatever"):
        dataset = dataset_of(Element(name), "https://maps.example/csw")

        assert (dataset.title, dataset.identifier) == ("Untitled", "")
