"""Every recorded answer of STAC APIs is digested."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import ScratchDatabase
from tests.corpus import CORPUS, needs
from tests.portals.stac import StacApi

pytestmark = needs(CORPUS)

COUNTS = {
    "earth-search_collections.json": 9,
    "planetary-computer_collections.json": 126,
    "spacebel_collections_page1.json": 10,
    "spacebel_collections_page2.json": 10,
}


@pytest.fixture
def api() -> Iterator[StacApi]:
    api = StacApi()
    yield api
    api.close()


def content(name: str) -> Any:
    return json.loads((CORPUS / "stac" / name).read_bytes())


def test_every_recorded_answer_is_looked_at() -> None:
    landing = {"planetary-computer_landing.json"}

    assert {path.name for path in (CORPUS / "stac").iterdir()} == {*COUNTS, *landing}


@pytest.mark.parametrize("name", COUNTS)
async def test_recorded_collections_are_digested(database: ScratchDatabase, api: StacApi, name: str) -> None:
    api.records = {record["id"]: record for record in content(name)["collections"]}
    api.page_size = 50
    async with database.open() as r:
        run = await r.sync(api.address)
        again = await r.sync(api.address, full=True)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", COUNTS[name], 0)
    assert (again.stats.unchanged, again.stats.rows_written) == (COUNTS[name], 0)
    assert database.query("select count(*) from item where text = '' or record->>'spatial' is null") == [(0,)]


async def test_recorded_pages_are_read_as_they_were_sent(database: ScratchDatabase, api: StacApi) -> None:
    """Two of twenty-two pages: they are kept, and the run knows that there should be more."""
    first, second = (content(f"spacebel_collections_page{number}.json") for number in (1, 2))
    following = next(link for link in first["links"] if link["rel"] == "next")
    following["href"] = following["href"].replace("https://emc.spacebel.be", f"{api.url}/v1")
    second["links"] = [link for link in second["links"] if link["rel"] != "next"]
    api._listing = lambda start: second if start else first  # type: ignore[method-assign]
    async with database.open() as r:
        run = await r.sync(api.address)

    assert (run.status, run.stats.created, run.stats.failed) == ("partial", 20, 0)
    assert "declares 216" in (run.error or "")


async def test_a_recorded_landing_page_leads_to_its_collections(database: ScratchDatabase, api: StacApi) -> None:
    written = (CORPUS / "stac" / "planetary-computer_landing.json").read_text("utf-8")
    api.landing = json.loads(written.replace("https://planetarycomputer.microsoft.com/api/stac/v1", f"{api.url}/v1"))
    api.body = (CORPUS / "stac" / "planetary-computer_collections.json").read_bytes()
    async with database.open() as r:
        run = await r.sync(api.address)
        again = await r.sync(api.address)

    assert (run.status, run.stats.created, run.stats.requests) == ("completed", 126, 2)
    assert (again.stats.requests, again.stats.not_modified, again.stats.rows_written) == (2, 1, 0)
