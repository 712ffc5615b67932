"""Catalogue services that lie, break and change under our feet."""

import pytest

from rowen.connectors.csw import listing
from rowen.connectors.csw.record import dataset_of
from rowen.formats.xml import Element
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import contents, titles
from tests.portals.catalogs import keep
from tests.portals.csw import CswService


@pytest.fixture
def portal(opened: Opened) -> CswService:
    return opened(CswService)


@pytest.mark.parametrize("following", ["honest", "lies", "none"])
async def test_what_is_said_of_the_next_record_is_not_believed(
    database: ScratchDatabase, portal: CswService, following: str
) -> None:
    portal.fill(250)
    portal.following = following
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 251)


async def test_a_blank_line_before_the_document_is_no_trouble(database: ScratchDatabase, portal: CswService) -> None:
    portal.fill(5)
    portal.leading = b"\n\n"
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 6)


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_a_record_that_fails_its_window_costs_only_itself(
    database: ScratchDatabase, portal: CswService, status: int
) -> None:
    portal.fill(150)
    portal.poison = {"d00011"}
    portal.report_status = status
    async with database.open() as r:
        run = await keep(r, portal)
        tried = await r.sync("portal")
        again = await r.sync("portal")
        portal.poison = set()
        portal.make("d00011")
        healed = await r.sync("portal")

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("completed", True, 150, 1)
    assert (tried.status, tried.stats.failed) == ("completed", 1)
    assert (again.status, again.stats.requests) == ("completed", 3)
    assert (healed.stats.created, healed.stats.failed) == (1, 0)


async def test_a_record_that_is_no_xml_costs_only_itself(database: ScratchDatabase, portal: CswService) -> None:
    portal.fill(50)
    portal.make("d00011", extra="<gmd:open>")
    portal.make("d00012", "Hay\x0b and \x00clover")
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 50, 1)
    [(url, payload)] = database.query("select url, payload from quarantine")
    assert url.endswith("=d00011")
    assert b"<gmd:open>" in bytes(payload)
    assert titles(database)["d00012"] == "Hay� and �clover"


async def test_a_record_too_large_to_be_held_costs_only_itself(database: ScratchDatabase, portal: CswService) -> None:
    portal.fill(30)
    portal.make("d00011", abstract="x" * 3_000_000)
    async with database.open(body_limit_bytes=1_000_000) as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("completed", True, 30, 1)
    [(url,)] = database.query("select url from quarantine")
    assert url.endswith("d00011")


async def test_a_failed_record_that_we_hold_is_kept(database: ScratchDatabase, portal: CswService) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        portal.poison = {"d00011"}
        run = await r.sync("portal", full=True, accept_deletions=True)

    assert (run.status, run.stats.failed, run.stats.deleted, len(contents(database))) == ("completed", 1, 0, 21)


async def test_a_record_that_cannot_even_be_named_proves_nothing(database: ScratchDatabase, portal: CswService) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        portal.poison = portal.unnameable = {"d00011"}
        run = await r.sync("portal", full=True, accept_deletions=True)

    assert (run.status, run.stats.failed, run.stats.deleted, len(contents(database))) == ("partial", 1, 0, 21)


async def test_a_service_that_fails_again_and_again_is_left(database: ScratchDatabase, portal: CswService) -> None:
    portal.fill(60)
    portal.page_max = 10

    def break_down(start: int) -> None:
        if start >= 20:
            portal.poison = portal.unnameable = set(portal.records)

    portal.after_page = break_down
    async with database.open() as r:
        run = await keep(r, portal)

    assert run.status == "partial"
    assert "NoApplicableCode" in (run.error or "")
    assert run.stats.requests < 60


async def test_a_record_that_is_declared_and_not_written_is_a_habit(
    database: ScratchDatabase, portal: CswService
) -> None:
    portal.fill(150)
    portal.omitted = {"d00011"}
    async with database.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal", full=True)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 150)
    assert (again.complete, again.stats.rows_written) == (True, 0)


