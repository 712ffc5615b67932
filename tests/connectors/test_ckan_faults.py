"""CKAN portals that fail over a page or over one record: what that costs, and when a run gives up."""

from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from rowen.connectors.catalog.portal_client import PortalClient, TooMuchError
from rowen.errors import FetchTimeoutError
from rowen.net.response import Response
from tests.conftest import ScratchDatabase
from tests.logical import contents
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal


class FaultyPortal(CkanPortal):
    """Fails over each page that holds one of the `poison` datasets, cuts off those that hold one of the `garbled`."""

    def __init__(self) -> None:
        super().__init__()
        self.poison: set[str] = set()
        self.garbled: set[str] = set()

    async def _search(self, query: dict[str, str]) -> web.Response:
        response = await super()._search(query)
        text = response.text or ""
        if any(f"All about {name}." in text for name in self.poison):
            return web.Response(status=500, text="Internal Server Error")
        if any(f"All about {name}." in text for name in self.garbled):
            return web.Response(text=text[:-30], content_type="application/json")
        return response


class SlowClient(PortalClient):
    """A portal that needs two minutes for whatever it is asked, as told by the limit of each question."""

    async def request(self, url: str, *, could_be_less: bool = False, **more: Any) -> Response:
        if self.size.limit_s >= 120:
            response = await super().request(url, could_be_less=could_be_less, **more)
            self._took_s = 100.0
            return response
        raise (TooMuchError if could_be_less else FetchTimeoutError)("The answer was not complete in time.")


class HangingClient(PortalClient):
    """A portal that never ends its answer where the poison is in it."""

    async def request(self, url: str, *, could_be_less: bool = False, **more: Any) -> Response:
        response = await super().request(url, could_be_less=could_be_less, **more)
        if b"All about d00017." in response.body:
            raise (TooMuchError if could_be_less else FetchTimeoutError)("The answer was not complete in time.")
        return response


@pytest.fixture
def portal() -> Iterator[FaultyPortal]:
    portal = FaultyPortal()
    yield portal
    portal.close()


@pytest.mark.parametrize("size", [1, 10, 20])
async def test_a_record_that_the_portal_fails_over_costs_only_itself(
    database: ScratchDatabase, portal: FaultyPortal, size: int
) -> None:
    portal.fill(60)
    portal.poison = {"d00017"}
    async with database.open(fetch_tries=2) as r:
        run = await keep(r, portal, page_size=size)
        cases = database.query("select url, error from quarantine")
        portal.poison.clear()
        healed = await r.sync("portal")

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("completed", True, 60, 1)
    [(url, error)] = cases
    assert url.endswith("/dataset/d00017")
    assert "status 500" in error
    assert "start=17, rows=1." in error
    assert (healed.status, healed.stats.created, len(contents(database))) == ("completed", 1, 61)


async def test_a_record_that_the_portal_hangs_over_costs_only_itself(
    database: ScratchDatabase, portal: FaultyPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.ckan.PortalClient", HangingClient)
    portal.fill(60)
    async with database.open() as r:
        run = await keep(r, portal, page_size=20)

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("completed", True, 60, 1)
    assert database.query("select url from quarantine") == [(f"{portal.url}/dataset/d00017",)]


async def test_a_held_record_that_the_portal_fails_over_stays(database: ScratchDatabase, portal: FaultyPortal) -> None:
    portal.fill(60)
    async with database.open(fetch_tries=2) as r:
        await keep(r, portal, page_size=20)
        portal.poison = {"d00017"}
        del portal.records["d00030"]
        run = await r.sync("portal", full=True)

    assert (run.status, run.stats.failed, run.stats.deleted, len(contents(database))) == ("completed", 1, 1, 60)


async def test_a_record_that_the_portal_fails_over_does_not_open_its_circuit(
    database: ScratchDatabase, portal: FaultyPortal
) -> None:
    portal.fill(40)
    portal.poison = {"d00000"}
    async with database.open(cb_failure_threshold=5) as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 40, 1)


