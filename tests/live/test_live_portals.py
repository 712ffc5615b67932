"""One real portal of each kind, over the network, for those who have one: `make test-live`.

Each is asked for its first items and no more, at the usual pace, and nothing is kept. Values are never asserted, since
portals change. What fails here may be the fault of the portal: the message says so.
"""

import os
import tomllib
from pathlib import Path

import pytest

from rowen.connectors import registry
from tests.conftest import ScratchDatabase

PORTALS = {
    entry["name"]: entry
    for entry in tomllib.loads((Path(__file__).parents[2] / "examples/portals.toml").read_text("utf-8"))["source"]
}
CHOSEN = {
    "arcgis": "washington-dc",
    "ckan": "data.stadt-zuerich.ch",
    "csw": "geocat.ch",
    "datajson": "transportation",
    "dcat": "data.public.lu",
    "github": "dcat-ap",
    "oai": "pangaea",
    "opendatasoft": "basel-stadt",
    "sdmx": "bis",
    "socrata": "seattle",
    "sparql": "datos.gob.es",
    "stac": "swisstopo",
    "web": "ckan-docs",
}
# Kinds that the list of portals does not have: registries need their clients set up, the rest is read here already.
ELSEWHERE = {"announced", "feed", "files", "git", "ldes", "npm", "pypi"}
FIRST = 3


def test_every_kind_has_its_live_test_or_a_reason_to_have_none() -> None:
    assert CHOSEN.keys() | ELSEWHERE == set(registry.kinds())
    assert {kind: PORTALS[name]["kind"] for kind, name in CHOSEN.items()} == {kind: kind for kind in CHOSEN}


@pytest.mark.live
@pytest.mark.skipif("ROWEN_TEST_LIVE" not in os.environ, reason="asks real portals: set ROWEN_TEST_LIVE=1")
@pytest.mark.parametrize(("kind", "name"), CHOSEN.items())
async def test_a_real_portal_gives_items_with_title_and_address(
    database: ScratchDatabase, kind: str, name: str
) -> None:
    portal = PORTALS[name]
    options = {"language": portal["language"]} if "language" in portal else {}

    async with database.open(host_delay_s=1, fetch_tries=2, allow_addresses="") as rowen:
        seen = await rowen.sources.preview(portal["url"], kind=kind, options=options, limit=FIRST)

    assert seen.trouble is None, seen.trouble
    assert (seen.kind, len(seen.items)) == (kind, FIRST)
    assert all(item.title and item.url.startswith(("https://", "http://")) for item in seen.items)
