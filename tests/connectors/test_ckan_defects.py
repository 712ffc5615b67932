"""CKAN portals against the defects D1 to D14 of other harvesters."""

import asyncio
import json
from typing import Any

import pytest

from rowen import BusyError
from rowen.errors import RowenError
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import contents, index_of, titles
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal, nested
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
    database: ScratchDatabase, portal: CkanPortal, edit: dict[str, Any], full: bool
) -> None:
    portal.fill(3)
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00001", **edit)
        run = await r.sync("portal", full=full)

    assert run.stats.updated + run.stats.amended == 1
    [(record,)] = database.query("select record->'source' from item where url like '%/d00001'")
    assert edit.items() <= record.items()


async def test_d1_a_full_sync_finds_an_edit_that_left_the_date_alone(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.fill(3)
    async with database.open() as r:
        await keep(r, portal)
        portal.records["d00001"]["license_title"] = "CC0"
        run = await r.sync("portal", full=True)

    assert (run.stats.amended, run.stats.unchanged, run.stats.chunks_written) == (1, 3, 0)


async def test_d3_characters_that_cannot_be_stored_cost_no_record(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.fill(5)
    portal.make("d00002", "Hay\x00 and clover", notes="A \ud800 lone half.", extras=[{"key": "a\x00", "value": "\x00"}])
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 6, 0)
    assert titles(database)["d00002"] == "Hay and clover"


@pytest.mark.parametrize("words", ["insert into item ", "insert into chunk", "insert into change"])
async def test_d3_a_group_that_was_not_stored_does_not_move_the_cursor(
    database: ScratchDatabase, portal: CkanPortal, words: str, new_database: Any
) -> None:
    portal.fill(25)
    portal.page_max = 10

    def fail() -> None:
        raise RuntimeError("the machine stopped")

    async with database.open() as r:
        await r.sources.add(portal.address, name="portal")
        with at_statement(words, before=fail), pytest.raises(RuntimeError):
            await r.sync("portal")
        run = await r.sync("portal")
    rebuilt = new_database()
    async with rebuilt.open() as r:
        await keep(r, portal)

    assert (run.status, len(contents(database))) == ("completed", 26)
    assert index_of(database) == index_of(rebuilt)


async def test_d4_records_with_nulls_are_items_all_the_same(database: ScratchDatabase, portal: CkanPortal) -> None:
    nothing = dict.fromkeys(("title", "notes", "tags", "resources", "organization", "extras", "groups", "name"))
    portal.records["bare"] = {"id": "bare", "metadata_modified": "2024-01-01T00:00:00", **nothing}
    portal.make("odd", {"de": None, "fr": "Foin"}, resources=[None, 7, {"url": None}], tags=[None, {"name": None}, "x"])
    portal.make("number", 707)
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 3, 0)
    assert titles(database) == {"bare": "bare", "odd": "Foin", "number": "707"}


