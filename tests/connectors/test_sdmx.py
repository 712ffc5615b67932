"""SDMX services: one document in three notations, one request where nothing changed, never a wrong deletion."""

import asyncio

import pytest
from aiohttp import web

from rowen.connectors.sdmx import Sdmx
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import contents
from tests.portals.catalogs import keep
from tests.portals.sdmx import SdmxService
from tests.portals.site import Page

NOTATIONS = ["2.1", "3.0", "json"]


@pytest.fixture
def service(opened: Opened) -> SdmxService:
    return opened(SdmxService)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("sdmx:https://stat.example/rest", "https://stat.example/rest"),
        ("sdmx:https://stat.example/flows.xml", "https://stat.example/flows.xml"),
        ("https://stat.example/rest/dataflow/all/all/latest", "https://stat.example/rest/dataflow/all/all/latest"),
        ("https://stat.example/rest/dataflow/all?a=b", "https://stat.example/rest/dataflow/all?a=b"),
        ("https://stat.example/v2/structure/dataflow/*/*/~", "https://stat.example/v2/structure/dataflow/*/*/~"),
        ("https://docs.example/dataflow/overview", None),
        ("https://stat.example/rest", None),
        ("sdmx:nonsense", None),
    ],
)
def test_only_addresses_that_show_an_sdmx_service_are_recognised(address: str, url: str | None) -> None:
    assert Sdmx.recognise(address) == url
    assert url is None or Sdmx.accept(url) == url


@pytest.mark.parametrize("notation", NOTATIONS)
async def test_a_dataflow_is_stored_whole(database: ScratchDatabase, service: SdmxService, notation: str) -> None:
    service.notation = notation
    service.add(
        "HAY",
        "Hay & clover",
        notes=[
            ("UPDATE_DATA", "2024-01-10T11:00:00+0100", None),
            ("UPDATE_STRUCTURE", "2023-01-10T11:00:00+0100", None),
            ("OBS_PERIOD_OVERALL_OLDEST", "1975-Q1", None),
            ("OBS_PERIOD_OVERALL_LATEST", "2025-Q4", None),
            ("OBS_COUNT", "4711", None),
        ],
        validFrom="2020-05-06",
    )
    async with database.open() as r:
        run = await keep(r, service)

    [(url, title, text, record)] = database.query("select url, title, text, record from item")
    assert (run.status, run.complete) == ("completed", True)
    assert (url, title) == (f"{service.url}/rest/dataflow/FARM/HAY", "Hay & clover")
    assert text == "All about HAY.\n\n## Flux HAY (fr)"
    assert (record["identifier"], record["publisher"]) == ("FARM:HAY", "FARM")
    assert (record["languages"], record["issued"]) == (["en", "fr"], "2020-05-06")
    assert (record["modified"], record["temporal"]) == ("2024-01-10T10:00:00Z", "1975-Q1/2025-Q4")
    form = "/data/dataflow/FARM/HAY" if notation == "3.0" else "/data/FARM,HAY"
    assert record["resources"][0]["url"] == f"{service.url}/rest{form}"
    assert "4711" not in str(record)
    assert "UPDATE_STRUCTURE" in str(record["source"])


@pytest.mark.parametrize("notation", ["2.1", "json"])
@pytest.mark.parametrize("validator", ["etag", "modified", "both"])
async def test_an_unchanged_document_costs_one_request_and_no_body(
    database: ScratchDatabase, service: SdmxService, notation: str, validator: str
) -> None:
    service.fill(700)
    service.notation, service.validator = notation, validator
    async with database.open() as r:
        first = await keep(r, service)
        run = await r.sync("portal")

    assert (first.status, first.stats.created, first.stats.requests) == ("completed", 700, 1)
    assert (run.stats.requests, run.stats.not_modified, run.stats.bytes) == (1, 1, 0)
    assert (run.complete, run.stats.unchanged, run.stats.rows_written) == (True, 700, 0)


