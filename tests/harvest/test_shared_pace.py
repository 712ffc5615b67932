"""Two processes that sync sources of one host ask it as often as one of them would."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from aiohttp import web

from tests.conftest import ScratchDatabase
from tests.portals.site import Site

GAP_S = 0.1


class Clocked(Site):
    """Knows when it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        self.times.append(time.monotonic())
        return await super()._answer_for(request)


@pytest.fixture
def site() -> Iterator[Clocked]:
    site = Clocked()
    site.grow()
    yield site
    site.close()


async def test_engines_that_share_a_database_keep_the_pace_of_a_host_together(
    database: ScratchDatabase, site: Clocked
) -> None:
    async with database.open(host_delay_s=GAP_S) as one, database.open(host_delay_s=GAP_S) as two:
        await one.sources.add(site.url, name="one")
        await one.sources.add(f"{site.url}/p1", name="two")
        runs = await asyncio.gather(one.sync("one"), two.sync("two"))

    assert {run.status for run in runs} == {"completed"}
    assert site.times[-1] - site.times[0] > (len(site.times) - 1) * GAP_S - 0.05
    assert database.query("select count(*) from host_slot") == [(0,)]


async def test_a_quiet_crawl_writes_nothing_for_its_pace_but_its_own_rows(
    database: ScratchDatabase, site: Clocked
) -> None:
    async with database.open() as r:
        await r.sync(site.url)
        again = await r.sync(site.url)

    assert (again.stats.rows_written, again.stats.not_modified) == (0, 13)
    assert database.query("select host from host_pace") == [(site.url.removeprefix("http://"),)]
