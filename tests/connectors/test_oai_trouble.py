"""Repositories that lie, break and change under our feet."""

import pytest

from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import contents, titles
from tests.portals.catalogs import keep
from tests.portals.oai import HEAD, OaiRepository


@pytest.fixture
def portal(opened: Opened) -> OaiRepository:
    return opened(OaiRepository)


@pytest.mark.parametrize("status", [400, 422, 500])
async def test_errors_of_the_protocol_are_read_whatever_their_status(
    database: ScratchDatabase, portal: OaiRepository, status: int
) -> None:
    portal.error_status = status
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 0)


async def test_an_error_in_place_of_a_listing_is_told(database: ScratchDatabase, portal: OaiRepository) -> None:
    portal.fill(3)
    portal.error_html = True
    portal.formats = []
    async with database.open() as r:
        run = await keep(r, portal)

    assert run.status == "failed"
    assert "status 500" in (run.error or "")


async def test_a_token_that_expired_between_two_runs_begins_the_list_anew(
    database: ScratchDatabase, portal: OaiRepository
) -> None:
    portal.fill(50)
    portal.page_max = 10

    def fail(start: int) -> None:
        portal.down = start == 20

    portal.after_page = fail
    async with database.open() as r:
        broken = await keep(r, portal)
        portal.down, portal.after_page = False, None
        portal.expires_once = {"oai_dc|||30"}
        portal.make("d00000", "Edited")
        run = await r.sync("portal")

    assert broken.status == "partial"
    assert (run.status, run.complete, run.stats.created, run.stats.updated) == ("completed", True, 21, 1)
    assert run.stats.requests == 11


async def test_a_token_that_expires_in_mid_walk_begins_the_list_anew(
    database: ScratchDatabase, portal: OaiRepository
) -> None:
    portal.fill(95)
    portal.page_max = 10
    portal.expires_once = {"oai_dc|||50"}
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 96)


async def test_a_list_of_unknown_size_that_began_anew_proves_nothing(
    database: ScratchDatabase, portal: OaiRepository
) -> None:
    portal.fill(95)
    portal.page_max = 10
    portal.sized = False
    portal.expires_once = {"oai_dc|||50"}
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created) == ("partial", False, 96)


async def test_a_token_that_expires_each_time_ends_the_run(database: ScratchDatabase, portal: OaiRepository) -> None:
    portal.fill(95)
    portal.page_max = 10
    portal.expired = {"oai_dc|||50"}
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("partial", 50)
    assert "badResumptionToken" in (run.error or "")


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("counted", [True, False])
async def test_a_token_that_never_ends_is_noticed(
    database: ScratchDatabase, portal: OaiRepository, sized: bool, counted: bool
) -> None:
    portal.fill(30)
    portal.page_max = 10
    portal.sized = sized
    portal.ignores = {"start"}
    if not counted:
        portal.bodies_of = {"ListIdentifiers": HEAD + b"<ListIdentifiers></ListIdentifiers></OAI-PMH>"}
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created) == ("partial", False, 10)
    assert run.stats.requests < 10


async def test_tokens_without_records_are_left_in_the_end(database: ScratchDatabase, portal: OaiRepository) -> None:
    portal.fill(5)
    async with database.open() as r:
        await keep(r, portal)
        portal.endless = True
        run = await r.sync("portal", full=True)

    assert (run.status, run.complete, run.stats.deleted) == ("failed", False, 0)
    assert len(portal.log) < 300


async def test_a_repository_that_ignores_the_date_is_walked_whole(
    database: ScratchDatabase, portal: OaiRepository
) -> None:
    portal.fill(250)
    async with database.open() as r:
        await keep(r, portal)
        portal.ignores = {"filter"}
        portal.make("d00003", "Edited")
        run = await r.sync("portal")

    assert (run.status, run.complete, run.stats.updated, run.stats.fell_back) == ("completed", True, 1, 1)


@pytest.mark.parametrize("html", [True, False])
async def test_a_repository_that_refuses_the_date_is_walked_whole(
    database: ScratchDatabase, portal: OaiRepository, html: bool
) -> None:
    portal.fill(25)
    async with database.open() as r:
        await keep(r, portal)
        portal.refuses_from, portal.error_html = True, html
        portal.make("d00003", "Edited")
        run = await r.sync("portal")

    assert (run.status, run.complete, run.stats.updated, run.stats.fell_back) == ("completed", True, 1, 1)


