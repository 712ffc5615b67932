"""The list of public portals that comes with the project: every entry makes sense, every kind of catalog is there."""

import tomllib
from pathlib import Path
from urllib.parse import urlsplit

from rowen.connectors import registry
from rowen.model.access import Reach
from rowen.operations.declarations import Declaration
from tests.conftest import ScratchDatabase

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
    assert len(ENTRIES) > 300


def test_the_whole_file_is_read_and_no_name_or_address_is_there_twice() -> None:
    declared = Declaration.of_file(FILE).read(Reach.ALL)

    assert len(declared) == len(ENTRIES)
    assert len({one.name.lower() for one in declared}) == len(declared)
    assert len({one.url.lower().rstrip("/") for one in declared}) == len(declared)
    assert [one.name for one in declared if one.schedule is None] == []


def test_every_entry_names_its_kind_and_an_address_that_is_encrypted_and_public() -> None:
    declared = {one.name: one for one in Declaration.of_file(FILE).read(Reach.ALL)}

    assert len(declared) == len(ENTRIES) > 0
    for entry in ENTRIES:
        one, host = declared[entry["name"]], urlsplit(entry["url"]).hostname or ""
        assert (one.kind, one.url.startswith("https://"), "." in host) == (entry["kind"], True, True), entry
        assert host.rpartition(".")[2].isalpha(), entry


async def test_it_can_be_applied_and_the_giants_wait(database: ScratchDatabase) -> None:
    async with database.open() as rowen:
        await rowen.sources.apply(FILE)
        again = await rowen.sources.apply(FILE, dry_run=True)
        states = {source.name: source.state for source in await rowen.sources.list()}

    assert {deed.action for deed in again} == {"unchanged"}
    assert {name for name, state in states.items() if state == "paused"} >= {"data.gov", "data.europa.eu", "zenodo"}
    assert states["new-york-city"] == "active"
