"""CKAN portals whose identifiers are lost, come twice, or are all others at once."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from rowen.connectors.ckan.paging import PageCursor
from tests.conftest import ScratchDatabase
from tests.logical import contents
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal


class OddPortal(CkanPortal):
    """Shows something else in the place of some datasets, and from the second page on some of them exchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.instead: dict[str, Any] = {}
        self.exchanged: tuple[str, str] | None = None

    async def _search(self, query: dict[str, str]) -> web.Response:
        answer = json.loads((await super()._search(query)).text or "")
        rows = answer["result"]["results"]
        answer["result"]["results"] = [self.instead.get(row.get("id"), row) for row in rows]
        return web.json_response(answer)

    def _found(self, query: dict[str, str]) -> list[dict[str, Any]]:
        found = super()._found(query)
        if self.exchanged and query.get("start", "0") != "0":
            one, other = (found.index(self.records[name]) for name in self.exchanged)
            found[one], found[other] = found[other], found[one]
        return found

    def rename(self) -> None:
        """Give all datasets other identifiers, and new dates."""
        self.tick(5)
        modified = self.clock.replace(tzinfo=None).isoformat(timespec="microseconds")
        new = [{**one, "id": f"new-{one['id']}", "metadata_modified": modified} for one in self.records.values()]
        self.records = {one["id"]: one for one in new}


@pytest.fixture
def portal() -> Iterator[OddPortal]:
    portal = OddPortal()
    yield portal
    portal.close()


def age(database: ScratchDatabase) -> None:
    database.execute("update source set cursor = jsonb_set(cursor, '{walked}', '\"2020-01-01T00:00:00Z\"')")


def names(database: ScratchDatabase) -> set[str]:
    return {url.rpartition("/")[2] for (url,) in database.query("select url from item")}


@pytest.mark.parametrize("row", [None, [], "text", {"title": "Nobody"}])
@pytest.mark.parametrize("full", [True, False])
async def test_an_item_that_lost_its_identifier_stays(
    database: ScratchDatabase, portal: OddPortal, row: Any, full: bool
) -> None:
    portal.fill(30)
    async with database.open() as r:
        await keep(r, portal)
        age(database)
        portal.instead["d00005"] = row
        run = await r.sync("portal", full=full)
        held = names(database)
        again = await r.sync("portal")

    assert (run.status, run.stats.deleted, run.stats.failed) == ("partial", 0, 1)
    assert "1 records cannot be identified" in (run.error or "")
    assert "d00005" in held
    assert (again.status, again.complete, again.stats.deleted) == ("completed", True, 1)


async def test_an_item_that_lost_its_identifier_stays_when_identifiers_are_listed(
    database: ScratchDatabase, portal: OddPortal
) -> None:
    portal.fill(30)
    async with database.open() as r:
        await keep(r, portal)
        del portal.records["d00007"]
        portal.make("d00005", "Edited")
        portal.instead["d00005"] = {"metadata_modified": portal.records["d00005"]["metadata_modified"]}
        run = await r.sync("portal")

    assert (run.status, run.stats.deleted, run.stats.fell_back) == ("partial", 0, 1)
    assert {"d00005", "d00007"} <= names(database)


@pytest.mark.parametrize("ignores", [set(), {"fq"}])
async def test_an_item_that_lost_its_identifier_in_an_interrupted_walk_stays(
    database: ScratchDatabase, portal: OddPortal, ignores: set[str]
) -> None:
    portal.fill(60)
    portal.ignores = ignores

    def fail(start: int) -> None:
        portal.down = start > 20

    async with database.open(fetch_tries=1) as r:
        await keep(r, portal, page_size=10)
        age(database)
        portal.instead["d00005"] = None
        portal.after_page = fail
        broken = await r.sync("portal")
        portal.after_page, portal.down = None, False
        run = await r.sync("portal")
        held = names(database)
        later = [await r.sync("portal") for _ in range(2)]

    assert (broken.status, run.status, run.stats.deleted) == ("partial", "partial", 0)
    assert "cannot be identified" in (run.error or "")
    assert "d00005" in held
    assert (later[-1].status, sum(one.stats.deleted for one in later)) == ("completed", 1)


async def test_records_that_never_had_an_identifier_keep_nothing_from_being_deleted(
    database: ScratchDatabase, portal: OddPortal
) -> None:
    portal.fill(30)
    portal.instead = {"d00003": None, "d00020": None}
    async with database.open() as r:
        first = await keep(r, portal, page_size=10)
        settled = await r.sync("portal")
        quiet = await r.sync("portal")
        del portal.records["d00007"]
        run = await r.sync("portal")
        del portal.records["d00008"]
        age(database)
        whole = await r.sync("portal")

    assert (first.status, first.complete, first.stats.created, first.stats.failed) == ("completed", True, 29, 1)
    assert (settled.status, quiet.stats.requests, quiet.stats.rows_written) == ("completed", 3, 0)
    assert (run.status, run.stats.deleted, run.stats.fell_back) == ("completed", 1, 0)
    assert (whole.status, whole.complete, whole.stats.deleted) == ("completed", True, 1)


async def test_another_lost_identifier_than_before_deletes_nothing(
    database: ScratchDatabase, portal: OddPortal
) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        portal.instead = {"d00005": {"title": "Who am I?"}}
        first = await r.sync("portal")
        portal.tick(5)
        await r.sync("portal", full=True)
        database.execute("update source set cursor = cursor - 'walked'")
        portal.instead = {"d00006": {"title": "And who am I?"}}
        second = await r.sync("portal")

    assert "d00006" in {url.rpartition("/")[2] for url in contents(database)}
    assert (first.stats.deleted, second.stats.deleted) == (0, 0)


