"""The windows of a slow catalogue service are asked for ahead where they have addresses, and taken in order."""

import asyncio
from collections.abc import Iterator

import pytest
from aiohttp import web

from tests.conftest import ScratchDatabase
from tests.portals.csw import CswService


class SlowService(CswService):
    """Takes a while for each answer."""

    async def _reply(self, request: web.Request) -> web.Response:
        # Long enough for all that are sent at this moment to be here.
        await asyncio.sleep(0.05)
        return await super()._reply(request)


@pytest.fixture
def service() -> Iterator[SlowService]:
    service = SlowService()
    for number in range(40):
        service.make(f"m{number:02}")
    yield service
    service.close()


def places(service: SlowService) -> list[int]:
    return sorted(wish.at for wish in service.wishes() if wish.kind == "results" and wish.size > 1)


def titles(database: ScratchDatabase) -> list[str]:
    return [title for (title,) in database.query("select title from item order by title")]


def listed(service: SlowService) -> list[str]:
    return sorted(f"Map {name}" for name in service.records)


@pytest.mark.parametrize(("concurrency", "method"), [(1, "Post"), (4, "Post"), (4, "Get")])
async def test_windows_are_asked_for_ahead_within_what_the_host_allows(
    database: ScratchDatabase, service: SlowService, concurrency: int, method: str
) -> None:
    service.methods = [method]
    async with database.open(host_concurrency=concurrency) as r:
        await r.sources.add(service.address, name="maps", options={"page_size": 7})
        run = await r.sync("maps")

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 40)
    assert service.most_at_once <= concurrency
    assert (service.most_at_once > 1) == (concurrency > 1)
    # The same questions as window by window, and none of them twice.
    assert places(service) == [1, 8, 15, 22, 29, 36]
    assert titles(database) == listed(service)


async def test_a_record_that_goes_between_windows_hides_no_other(
    database: ScratchDatabase, service: SlowService
) -> None:
    service.after(2, lambda: service.records.pop("m01"))

    async with database.open(host_concurrency=4) as r:
        await r.sources.add(service.address, name="maps", options={"page_size": 7})
        await r.sync("maps")
        await r.sync("maps")

    assert titles(database) == listed(service)


async def test_without_an_order_each_window_waits_for_the_one_before(
    database: ScratchDatabase, service: SlowService
) -> None:
    service.sorts = set()

    async with database.open(host_concurrency=4) as r:
        await r.sources.add(service.address, name="maps", options={"page_size": 7})
        await r.sync("maps")

    assert service.most_at_once == 1
