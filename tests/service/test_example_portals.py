"""The list of public portals that comes with the project: every entry makes sense, every kind of catalog is there."""

import tomllib
from pathlib import Path

import pytest

from rowen.connectors import registry
from rowen.service.declarations import read
from tests.conftest import House

FILE = Path(__file__).parents[2] / "examples" / "portals.toml"
ENTRIES = tomllib.loads(FILE.read_text("utf-8"))["source"]
CATALOGS = {
    *("arcgis", "ckan", "csw", "datajson", "dcat", "oai"),
    *("opendatasoft", "sdmx", "socrata", "sparql", "stac"),
}


def test_every_kind_of_catalog_is_in_the_list() -> None:
    kinds = {entry["kind"] for entry in ENTRIES}

    assert kinds >= CATALOGS | {"github", "web"}
    assert set(registry.kinds()) >= kinds
    assert 40 <= len(ENTRIES) <= 70


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_an_entry_is_accepted_by_its_kind(entry: dict[str, object]) -> None:
    kind, url = registry.recognise(str(entry["url"]), str(entry["kind"]))

    assert kind == entry["kind"]
    assert url.startswith("https://")


def test_the_whole_file_is_read_without_a_complaint() -> None:
    declared = read(FILE)

    assert len(declared) == len(ENTRIES)
    assert len({one.url for one in declared}) == len(declared)
    assert [one.name for one in declared if one.schedule is None] == []


async def test_it_can_be_applied_and_the_giants_wait(house: House) -> None:
    async with house.open() as rowen:
        await rowen.apply(FILE)
        again = await rowen.apply(FILE, dry_run=True)
        states = {source.name: source.state for source in await rowen.sources()}

    assert {deed.action for deed in again} == {"unchanged"}
    assert {name for name, state in states.items() if state == "paused"} >= {"data.gov", "data.europa.eu", "zenodo"}
    assert states["new-york-city"] == "active"
