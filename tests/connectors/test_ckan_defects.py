"""CKAN portals against the defects D1 to D14 of other harvesters, and input at its worst; more in test_ckan_trouble."""

import asyncio
import json
import sys
from typing import Any

import pytest

from rowen import BusyError
from rowen.connectors.catalog.hash_sets import HashSet
from rowen.errors import RowenError
from tests.conftest import House
from tests.connectors.conftest import Opened
from tests.logical import contents, index_of, titles
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal
from tests.refresh.machine import at_statement, failing_at


@pytest.fixture
def portal(opened: Opened) -> CkanPortal:
    return opened(CkanPortal)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize(
    "edit",
    [
        {"license_title": "CC0"},
        {"resources": [{"name": "Table", "url": "https://elsewhere.example/t.csv", "format": "CSV"}]},
        {"tags": [{"name": "straw"}]},
        {"metadata_created": "2001-01-01T00:00:00"},
        {"extras": [{"key": "spatial", "value": "Bern"}]},
    ],
)
async def test_d1_every_edited_field_arrives_by_either_way(
    house: House, portal: CkanPortal, edit: dict[str, Any], full: bool
) -> None:
    portal.fill(3)
    async with house.open() as r:
        await keep(r, portal)
        portal.make("d00001", **edit)
        run = await r.sync("portal", full=full)

    assert run.tally.updated + run.tally.amended == 1
    [(record,)] = house.query("select record->'source' from item where url like '%/d00001'")
    assert edit.items() <= record.items()


async def test_d1_a_full_sync_finds_an_edit_that_left_the_date_alone(house: House, portal: CkanPortal) -> None:
    portal.fill(3)
    async with house.open() as r:
        await keep(r, portal)
        portal.records["d00001"]["license_title"] = "CC0"
        run = await r.sync("portal", full=True)

    assert (run.tally.amended, run.tally.unchanged, run.tally.chunks_written) == (1, 3, 0)


async def test_d3_characters_that_cannot_be_stored_cost_no_record(house: House, portal: CkanPortal) -> None:
    portal.fill(5)
    portal.make("d00002", "Hay\x00 and clover", notes="A \ud800 lone half.", extras=[{"key": "a\x00", "value": "\x00"}])
    async with house.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.tally.created, run.tally.failed) == ("completed", 6, 0)
    assert titles(house)["d00002"] == "Hay and clover"


@pytest.mark.parametrize("words", ["insert into item ", "insert into chunk", "insert into change"])
async def test_d3_a_group_that_was_not_stored_does_not_move_the_cursor(
    house: House, portal: CkanPortal, words: str, new_house: Any
) -> None:
    portal.fill(25)
    portal.page_max = 10

    def fail() -> None:
        raise RuntimeError("the machine stopped")

    async with house.open() as r:
        await r.add(portal.address, name="portal")
        with at_statement(words, before=fail), pytest.raises(RuntimeError):
            await r.sync("portal")
        run = await r.sync("portal")
    rebuilt = new_house()
    async with rebuilt.open() as r:
        await keep(r, portal)

    assert (run.status, len(contents(house))) == ("completed", 26)
    assert index_of(house) == index_of(rebuilt)


async def test_d5_only_the_passages_of_an_edited_dataset_are_new(house: House, portal: CkanPortal) -> None:
    portal.fill(3)
    async with house.open() as r:
        await keep(r, portal)
        before = dict(house.query("select item.url, text_hash from chunk join item on item.id = item_id"))
        portal.make("d00001", notes="Other words.")
        run = await r.sync("portal")
    after = dict(house.query("select item.url, text_hash from chunk join item on item.id = item_id"))

    assert (run.tally.updated, run.tally.chunks_written) == (1, 1)
    assert {url for url in before if before[url] != after[url]} == {f"{portal.url}/dataset/d00001"}