@pytest.mark.parametrize(("method", "miscount", "requests"), [("Get", 20, 9), ("Post", 20, 9), ("Post", 0, 2)])
async def test_a_service_that_counts_more_than_it_shows_is_complete_and_loses_what_is_gone(
    database: ScratchDatabase, portal: CswService, method: str, miscount: int, requests: int
) -> None:
    """A tenth of the records is counted and written by nobody, and further ones may be counted behind the last."""
    portal.methods = [method]
    portal.fill(150)
    portal.omitted, portal.miscount = {f"d000{number}" for number in range(10, 25)}, miscount
    async with database.open() as r:
        run = await keep(r, portal)
        quiet = await r.sync("portal")
        del portal.records["d00100"]
        gone = await r.sync("portal")

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 136)
    assert (quiet.status, quiet.stats.requests, quiet.stats.rows_written) == ("completed", requests, 0)
    assert (gone.status, gone.stats.deleted) == ("completed", 1)


async def test_what_is_missing_while_the_count_goes_wrong_is_deleted_one_run_later(
    database: ScratchDatabase, portal: CswService
) -> None:
    portal.fill(150)
    async with database.open() as r:
        await r.sources.add(portal.address, name="portal", options={"reconcile_days": 0})
        await r.sync("portal")
        portal.omitted = {f"d000{number}" for number in range(10, 15)}
        first, second, third = [await r.sync("portal") for _ in range(3)]

    assert (first.status, first.stats.deleted) == ("partial", 0)
    assert "declares 151 records, but it lists 146" in (first.error or "")
    assert [(run.status, run.stats.deleted) for run in (second, third)] == [("completed", 5), ("completed", 0)]


async def test_a_service_that_shows_only_its_first_records_is_not_complete(
    database: ScratchDatabase, portal: CswService
) -> None:
    portal.fill(150)
    portal.window = 100
    async with database.open() as r:
        runs = [await keep(r, portal), await r.sync("portal"), await r.sync("portal")]

    assert [run.status for run in runs] == ["partial"] * 3


async def test_a_count_that_says_less_than_is_there_loses_nothing(
    database: ScratchDatabase, portal: CswService
) -> None:
    portal.fill(250)
    portal.miscount = -151
    async with database.open() as r:
        run = await keep(r, portal)

    assert run.stats.created == 251


async def test_a_refused_place_within_the_count_deletes_nothing(database: ScratchDatabase, portal: CswService) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        del portal.records["d00003"]
        portal.miscount = 3
        run = await r.sync("portal", full=True)

    assert (run.status, run.stats.deleted, len(contents(database))) == ("partial", 0, 21)
    assert "declares 23 records, but it lists 20" in (run.error or "")


async def test_a_service_that_knows_no_date_is_walked_whole_each_time(
    database: ScratchDatabase, portal: CswService
) -> None:
    portal.fill(50)
    portal.dates = set()
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00003", "Edited")
        del portal.records["d00004"]
        run = await r.sync("portal")

    assert (run.status, run.complete, run.stats.updated, run.stats.deleted) == ("completed", True, 1, 1)


@pytest.mark.parametrize("counts", ["as many as it shows", "truly"])
async def test_beyond_the_window_records_are_read_by_date(
    database: ScratchDatabase, portal: CswService, monkeypatch: pytest.MonkeyPatch, counts: str
) -> None:
    monkeypatch.setattr(listing, "WINDOW", 40)
    portal.window = 40
    portal.counts_to = 40 if counts == "as many as it shows" else 10**9
    for number in range(100):
        portal.make(f"d{number:05}", tick_h=1)
    async with database.open() as r:
        run = await keep(r, portal, page_size=10)
        portal.make("d00003", "Edited")
        del portal.records["d00004"]
        again = await r.sync("portal", full=True)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 100)
    assert (again.complete, again.stats.updated, again.stats.deleted) == (True, 1, 1)


