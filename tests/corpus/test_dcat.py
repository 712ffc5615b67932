"""Recorded RDF catalogs are digested."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rowen.connectors.dcat import Dcat
from tests.conftest import ScratchDatabase
from tests.corpus import CORPUS, needs
from tests.portals.dcat import DcatPortal

pytestmark = needs(CORPUS)

COUNTS = {"demo-ckan.ttl": 100, "demo-ckan.jsonld": 100, "demo-ckan.rdf": 100, "sig-oreme.rdf": 1}
HUBS = {"apur_hub_dcat.jsonld": 71, "evian_hub_dcat.jsonld": 8}


@pytest.fixture(autouse=True)
def _kind(kinds: Any) -> None:
    kinds(Dcat)


@pytest.fixture
def portal() -> Iterator[DcatPortal]:
    portal = DcatPortal()
    yield portal
    portal.close()


def test_every_recorded_catalog_is_expected() -> None:
    assert {path.name for path in (CORPUS / "dcat").iterdir()} == set(COUNTS)


@pytest.mark.parametrize("path", sorted((CORPUS / "dcat").glob("*")), ids=lambda path: path.name)
async def test_a_recorded_page_is_read_as_it_was_sent(
    database: ScratchDatabase, portal: DcatPortal, path: Path
) -> None:
    """The first page of 26 is all kept, and the run knows that there should be more."""
    portal.syntax, portal.body = path.suffix[1:], path.read_bytes()
    async with database.open() as r:
        run = await r.sync(portal.address)
        again = await r.sync(portal.address, full=True)

    assert (run.stats.created, run.stats.failed) == (COUNTS[path.name], 0)
    assert run.status == ("completed" if COUNTS[path.name] == 1 else "partial")
    assert (again.stats.unchanged, again.stats.rows_written) == (COUNTS[path.name], 0)


async def test_the_same_catalog_in_three_syntaxes_gives_the_same_records(
    database: ScratchDatabase, portal: DcatPortal
) -> None:
    seen = set()
    async with database.open() as r:
        for name in ("demo-ckan.ttl", "demo-ckan.jsonld", "demo-ckan.rdf"):
            # Served under one name: what the document is, it shows by itself.
            portal.media_type, portal.body = "application/octet-stream", (CORPUS / "dcat" / name).read_bytes()
            await r.sync(portal.address, full=True)
            seen.add(tuple(database.query("select url, encode(record_hash, 'hex') from item order by url")))

    assert [len(records) for records in seen] == [100]


@pytest.mark.parametrize("name", HUBS)
async def test_feeds_with_a_remote_context_are_read_without_it(
    database: ScratchDatabase, portal: DcatPortal, name: str
) -> None:
    portal.syntax, portal.body = "jsonld", (CORPUS / "arcgis" / name).read_bytes()
    async with database.open() as r:
        run = await r.sync(portal.address)
        again = await r.sync(portal.address, full=True)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", HUBS[name], 0)
    assert run.stats.requests == 1
    assert (again.stats.unchanged, again.stats.rows_written) == (HUBS[name], 0)
