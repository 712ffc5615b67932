"""OAI-PMH repositories: what becomes of a record, and what a refresh costs."""

import pytest

from rowen.connectors.oai import Oai
from rowen.connectors.probe import Probe
from rowen.net.client import Client
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import titles
from tests.portals.catalogs import keep
from tests.portals.oai import OaiRepository


@pytest.fixture
def portal(opened: Opened) -> OaiRepository:
    return opened(OaiRepository)


async def test_a_record_in_dublin_core_becomes_a_dataset(database: ScratchDatabase, portal: OaiRepository) -> None:
    portal.make("a", ["Rowen", "Second crop"], coverage=["The meadow"], modified=["2023-07-01"])
    async with database.open() as r:
        await keep(r, portal)

    [(url, title, text, tags, language, record)] = database.query(
        "select url, title, text, tags, language, record from item"
    )
    assert url == f"{portal.base}?verb=GetRecord&metadataPrefix=oai_dc&identifier=oai%3Afarm.example%3Aa"
    assert (title, tags, language) == ("Rowen", ["clover", "hay"], "en")
    assert text.startswith("Second crop\n\nAll about a.\n\nBy Reaper, A.; Sower, B..")
    source = record.pop("source")
    assert record == {
        "identifier": "oai:farm.example:a",
        "publisher": "The Farm Press",
        "licence": "https://creativecommons.org/publicdomain/zero/1.0/",
        "languages": ["en"],
        "issued": "2023-05-01",
        "modified": "2023-07-01",
        "spatial": "The meadow",
        "landing_page": "https://farm.example/a",
        "record_kind": "other",
        "resources": [
            {
                "url": "https://farm.example/files/a.pdf",
                "name": "a.pdf",
                "description": "",
                "format": "PDF",
                "media_type": "application/pdf",
                "size_bytes": None,
            }
        ],
    }
    assert source["header"]["setSpec"] == "all"
    assert source["metadata"]["oai_dc:dc"]["dc:creator"] == ["Reaper, A.", "Sower, B."]


async def test_a_record_in_datacite_becomes_a_dataset(database: ScratchDatabase, portal: OaiRepository) -> None:
    portal.formats = ["marc", "oai_dc", "oai_datacite"]
    portal.make("a", "Rowen")
    async with database.open() as r:
        await keep(r, portal)

    [(title, text, record)] = database.query("select title, text, record from item")
    assert title == "Rowen"
    assert "A second crop" in text
    assert "## Heu (de)" in text
    assert "By Reaper, A.; Sower, B." in text
    assert {name: record[name] for name in record if name not in ("source", "resources")} == {
        "identifier": "oai:farm.example:a",
        "publisher": "The Farm Press",
        "licence": "https://creativecommons.org/licenses/by/4.0/",
        "languages": ["en"],
        "issued": "2023-05-01",
        "modified": "2023-06-01",
        "spatial": "The meadow; 1 2 3 4",
        "temporal": "2001/2002",
        "landing_page": "https://doi.org/10.1234/farm",
        "record_kind": "other",
    }
    [part] = record["resources"]
    assert (part["url"], part["media_type"], part["size_bytes"]) == ("https://farm.example/data.csv", "text/csv", 1024)
    assert record["source"]["metadata"]["oai_datacite:oai_datacite"]["oai_datacite:schemaVersion"] == "4.3"


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["marc", "oai_dc"], "oai_dc"),
        (["oai_dc", "oai_datacite"], "oai_datacite"),
        (["oai_dc", "datacite4", "oai_datacite"], "datacite4"),
        (["marc"], "marc"),
    ],
)
async def test_the_richest_format_that_is_offered_is_read(
    database: ScratchDatabase, portal: OaiRepository, offered: list[str], chosen: str
) -> None:
    portal.formats = offered
    portal.make("a")
    async with database.open() as r:
        await r.sync(portal.address)

    assert {asked.headers["metadataPrefix"] for asked in portal.log if asked.headers["verb"] == "ListRecords"} == {
        chosen
    }


async def test_a_wished_format_is_read_and_not_asked_for(database: ScratchDatabase, portal: OaiRepository) -> None:
    portal.formats = ["oai_dc", "oai_datacite"]
    portal.make("a")
    async with database.open() as r:
        await r.sources.add(portal.address, name="portal", options={"prefix": "oai_dc"})
        await r.sync("portal")

    assert portal.verbs()[:2] == ["Identify", "ListRecords"]
    assert "ListMetadataFormats" not in portal.verbs()


async def test_a_better_format_has_everything_read_anew(database: ScratchDatabase, portal: OaiRepository) -> None:
    portal.fill(5)
    async with database.open() as r:
        await keep(r, portal)
        portal.formats = ["oai_dc", "oai_datacite"]
        run = await r.sync("portal")

    assert (run.complete, run.stats.updated) == (True, 6)


async def test_metadata_in_an_unknown_format_is_read_by_its_names(
    database: ScratchDatabase, portal: OaiRepository
) -> None:
    portal.make("a", xml='<raw xmlns="urn:raw"><title>Rowen</title><doi>10.1234/x</doi><abstract>All.</abstract></raw>')
    async with database.open() as r:
        await keep(r, portal)

    assert database.query("select title, text, record->>'landing_page' from item") == [
        ("Rowen", "All.", "https://doi.org/10.1234/x")
    ]


async def test_a_record_without_title_is_called_by_its_identifier(
    database: ScratchDatabase, portal: OaiRepository
) -> None:
    portal.make("a", [], identifier=[])
    async with database.open() as r:
        await keep(r, portal)

    assert titles(database) == {"a": "oai:farm.example:a"}


