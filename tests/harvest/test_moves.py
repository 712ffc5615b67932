"""A source that gives all its records other identifiers loses no history, and deletes nothing."""

from collections.abc import Iterator
from typing import Any

import pytest

from rowen import Rowen, Run
from tests.conftest import House
from tests.logical import contents, index_of, replayed
from tests.portals.datajson import DataJsonSite

TEXT = "Cut twice a year, dried in the sun, and stored under a dry roof, number {}."


@pytest.fixture
def site() -> Iterator[DataJsonSite]:
    site = DataJsonSite()
    for number in range(30):
        site.add(f"http://old.example/{number}", f"Meadow number {number}", description=TEXT.format(number))
    yield site
    site.close()


async def sync(r: Rowen, site: DataJsonSite) -> Run:
    return await r.sync(site.address)


def rename(site: DataJsonSite) -> None:
    for record in site.records:
        record["identifier"] = record["identifier"].replace("old.example", "new.example/items")


async def kinds_of_changes(r: Rowen, since: int) -> list[str]:
    return sorted({change.kind for change in await r.changes(since=since)})


async def test_new_identifiers_for_everything_move_the_items(house: House, site: DataJsonSite) -> None:
    async with house.open() as r:
        assert (await r.situation()).items == 0
        await sync(r, site)
        site.records[3]["description"] = "Another text than before."
        await sync(r, site)
        last = await r.last_change()
        ids = house.query("select id from item order by id")
        rename(site)

        run = await sync(r, site)

        tally = run.tally
        assert (tally.moved, tally.created, tally.deleted, tally.deletions_held) == (30, 0, 0, 0)
        assert (tally.amended, tally.updated) == (30, 0)
        assert house.query("select id from item order by id") == ids
        assert await kinds_of_changes(r, last) == ["created", "moved"]
        change = (await r.changes(since=last))[30]
        assert (change.moved_from, change.url) == ("https://old.example/0", "https://new.example/items/0")
        assert len(await r.history("http://new.example/items/3")) == 2
        assert (await r.situation()).items == 30
    assert replayed(house) == contents(house)


async def test_records_that_also_say_something_else_are_known_by_their_files_or_titles(
    house: House, site: DataJsonSite
) -> None:
    async with house.open() as r:
        for number, record in enumerate(site.records):
            record["distribution"] = [{"downloadURL": f"https://files.example/{number}.csv"}]
        await sync(r, site)
        rename(site)
        site.records[0] |= {"title": "Renamed and rewritten", "description": "Nothing of the old text is left."}
        site.records[1] |= {"distribution": [], "description": "Only the title is the same."}

        run = await sync(r, site)

        assert (run.tally.moved, run.tally.updated, run.tally.created, run.tally.deleted) == (30, 2, 0, 0)
        assert len(await r.history("http://new.example/items/0")) == 2
        assert len(await r.history("http://new.example/items/1")) == 2


async def test_a_few_records_with_other_identifiers_move_among_many_that_stay(house: House, site: DataJsonSite) -> None:
    async with house.open() as r:
        for number, record in enumerate(site.records):
            record["issued"] = f"2024-01-{number + 1:02}"
        await sync(r, site)
        for record in site.records[:2]:
            record["identifier"] += "-again"
            record["description"] = "Written anew."

        run = await sync(r, site)
        again = await sync(r, site)

        assert (run.tally.moved, run.tally.created, run.tally.deleted, run.tally.updated) == (2, 0, 0, 2)
        assert [revision.text[:13] for revision in await r.history("http://old.example/0-again")][1:] == [
            "Written anew."
        ]
        assert (again.tally.moved, again.tally.rows_written) == (0, 0)
    assert replayed(house) == contents(house)


async def test_a_few_new_records_beside_the_old_ones_move_nothing(house: House, site: DataJsonSite) -> None:
    async with house.open() as r:
        await sync(r, site)
        copies = [dict(record, identifier=f"http://copy.example/{n}") for n, record in enumerate(site.records[:5])]
        site.records = [*copies, *site.records]

        run = await sync(r, site)

        assert (run.tally.moved, run.tally.created, run.tally.unchanged) == (0, 5, 30)


async def test_copies_that_come_before_their_originals_leave_the_same_index_as_a_rebuild(
    house: House, new_house: Any, site: DataJsonSite
) -> None:
    async with house.open() as r:
        await sync(r, site)
        copies = [dict(record, identifier=f"http://copy.example/{n}") for n, record in enumerate(site.records)]
        site.records = [*copies, *site.records]

        run = await sync(r, site)

        assert (run.status, run.tally.deleted) == ("completed", 0)
    assert replayed(house) == contents(house)
    rebuilt = new_house()
    async with rebuilt.open() as r:
        await sync(r, site)
    assert index_of(house) == index_of(rebuilt)


async def test_a_rehearsal_tells_of_moves_and_makes_none(house: House, site: DataJsonSite) -> None:
    async with house.open() as r:
        await sync(r, site)
        before = index_of(house)
        rename(site)

        run = await r.sync(site.address, dry_run=True)

        assert (run.tally.moved, run.tally.created, run.tally.deleted) == (30, 0, 0)
    assert index_of(house) == before
