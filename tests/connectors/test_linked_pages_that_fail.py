"""Pages that are linked to one another, and that a catalog fails over: smaller ones, where their size can be chosen."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from rowen import Rowen, Run
from rowen.connectors.catalog import portal_client
from tests.conftest import ScratchDatabase
from tests.logical import contents
from tests.portals.dcat import DcatPortal
from tests.portals.site import Asked
from tests.portals.stac import StacApi


class WeakApi(StacApi):
    """An API that minds `limit`, and fails over large pages or over one collection."""

    usual = 20
    most = 1000
    poison = "none"
    how = "status"
    minds_limit = True
    silent_s = 0.0

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        if request.path != "/v1/collections":
            return await super()._answer_for(request)
        await asyncio.sleep(self.silent_s)
        limit = request.query.get("limit")
        if limit and not self.minds_limit:
            return self._failed(request, 400, "No such parameter: limit")
        if request.method == "POST":
            limit = (await request.json()).get("limit")
        self.page_size = int(limit or self.usual)
        text = json.dumps(self._listing(await self._start_of(request))["collections"])
        is_poisoned = f'"{self.poison}"' in text
        if self.page_size > self.most or (is_poisoned and self.how == "status"):
            return self._failed(request, 500, "Internal server error")
        return self._failed(request, 200, text[:-9]) if is_poisoned else await super()._answer_for(request)

    def _failed(self, request: web.Request, status: int, text: str) -> web.Response:
        self.log.append(Asked(request.path_qs, status, False, 0))
        return web.Response(status=status, text=text)


class WeakUdata(DcatPortal):
    """A udata that fails over large pages or over one dataset."""

    most = 1000
    poison = "none"

    def __init__(self) -> None:
        super().__init__()
        self.path, self.syntax, self.page_size = "/api/1/site/catalog", "jsonld", 100

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        is_poisoned = f"All about {self.poison}." in self.document(query).decode()
        if int(query.get("page_size", 1)) > self.most or is_poisoned:
            self.failures = [web.Response(status=504, text="Gateway timeout")]
        return await super()._answer_for(request)


@pytest.fixture
def api() -> Iterator[WeakApi]:
    api = WeakApi()
    yield api
    api.close()


@pytest.fixture
def udata() -> Iterator[WeakUdata]:
    udata = WeakUdata()
    yield udata
    udata.close()


async def keep(r: Rowen, portal: Any, **options: Any) -> Run:
    await r.sources.add(portal.address, name="portal", options=options)
    return await r.sync("portal")


@pytest.mark.parametrize("style", ["get", "post"])
async def test_an_api_too_slow_for_its_own_pages_is_requested_smaller_ones(
    database: ScratchDatabase, api: WeakApi, style: str
) -> None:
    api.fill(50)
    api.most, api.style = 8, style
    async with database.open() as r:
        run = await keep(r, api)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 50)
    assert run.stats.requests <= 26


@pytest.mark.parametrize("how", ["status", "json"])
async def test_what_stands_before_a_collection_that_an_api_fails_over_is_stored(
    database: ScratchDatabase, api: WeakApi, how: str
) -> None:
    api.fill(50)
    api.poison, api.how, api.style = "c0033", how, "relative"
    async with database.open() as r:
        run = await keep(r, api)
        again = await r.sync("portal")
        api.poison = "none"
        healed = await r.sync("portal")

    assert (run.status, run.complete, run.stats.created) == ("partial", False, 33)
    assert "startRecord=33" in (run.error or "")
    # An API that is out of breath may get it back: the place is kept for one more run.
    assert (again.status, again.stats.deleted) == ("failed" if how == "status" else "partial", 0)
    assert (healed.status, healed.complete, len(contents(database))) == ("completed", True, 50)


async def test_an_api_that_refuses_a_limit_reports_the_first_error(database: ScratchDatabase, api: WeakApi) -> None:
    api.fill(50)
    api.poison, api.minds_limit = "c0033", False
    async with database.open() as r:
        run = await keep(r, api)

    assert (run.status, run.stats.created) == ("partial", 20)
    assert "status 500" in (run.error or "")


async def test_the_time_limit_of_an_api_grows(
    database: ScratchDatabase, api: WeakApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portal_client, "FIRST_LIMIT_S", 0.4)
    api.fill(5)
    api.silent_s = 0.6
    async with database.open() as r:
        run = await keep(r, api)

    assert (run.status, run.stats.created) == ("completed", 5)


async def test_a_udata_too_slow_for_large_pages_is_requested_small_ones(
    database: ScratchDatabase, udata: WeakUdata
) -> None:
    udata.fill(130)
    udata.most = 12
    async with database.open() as r:
        run = await keep(r, udata, page_size=50)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 130)
    assert run.stats.requests <= 130 / 12 * 3


@pytest.mark.parametrize("name", ["d00017", "zz-last"])
async def test_a_dataset_that_udata_fails_over_costs_only_itself(
    database: ScratchDatabase, udata: WeakUdata, name: str
) -> None:
    udata.fill(60)
    async with database.open() as r:
        await keep(r, udata, page_size=20)
        udata.poison = name
        run = await r.sync("portal", full=True)

    assert (run.complete, run.stats.deleted, len(contents(database))) == (False, 0, 60)
    assert (run.stats.unchanged, run.stats.failed) == (59, 1)
    assert run.stats.requests <= 32