async def test_nothing_changed_costs_two_requests_and_no_row(database: ScratchDatabase, portal: OaiRepository) -> None:
    portal.fill(250)
    async with database.open() as r:
        first = await keep(r, portal)
        run = await r.sync("portal")

    assert (first.status, first.complete, first.stats.created) == ("completed", True, 251)
    assert portal.verbs() == ["ListMetadataFormats", "ListRecords"]
    assert (run.stats.requests, run.stats.rows_written) == (2, 0)


async def test_only_what_changed_is_asked_for(database: ScratchDatabase, portal: OaiRepository) -> None:
    portal.fill(250)
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00003", "Edited")
        portal.make("new")
        portal.remove("d00004")
        run = await r.sync("portal")

    assert (run.stats.updated, run.stats.created, run.stats.deleted, run.stats.requests) == (1, 1, 1, 2)
    assert portal.log[-1].headers["from"] == "2024-01-05T05:15:00Z"
    assert set(titles(database)) == portal.names()


async def test_days_are_asked_for_where_a_repository_knows_no_seconds(
    database: ScratchDatabase, portal: OaiRepository
) -> None:
    portal.seconds = False
    portal.fill(250)
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00003", "Edited")
        run = await r.sync("portal")

    assert (run.stats.updated, run.stats.requests) == (1, 2)
    assert portal.log[-1].headers["from"] == "2024-01-04"


async def test_a_repository_that_becomes_more_exact_is_walked_once(
    database: ScratchDatabase, portal: OaiRepository
) -> None:
    portal.seconds = False
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        portal.seconds = True
        walked = await r.sync("portal")
        again = await r.sync("portal")

    assert (walked.stats.amended, walked.stats.fell_back) == (21, 1)
    assert (again.stats.requests, again.stats.rows_written) == (2, 0)


@pytest.mark.parametrize("policy", ["persistent", "transient"])
async def test_a_record_that_comes_back_is_created_again(
    database: ScratchDatabase, portal: OaiRepository, policy: str
) -> None:
    portal.policy = policy
    portal.fill(5)
    async with database.open() as r:
        await keep(r, portal)
        portal.remove("d00001")
        gone = await r.sync("portal")
        portal.make("d00001")
        back = await r.sync("portal")

    assert (gone.stats.deleted, back.stats.created) == (1, 1)


async def test_tombstones_of_what_we_never_held_are_nothing(database: ScratchDatabase, portal: OaiRepository) -> None:
    portal.fill(5)
    portal.remove("d00001")
    async with database.open() as r:
        first = await keep(r, portal)
        run = await r.sync("portal")

    assert (first.stats.created, first.stats.deleted, first.complete) == (5, 0, True)
    assert (run.stats.rows_written, run.stats.requests) == (0, 2)


async def test_a_repository_without_tombstones_is_walked_when_its_count_differs(
    database: ScratchDatabase, portal: OaiRepository
) -> None:
    portal.policy = "no"
    portal.fill(250)
    async with database.open() as r:
        await keep(r, portal)
        quiet = await r.sync("portal")
        portal.remove("d00004")
        run = await r.sync("portal")

    assert (quiet.stats.requests, quiet.stats.rows_written) == (3, 0)
    assert (run.complete, run.stats.deleted) == (True, 1)


async def test_a_chosen_set_is_read_alone(database: ScratchDatabase, portal: OaiRepository) -> None:
    portal.make("a", sets=("grass",))
    portal.make("b", sets=("trees",))
    portal.make("c", sets=("herbs", "grass"))
    async with database.open() as r:
        await keep(r, portal, sets=["grass"])

    assert set(titles(database)) == {"a", "c"}


async def test_several_sets_are_one_listing(database: ScratchDatabase, portal: OaiRepository) -> None:
    portal.page_max = 2
    for number in range(9):
        portal.make(f"d{number}", sets=(("grass", "herbs"), ("trees",), ("grass",))[number % 3])
    async with database.open() as r:
        run = await keep(r, portal, sets="grass, herbs")
        portal.make("d0", "Edited", sets=("herbs",))
        changed = await r.sync("portal")

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 6)
    assert (changed.stats.updated, changed.stats.requests) == (1, 3)


async def test_an_empty_repository_is_an_empty_source(database: ScratchDatabase, portal: OaiRepository) -> None:
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created) == ("completed", 0)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("oai:https://farm.example/x?verb=Identify", "https://farm.example/x"),
        ("https://farm.example/cgi/oai2", "https://farm.example/cgi/oai2"),
        ("https://farm.example/server/oai/request?verb=ListRecords&set=x", "https://farm.example/server/oai/request"),
        ("https://farm.example/index.php?page=oai&verb=Identify", "https://farm.example/index.php?page=oai"),
        ("oai:farm.example:1", None),
        ("https://farm.example/oaistory", None),
        ("https://farm.example/data.json", None),
    ],
)
def test_addresses_are_recognised(address: str, url: str | None) -> None:
    assert Oai.recognise(address) == url


@pytest.mark.parametrize(("path", "found"), [("/oai?verb=Identify", 1), ("/oai", 1), ("/", 2), ("/other", None)])
async def test_a_repository_is_found_by_probing(
    database: ScratchDatabase, portal: OaiRepository, path: str, found: int | None
) -> None:
    portal.make("a")
    async with Client(database.settings()) as client:
        probe = Probe(client, f"{portal.url}{path}")
        await probe.begin()
        url = await Oai.probe(probe)

    assert url == (portal.base if found else None)
    assert len(portal.log) == (found or 2)
