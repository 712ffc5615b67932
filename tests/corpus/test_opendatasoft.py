"""Recorded answers of OpenDataSoft portals are digested."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rowen.connectors.catalog.dates import moment
from rowen.connectors.opendatasoft import OpenDataSoft
from tests.conftest import ScratchDatabase
from tests.corpus import CORPUS, needs
from tests.portals.opendatasoft import OpenDataSoftPortal

FOLDER = CORPUS / "opendatasoft"
pytestmark = needs(FOLDER)


@pytest.fixture(autouse=True)
def _kind(kinds: Any) -> None:
    kinds(OpenDataSoft)


@pytest.fixture
def portal() -> Iterator[OpenDataSoftPortal]:
    portal = OpenDataSoftPortal()
    yield portal
    portal.close()


def test_every_file_is_looked_at() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {
        "campbelltown_v2_datasets.json",
        "campbelltown_v2_facets.json",
        "sbb_v21_catalog.json",
    }


async def test_a_recorded_answer_of_version_2_is_digested(
    database: ScratchDatabase, portal: OpenDataSoftPortal
) -> None:
    portal.body = (FOLDER / "campbelltown_v2_datasets.json").read_bytes()
    async with database.open() as r:
        run = await r.sync(portal.address)
        again = await r.sync(portal.address, full=True)

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("completed", True, 6, 0)
    assert (again.stats.unchanged, again.stats.rows_written) == (6, 0)
    assert database.query("select count(*) from item where text like '%<%'") == [(0,)]
    facts = "select count(record->'publisher'), count(record->'licence'), count(record->'modified') from item"
    assert database.query(facts) == [(5, 4, 6)]


async def test_a_recorded_answer_that_was_trimmed_is_kept_and_proves_nothing(
    database: ScratchDatabase, portal: OpenDataSoftPortal
) -> None:
    portal.body = (FOLDER / "sbb_v21_catalog.json").read_bytes()
    async with database.open() as r:
        run = await r.sync(portal.address)

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("partial", False, 12, 0)
    assert "declares 61" in (run.error or "")


async def test_the_records_of_both_are_walked_in_pages(database: ScratchDatabase, portal: OpenDataSoftPortal) -> None:
    old = json.loads((FOLDER / "campbelltown_v2_datasets.json").read_bytes())["datasets"]
    new = json.loads((FOLDER / "sbb_v21_catalog.json").read_bytes())["results"]
    for record in [*(one["dataset"] for one in old), *new]:
        portal.records[record["dataset_id"]] = record
        portal.dates[record["dataset_id"]] = moment(record["metas"]["default"].get("modified"))
    portal.page_max = 4
    async with database.open() as r:
        run = await r.sync(portal.address)
        again = await r.sync(portal.address)

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("completed", True, 18, 0)
    assert (again.status, again.stats.rows_written) == ("completed", 0)


async def test_a_recorded_answer_that_is_no_listing_is_refused(
    database: ScratchDatabase, portal: OpenDataSoftPortal
) -> None:
    portal.body = (FOLDER / "campbelltown_v2_facets.json").read_bytes()
    async with database.open() as r:
        run = await r.sync(portal.address)

    assert run.status == "failed"
    assert "no list of datasets" in (run.error or "")