async def test_a_failing_record_of_a_portal_that_cannot_list_names_is_a_record_without_one(
    database: ScratchDatabase, portal: FaultyPortal
) -> None:
    portal.fill(30)
    portal.ignores = {"fl"}
    portal.poison = {"d00017"}
    async with database.open(fetch_tries=1) as r:
        run = await keep(r, portal, page_size=10)

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("partial", False, 30, 1)
    assert "#/unread/" in database.query("select url from quarantine")[0][0]


@pytest.mark.parametrize(("adjacent", "status"), [(3, "completed"), (4, "partial")])
async def test_a_portal_that_fails_over_row_after_row_is_left(
    database: ScratchDatabase, portal: FaultyPortal, adjacent: int, status: str
) -> None:
    portal.fill(40)
    portal.poison = {f"d{number:05}" for number in range(20, 20 + adjacent)}
    async with database.open(fetch_tries=1) as r:
        run = await keep(r, portal, page_size=10)

    assert (run.status, run.stats.failed, run.stats.deleted) == (status, 3, 0)


async def test_a_failure_in_passing_at_the_smallest_page_does_not_end_the_run(
    database: ScratchDatabase, portal: FaultyPortal
) -> None:
    portal.fill(60)

    def fail(start: int) -> None:
        portal.after_page = None
        portal.failures = [web.Response(status=500)]

    portal.after_page = fail
    async with database.open() as r:
        run = await keep(r, portal, page_size=10)

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("completed", True, 61, 0)


@pytest.mark.parametrize("size", [10, 1000])
async def test_a_portal_that_is_down_is_left_soon_and_loses_nothing(
    database: ScratchDatabase, portal: FaultyPortal, size: int
) -> None:
    portal.fill(60)
    async with database.open(fetch_tries=2) as r:
        await keep(r, portal, page_size=size)
        portal.broken_above = -1
        run = await r.sync("portal", full=True)

    assert (run.status, run.stats.deleted, len(contents(database))) == ("failed", 0, 61)
    assert len(portal.log) <= 6
    assert "start=0, rows=0." in (run.error or "")


@pytest.mark.parametrize("size", [10, 100])
async def test_a_slow_portal_is_given_the_same_time_for_every_question(
    database: ScratchDatabase, portal: FaultyPortal, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("rowen.connectors.ckan.PortalClient", SlowClient)
    portal.fill(25)
    async with database.open() as r:
        run = await keep(r, portal, page_size=size)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 26)


async def test_an_error_names_the_page(database: ScratchDatabase, portal: FaultyPortal) -> None:
    portal.fill(60)

    def refuse(start: int) -> None:
        if start == 19:
            portal.failures = [web.Response(status=400) for _ in range(5)]

    portal.after_page = refuse
    async with database.open() as r:
        run = await keep(r, portal, page_size=20)

    assert run.status == "partial"
    assert "status 400. The page was start=38, rows=20." in (run.error or "")


async def test_a_record_garbled_in_transit_is_healed_by_the_next_run(
    database: ScratchDatabase, portal: FaultyPortal
) -> None:
    portal.fill(60)
    async with database.open() as r:
        await keep(r, portal, page_size=20)
        portal.make("d00017", "Edited")
        portal.make("d00030", tick_h=3)
        portal.garbled = {"d00017"}
        garbled = await r.sync("portal")
        portal.garbled.clear()
        healed = await r.sync("portal")

    assert (garbled.stats.failed, garbled.stats.deleted) == (1, 0)
    assert (healed.status, healed.stats.updated, healed.stats.failed) == ("completed", 1, 0)
    assert database.query("select title from item where url like '%d00017'") == [("Edited",)]
    assert database.query("select count(*) from quarantine") == [(0,)]


async def test_a_record_that_stays_broken_costs_one_request_in_each_run(
    database: ScratchDatabase, portal: FaultyPortal
) -> None:
    portal.fill(200)
    portal.garbled = {"d00017"}
    async with database.open() as r:
        first = await keep(r, portal, page_size=50)
        second = await r.sync("portal")
        third = await r.sync("portal")

    assert (first.stats.created, first.stats.failed) == (200, 1)
    for run in (second, third):
        assert (run.stats.requests, run.stats.failed, run.stats.rows_written) == (3, 1, 0)
