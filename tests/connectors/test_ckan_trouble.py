"""CKAN portals that lie, break and change under our feet, and input at its worst."""

import sys
from typing import Any

import pytest
from aiohttp import web

from rowen.connectors.catalog.records import HashSet
from rowen.connectors.ckan import listing
from rowen.errors import SourceError
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import titles
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal


@pytest.fixture
def portal(opened: Opened) -> CkanPortal:
    return opened(CkanPortal)


async def test_a_listing_without_end_is_left(
    database: ScratchDatabase, portal: CkanPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.catalog.state.LEAST_GROWN", 50)
    portal.fill(5)
    portal.page_max = 20
    portal.endless = True
    async with database.open() as r:
        run = await keep(r, portal)

    assert run.status == "partial"
    assert "does not end" in (run.error or "")


async def test_a_broken_connection_is_tried_again(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(30)
    portal.page_max = 10

    def drop(start: int) -> None:
        if start > 15:
            portal.after_page = None
            portal.drops = 1

    portal.after_page = drop
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 31)


async def test_a_portal_without_the_envelope_is_read(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(5)
    portal.envelope = False
    async with database.open() as r:
        run = await keep(r, portal)

    assert run.stats.created == 6


async def test_strange_json_is_read_as_far_as_it_goes(database: ScratchDatabase, portal: CkanPortal) -> None:
    record = b'{"id": "a", "id": "b", "title": "Caf\xe9", "size": NaN, "metadata_modified": "31 February"}'
    portal.body = b'\xef\xbb\xbf{"success": true, "result": {"count": 1, "results": [%s]}}' % record
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 1)
    assert titles(database) == {"b": "Caf\ufffd"}


async def test_a_refused_request_names_the_key(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.failures = [web.Response(status=403) for _ in range(2)]
    async with database.open() as r:
        run = await keep(r, portal)

    assert run.status == "failed"
    assert "api_key" in (run.error or "")


@pytest.mark.parametrize(
    "said",
    ["0001-01-01T00:00:00", "2024-02-31T00:00:00", 1_700_000_000_000, "2024-05-01 12:00", "yesterday", "", None, []],
)
async def test_a_wrong_date_of_modification_hides_nothing(
    database: ScratchDatabase, portal: CkanPortal, said: Any
) -> None:
    portal.fill(20)
    portal.make("odd", metadata_modified=said)
    async with database.open() as r:
        run = await keep(r, portal)
        portal.make("d00001", "Edited")
        again = await r.sync("portal")

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 22, 0)
    assert (again.status, again.stats.updated, again.stats.fell_back) == ("completed", 1, 0)


async def test_large_records_come_in_small_pages(
    database: ScratchDatabase, portal: CkanPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.ckan.listing.MOST_PAGE_BYTES", 100_000)
    portal.fill(100)
    for number in range(100):
        portal.records[f"d{number:05}"]["extras"] = [{"key": "long", "value": "x" * 4000}]
    async with database.open() as r:
        await r.sources.add(portal.address, name="portal", options={"page_size": 50})
        run = await r.sync("portal")

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 101)
    first, *others = [int(asked["rows"]) for asked in portal.questions() if asked["rows"] != "0"]
    assert first == 50
    assert 10 <= max(others) < 25


async def test_a_large_page_is_read_in_parts_and_a_run_that_ends_between_two_goes_on_there(
    database: ScratchDatabase, portal: CkanPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.ckan.listing.PART_BYTES", 20_000)
    portal.fill(100)
    for number in range(100):
        portal.records[f"d{number:05}"]["extras"] = [{"key": "long", "value": "x" * 4000}]
    read: list[int] = []
    one_by_one = listing.one_by_one

    async def stopping(make: Any, rows: list[Any]) -> Any:
        read.append(len(rows))
        if len(read) == 4:
            raise SourceError("The portal has gone away.")
        return await one_by_one(make, rows)

    monkeypatch.setattr(listing, "one_by_one", stopping)
    async with database.open() as r:
        first = await keep(r, portal)
        second = await r.sync("portal")
        third = await r.sync("portal", full=True)

    assert (first.status, second.status, third.status) == ("partial", "completed", "completed")
    assert max(read) < 10
    assert 0 < first.stats.created < 30
    assert (first.stats.created + second.stats.created, third.stats.created) == (101, 0)
    assert third.stats.unchanged == 101
    assert third.stats.requests < 5 < len(read) / 4


def test_what_came_already_is_told_exactly_and_in_little_memory() -> None:
    marks, names = HashSet(), [f"d{number % 40_000:05}" for number in range(60_000)]

    assert sum(map(marks.add, names)) == len(marks) == 40_000
    assert "d39999" in marks
    assert "d40000" not in marks
    assert not marks.add("d00000")
    assert sys.getsizeof(marks._table) < 25 * 40_000


async def test_a_record_of_a_hundred_megabytes_costs_only_itself(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(3)
    portal.make("d00001", notes="x" * 100_000_000)
    async with database.open() as r:
        run = await keep(r, portal, page_size=1)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 3, 1)
    [(url, error)] = database.query("select url, error from quarantine")
    assert url.endswith("/d00001")
    assert "bytes" in error or "MB" in error