async def test_a_service_that_knows_only_the_newer_paths_is_asked_there(
    database: ScratchDatabase, service: SdmxService
) -> None:
    service.fill(3)
    service.notation = "3.0"
    async with database.open() as r:
        first = await keep(r, service)
        run = await r.sync("portal")

    assert (first.status, first.stats.created, first.stats.requests) == ("completed", 3, 2)
    assert (run.stats.requests, run.stats.not_modified) == (1, 1)


@pytest.mark.parametrize("notation", NOTATIONS)
async def test_another_time_of_preparation_changes_nothing(
    database: ScratchDatabase, service: SdmxService, notation: str
) -> None:
    service.fill(30)
    service.notation, service.validator = notation, "none"
    async with database.open() as r:
        await keep(r, service)
        before = service.prepared
        run = await r.sync("portal")

    assert service.prepared > before
    assert (run.status, run.stats.unchanged, run.stats.rows_written) == ("completed", 30, 0)


async def test_a_change_writes_only_what_changed(database: ScratchDatabase, service: SdmxService) -> None:
    service.fill(500)
    async with database.open() as r:
        await keep(r, service)
        service.flows[3]["names"] = {"en": "Another name"}
        service.flows[4]["notes"] = [("UPDATE_DATA", "2024-01-10T11:00:00+0100", None)]
        service.flows[5]["notes"] = [("OBS_COUNT", "4712", None)]
        service.flows.pop()
        run = await r.sync("portal")

    assert (run.stats.updated, run.stats.amended, run.stats.deleted) == (1, 1, 1)
    assert (run.stats.requests, run.stats.unchanged, run.stats.rows_written <= 12) == (1, 497, True)


