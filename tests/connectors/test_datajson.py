"""Documents of catalogs: one request where nothing changed, every record compared where something did."""

import json

import pytest

from rowen.connectors.datajson import DataJson
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import contents
from tests.portals.catalogs import keep
from tests.portals.ckan import nested
from tests.portals.datajson import DataJsonSite


@pytest.fixture
def site(opened: Opened) -> DataJsonSite:
    return opened(DataJsonSite)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("https://data.example/data.json", "https://data.example/data.json"),
        ("https://data.example/base/data.json?page=1", "https://data.example/base/data.json?page=1"),
        ("https://hub.example/api/feed/dcat-us/1.1.json", "https://hub.example/api/feed/dcat-us/1.1.json"),
        ("datajson:https://data.example", "https://data.example/data.json"),
        ("datajson:https://data.example/base/", "https://data.example/base/data.json"),
        ("datajson:https://data.example/catalog.json", "https://data.example/catalog.json"),
        ("https://data.example/", None),
        ("https://data.example/other.json", None),
        ("datajson:nonsense", None),
        ("data.json", None),
    ],
)
def test_only_addresses_that_show_a_data_json_are_recognised(address: str, url: str | None) -> None:
    assert DataJson.recognise(address) == url
    assert url is None or DataJson.accept(url) == url


async def test_a_record_is_stored_whole(database: ScratchDatabase, site: DataJsonSite) -> None:
    site.add("hay-1", "Hay", description="<p>Cut <b>twice</b>.</p>", license="CC0", odd={"kept": [1, None]})
    async with database.open() as r:
        await keep(r, site)

    [(url, title, text, tags, record)] = database.query("select url, title, text, tags, record from item")
    assert (url, title, tags) == (f"{site.address}#/hay-1", "Hay", ["clover", "hay"])
    assert text == "Cut twice.\n\n## Resources\n\n- Table (CSV)"
    assert (record["publisher"], record["licence"], record["modified"]) == ("The Farm", "CC0", "2024-01-01")
    assert record["source"]["odd"] == {"kept": [1, None]}


@pytest.mark.parametrize("validator", ["etag", "modified", "both"])
async def test_an_unchanged_document_costs_one_request_and_no_body(
    database: ScratchDatabase, site: DataJsonSite, validator: str
) -> None:
    site.fill(2500)
    site.validator = validator
    async with database.open() as r:
        first = await keep(r, site)
        run = await r.sync("portal")

    assert (first.status, first.complete, first.stats.created) == ("completed", True, 2500)
    assert (run.stats.requests, run.stats.not_modified, run.stats.bytes) == (1, 1, 0)
    assert (run.complete, run.stats.unchanged, run.stats.rows_written) == (True, 2500, 0)


async def test_a_thousandth_changed_writes_what_changed(database: ScratchDatabase, site: DataJsonSite) -> None:
    site.fill(2001)
    async with database.open() as r:
        await keep(r, site)
        site.records[3]["title"] = "Another title"
        site.records[4]["license"] = "CC0"
        site.records.pop()
        run = await r.sync("portal")

    assert (run.stats.updated, run.stats.amended, run.stats.deleted) == (1, 1, 1)
    assert (run.stats.requests, run.stats.unchanged) == (2, 1998)
    assert run.stats.rows_written <= 12


async def test_d1_a_change_that_kept_its_date_arrives(database: ScratchDatabase, site: DataJsonSite) -> None:
    site.fill(3)
    async with database.open() as r:
        await keep(r, site)
        site.records[0]["distribution"][0]["downloadURL"] = "https://files.example/2.csv"
        run = await r.sync("portal")

    assert (run.stats.amended, run.stats.chunks_written) == (1, 0)