async def test_a_repository_of_unknown_size_gets_another_chance_to_be_asked_by_date(
    database: ScratchDatabase, portal: OaiRepository
) -> None:
    portal.fill(25)
    portal.page_max, portal.sized = 10, False
    async with database.open() as r:
        await keep(r, portal)
        portal.refuses_from = True
        refused = await r.sync("portal")
        portal.refuses_from = False
        walked = await r.sync("portal")
        database.execute("update source set cursor = jsonb_set(cursor, '{probed}', '\"2020-01-01T00:00:00Z\"')")
        await r.sync("portal")
        portal.make("d00003", "Edited")
        run = await r.sync("portal")

    assert (refused.stats.fell_back, walked.complete) == (1, True)
    assert (run.complete, run.stats.updated, run.stats.requests) == (False, 1, 2)


async def test_sets_that_answer_nothing_are_believed_if_they_answer_at_all(
    database: ScratchDatabase, portal: OaiRepository
) -> None:
    portal.policy = "no"
    portal.make("a", sets=("grass",))
    portal.make("b", sets=("herbs",))
    portal.make("c", sets=("herbs",))
    async with database.open() as r:
        await keep(r, portal, sets=["grass", "herbs"])
        portal.remove("c")
        run = await r.sync("portal")

    assert (run.status, run.stats.fell_back) == ("completed", 0)


async def test_a_record_that_is_no_xml_costs_only_itself(database: ScratchDatabase, portal: OaiRepository) -> None:
    portal.fill(30)
    portal.page_max = 10
    portal.make("d00003", xml="<dc><title>Hay & clover</title></dc>")
    portal.make("d00009", xml="<dc><title>Hay &nbsp; clover</title>")
    portal.make("d00004", "Hay\x0b and \x00clover")
    async with database.open() as r:
        run = await keep(r, portal)
        portal.make("d00003")
        portal.make("d00009")
        healed = await r.sync("portal")

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("completed", True, 29, 2)
    assert (healed.stats.created, healed.stats.failed) == (2, 0)
    assert titles(database)["d00004"] == "Hay� and �clover"


async def test_a_record_too_large_to_be_held_costs_only_itself(
    database: ScratchDatabase, portal: OaiRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.oai.answer.MOST_RECORD_CHARS", 1_000_000)
    portal.fill(30)
    portal.make("d00011", description=["x" * 3_000_000])
    async with database.open(body_limit_bytes=1_000_000) as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("completed", True, 30, 1)
    [(url, error)] = database.query("select url, error from quarantine")
    assert url.endswith("d00011")
    assert error == "The record is too large to be read."


async def test_a_broken_record_that_we_hold_is_kept(database: ScratchDatabase, portal: OaiRepository) -> None:
    portal.fill(10)
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00003", xml="<dc><title>Hay & clover</title></dc>")
        run = await r.sync("portal", full=True)

    assert (run.status, run.stats.failed, run.stats.deleted, len(contents(database))) == ("completed", 1, 0, 11)
    [(url, payload)] = database.query("select url, payload from quarantine")
    assert url.endswith("d00003")
    assert b"Hay & clover" in bytes(payload)


async def test_records_without_identifier_or_metadata_are_quarantined(
    database: ScratchDatabase, portal: OaiRepository
) -> None:
    portal.fill(3)
    portal.make("nameless", identifier="")
    portal.make("empty", xml="")
    async with database.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal")

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 4, 2)
    assert again.status == "completed"
    assert {error for (error,) in database.query("select error from quarantine")} == {
        "The record has no identifier.",
        "The record has no metadata.",
    }


async def test_identifiers_that_are_web_addresses_are_known_without_their_scheme(
    database: ScratchDatabase, portal: OaiRepository
) -> None:
    portal.make("a", identifier="http://farm.example/a")
    async with database.open() as r:
        await keep(r, portal)
        portal.make("a", identifier="https://farm.example/a")
        run = await r.sync("portal")

    assert (run.stats.created, run.stats.amended, run.stats.deleted) == (0, 1, 0)


@pytest.mark.parametrize("stamp", ["", "yesterday", "0001-01-01T00:00:00Z", "2024-02-31"])
async def test_wrong_dates_are_no_dates(database: ScratchDatabase, portal: OaiRepository, stamp: str) -> None:
    portal.fill(5)
    portal._stamp = lambda at: stamp  # type: ignore[method-assign]
    async with database.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal")

    assert (run.status, run.stats.created, again.complete, again.stats.rows_written) == ("completed", 6, True, 0)


async def test_a_broken_answer_is_asked_for_once_more(database: ScratchDatabase, portal: OaiRepository) -> None:
    portal.fill(5)
    portal.cut_once = "ListRecords"
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created, run.stats.requests) == ("completed", 6, 6)