async def test_a_new_record_without_an_identifier_is_nobody_where_every_item_came(
    database: ScratchDatabase, portal: OddPortal
) -> None:
    portal.fill(30)
    async with database.open() as r:
        await keep(r, portal)
        portal.make("other")
        portal.instead["other"] = None
        run = await r.sync("portal", full=True)

    assert (run.status, run.complete, run.stats.unchanged, run.stats.failed) == ("completed", True, 31, 1)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 1000])
async def test_an_identifier_that_is_listed_twice_is_a_duplicate(
    database: ScratchDatabase, portal: OddPortal, size: int
) -> None:
    portal.fill(30)
    portal.records["other"] = {**portal.records["d00003"], "title": "Another"}
    async with database.open() as r:
        first = await keep(r, portal, page_size=size)
        quiet = await r.sync("portal")
        del portal.records["d00010"]
        run = await r.sync("portal")
        del portal.records["d00011"]
        full = await r.sync("portal", full=True)

    assert (first.status, first.complete, first.stats.created, first.stats.duplicates) == ("completed", True, 31, 1)
    assert (quiet.status, quiet.stats.requests, quiet.stats.rows_written) == ("completed", 2, 0)
    assert (run.status, run.complete, run.stats.deleted) == ("completed", True, 1)
    assert (full.status, full.complete, full.stats.deleted, full.stats.duplicates) == ("completed", True, 1, 1)


async def test_a_repeated_row_at_the_end_of_the_listing_is_no_page_that_came_twice(
    database: ScratchDatabase, portal: OddPortal
) -> None:
    portal.fill(9)
    portal.records["other"] = {**portal.records["zz-last"]}
    async with database.open() as r:
        run = await keep(r, portal, page_size=10)

    assert (run.status, run.complete, run.stats.created, run.stats.duplicates) == ("completed", True, 10, 1)


async def test_an_edited_dataset_that_is_listed_twice_is_read_by_the_next_run(
    database: ScratchDatabase, portal: OddPortal
) -> None:
    portal.fill(30)
    portal.records["other"] = portal.records["d00003"]
    async with database.open() as r:
        await keep(r, portal)
        portal.records["other"] = portal.make("d00003", "Edited")
        run = await r.sync("portal")

    assert (run.status, run.stats.updated, run.stats.duplicates, run.stats.requests) == ("completed", 1, 1, 2)


def test_only_rows_beside_their_like_are_repeats() -> None:
    course = PageCursor()
    a, b, c = ({"id": name} for name in "abc")

    assert course.take(0, [a, b, b]) == [a, b, b]
    course.move(0, [a, b, b], 9, is_new=True)
    assert course.take(2, [b, a, c]) == [c]
    course.move(2, [b, a, c], 9, is_new=True)
    assert course.take(5, [b, b, None, None]) == [None, None]


def test_a_pass_that_is_set_back_to_the_beginning_asks_for_no_row_before_the_first() -> None:
    course = PageCursor(position=3, after="c")

    assert not course.joins(2, [{"id": "x"}], 5, step=1000)
    assert (course.position, course.overlaps) == (0, False)


@pytest.mark.parametrize("twice", [False, True])
async def test_pages_that_overlap_explain_no_shortfall(
    database: ScratchDatabase, portal: OddPortal, twice: bool
) -> None:
    portal.fill(30)
    if twice:
        portal.records["other"] = {**portal.records["d00002"]}
    async with database.open() as r:
        await keep(r, portal, page_size=10)
        portal.exchanged = ("d00005", "d00015")
        run = await r.sync("portal", full=True)

    assert (run.status, run.complete, run.stats.deleted) == ("partial", False, 0)
    assert "but it lists" in (run.error or "")
    assert len(contents(database)) == 31


async def test_new_identifiers_for_everything_move_the_items(database: ScratchDatabase, portal: OddPortal) -> None:
    for number in range(30):
        portal.make(f"d{number:05}", tick_h=0.001)
    async with database.open() as r:
        await keep(r, portal)
        portal.rename()
        run = await r.sync("portal")
        portal.log.clear()
        quiet = await r.sync("portal")

    assert (run.status, run.mode, run.complete) == ("completed", "incremental", True)
    assert (run.stats.moved, run.stats.created, run.stats.deleted) == (30, 0, 0)
    assert names(database) == set(portal.records)
    assert (quiet.stats.requests, quiet.stats.rows_written) == (2, 0)


async def test_new_identifiers_move_the_items_in_a_walk_that_was_interrupted(
    database: ScratchDatabase, portal: OddPortal
) -> None:
    portal.fill(59)

    def fail(start: int) -> None:
        portal.down = start > 20

    async with database.open(fetch_tries=1) as r:
        await keep(r, portal, page_size=10)
        age(database)
        portal.rename()
        portal.after_page = fail
        broken = await r.sync("portal")
        portal.after_page, portal.down = None, False
        run = await r.sync("portal")

    assert (broken.status, run.status) == ("partial", "completed")
    assert (broken.stats.created > 10, broken.stats.moved) == (True, 0)
    assert (run.stats.moved, run.stats.created, run.stats.deleted) == (60, 0, 0)
    assert names(database) == set(portal.records)


async def test_new_datasets_that_are_called_like_others_move_nothing(
    database: ScratchDatabase, portal: OddPortal
) -> None:
    portal.fill(29)
    async with database.open() as r:
        await keep(r, portal)
        for number in range(5):
            portal.make(f"e{number:05}", f"Dataset d{number:05}", notes="Quite another text.")
        run = await r.sync("portal")

    assert (run.status, run.stats.created, run.stats.moved, run.stats.deleted) == ("completed", 5, 0, 0)
    assert len(contents(database)) == 35
    assert run.stats.requests == 3
