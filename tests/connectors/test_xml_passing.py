"""Services of XML that fail for a moment, or over one page: the run goes on, or ends without harm."""

import asyncio
from collections.abc import Iterator

import pytest
from aiohttp import web

from tests.conftest import ScratchDatabase
from tests.portals.catalogs import Portal, keep
from tests.portals.csw import CswService
from tests.portals.oai import OaiRepository


class Moody(Portal):
    """Fails at the given questions, by their numbers, and over a page with a certain record."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.fails: set[int] = set()
        self.hangs: set[int] = set()
        self.html_for: set[str] = set()

    async def _reply(self, request: web.Request) -> web.Response:
        self.asked += 1
        if self.asked in self.hangs:
            await asyncio.Event().wait()
        response = await super()._reply(request)
        if self.asked in self.fails or self._is_spoiled(response.text or ""):
            return web.Response(status=500, text="<html>Internal Server Error</html>", content_type="text/html")
        return response

    def _is_spoiled(self, text: str) -> bool:
        raise NotImplementedError


class MoodyCsw(Moody, CswService):
    """A catalog service."""

    def _is_spoiled(self, text: str) -> bool:
        return "GetRecordsResponse" in text and any(f">{key}<" in text for key in self.html_for)


class MoodyOai(Moody, OaiRepository):
    """A repository."""

    def _is_spoiled(self, text: str) -> bool:
        return any(f":{key}<" in text for key in self.html_for)


@pytest.fixture(params=[MoodyCsw, MoodyOai])
def portal(request: pytest.FixtureRequest) -> Iterator[MoodyCsw | MoodyOai]:
    portal = request.param()
    portal.fill(60)
    portal.page_max = 10
    yield portal
    portal.close()


@pytest.fixture
def csw() -> Iterator[MoodyCsw]:
    portal = MoodyCsw()
    yield portal
    portal.close()


@pytest.fixture
def oai() -> Iterator[MoodyOai]:
    portal = MoodyOai()
    yield portal
    portal.close()


@pytest.mark.parametrize("at", [1, 2, 4, 8])
async def test_one_passing_failure_costs_no_record(
    database: ScratchDatabase, portal: MoodyCsw | MoodyOai, at: int
) -> None:
    portal.fails = {at}
    async with database.open(fetch_tries=2) as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("completed", True, 61, 0)


@pytest.mark.parametrize("at", [3, 6])
async def test_one_passing_silence_costs_no_record(
    database: ScratchDatabase, portal: MoodyCsw | MoodyOai, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.catalog.portal_client.FIRST_LIMIT_S", 1.5)
    monkeypatch.setattr("rowen.connectors.oai.LONGEST_LIMIT_S", 1.5)
    portal.hangs = {at}
    async with database.open(fetch_tries=2, total_limit_s=1.5, idle_limit_s=1.5) as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("completed", True, 61, 0)


async def test_a_record_over_which_a_service_breaks_down_is_left_out_and_the_rest_goes_on(
    database: ScratchDatabase, csw: MoodyCsw
) -> None:
    csw.fill(60)
    async with database.open() as r:
        await keep(r, csw)
        csw.html_for = {"d00033"}
        csw.make("d00050", "Edited")
        del csw.records["d00007"]
        run = await r.sync("portal", full=True, accept_deletions=True)

    assert run.stats.updated == 1
    assert run.stats.failed == 1
    assert (run.status, run.stats.deleted) == ("partial", 0)


async def test_a_page_over_which_a_repository_breaks_down_ends_the_run_without_harm(
    database: ScratchDatabase, oai: MoodyOai
) -> None:
    oai.fill(60)
    oai.page_max = 10
    async with database.open() as r:
        await keep(r, oai)
        oai.make("d00005", "Edited")
        oai.html_for = {"d00033"}
        run = await r.sync("portal", full=True, accept_deletions=True)
        oai.html_for = set()
        healed = await r.sync("portal")

    assert (run.status, run.stats.updated, run.stats.deleted) == ("partial", 1, 0)
    assert "status 500" in (run.error or "")
    assert (healed.status, healed.complete, healed.stats.failed) == ("completed", True, 0)
