"""Repositories that lie, break and change under our feet."""

from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from rowen import Rowen, Run
from rowen.connectors.oai import Oai
from tests.conftest import House
from tests.logical import contents
from tests.portals.oai import OaiRepository


@pytest.fixture(autouse=True)
def _kind(kinds: Any) -> None:
    kinds(Oai)


@pytest.fixture
def portal() -> Iterator[OaiRepository]:
    portal = OaiRepository()
    yield portal
    portal.close()


async def keep(r: Rowen, portal: OaiRepository, **options: Any) -> Run:
    await r.add(portal.address, name="portal", options=options)
    run = await r.sync("portal")
    portal.log.clear()
    return run


def titles(house: House) -> dict[str, str]:
    return {url.rpartition("%3A")[2]: title for url, title in house.query("select url, title from item")}


HEAD = b'<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><responseDate>2024-01-01T00:00:00Z</responseDate>'
NO_LISTINGS = [
    HEAD + b"<ListRecords></ListRecords></OAI-PMH>",
    HEAD + b'<error code="noRecordsMatch">Nothing</error></OAI-PMH>',
    HEAD + b'<error code="badArgument">Whatever</error></OAI-PMH>',
    HEAD + b"<ListRecords><record><header><identifier>oai:farm.example:d00001</identifier></header>",
    HEAD,
    b"<!doctype html><title>Maintenance</title>",
    b"<html><body>Maintenance</body></html>",
    b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><OAI-PMH>&b;</OAI-PMH>',
    b"<rss/>",
    b"{}",
    b"",
]


@pytest.mark.parametrize("full", [True, False])
async def test_an_answer_that_is_no_listing_deletes_nothing(house: House, portal: OaiRepository, full: bool) -> None:
    portal.fill(20)
    async with house.open() as r:
        await keep(r, portal)
        for body in NO_LISTINGS:
            portal.bodies_of = {"ListRecords": body}
            run = await r.sync("portal", full=full, accept_deletions=True)

            assert run.status in ("failed", "partial"), body
            assert run.error
            assert len(contents(house)) == 21
        portal.bodies_of = {}
        assert (await r.sync("portal")).tally.rows_written == 0


@pytest.mark.parametrize("status", [400, 422, 500])
async def test_errors_of_the_protocol_are_read_whatever_their_status(
    house: House, portal: OaiRepository, status: int
) -> None:
    portal.error_status = status
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created) == ("completed", 0)


async def test_an_error_in_place_of_a_listing_is_told(house: House, portal: OaiRepository) -> None:
    portal.fill(3)
    portal.error_html = True
    portal.formats = []
    async with house.open() as r:
        run = await keep(r, portal)

    assert run.status == "failed"
    assert "status 500" in (run.error or "")


async def test_a_busy_repository_is_waited_for(house: House, portal: OaiRepository) -> None:
    portal.fill(30)
    portal.page_size = 10

    def busy(start: int) -> None:
        if start == 10:
            portal.after_page = None
            portal.failures = [web.Response(status=503, headers={"Retry-After": "0"}) for _ in range(2)]

    portal.after_page = busy
    async with house.open(fetch_tries=4) as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created) == ("completed", 31)


async def test_a_token_that_expired_between_two_runs_begins_the_list_anew(house: House, portal: OaiRepository) -> None:
    portal.fill(50)
    portal.page_size = 10

    def fail(start: int) -> None:
        portal.down = start == 20

    portal.after_page = fail
    async with house.open() as r:
        broken = await keep(r, portal)
        portal.down, portal.after_page = False, None
        portal.expires_once = {"oai_dc|||30"}
        portal.put("d00000", "Edited")
        run = await r.sync("portal")

    assert broken.status == "partial"
    assert (run.status, run.complete, run.tally.created, run.tally.updated) == ("completed", True, 21, 1)
    assert run.tally.requests == 11


async def test_an_interrupted_walk_goes_on_by_its_token(house: House, portal: OaiRepository) -> None:
    portal.fill(95)
    portal.page_size = 10

    def fail(start: int) -> None:
        portal.down = start == 60

    portal.after_page = fail
    async with house.open() as r:
        broken = await keep(r, portal)
        portal.after_page, portal.down = None, False
        portal.put("d00001", "Edited behind the walk")
        portal.delete("d00002")
        portal.log.clear()
        run = await r.sync("portal")

    assert broken.status == "partial"
    assert portal.log[1].headers["resumptionToken"] == "oai_dc|||70"
    assert (run.status, run.complete, run.tally.updated, run.tally.deleted) == ("completed", True, 1, 1)
    assert set(titles(house)) == portal.live()


async def test_a_token_that_expires_in_mid_walk_begins_the_list_anew(house: House, portal: OaiRepository) -> None:
    portal.fill(95)
    portal.page_size = 10
    portal.expires_once = {"oai_dc|||50"}
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.tally.created) == ("completed", True, 96)