@pytest.mark.parametrize("why", ["no date can be asked for", "records have no date"])
async def test_beyond_the_window_nothing_is_proved_without_dates(
    database: ScratchDatabase, portal: CswService, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr(listing, "WINDOW", 40)
    portal.counts_to = portal.window = 40
    for number in range(60):
        portal.make(f"d{number:05}", tick_h=1, **({} if why.startswith("no") else {"stamp": ""}))
    portal.dates = set() if why.startswith("no") else portal.dates
    async with database.open() as r:
        run = await keep(r, portal, page_size=10)

    assert (run.status, run.complete) == ("partial", False)
    assert run.stats.created > 30


async def test_a_place_beyond_the_end_is_the_end(database: ScratchDatabase, portal: CswService) -> None:
    portal.fill(95)
    portal.page_max = 10

    def fail(start: int) -> None:
        portal.down = start == 80

    portal.after_page = fail
    async with database.open() as r:
        await keep(r, portal)
        portal.after_page, portal.down = None, False
        for number in range(60, 90):
            del portal.records[f"d{number:05}"]
        run = await r.sync("portal", accept_deletions=True)

    assert (run.status, run.complete, run.stats.failed) == ("completed", True, 0)
    assert set(titles(database)) == set(portal.records)


async def test_records_without_identifier_or_title_are_known_by_what_they_say(
    database: ScratchDatabase, portal: CswService
) -> None:
    portal.make("?1", "Meadows")
    portal.make("?2", "Orchards")
    portal.make("untitled", " ")
    async with database.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal", full=True)

    assert (run.status, run.stats.created) == ("completed", 3)
    assert again.stats.rows_written == 0
    assert sorted(titles(database).values()) == ["Meadows", "Orchards", "untitled"]


@pytest.mark.parametrize("stamp", ["", "yesterday", "0001-01-01T00:00:00Z", "2024-02-31"])
async def test_wrong_dates_are_no_dates(database: ScratchDatabase, portal: CswService, stamp: str) -> None:
    for number in range(5):
        portal.make(f"d{number}", stamp=stamp)
    async with database.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal")

    assert (run.status, run.stats.created, again.complete, again.stats.rows_written) == ("completed", 5, True, 0)


async def test_an_address_without_a_service_is_told(database: ScratchDatabase, portal: CswService) -> None:
    async with database.open() as r:
        await r.sources.add(f"csw:{portal.url}/nothing", name="portal")
        run = await r.sync("portal")

    assert run.status == "failed"
    assert "did not answer GetCapabilities: status 404" in (run.error or "")


def test_a_record_of_nothing_is_a_record() -> None:
    for name in ("{urn:x}MD_Metadata", "Record", "{urn:x}whatever"):
        dataset = dataset_of(Element(name), "https://maps.example/csw")

        assert (dataset.title, dataset.identifier) == ("Untitled", "")


@pytest.mark.parametrize("size", [1, 3, 4])
@pytest.mark.parametrize("last", ["zz", "zz-last/a b%2Fc~é", "?nameless"])
@pytest.mark.parametrize("fails", [False, True])
async def test_a_service_that_fails_behind_its_last_record_has_no_record_there(
    database: ScratchDatabase, portal: CswService, last: str, fails: bool, size: int
) -> None:
    portal.fill(10)
    portal.make("zzz", identifier=last)
    portal.poison = {last} if fails else set()
    async with database.open() as r:
        await keep(r, portal, page_size=size)
        again = await r.sync("portal", full=True)
        later = await r.sync("portal")

    assert (again.status, again.complete, again.stats.failed) == ("completed", True, int(fails))
    # One that cannot be named has two places: in the whole listing, and among what was modified.
    places = int(fails) * (2 if last == "?nameless" else 1)
    assert later.stats.failed == places
    assert database.query("select count(*) from quarantine") == [(places,)]
