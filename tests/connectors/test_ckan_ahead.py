"""The pages of a slow portal are asked for ahead, as many at a time as its host allows, and taken in order."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from rowen import Run
from tests.conftest import ScratchDatabase
from tests.portals.ckan import CkanPortal


class Busy(CkanPortal):
    """Takes a while for each answer, and bears only so many questions at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.bears = 100

    async def _reply(self, request: web.Request) -> web.Response:
        if self.at_once > self.bears:
            return web.Response(status=503, text="Too many at a time.")
        # Long enough for all that are sent at this moment to be here.
        await asyncio.sleep(0.05)
        return await super()._reply(request)


@pytest.fixture
def portal() -> Iterator[Busy]:
    portal = Busy()
    portal.fill(60)
    yield portal
    portal.close()


async def walk(database: ScratchDatabase, portal: Busy, **settings: Any) -> Run:
    async with database.open(**settings) as r:
        await r.sources.add(portal.address, name="portal", options={"page_size": 7})
        return await r.sync("portal")


def names(database: ScratchDatabase) -> list[str]:
    return [url.rsplit("/", 1)[1] for (url,) in database.query("select url from item order by url")]


@pytest.mark.parametrize("concurrency", [1, 3, 8])
async def test_pages_are_asked_for_ahead_within_what_the_host_allows(
    database: ScratchDatabase, portal: Busy, concurrency: int
) -> None:
    run = await walk(database, portal, host_concurrency=concurrency)
    starts = [int(asked["start"]) for asked in portal.questions() if asked.get("rows") == "7"]

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 61)
    assert portal.most_at_once <= concurrency
    assert (portal.most_at_once > 1) == (concurrency > 1)
    # The same questions as page by page, and none of them twice.
    assert sorted(starts) == [0, *range(6, 60, 6), 60]
    assert names(database) == sorted(portal.names())


async def test_a_portal_that_cannot_bear_it_is_asked_page_by_page(database: ScratchDatabase, portal: Busy) -> None:
    portal.bears = 1

    run = await walk(database, portal, host_concurrency=3, fetch_tries=3)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 61)
    # Thirteen page by page, the three that were asked for ahead, and what is tried again beside them.
    assert run.stats.requests <= 13 + 3 + 3


async def test_a_record_that_is_deleted_between_pages_hides_no_other(database: ScratchDatabase, portal: Busy) -> None:
    portal.after(2, lambda: portal.remove("d00001"))

    run = await walk(database, portal, host_concurrency=4)
    async with database.open() as r:
        await r.sync("portal")

    assert run.stats.created >= 60
    assert names(database) == sorted(portal.names())


async def test_a_run_that_is_interrupted_leaves_nothing_on_its_way(database: ScratchDatabase, portal: Busy) -> None:
    async with database.open(host_concurrency=4) as r:
        await r.sources.add(portal.address, name="portal", options={"page_size": 7})
        portal.after(2, r.stop)
        run = await r.sync("portal")
        left = [task for task in asyncio.all_tasks() if "Ahead" in repr(task.get_coro())]
        portal.after_page = None
        again = await r.sync("portal")

    assert (run.status, left) == ("cancelled", [])
    assert again.complete
    assert names(database) == sorted(portal.names())
