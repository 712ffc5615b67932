"""Every recorded answer of real OAI-PMH repositories is digested."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from rowen.connectors.oai import Oai
from tests.conftest import ScratchDatabase
from tests.corpus import CORPUS, needs
from tests.portals.oai import OaiRepository

FOLDER = CORPUS / "oai"
pytestmark = needs(FOLDER)

# What a walk finds if the whole repository answers with this file: how the run ends, and how many items there are.
LISTS = {
    "dspace-mit_ListRecords_set.xml": ("completed", 58),
    "dspace-mit_ListRecords_deleted.xml": ("completed", 0),
    "dspace-mit_GetRecord_deleted.xml": ("completed", 0),
    "dspace-mit_noRecordsMatch.xml": ("completed", 0),
    "arxiv_ListRecords.xml": ("partial", 6),
    "arxiv_badResumptionToken.xml": ("failed", 0),
}
CHAINS = {
    "dspace-mit_ListIdentifiers": (2, 171),
    "nsdl_ListIdentifiers": (4, 733),
}


@pytest.fixture(autouse=True)
def _kind(kinds: Any) -> None:
    kinds(Oai)


@pytest.fixture
def portal() -> Iterator[OaiRepository]:
    portal = OaiRepository()
    yield portal
    portal.close()


def test_no_file_is_forgotten() -> None:
    files = [*LISTS, *(f"{name}_page{n}.xml" for name, (pages, _) in CHAINS.items() for n in range(1, pages + 1))]

    assert sorted(files) == sorted(path.name for path in FOLDER.iterdir())


@pytest.mark.parametrize("name", LISTS)
async def test_recorded_lists_are_digested(database: ScratchDatabase, portal: OaiRepository, name: str) -> None:
    status, count = LISTS[name]
    portal.bodies_of = {"ListRecords": (FOLDER / name).read_bytes()}
    async with database.open() as r:
        run = await r.sync(portal.address)
        again = await r.sync(portal.address, full=True)

    assert (run.status, run.stats.created, run.stats.failed) == (status, count, 0)
    assert (again.stats.unchanged, again.stats.rows_written) == (count, 0)
    assert database.query("select count(*) from item where title = '' or record->'source' is null") == [(0,)]


@pytest.mark.parametrize("name", CHAINS)
async def test_recorded_chains_of_identifiers_are_digested(
    database: ScratchDatabase, portal: OaiRepository, name: str
) -> None:
    """Their headers make up a repository, which is walked; the recording then tells that nothing has vanished."""
    pages, count = CHAINS[name]
    portal.policy, portal.page_max = "no", 200
    bodies = [(FOLDER / f"{name}_page{number}.xml").read_bytes() for number in range(1, pages + 1)]
    for header in [one for body in bodies for one in ET.fromstring(body).findall(".//{*}header")]:
        identifier = header.findtext("{*}identifier") or ""
        portal.make(identifier, tick_h=0.01)
        portal.records[identifier] = replace(portal.records[identifier], identifier=identifier)
    portal.bodies_of = {"ListIdentifiers": bodies[0]}
    async with database.open() as r:
        run = await r.sync(portal.address)
        again = await r.sync(portal.address)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, count)
    assert (again.status, again.complete, again.stats.rows_written) == ("completed", False, 0)
