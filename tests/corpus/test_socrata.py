"""Recorded answers of a Socrata portal are digested."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rowen.connectors.catalog.dates import moment
from rowen.connectors.socrata import Socrata
from tests.conftest import House
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


async def test_a_recorded_answer_is_digested(house: House, portal: SocrataPortal) -> None:
    for record in json.loads((FOLDER / "melbourne_discovery_search.json").read_bytes())["results"]:
        portal.records[record["resource"]["id"]] = record
        portal.dates[record["resource"]["id"]] = moment(record["resource"]["updatedAt"])
    portal.page_max = 20
    async with house.open() as r:
        run = await r.sync(portal.address)
        again = await r.sync(portal.address)
        full = await r.sync(portal.address, full=True)

    assert (run.status, run.complete, run.tally.created, run.tally.failed) == ("completed", True, 48, 0)
    assert (again.status, again.tally.requests, again.tally.rows_written) == ("completed", 1, 0)
    assert (full.tally.unchanged, full.tally.rows_written) == (48, 0)
    assert house.query("select count(*) from item where text ~ '</?[a-z]+>'") == [(0,)]
    assert house.query("select record->'source'->'resource'->>'type', count(*) from item group by 1 order by 1") == [
        ("dataset", 27),
        ("map", 21),
    ]


@pytest.mark.parametrize("name", ["melbourne_discovery_facets.json", "melbourne_view.json"])
async def test_a_recorded_answer_that_is_no_listing_is_refused(house: House, portal: SocrataPortal, name: str) -> None:
    portal.body = (FOLDER / name).read_bytes()
    async with house.open() as r:
        run = await r.sync(portal.address)

    assert run.status == "failed"
    assert "no list of assets" in (run.error or "")