async def test_a_list_of_unknown_size_that_began_anew_proves_nothing(house: House, portal: OaiRepository) -> None:
    portal.fill(95)
    portal.page_size = 10
    portal.sized = False
    portal.expires_once = {"oai_dc|||50"}
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.tally.created) == ("partial", False, 96)


async def test_a_token_that_expires_each_time_ends_the_run(house: House, portal: OaiRepository) -> None:
    portal.fill(95)
    portal.page_size = 10
    portal.expired = {"oai_dc|||50"}
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created) == ("partial", 50)
    assert "badResumptionToken" in (run.error or "")


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("counted", [True, False])
async def test_a_token_that_never_ends_is_noticed(
    house: House, portal: OaiRepository, sized: bool, counted: bool
) -> None:
    portal.fill(30)
    portal.page_size = 10
    portal.sized = sized
    portal.ignores = {"token"}
    if not counted:
        portal.bodies_of = {"ListIdentifiers": HEAD + b"<ListIdentifiers></ListIdentifiers></OAI-PMH>"}
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.tally.created) == ("partial", False, 10)
    assert len(portal.log) < 10


async def test_tokens_without_records_are_left_in_the_end(house: House, portal: OaiRepository) -> None:
    portal.fill(5)
    async with house.open() as r:
        await keep(r, portal)
        portal.endless = True
        run = await r.sync("portal", full=True)

    assert (run.status, run.complete, run.tally.deleted) == ("failed", False, 0)
    assert len(portal.log) < 300


@pytest.mark.parametrize("miscount", [-25, -1, 0])
async def test_a_count_that_says_less_than_is_there_loses_nothing(
    house: House, portal: OaiRepository, miscount: int
) -> None:
    portal.fill(30)
    portal.page_size = 10
    portal.miscount = miscount
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created) == ("completed", 31)


async def test_a_list_that_falls_short_of_its_count_deletes_nothing(house: House, portal: OaiRepository) -> None:
    portal.fill(20)
    portal.page_size = 10
    async with house.open() as r:
        await keep(r, portal)
        del portal.entries["d00003"]
        portal.miscount = 3
        run = await r.sync("portal", full=True)

    assert (run.status, run.tally.deleted, len(contents(house))) == ("partial", 0, 21)
    assert "declares 23" in (run.error or "")


async def test_a_repository_that_ignores_the_date_is_walked_whole(house: House, portal: OaiRepository) -> None:
    portal.fill(250)
    async with house.open() as r:
        await keep(r, portal)
        portal.ignores = {"from"}
        portal.put("d00003", "Edited")
        run = await r.sync("portal")

    assert (run.status, run.complete, run.tally.updated, run.tally.fell_back) == ("completed", True, 1, 1)


@pytest.mark.parametrize("html", [True, False])
async def test_a_repository_that_refuses_the_date_is_walked_whole(
    house: House, portal: OaiRepository, html: bool
) -> None:
    portal.fill(25)
    async with house.open() as r:
        await keep(r, portal)
        portal.refuses_from, portal.error_html = True, html
        portal.put("d00003", "Edited")
        run = await r.sync("portal")

    assert (run.status, run.complete, run.tally.updated, run.tally.fell_back) == ("completed", True, 1, 1)


async def test_a_repository_of_unknown_size_gets_another_chance_to_be_asked_by_date(
    house: House, portal: OaiRepository
) -> None:
    portal.fill(25)
    portal.page_size, portal.sized = 10, False
    async with house.open() as r:
        await keep(r, portal)
        portal.refuses_from = True
        refused = await r.sync("portal")
        portal.refuses_from = False
        walked = await r.sync("portal")
        house.execute("update source set cursor = jsonb_set(cursor, '{probed}', '\"2020-01-01T00:00:00Z\"')")
        await r.sync("portal")
        portal.put("d00003", "Edited")
        run = await r.sync("portal")

    assert (refused.tally.fell_back, walked.complete) == (1, True)
    assert (run.complete, run.tally.updated, run.tally.requests) == (False, 1, 2)


async def test_sets_that_answer_nothing_are_believed_if_they_answer_at_all(house: House, portal: OaiRepository) -> None:
    portal.policy = "no"
    portal.put("a", sets=("grass",))
    portal.put("b", sets=("herbs",))
    portal.put("c", sets=("herbs",))
    async with house.open() as r:
        await keep(r, portal, sets=["grass", "herbs"])
        portal.delete("c")
        run = await r.sync("portal")

    assert (run.status, run.tally.fell_back) == ("completed", 0)