async def test_d7_a_walk_that_steps_back_where_it_went_on_is_whole(house: House, portal: CkanPortal) -> None:
    portal.fill(20)
    place = {"position": 9, "after": "d00006"}
    async with house.open() as r:
        await keep(r, portal, page_size=4)
        house.execute(f"update source set cursor = cursor || '{json.dumps({'place': place})}'")
        run = await r.sync("portal")

    assert (run.status, run.complete, run.tally.deleted) == ("completed", True, 0)


async def test_d7_a_listing_without_an_order_comes_to_an_end(house: House, portal: CkanPortal) -> None:
    portal.fill(60)
    portal.ignores = {"order"}
    async with house.open() as r:
        for size in (2, 3, 7):
            run = await keep(r, portal, f"portal{size}", page_size=size)

            assert run.tally.requests < 4 * 61
            assert run.tally.deleted == 0


async def test_d9_a_portal_one_day_ahead_loses_no_edit(house: House, portal: CkanPortal) -> None:
    portal.fill(5)
    portal.tick(24)
    async with house.open() as r:
        await keep(r, portal)
        for number in range(3):
            portal.make(f"d0000{number}", "Edited", tick_h=0.3)
            run = await r.sync("portal")
            assert (run.tally.updated, run.tally.fell_back) == (1, 0)


@pytest.mark.parametrize(
    ("ignores", "is_first", "most_pages"),
    [({"filter"}, True, 13), ({"filter"}, False, 13), (set(), True, 14), (set(), False, 6)],
)
async def test_d10_an_edit_behind_the_place_of_an_interrupted_walk_is_read(
    house: House, portal: CkanPortal, ignores: set[str], is_first: bool, most_pages: int
) -> None:
    portal.fill(95)
    portal.page_max = 10
    portal.ignores = ignores

    def fail(start: int) -> None:
        portal.down = start > 60

    async with house.open() as r:
        await r.add(portal.address, name="portal")
        if not is_first:
            await r.sync("portal")
            house.execute("update source set cursor = jsonb_set(cursor, '{walked}', '\"2020-01-01T00:00:00Z\"')")
        portal.after_page = fail
        broken = await r.sync("portal")
        portal.after_page, portal.down = None, False
        portal.make("d00001", "Edited behind the place")
        portal.log.clear()
        run = await r.sync("portal")

    assert (broken.status, run.status, run.complete, run.tally.updated) == ("partial", "completed", True, 1)
    assert titles(house)["d00001"] == "Edited behind the place"
    assert len(contents(house)) == 96
    assert portal.went_on(60)
    assert sum("fl" not in asked and asked["rows"] != "0" for asked in portal.questions()) <= most_pages


async def test_d10_a_portal_whose_dates_run_behind_its_clock_loses_no_edit_to_an_interrupted_walk(
    house: House, portal: CkanPortal
) -> None:
    portal.fill(95)
    portal.page_max = 10

    def fail(start: int) -> None:
        portal.down = start > 60

    async with house.open() as r:
        await r.add(portal.address, name="portal")
        portal.tick(5)
        portal.after_page = fail
        await r.sync("portal")
        portal.after_page, portal.down = None, False
        portal.make("d00001", "Edited behind the place", tick_h=-4.5)
        portal.tick(4.5)
        run = await r.sync("portal")

    assert (run.status, run.complete) == ("completed", True)
    assert titles(house)["d00001"] == "Edited behind the place"


async def test_d11_the_same_identifier_in_two_portals_is_two_items(house: House, portal: CkanPortal) -> None:
    other = CkanPortal()
    portal.make("same", "Here")
    other.make("same", "There")
    async with house.open() as r:
        await keep(r, portal, "one")
        await keep(r, other, "two")
        other.close()

    assert sorted(title for (title,) in house.query("select title from item")) == ["Here", "There"]


async def test_d13_a_portal_is_never_walked_twice_at_once(house: House, portal: CkanPortal) -> None:
    portal.fill(30)
    portal.page_max = 5
    async with house.open() as r:
        await r.add(portal.address, name="portal")
        results = await asyncio.gather(r.sync("portal"), r.sync("portal"), return_exceptions=True)

    assert sorted(type(one) for one in results if isinstance(one, BaseException)) == [BusyError]
    assert len(contents(house)) == 31