async def test_a_document_is_read_while_it_comes_in(database: ScratchDatabase, service: SdmxService) -> None:
    service.fill(2000)
    body = service.document()
    stored = asyncio.Event()

    async def slowly(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
        await stored.wait()
        await response.write(body[len(body) // 2 :])
        return response

    service.failures = [Page(handler=slowly)]
    async with database.open() as r:
        await r.sources.add(service.address, name="portal")
        syncing = asyncio.create_task(r.sync("portal"))
        while not await asyncio.to_thread(contents, database):
            await asyncio.wait([syncing], timeout=0.05)
        service._loop.call_soon_threadsafe(stored.set)
        run = await syncing

    assert (run.status, run.stats.created) == ("completed", 2000)


async def test_d2_what_the_service_says_of_its_trouble_is_told(database: ScratchDatabase, service: SdmxService) -> None:
    service.fill(3)
    async with database.open() as r:
        await keep(r, service)
        service.body = next(body for body in service.no_listings if b"Error" in body)
        told = await r.sync("portal")
        service.down = True
        down = await r.sync("portal")

    assert f"{service.url}/rest reports an error: No results found." in (told.error or "")
    assert (down.status, len(contents(database))) == ("failed", 3)
    assert "503" in (down.error or "")


async def test_one_malformed_dataflow_is_quarantined_with_its_payload(
    database: ScratchDatabase, service: SdmxService
) -> None:
    service.fill(3)
    service.add(None)
    async with database.open() as r:
        run = await keep(r, service)
        again = await r.sync("portal")
        payload = database.query("select payload from quarantine")
        service.flows[3]["id"] = "F9"
        healed = await r.sync("portal")

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 3, 1)
    assert (again.stats.not_modified, again.stats.failed, again.stats.unchanged) == (0, 1, 3)
    assert b"FARM" in bytes(payload[0][0])
    assert (healed.stats.created, database.query("select count(*) from quarantine")) == (1, [(0,)])


async def test_d4_broken_and_odd_records_of_json_cost_only_themselves(
    database: ScratchDatabase, service: SdmxService
) -> None:
    service.notation = "json"
    service.body = (
        b'{"data": {"dataflows": [{"id": "A", "agencyID": null, "name": "Only a name", "names": null},'
        b'{"id": tru}, {"id": 7, "annotations": [null, {"type": 3, "texts": ["x"]}], "names": {"en": null}},'
        b'{"id": "N", "x": NaN}, null, 5]}, "meta": {"schema": "sdmx"}}'
    )
    async with database.open() as r:
        run = await keep(r, service)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 3, 1)
    assert {title for (title,) in database.query("select title from item")} == {"Only a name", "7", "N"}


async def test_of_several_versions_the_latest_is_the_item_and_keeps_its_identity(
    database: ScratchDatabase, service: SdmxService
) -> None:
    for version in ("1.9", "1.10", "1.10-draft"):
        service.add("HAY", f"Hay {version}", version=version)
    service.add("HAY", "Of another agency", agencyID="MILL")
    async with database.open() as r:
        first = await keep(r, service)
        titles = {title for (title,) in database.query("select title from item")}
        service.add("OTHER")
        service.flows[1]["version"] = "2.0"
        run = await r.sync("portal")

    assert (first.status, first.stats.created, titles) == ("completed", 2, {"Hay 1.10", "Of another agency"})
    assert (run.stats.amended, run.stats.created, run.stats.deleted) == (1, 1, 0)


async def test_identifiers_never_collide(database: ScratchDatabase, service: SdmxService) -> None:
    for name in ("a/b", "a%2Fb", "A/b", "..", ".", "a b", "a?b", "a#b", "ü"):
        service.add(name)
    async with database.open() as r:
        run = await keep(r, service)
        again = await r.sync("portal", full=True)

    assert (run.status, run.stats.created) == ("completed", 9)
    assert (again.stats.unchanged, again.stats.rows_written) == (9, 0)


async def test_a_document_may_lie_anywhere(database: ScratchDatabase, service: SdmxService) -> None:
    service.fill(3)
    service.pages["/flows.xml"] = Page(service.document())
    async with database.open() as r:
        await r.sources.add(f"sdmx:{service.url}/flows.xml", name="portal")
        run = await r.sync("portal")

    assert (run.status, run.stats.created) == ("completed", 3)
    assert (f"{service.url}/flows.xml#/FARM:F0001",) in database.query("select url from item")


async def test_the_preferred_language_is_the_title(database: ScratchDatabase, service: SdmxService) -> None:
    service.add("HAY", names={"en": "Hay", "fr": "Foin", "de": "Heu"}, descriptions={})
    async with database.open() as r:
        await keep(r, service, language="fr")

    [(title, text, language)] = database.query("select title, text, language from item")
    assert (title, language) == ("Foin", "fr")
    assert "## Heu (de)" in text
    assert "## Hay (en)" in text


async def test_a_document_that_is_too_large_is_refused(database: ScratchDatabase, service: SdmxService) -> None:
    service.fill(300)
    async with database.open() as r:
        run = await keep(r, service, max_bytes=20_000)

    assert run.status in ("failed", "partial")
    assert "20000" in (run.error or "").replace(",", "")


async def test_a_busy_service_is_waited_for(database: ScratchDatabase, service: SdmxService) -> None:
    service.fill(3)
    service.failures = [Page(b"Slow down", status=429, headers={"Retry-After": "0"})]
    async with database.open(fetch_tries=2) as r:
        run = await keep(r, service)

    assert (run.status, run.stats.created, run.stats.requests) == ("completed", 3, 2)


async def test_deletions_beyond_the_guard_are_held_back_and_a_revival_is_created(
    database: ScratchDatabase, service: SdmxService
) -> None:
    service.fill(40)
    async with database.open() as r:
        await keep(r, service)
        gone, service.flows = service.flows[:20], service.flows[20:]
        held = await r.sync("portal")
        let = await r.sync("portal", accept_deletions=True)
        service.flows = gone + service.flows
        back = await r.sync("portal")

    assert (held.stats.deletions_held, held.stats.deleted, let.stats.deleted) == (20, 0, 20)
    assert (back.stats.created, len(contents(database))) == (20, 40)
