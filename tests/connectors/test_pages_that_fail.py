"""Pages that a catalog fails over: asked for in smaller parts, down to the record that is to blame."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from aiohttp import web

from rowen import Rowen, Run
from rowen.connectors.arcgis import ArcGis
from rowen.connectors.catalog import portal_client
from rowen.connectors.catalog.portal_client import PageSize
from rowen.connectors.opendatasoft import OpenDataSoft
from rowen.connectors.socrata import Socrata
from tests.conftest import ScratchDatabase
from tests.portals.arcgis import HubSite
from tests.portals.catalogs import Portal
from tests.portals.opendatasoft import OpenDataSoftPortal
from tests.portals.socrata import SocrataPortal


class Failing(Portal):
    """A portal that cannot show some of its records, or is silent for a while before it answers."""

    poison: tuple[str, ...] = ()
    marks: tuple[str, ...] = ("All about <b>{}",)
    how = "status"
    silent_s = 0.0
    fails_at: frozenset[int] = frozenset()
    replies = 0

    async def _reply(self, request: web.Request) -> web.Response:
        self.replies += 1
        await asyncio.sleep(self.silent_s)
        response = await super()._reply(request)
        body = response.body if isinstance(response.body, bytes) else b""
        has_mark = any(mark.format(name).encode() in body for name in self.poison for mark in self.marks)
        if self.replies in self.fails_at or (has_mark and self.how == "status"):
            return web.Response(status=500, text="Internal server error")
        if has_mark and self.how == "time":
            await asyncio.Event().wait()
        return web.Response(body=body[:-30], content_type="application/json") if has_mark else response


class FailingHub(Failing, HubSite):
    """A site that fails."""


class FailingOpenDataSoft(Failing, OpenDataSoftPortal):
    """A portal that fails."""


class FailingSocrata(Failing, SocrataPortal):
    """A portal that fails."""


@pytest.fixture(autouse=True)
def _kinds(kinds: Any) -> None:
    for connector in (ArcGis, OpenDataSoft, Socrata):
        kinds(connector)


@pytest.fixture(params=[FailingHub, FailingOpenDataSoft, FailingSocrata], ids=lambda made: made.__name__)
def portal(request: pytest.FixtureRequest) -> Iterator[Failing]:
    portal = request.param()
    yield portal
    portal.close()


async def keep(r: Rowen, portal: Portal, **options: Any) -> Run:
    await r.sources.add(portal.address, name="portal", options=options)
    return await r.sync("portal")


@pytest.mark.parametrize("how", ["status", "json", "time"])
async def test_a_record_that_its_page_breaks_over_costs_only_itself(
    database: ScratchDatabase, portal: Failing, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portal_client, "FIRST_LIMIT_S", 0.5)
    monkeypatch.setattr(portal_client, "LONGEST_LIMIT_S", 0.5)
    portal.fill(60)
    portal.poison, portal.how = ("d00017",), how
    async with database.open() as r:
        run = await keep(r, portal, page_size=100)
        again = await r.sync("portal", full=True)

    named = isinstance(portal, OpenDataSoftPortal)
    assert (run.status, run.complete) == (("completed", True) if named else ("partial", False))
    assert (run.stats.created, run.stats.failed, again.stats.deleted) == (60, 1, 0)
    assert run.stats.requests <= 36
    assert named or "could not be received" in (run.error or "")


async def test_a_dataset_that_cannot_even_be_named_makes_the_run_partial(database: ScratchDatabase) -> None:
    with closing(FailingOpenDataSoft()) as portal:
        portal.fill(30)
        portal.poison, portal.marks = ("d00017",), ('"dataset_id": "{}"',)
        async with database.open() as r:
            run = await keep(r, portal, page_size=100)

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("partial", False, 30, 1)


async def test_neighbours_that_cannot_be_received_are_passed_by(database: ScratchDatabase, portal: Failing) -> None:
    portal.fill(30)
    portal.poison = ("d00017", "d00018")
    async with database.open() as r:
        run = await keep(r, portal, page_size=100)

    assert (run.stats.created, run.stats.failed) == (29, 2)


@pytest.mark.parametrize("name", ["d00000", "zz-last"])
async def test_the_first_and_the_last_record_are_passed_by_as_well(
    database: ScratchDatabase, portal: Failing, name: str
) -> None:
    portal.fill(30)
    portal.poison = (name,)
    async with database.open() as r:
        run = await keep(r, portal, page_size=100)

    assert (run.stats.created, run.stats.failed) == (30, 1)


async def test_a_record_that_breaks_after_it_was_stored_is_kept(database: ScratchDatabase, portal: Failing) -> None:
    portal.fill(30)
    async with database.open() as r:
        await keep(r, portal, page_size=100)
        portal.make("d00017", "Edited")
        portal.poison = ("d00017",)
        broken = await r.sync("portal")
        portal.poison = ()
        healed = await r.sync("portal")

    assert (broken.stats.deleted, broken.stats.failed) == (0, 1)
    assert (healed.status, healed.stats.updated, healed.stats.failed) == ("completed", 1, 0)


async def test_a_portal_that_is_down_gets_no_request_for_each_record(
    database: ScratchDatabase, portal: Failing
) -> None:
    portal.fill(30)
    async with database.open() as r:
        await keep(r, portal, page_size=100)
        portal.failures = [web.Response(status=500) for _ in range(100)]
        run = await r.sync("portal", full=True)

    assert (run.status, run.stats.deleted) == ("failed", 0)
    assert run.stats.requests <= 3


async def test_a_portal_that_shows_no_record_at_all_is_given_up_soon(
    database: ScratchDatabase, portal: Failing
) -> None:
    portal.fill(30)
    async with database.open() as r:
        await keep(r, portal, page_size=100)
        portal.poison = ("d0", "zz")
        run = await r.sync("portal", full=True)

    assert (run.complete, run.stats.deleted) == (False, 0)
    assert run.stats.requests <= 32


@pytest.mark.parametrize("place", [2, 3, 4, 5])
async def test_one_moment_of_trouble_costs_no_run_however_small_the_pages(
    database: ScratchDatabase, portal: Failing, place: int
) -> None:
    portal.fill(60)
    portal.fails_at = frozenset({place})
    async with database.open() as r:
        run = await keep(r, portal, page_size=10)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 61)
    assert run.stats.requests <= 14


async def test_a_weak_portal_gets_no_repeated_requests_for_too_much(database: ScratchDatabase, portal: Failing) -> None:
    portal.fill(600)
    portal.broken_above = 12
    async with database.open() as r:
        run = await keep(r, portal, page_size=100)

    assert (run.status, run.stats.created) == ("completed", 601)
    assert run.stats.requests <= 601 / 12 * 1.7


async def test_a_portal_may_be_silent_as_long_as_its_question_may_take(
    database: ScratchDatabase, portal: Failing
) -> None:
    portal.fill(5)
    portal.silent_s = 0.5
    async with database.open(idle_limit_s=0.1) as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 6)


async def test_an_error_names_the_page(database: ScratchDatabase, portal: Failing) -> None:
    portal.fill(5)
    portal.poison = ("d0", "zz")
    async with database.open() as r:
        run = await keep(r, portal)

    assert "limit=1" in (run.error or "")
    assert "answered with status 500" in (run.error or "")


def test_a_size_that_failed_is_tried_again_ever_more_seldom() -> None:
    size, requests, received = PageSize(1000), 0, 0
    while received < 2001:
        requests += 1
        if size.rows > 12:
            assert size.shrink()
        else:
            received += size.rows
            size.grow()

    assert requests <= 2001 / 12 * 1.1


def test_the_time_limit_grows_with_failures_and_recovers_when_pages_are_quick() -> None:
    size = PageSize(100)
    size.shrink()
    size.shrink()
    longest_s = size.limit_s
    size.grow(100.0)
    slow_s = size.limit_s
    for _ in range(4):
        size.grow(1.0)

    assert (longest_s, slow_s, size.limit_s) == (240.0, 240.0, 60.0)
