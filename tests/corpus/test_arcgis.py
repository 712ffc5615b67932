"""Recorded answers of ArcGIS are digested."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rowen.connectors.arcgis import ArcGis
from rowen.connectors.catalog.dates import moment
from rowen.connectors.datajson import DataJson
from tests.conftest import ScratchDatabase
from tests.corpus import CORPUS, needs
from tests.portals.arcgis import GeoPortal, HubSite
from tests.portals.datajson import DataJsonSite

FOLDER = CORPUS / "arcgis"
pytestmark = needs(FOLDER)

SEARCHES = {"portal_search.json": 4, "portal_group_items_search.json": 3}
FEEDS = {"apur_hub_dcat.jsonld": 71, "evian_hub_dcat.jsonld": 8}


@pytest.fixture(autouse=True)
def _kinds(kinds: Any) -> None:
    kinds(ArcGis)
    kinds(DataJson)


@pytest.fixture
def portal() -> Iterator[GeoPortal]:
    portal = GeoPortal()
    yield portal
    portal.close()


def test_every_file_is_looked_at() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*SEARCHES, *FEEDS}


@pytest.mark.parametrize("name", SEARCHES)
async def test_a_recorded_answer_of_a_search_is_digested(
    database: ScratchDatabase, portal: GeoPortal, name: str
) -> None:
    portal.body = (FOLDER / name).read_bytes()
    async with database.open() as r:
        run = await r.sync(portal.address)
        again = await r.sync(portal.address, full=True)

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == (
        "completed",
        True,
        SEARCHES[name],
        0,
    )
    assert (again.stats.unchanged, again.stats.rows_written) == (SEARCHES[name], 0)
    assert database.query("select count(*) from item where text ~ '</?(p|span|b|div)[ >]'") == [(0,)]


@pytest.mark.parametrize("name", SEARCHES)
async def test_its_items_are_read_as_features_of_a_site_as_well(database: ScratchDatabase, name: str) -> None:
    site = HubSite()
    for item in json.loads((FOLDER / name).read_bytes())["results"]:
        site.records[item["id"]] = site.wrap(item)
        site.dates[item["id"]] = moment(item["modified"])
    site.page_max = 2
    async with database.open() as r:
        run = await r.sync(site.address)
        again = await r.sync(site.address)
    site.close()

    assert (run.status, run.complete, run.stats.created) == ("completed", True, SEARCHES[name])
    assert (again.status, again.stats.rows_written) == ("completed", 0)


@pytest.mark.parametrize("name", FEEDS)
async def test_a_recorded_feed_of_a_site_is_digested_as_a_document(database: ScratchDatabase, name: str) -> None:
    site = DataJsonSite()
    site.body = (FOLDER / name).read_bytes()
    async with database.open() as r:
        run = await r.sync(site.address)
        again = await r.sync(site.address, full=True)
    site.close()

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("completed", True, FEEDS[name], 0)
    assert (again.stats.unchanged, again.stats.rows_written) == (FEEDS[name], 0)
