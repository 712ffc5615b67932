"""Every recorded answer of real portals is digested."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rowen import Rowen, Run
from rowen.connectors.ckan import Ckan
from rowen.connectors.datajson import DataJson
from rowen.model.url import canonical
from tests.conftest import ScratchDatabase
from tests.corpus import CORPUS, needs
from tests.portals.ckan import CkanPortal
from tests.portals.datajson import DataJsonSite

pytestmark = needs(CORPUS)

HISTORY = sorted((CORPUS / "datajson-history").glob("*.json"))
# What each date created, deleted and moved, compared with the date before, by identifiers without their scheme. What
# moved are layers of a map service that got another number, as one can see from the rest of their identifiers.
TRUTH = {
    "20200918": (2, 19, 3),
    "20201022": (33, 32, 0),
    "20201118": (21, 56, 0),
    "20201213": (4, 2, 0),
    "20210119": (5, 25, 3),
    "20210210": (18, 19, 0),
    "20210326": (18, 38, 0),
    "20210513": (38, 5, 0),
}


@pytest.fixture(autouse=True)
def _kinds(kinds: Any) -> None:
    kinds(Ckan)
    kinds(DataJson)


@pytest.fixture
def site() -> Iterator[DataJsonSite]:
    site = DataJsonSite()
    yield site
    site.close()


@pytest.fixture
def portal() -> Iterator[CkanPortal]:
    portal = CkanPortal()
    yield portal
    portal.close()


def content(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


async def sync(r: Rowen, address: str, **how: bool) -> Run:
    return await r.sync(address, **how)


@pytest.mark.parametrize("path", sorted((CORPUS / "ckan").glob("*.json*")), ids=lambda path: path.name)
async def test_recorded_answers_of_ckan_portals_are_digested(
    database: ScratchDatabase, portal: CkanPortal, path: Path
) -> None:
    answer = json.loads(content(path))
    for record in (answer.get("result") or answer)["results"]:
        portal.records[record["id"]] = record
    async with database.open() as r:
        run = await sync(r, portal.address)
        again = await sync(r, portal.address, full=True)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", len(portal.records), 0)
    assert (again.stats.unchanged, again.stats.rows_written) == (len(portal.records), 0)


@pytest.mark.parametrize("path", sorted((CORPUS / "ckan").glob("*.json*")), ids=lambda path: path.name)
async def test_a_recorded_answer_is_read_as_it_was_sent(
    database: ScratchDatabase, portal: CkanPortal, path: Path
) -> None:
    """It is one page of many, and comes again whichever page is asked for: it is kept, and the run is not believed."""
    portal.body = content(path)
    answer = json.loads(portal.body)
    listing = answer.get("result") or answer
    async with database.open() as r:
        run = await sync(r, portal.address)

    assert (run.stats.created, run.stats.failed) == (len(listing["results"]), 0)
    assert run.status == "partial"


@pytest.mark.parametrize("path", [*sorted((CORPUS / "datajson").glob("*.json")), *HISTORY], ids=lambda path: path.name)
async def test_recorded_documents_are_digested(database: ScratchDatabase, site: DataJsonSite, path: Path) -> None:
    site.body = content(path)
    async with database.open() as r:
        run = await sync(r, site.address)
        again = await sync(r, site.address, full=True)

    count = len(json.loads(site.body)["dataset"])
    assert (run.status, run.stats.created, run.stats.failed) == ("completed", count, 0)
    assert (again.stats.unchanged, again.stats.rows_written) == (count, 0)


async def test_the_history_of_a_portal_replays_to_what_really_happened(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.body = content(HISTORY[0])
    async with database.open() as r:
        await sync(r, site.address)
        for path in HISTORY[1:]:
            site.body = content(path)
            run = await sync(r, site.address)

            stats = run.stats
            assert (stats.created, stats.deleted, stats.moved) == TRUTH[path.stem.rpartition("_")[2]], path.name
            assert stats.deletions_held == 0
            listed = {canonical(record["identifier"]) for record in json.loads(site.body)["dataset"]}
            assert {url for (url,) in database.query("select url from item")} == listed
    assert len(HISTORY) == len(TRUTH) + 1
