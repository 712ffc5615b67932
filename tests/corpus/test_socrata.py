"""Recorded answers of a Socrata portal are digested."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rowen.connectors.catalog.dates import moment
from rowen.connectors.socrata import Socrata
from tests.conftest import ScratchDatabase
from tests.corpus import CORPUS, needs
from tests.portals.socrata import SocrataPortal

FOLDER = CORPUS / "socrata"
pytestmark = needs(FOLDER)


@pytest.fixture(autouse=True)
def _kind(kinds: Any) -> None:
    kinds(Socrata)


@pytest.fixture
def portal() -> Iterator[SocrataPortal]:
    portal = SocrataPortal()
    yield portal
    portal.close()


def test_every_file_is_looked_at() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {
        "melbourne_discovery_facets.json",
        "melbourne_discovery_search.json",
        "melbourne_view.json",
    }


async def test_a_recorded_answer_is_digested(database: ScratchDatabase, portal: SocrataPortal) -> None:
    for record in json.loads((FOLDER / "melbourne_discovery_search.json").read_bytes())["results"]:
        portal.records[record["resource"]["id"]] = record
        portal.dates[record["resource"]["id"]] = moment(record["resource"]["updatedAt"])
    portal.page_max = 20
    async with database.open() as r:
        run = await r.sync(portal.address)
        again = await r.sync(portal.address)
        full = await r.sync(portal.address, full=True)

    assert (run.status, run.complete, run.stats.created, run.stats.failed) == ("completed", True, 48, 0)
    assert (again.status, again.stats.requests, again.stats.rows_written) == ("completed", 1, 0)
    assert (full.stats.unchanged, full.stats.rows_written) == (48, 0)
    assert database.query("select count(*) from item where text ~ '</?[a-z]+>'") == [(0,)]
    assert database.query("select record->'source'->'resource'->>'type', count(*) from item group by 1 order by 1") == [
        ("dataset", 27),
        ("map", 21),
    ]


@pytest.mark.parametrize("name", ["melbourne_discovery_facets.json", "melbourne_view.json"])
async def test_a_recorded_answer_that_is_no_listing_is_refused(
    database: ScratchDatabase, portal: SocrataPortal, name: str
) -> None:
    portal.body = (FOLDER / name).read_bytes()
    async with database.open() as r:
        run = await r.sync(portal.address)

    assert run.status == "failed"
    assert "no list of assets" in (run.error or "")