async def test_d13_a_run_that_lost_its_database_does_not_stay_running(house: House, portal: CkanPortal) -> None:
    portal.fill(10)
    async with house.open() as r:
        await r.add(portal.address, name="portal")
        with failing_at(25), pytest.raises(RowenError):
            await r.sync("portal")
        run = await r.sync("portal")

    assert run.status == "completed"
    assert house.query("select count(*) from run where status = 'running'") == [(0,)]


async def test_d14_publisher_licence_tags_and_resources_are_filled_in(house: House, portal: CkanPortal) -> None:
    portal.make("a", license_title="CC0", resources=[{"url": "https://x.example/a.csv", "format": "CSV", "size": "12"}])
    async with house.open() as r:
        await keep(r, portal)

    [(tags, record)] = house.query("select tags, record from item")
    assert (tags, record["publisher"], record["licence"]) == (["hay"], "The Farm", "CC0")
    [resource] = record["resources"]
    assert (resource["url"], resource["format"], resource["size_bytes"]) == ("https://x.example/a.csv", "CSV", 12)


async def test_d14_a_deleted_dataset_is_found_no_more(house: House, portal: CkanPortal) -> None:
    portal.fill(5)
    portal.make("gone", "Quince")
    async with house.open() as r:
        await keep(r, portal)
        del portal.records["gone"]
        await r.sync("portal")

        assert (await r.search("quince")).hits == ()


@pytest.mark.parametrize(
    "said",
    ["0001-01-01T00:00:00", "2024-02-31T00:00:00", 1_700_000_000_000, "2024-05-01 12:00", "yesterday", "", None, []],
)
async def test_a_wrong_date_of_modification_hides_nothing(house: House, portal: CkanPortal, said: Any) -> None:
    portal.fill(20)
    portal.make("odd", metadata_modified=said)
    async with house.open() as r:
        run = await keep(r, portal)
        portal.make("d00001", "Edited")
        again = await r.sync("portal")

    assert (run.status, run.tally.created, run.tally.failed) == ("completed", 22, 0)
    assert (again.status, again.tally.updated, again.tally.fell_back) == ("completed", 1, 0)


async def test_large_records_come_in_small_pages(
    house: House, portal: CkanPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.ckan.listing.MOST_PAGE_BYTES", 100_000)
    portal.fill(100)
    for number in range(100):
        portal.records[f"d{number:05}"]["extras"] = [{"key": "long", "value": "x" * 4000}]
    async with house.open() as r:
        await r.add(portal.address, name="portal", options={"page_size": 50})
        run = await r.sync("portal")

    assert (run.status, run.complete, run.tally.created) == ("completed", True, 101)
    first, *others = [int(asked["rows"]) for asked in portal.questions() if asked["rows"] != "0"]
    assert first == 50
    assert 10 <= max(others) < 25


def test_what_came_already_is_told_exactly_and_in_little_memory() -> None:
    marks, names = HashSet(), [f"d{number % 40_000:05}" for number in range(60_000)]

    assert sum(map(marks.add, names)) == len(marks) == 40_000
    assert "d39999" in marks
    assert "d40000" not in marks
    assert not marks.add("d00000")
    assert sys.getsizeof(marks._table) < 25 * 40_000


async def test_a_record_of_a_hundred_megabytes_costs_only_itself(house: House, portal: CkanPortal) -> None:
    portal.fill(3)
    portal.make("d00001", notes="x" * 100_000_000)
    async with house.open() as r:
        run = await keep(r, portal, page_size=1)

    assert (run.status, run.tally.created, run.tally.failed) == ("completed", 3, 1)
    [(url, error)] = house.query("select url, error from quarantine")
    assert url.endswith("/d00001")
    assert "bytes" in error or "MB" in error