async def test_d2_a_document_with_another_behind_it_deletes_nothing(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.fill(30)
    async with database.open() as r:
        await keep(r, site)
        site.body = b'{"dataset": [{"identifier": "a"}]} {"dataset": []}'
        run = await r.sync("portal", accept_deletions=True)

    assert run.status in ("partial", "failed")
    assert run.error
    assert len(contents(database)) == 31


async def test_d2_an_outage_deletes_nothing_and_says_so(database: ScratchDatabase, site: DataJsonSite) -> None:
    site.fill(3)
    async with database.open() as r:
        await keep(r, site)
        site.down = True
        run = await r.sync("portal")

    assert (run.status, len(contents(database))) == ("failed", 3)
    assert "503" in (run.error or "")


async def test_d2_a_document_in_pages_is_read_to_its_end(database: ScratchDatabase, site: DataJsonSite) -> None:
    site.fill(250)
    site.page_size = 100
    async with database.open() as r:
        run = await keep(r, site)
        site.records.pop()
        again = await r.sync("portal")

    assert (run.status, run.stats.created) == ("completed", 250)
    assert (again.stats.deleted, again.stats.unchanged) == (1, 249)


async def test_a_document_that_ignores_pages_is_read_once(database: ScratchDatabase, site: DataJsonSite) -> None:
    site.fill(300)
    async with database.open() as r:
        run = await keep(r, site)
        again = await r.sync("portal")

    assert (run.status, run.stats.created, run.stats.duplicates) == ("completed", 300, 0)
    assert (again.stats.requests, again.stats.not_modified) == (1, 1)


async def test_d4_records_with_nulls_and_numbers_are_items_all_the_same(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.add(7, 707, keyword=None, distribution=None, publisher=None, spatial=None, temporal=[None], language=7)
    site.records.append({})
    site.records.append({"identifier": "  ", "title": None, "landingPage": "https://portal.example/b"})
    async with database.open() as r:
        run = await keep(r, site)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 3, 0)
    assert sorted(title for (title,) in database.query("select title from item")) == [
        "707",
        "Untitled",
        "https://portal.example/b",
    ]


async def test_d4_one_broken_record_is_quarantined_and_the_rest_goes_on(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    broken = (
        b'{"dataset": [{"identifier": "a"}, {"identifier": tru}, {"identifier": "c", "x": NaN, "y": "\xff"}, null]}'
    )
    site.body = broken
    async with database.open() as r:
        run = await keep(r, site)
        again = await r.sync("portal")
        site.body = broken.replace(b"tru}", b'"b"}')
        healed = await r.sync("portal")

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 2, 2)
    assert (again.stats.not_modified, again.stats.failed) == (0, 2)
    assert (healed.stats.created, database.query("select count(*) from quarantine")) == (1, [(1,)])


async def test_a_record_that_is_nested_too_deeply_costs_only_itself(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.fill(3)
    site.add("deep", theme=nested(900))
    async with database.open() as r:
        run = await keep(r, site)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 3, 1)


async def test_a_record_of_a_hundred_megabytes_is_passed_over(
    database: ScratchDatabase, site: DataJsonSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.datajson.MOST_RECORD_BYTES", 1 << 20)
    site.fill(2)
    site.add("huge", description="x" * (3 << 20))
    site.add("after")
    async with database.open() as r:
        run = await keep(r, site)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 3, 1)


async def test_d8_duplicates_are_one_item_and_do_not_stop_the_sweep(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.fill(20)
    site.add("twin", "The first one")
    site.add("twin", "The first one")
    async with database.open() as r:
        first = await keep(r, site)
        site.records.pop(0)
        run = await r.sync("portal")

    assert (first.status, first.stats.created) == ("completed", 21)
    assert (run.status, run.stats.deleted) == ("completed", 1)
    assert ("The first one",) in database.query("select title from item")


async def test_d11_identifiers_that_differ_by_a_fragment_are_two_items(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.add("https://portal.example/a#one")
    site.add("https://portal.example/a#two")
    site.add("https://portal.example/a")
    async with database.open() as r:
        run = await keep(r, site)

    assert run.stats.created == 3


async def test_identifiers_that_change_their_scheme_stay_the_same_items(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.fill(40)
    site.add("http://portal.example/a#one")
    async with database.open() as r:
        await keep(r, site)
        for record in site.records:
            record["identifier"] = record["identifier"].replace("http:", "https:")
        run = await r.sync("portal")

    assert (run.stats.created, run.stats.deleted, run.stats.amended, run.stats.chunks_written) == (0, 0, 41, 0)


async def test_a_full_sync_reads_an_unchanged_document_again(database: ScratchDatabase, site: DataJsonSite) -> None:
    site.fill(3)
    async with database.open() as r:
        await keep(r, site)
        run = await r.sync("portal", full=True)

    assert (run.stats.not_modified, run.stats.unchanged, run.stats.rows_written) == (0, 3, 0)


async def test_a_cursor_of_the_former_form_is_dropped(database: ScratchDatabase, site: DataJsonSite) -> None:
    site.fill(3)
    async with database.open() as r:
        await keep(r, site)
        [(cursor,)] = database.query("select cursor from source")
        url, etag, _ = cursor["tokens"]
        former = {"version": 2, "items": 3, "url": url, "etag": etag, "failed": []}
        database.execute(f"update source set cursor = '{json.dumps(former)}'")
        run = await r.sync("portal")
        quiet = await r.sync("portal")

    assert (run.status, run.stats.not_modified, run.stats.unchanged) == ("completed", 0, 3)
    assert (quiet.stats.requests, quiet.stats.not_modified) == (1, 1)


async def test_dcat_us_3_is_read_with_series_services_and_inner_catalogs(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    inner = {"title": "Inner", "dataset": [{"identifier": "d", "title": {"en": "Hay", "es": "Heno"}}]}
    body = {
        "@type": "Catalog",
        "dataset": [
            {"@id": "https://portal.example/a", "title": "A", "distribution": [{"license": "CC0", "byteSize": 9}]}
        ],
        "datasetSeries": [{"identifier": "b", "title": "B"}],
        "service": [{"identifier": "c", "title": "C"}],
        "catalog": [inner],
    }
    site.body = json.dumps(body).encode()
    async with database.open() as r:
        run = await keep(r, site)

    assert run.stats.created == 4
    [(record,)] = database.query("select record from item where title = 'A'")
    assert (record["licence"], record["resources"][0]["size_bytes"]) == ("CC0", 9)
    [(text,)] = database.query("select text from item where title = 'Hay'")
    assert "Heno (es)" in text


async def test_a_large_geometry_is_kept_once(database: ScratchDatabase, site: DataJsonSite) -> None:
    site.add("a", spatial="1 " * 150_000)
    async with database.open() as r:
        await keep(r, site)

    [(size,)] = database.query("select length(record::text) from item")
    assert 300_000 < size < 400_000


async def test_the_same_records_with_their_fields_in_another_order_write_nothing(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.fill(30)
    async with database.open() as r:
        await keep(r, site)
        site.records.reverse()
        site.records[:] = [dict(reversed(record.items())) for record in site.records]
        run = await r.sync("portal")

    assert (run.status, run.stats.unchanged, run.stats.rows_written) == ("completed", 30, 0)