async def test_d4_one_unreadable_record_is_quarantined_and_the_rest_goes_on(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.fill(20)
    portal.make("deep", extras=nested(900))
    portal.records["?"] = {"title": "No identifier", "metadata_modified": "2024-01-01T00:00:00"}
    async with database.open() as r:
        first = await keep(r, portal)
        again = await r.sync("portal")
        portal.make("deep")
        healed = await r.sync("portal")

    assert (first.status, first.stats.created, first.stats.failed) == ("completed", 21, 2)
    # What was modified, the count, and the place of the record without an identifier.
    assert again.stats.requests == 3
    assert (healed.stats.created, healed.stats.failed, healed.stats.missing) == (1, 1, 1)
    [(payload,)] = database.query("select payload from quarantine")
    assert json.loads(bytes(payload))["title"] == "No identifier"


async def test_d4_a_record_too_large_or_broken_costs_only_itself(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(30)
    portal.make("d00011", notes="x" * 3_000_000)
    async with database.open(body_limit_bytes=1_000_000) as r:
        run = await keep(r, portal)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 30, 1)
    assert database.query("select url from quarantine") == [(f"{portal.url}/dataset/d00011",)]


async def test_d5_only_the_passages_of_an_edited_dataset_are_new(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(3)
    async with database.open() as r:
        await keep(r, portal)
        before = dict(database.query("select item.url, text_hash from chunk join item on item.id = item_id"))
        portal.make("d00001", notes="Other words.")
        run = await r.sync("portal")
    after = dict(database.query("select item.url, text_hash from chunk join item on item.id = item_id"))

    assert (run.stats.updated, run.stats.chunks_written) == (1, 1)
    assert {url for url in before if before[url] != after[url]} == {f"{portal.url}/dataset/d00001"}


async def test_d7_a_walk_that_steps_back_where_it_went_on_is_whole(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.fill(20)
    place = {"position": 9, "after": "d00006"}
    async with database.open() as r:
        await keep(r, portal, page_size=4)
        database.execute(f"update source set cursor = cursor || '{json.dumps({'place': place})}'")
        run = await r.sync("portal")

    assert (run.status, run.complete, run.stats.deleted) == ("completed", True, 0)


async def test_d7_a_listing_without_an_order_comes_to_an_end(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(60)
    portal.ignores = {"order"}
    async with database.open() as r:
        for size in (2, 3, 7):
            run = await keep(r, portal, f"portal{size}", page_size=size)

            assert run.stats.requests < 4 * 61
            assert run.stats.deleted == 0


async def test_d7_an_addition_during_the_walk_is_not_lost(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(40)
    portal.page_max = 10

    def disturb(start: int) -> None:
        if start >= 9:
            portal.after_page = None
            portal.make("a-new")

    portal.after_page = disturb
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.status, run.complete, run.stats.created) == ("completed", True, 42)


async def test_d8_duplicates_across_pages_do_not_stop_the_sweep(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(10)
    portal.records["twin"] = portal.records["d00003"]
    async with database.open() as r:
        await keep(r, portal)
        portal.miscount = -1
        del portal.records["d00004"]
        run = await r.sync("portal", full=True)

    assert (run.status, run.stats.deleted) == ("completed", 1)


async def test_d9_a_portal_one_day_ahead_loses_no_edit(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(5)
    portal.tick(24)
    async with database.open() as r:
        await keep(r, portal)
        for number in range(3):
            portal.make(f"d0000{number}", "Edited", tick_h=0.3)
            run = await r.sync("portal")
            assert (run.stats.updated, run.stats.fell_back) == (1, 0)


async def test_d9_an_edit_during_a_long_walk_is_read_by_the_next_run(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.fill(60)
    portal.page_max = 10
    async with database.open() as r:
        await keep(r, portal)
        database.execute("update source set cursor = jsonb_set(cursor, '{walked}', '\"2020-01-01T00:00:00Z\"')")

        def fail(start: int) -> None:
            portal.down = start > 20

        def edit(start: int) -> None:
            if start > 45:
                portal.after_page = None
                portal.make("d00032", "Edited behind the walk", tick_h=3)
                portal.make("d00033", "Edited much later", tick_h=3)

        portal.after_page = fail
        await r.sync("portal")
        portal.down, portal.after_page = False, edit
        await r.sync("portal")
        await r.sync("portal")

    assert (titles(database)["d00032"], titles(database)["d00033"]) == ("Edited behind the walk", "Edited much later")


@pytest.mark.parametrize("ignores", [{"filter"}, set()])
@pytest.mark.parametrize("is_first", [True, False])
async def test_d10_an_edit_behind_the_place_of_an_interrupted_walk_is_read(
    database: ScratchDatabase, portal: CkanPortal, ignores: set[str], is_first: bool
) -> None:
    portal.fill(95)
    portal.page_max = 10
    portal.ignores = ignores

    def fail(start: int) -> None:
        portal.down = start > 60

    async with database.open() as r:
        await r.sources.add(portal.address, name="portal")
        if not is_first:
            await r.sync("portal")
            database.execute("update source set cursor = jsonb_set(cursor, '{walked}', '\"2020-01-01T00:00:00Z\"')")
        portal.after_page = fail
        broken = await r.sync("portal")
        portal.after_page, portal.down = None, False
        portal.make("d00001", "Edited behind the place")
        portal.log.clear()
        run = await r.sync("portal")

    assert (broken.status, run.status, run.complete, run.stats.updated) == ("partial", "completed", True, 1)
    assert titles(database)["d00001"] == "Edited behind the place"
    assert len(contents(database)) == 96
    assert portal.went_on(60)
    # Ten pages and the changes; some pages were prefetched when the walk reached its place.
    assert sum("fl" not in asked and asked["rows"] != "0" for asked in portal.questions()) <= 18


async def test_d10_a_portal_whose_dates_run_behind_its_clock_loses_no_edit_to_an_interrupted_walk(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.fill(95)
    portal.page_max = 10

    def fail(start: int) -> None:
        portal.down = start > 60

    async with database.open() as r:
        await r.sources.add(portal.address, name="portal")
        portal.tick(5)
        portal.after_page = fail
        await r.sync("portal")
        portal.after_page, portal.down = None, False
        portal.make("d00001", "Edited behind the place", tick_h=-4.5)
        portal.tick(4.5)
        run = await r.sync("portal")

    assert (run.status, run.complete) == ("completed", True)
    assert titles(database)["d00001"] == "Edited behind the place"


@pytest.mark.parametrize("lie", ["everything", "nothing"])
async def test_d10_a_portal_that_ignores_the_filter_is_walked_whole(
    database: ScratchDatabase, portal: CkanPortal, caplog: pytest.LogCaptureFixture, lie: str
) -> None:
    portal.fill(20)
    portal.ignores = {"filter"} if lie == "everything" else set()
    portal.empty_when_filtered = lie == "nothing"
    async with database.open() as r:
        await keep(r, portal)
        assert "the catalog ignores it" in caplog.text

        portal.make("d00001", "Edited")
        del portal.records["d00002"]
        run = await r.sync("portal")

    assert (run.complete, run.stats.updated, run.stats.deleted, run.stats.fell_back) == (True, 1, 1, 1)


@pytest.mark.parametrize("lie", ["everything", "nothing"])
async def test_d10_a_filter_that_stops_working_is_found_out(
    database: ScratchDatabase, portal: CkanPortal, caplog: pytest.LogCaptureFixture, lie: str
) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        portal.ignores = {"filter"} if lie == "everything" else set()
        portal.empty_when_filtered = lie == "nothing"
        portal.make("d00001", "Edited")
        run = await r.sync("portal")

    assert (run.status, run.complete, run.stats.updated, run.stats.fell_back) == ("completed", True, 1, 1)
    assert "the catalog ignores it" in caplog.text


async def test_d11_the_same_identifier_in_two_portals_is_two_items(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    other = CkanPortal()
    portal.make("same", "Here")
    other.make("same", "There")
    async with database.open() as r:
        await keep(r, portal, "one")
        await keep(r, other, "two")
        other.close()

    assert sorted(title for (title,) in database.query("select title from item")) == ["Here", "There"]


async def test_d11_a_renamed_dataset_stays_itself(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(5)
    async with database.open() as r:
        await keep(r, portal)
        portal.make("d00001", name="another-slug")
        run = await r.sync("portal")

    assert (run.stats.created, run.stats.amended, run.stats.deleted) == (0, 1, 0)


async def test_d12_every_language_is_kept(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.make("a", {"de": "Heu", "fr": "Foin", "it": "", "rm": "Heu"}, notes={"de": "Zweimal", "fr": "Deux fois"})
    async with database.open() as r:
        await keep(r, portal)

    [(title, text, language, languages)] = database.query("select title, text, language, record->'languages' from item")
    assert (title, language, languages) == ("Heu", None, ["de", "fr", "rm"])
    assert "Zweimal" in text
    assert "## Foin (fr)\n\nDeux fois" in text


async def test_d12_the_preferred_language_is_the_main_one(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.make("a", {"de": "Heu", "fr": "Foin"}, notes={"de": "Zweimal", "fr": "Deux fois"})
    async with database.open() as r:
        await keep(r, portal, language="fr")

    assert database.query("select title, language from item") == [("Foin", "fr")]


async def test_d13_a_portal_is_never_walked_twice_at_once(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(30)
    portal.page_max = 5
    async with database.open() as r:
        await r.sources.add(portal.address, name="portal")
        results = await asyncio.gather(r.sync("portal"), r.sync("portal"), return_exceptions=True)

    assert sorted(type(one) for one in results if isinstance(one, BaseException)) == [BusyError]
    assert len(contents(database)) == 31


async def test_d13_a_run_that_lost_its_database_does_not_stay_running(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.fill(10)
    async with database.open() as r:
        await r.sources.add(portal.address, name="portal")
        with failing_at(25), pytest.raises(RowenError):
            await r.sync("portal")
        run = await r.sync("portal")

    assert run.status == "completed"
    assert database.query("select count(*) from run where status = 'running'") == [(0,)]


async def test_d14_publisher_licence_tags_and_resources_are_filled_in(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.make("a", license_title="CC0", resources=[{"url": "https://x.example/a.csv", "format": "CSV", "size": "12"}])
    async with database.open() as r:
        await keep(r, portal)

    [(tags, record)] = database.query("select tags, record from item")
    assert (tags, record["publisher"], record["licence"]) == (["hay"], "The Farm", "CC0")
    [resource] = record["resources"]
    assert (resource["url"], resource["format"], resource["size_bytes"]) == ("https://x.example/a.csv", "CSV", 12)


async def test_d14_a_deleted_dataset_is_found_no_more(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.fill(5)
    portal.make("gone", "Quince")
    async with database.open() as r:
        await keep(r, portal)
        del portal.records["gone"]
        await r.sync("portal")

        assert (await r.search("quince")).hits == ()


async def test_d14_a_title_that_contains_test_is_a_title(database: ScratchDatabase, portal: CkanPortal) -> None:
    portal.make("a", "Latest test results")
    async with database.open() as r:
        await keep(r, portal)

    assert titles(database) == {"a": "Latest test results"}