async def test_a_record_that_is_no_xml_costs_only_itself(house: House, portal: OaiRepository) -> None:
    portal.fill(30)
    portal.page_size = 10
    portal.put("d00003", xml="<dc><title>Hay & clover</title></dc>")
    portal.put("d00009", xml="<dc><title>Hay &nbsp; clover</title>")
    portal.put("d00004", "Hay\x0b and \x00clover")
    async with house.open() as r:
        run = await keep(r, portal)
        portal.put("d00003")
        portal.put("d00009")
        healed = await r.sync("portal")

    assert (run.status, run.complete, run.tally.created, run.tally.failed) == ("completed", True, 29, 2)
    assert (healed.tally.created, healed.tally.failed) == (2, 0)
    assert titles(house)["d00004"] == "Hay� and �clover"


@pytest.mark.parametrize("depth", [50, 90, 400])
async def test_a_record_nested_deeply_costs_at_most_itself(house: House, portal: OaiRepository, depth: int) -> None:
    portal.fill(5)
    portal.put("deep", xml="<n><n/>" * depth + "</n>" * depth)
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.tally.created + run.tally.failed) == ("completed", True, 7)
    assert run.tally.failed == (depth > 99)


async def test_a_record_too_large_to_be_held_costs_only_itself(
    house: House, portal: OaiRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.oai.answer.MOST_RECORD_CHARS", 1_000_000)
    portal.fill(30)
    portal.put("d00011", description=["x" * 3_000_000])
    async with house.open(body_limit_bytes=1_000_000) as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.tally.created, run.tally.failed) == ("completed", True, 30, 1)
    [(url, error)] = house.query("select url, error from quarantine")
    assert url.endswith("d00011")
    assert error == "The record is too large to be read."


async def test_a_broken_record_that_we_hold_is_kept(house: House, portal: OaiRepository) -> None:
    portal.fill(10)
    async with house.open() as r:
        await keep(r, portal)
        portal.put("d00003", xml="<dc><title>Hay & clover</title></dc>")
        run = await r.sync("portal", full=True)

    assert (run.status, run.tally.failed, run.tally.deleted, len(contents(house))) == ("completed", 1, 0, 11)
    [(url, payload)] = house.query("select url, payload from quarantine")
    assert url.endswith("d00003")
    assert b"Hay & clover" in bytes(payload)


async def test_records_without_identifier_or_metadata_are_quarantined(house: House, portal: OaiRepository) -> None:
    portal.fill(3)
    portal.put("nameless", identifier="")
    portal.put("empty", xml="")
    async with house.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal")

    assert (run.status, run.tally.created, run.tally.failed) == ("completed", 4, 2)
    assert again.status == "completed"
    assert {error for (error,) in house.query("select error from quarantine")} == {
        "The record has no identifier.",
        "The record has no metadata.",
    }


async def test_duplicates_are_one_record(house: House, portal: OaiRepository) -> None:
    portal.fill(10)
    portal.put("twin", identifier="oai:farm.example:d00003")
    async with house.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal", full=True)

    assert (run.status, run.complete, run.tally.created) == ("completed", True, 11)
    assert (again.complete, again.tally.rows_written) == (True, 0)


async def test_identifiers_that_are_web_addresses_are_known_without_their_scheme(
    house: House, portal: OaiRepository
) -> None:
    portal.put("a", identifier="http://farm.example/a")
    async with house.open() as r:
        await keep(r, portal)
        portal.put("a", identifier="https://farm.example/a")
        run = await r.sync("portal")

    assert (run.tally.created, run.tally.amended, run.tally.deleted) == (0, 1, 0)


async def test_a_record_dated_in_the_future_hides_no_later_edit(house: House, portal: OaiRepository) -> None:
    portal.fill(5)
    portal.tick(1e6)
    portal.put("future")
    portal.tick(-1e6)
    async with house.open() as r:
        await keep(r, portal)
        portal.tick(48)
        portal.put("d00001", "Edited")
        run = await r.sync("portal")

    assert run.tally.updated == 1


async def test_a_clock_that_is_years_ahead_is_the_one_that_counts(house: House, portal: OaiRepository) -> None:
    portal.tick(24 * 365 * 20)
    portal.fill(250)
    async with house.open() as r:
        await keep(r, portal)
        portal.put("d00001", "Edited")
        run = await r.sync("portal")
        quiet = await r.sync("portal")

    assert (run.tally.updated, run.tally.requests) == (1, 2)
    assert (quiet.tally.requests, quiet.tally.rows_written) == (2, 0)


@pytest.mark.parametrize("stamp", ["", "yesterday", "0001-01-01T00:00:00Z", "2024-02-31"])
async def test_wrong_dates_are_no_dates(house: House, portal: OaiRepository, stamp: str) -> None:
    portal.fill(5)
    portal._stamp = lambda at: stamp  # type: ignore[method-assign]
    async with house.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal")

    assert (run.status, run.tally.created, again.complete, again.tally.rows_written) == ("completed", 6, True, 0)


async def test_a_broken_answer_is_asked_for_once_more(house: House, portal: OaiRepository) -> None:
    portal.fill(5)
    portal.cut_once = "ListRecords"
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created, run.tally.requests) == ("completed", 6, 6)
