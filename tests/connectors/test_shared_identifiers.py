"""Records that share an identifier: none is lost, whatever their order, and the run says how many there are."""

import json
from collections.abc import Callable
from random import Random

import pytest

from rowen.model.runs import RunStats
from rowen.operations.summary import remarks
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import contents, index_of
from tests.portals.catalogs import keep, nested
from tests.portals.csw import CswService
from tests.portals.datajson import DataJsonSite


@pytest.fixture
def site(opened: Opened) -> DataJsonSite:
    return opened(DataJsonSite)


def titles(database: ScratchDatabase) -> list[str]:
    return sorted(title for (title,) in database.query("select title from item"))


def share(site: DataJsonSite) -> None:
    site.fill(20)
    site.add("farm", "Hay")
    site.add("farm", "Rye")
    site.add("farm", "Rye")
    site.add("http://portal.example/field", "Clover", landingPage="https://portal.example/1")
    site.add("https://portal.example/field", "Clover", landingPage="https://portal.example/2")
    site.add("meadow", "Grass", description="One.")
    site.add("meadow", "Grass", description="Two.")
    site.add("", "Moss", description="One.")
    site.add("", "Moss", description="Two.")


async def test_records_that_share_an_identifier_are_items_of_their_own(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    share(site)
    async with database.open() as r:
        run = await keep(r, site)
        full = await r.sync("portal", full=True)

    assert (run.status, run.complete, run.stats.created, run.stats.duplicates) == ("completed", True, 28, 1)
    assert run.stats.shared == 8
    assert [title for title in titles(database) if "Dataset" not in title] == [
        *("Clover", "Clover", "Grass", "Grass", "Hay", "Moss", "Moss", "Rye")
    ]
    assert any("8 items share their identifiers" in hint for hint in remarks(run))
    assert (full.stats.unchanged, full.stats.rows_written, full.stats.shared) == (28, 0, 8)
    urls = [url for (url,) in database.query("select url from item where title in ('Hay', 'Clover') order by url")]
    assert urls[0].startswith(f"{site.address}#/farm/shared/")
    assert urls[1].startswith("https://portal.example/field#/shared/")
    [(said,)] = database.query("select distinct remarks from item where remarks is not null")
    assert said == "Other records of the catalog have the same identifier."


async def test_the_order_of_records_does_not_matter(
    new_database: Callable[[], ScratchDatabase], site: DataJsonSite
) -> None:
    share(site)
    first, second = new_database(), new_database()
    async with first.open() as r:
        await keep(r, site)
        Random(3).shuffle(site.records)
        run = await r.sync("portal")
    async with second.open() as r:
        await keep(r, site)

    assert (run.stats.unchanged, run.stats.rows_written) == (28, 0)
    assert index_of(first) == index_of(second)


async def test_an_edit_of_one_of_them_is_an_update_of_that_one(database: ScratchDatabase, site: DataJsonSite) -> None:
    share(site)
    async with database.open() as r:
        await keep(r, site)
        site.records[20]["description"] = "It is cut twice."
        run = await r.sync("portal")

    assert (run.stats.updated, run.stats.created, run.stats.deleted, run.stats.moved) == (1, 0, 0, 0)


async def test_an_identifier_may_become_shared_and_unshared(
    new_database: Callable[[], ScratchDatabase], site: DataJsonSite
) -> None:
    site.fill(20)
    site.add("farm", "Hay")
    database, fresh = new_database(), new_database()
    async with database.open() as r:
        await keep(r, site)
        site.add("farm", "Rye")
        site.records.reverse()
        shared = await r.sync("portal")
        both = index_of(database)
        site.records.remove(next(one for one in site.records if one["title"] == "Rye"))
        alone = await r.sync("portal")
        quiet = await r.sync("portal", full=True)
        site.add("farm", "Rye")
    async with fresh.open() as r:
        await keep(r, site)

    assert (shared.status, alone.status, shared.stats.deletions_held) == ("completed", "completed", 0)
    assert both == index_of(fresh)
    assert titles(database)[-1] == "Hay"
    assert quiet.stats.rows_written == 0


async def test_a_broken_one_of_them_keeps_all_copies(database: ScratchDatabase, site: DataJsonSite) -> None:
    site.fill(20)
    site.add("farm", "Hay")
    rye = site.add("farm", "Rye")
    async with database.open() as r:
        await keep(r, site)
        before = contents(database)
        rye["spatial"] = nested(900)
        broken = await r.sync("portal")
        during = contents(database)
        del rye["spatial"]
        healed = await r.sync("portal")

    assert (broken.status, broken.stats.deleted, broken.stats.created) == ("completed", 0, 0)
    assert during == before == contents(database)
    assert (healed.stats.unchanged, healed.stats.failed) == (22, 0)


async def test_a_document_that_breaks_off_before_the_other_one_changes_nothing(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    site.fill(20)
    site.add("farm", "Hay")
    site.add("farm", "Rye")
    async with database.open() as r:
        await keep(r, site)
        before = contents(database)
        site.body = site.document().partition(b'"Rye"')[0]
        run = await r.sync("portal", accept_deletions=True)

    assert (run.status, run.stats.created) == ("partial", 0)
    assert contents(database) == before


async def test_they_may_stand_on_different_pages(database: ScratchDatabase, site: DataJsonSite) -> None:
    site.fill(99)
    site.add("farm", "Hay")
    site.add("farm", "Rye")
    site.page_size = 100
    async with database.open() as r:
        run = await keep(r, site)

    assert (run.status, run.stats.created, run.stats.shared) == ("completed", 101, 2)


async def test_a_document_that_waits_on_disk_is_read_alike(
    new_database: Callable[[], ScratchDatabase], site: DataJsonSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    share(site)
    database, fresh = new_database(), new_database()
    async with database.open() as r:
        await keep(r, site)
    monkeypatch.setattr("rowen.connectors.datajson.IN_MEMORY_BYTES", 100)
    async with fresh.open() as r:
        await keep(r, site)

    assert index_of(database) == index_of(fresh)


async def test_beyond_what_is_put_aside_records_come_as_they_are_met(
    database: ScratchDatabase, site: DataJsonSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    share(site)
    monkeypatch.setattr("rowen.connectors.datajson.MOST_RECORDS", 5)
    async with database.open() as r:
        run = await keep(r, site)
        again = await r.sync("portal", full=True)

    assert (run.status, run.stats.created) == ("completed", 28)
    assert (again.stats.unchanged, again.stats.rows_written) == (28, 0)


async def test_other_kinds_count_what_another_record_hides(database: ScratchDatabase, opened: Opened) -> None:
    portal = opened(CswService)
    for name in ("a", "b", "c"):
        portal.make(name)
    portal.make_twin("b")
    async with database.open() as r:
        run = await keep(r, portal)

    assert (run.stats.created, run.stats.dropped) == (3, 1)
    assert any("1 record came" in hint for hint in remarks(run))


def test_the_tally_of_an_earlier_release_is_read() -> None:
    assert RunStats.from_json(json.loads('{"created": 1}')).shared == 0
