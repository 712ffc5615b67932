"""A source that gives all its records other identifiers loses no history, and deletes nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rowen import Complete, Fetched, Gone, Incomplete, Observation, Rowen, Run
from rowen.model.datasets import DATASET
from tests.conftest import ScratchDatabase
from tests.logical import contents, index_of, replayed
from tests.portals.datajson import DataJsonSite
from tests.portals.scripted import Scripted, page, shows

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


async def test_new_identifiers_for_everything_move_the_items(database: ScratchDatabase, site: DataJsonSite) -> None:
    async with database.open() as r:
        assert (await r.status.get()).items == 0
        await sync(r, site)
        site.records[3]["description"] = "Another text than before."
        await sync(r, site)
        last = await r.changes.last_number()
        ids = database.query("select id from item order by id")
        rename(site)

        run = await sync(r, site)

        stats = run.stats
        assert (stats.moved, stats.created, stats.deleted, stats.deletions_held) == (30, 0, 0, 0)
        assert (stats.amended, stats.updated) == (30, 0)
        assert database.query("select id from item order by id") == ids
        assert await kinds_of_changes(r, last) == ["created", "moved"]
        change = (await r.changes(since=last))[30]
        assert (change.moved_from, change.url) == ("https://old.example/0", "https://new.example/items/0")
        assert len(await r.items.history("http://new.example/items/3")) == 2
        assert (await r.status.get()).items == 30
    assert replayed(database) == contents(database)


async def test_records_that_also_say_something_else_are_known_by_their_files_or_titles(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    async with database.open() as r:
        for number, record in enumerate(site.records):
            record["distribution"] = [{"downloadURL": f"https://files.example/{number}.csv"}]
        await sync(r, site)
        rename(site)
        site.records[0] |= {"title": "Renamed and rewritten", "description": "Nothing of the old text is left."}
        site.records[1] |= {"distribution": [], "description": "Only the title is the same."}

        run = await sync(r, site)

        assert (run.stats.moved, run.stats.updated, run.stats.created, run.stats.deleted) == (30, 2, 0, 0)
        assert len(await r.items.history("http://new.example/items/0")) == 2
        assert len(await r.items.history("http://new.example/items/1")) == 2


async def test_a_few_records_with_other_identifiers_move_among_many_that_stay(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    async with database.open() as r:
        for number, record in enumerate(site.records):
            record["issued"] = f"2024-01-{number + 1:02}"
        await sync(r, site)
        for record in site.records[:2]:
            record["identifier"] += "-again"
            record["description"] = "Written anew."

        run = await sync(r, site)
        again = await sync(r, site)

        assert (run.stats.moved, run.stats.created, run.stats.deleted, run.stats.updated) == (2, 0, 0, 2)
        assert [revision.text[:13] for revision in await r.items.history("http://old.example/0-again")][1:] == [
            "Written anew."
        ]
        assert (again.stats.moved, again.stats.rows_written) == (0, 0)
    assert replayed(database) == contents(database)


async def test_a_few_new_records_beside_the_old_ones_move_nothing(
    database: ScratchDatabase, site: DataJsonSite
) -> None:
    async with database.open() as r:
        await sync(r, site)
        copies = [dict(record, identifier=f"http://copy.example/{n}") for n, record in enumerate(site.records[:5])]
        site.records = [*copies, *site.records]

        run = await sync(r, site)

        assert (run.stats.moved, run.stats.created, run.stats.unchanged) == (0, 5, 30)


async def test_copies_that_come_before_their_originals_leave_the_same_index_as_a_rebuild(
    database: ScratchDatabase, new_database: Any, site: DataJsonSite
) -> None:
    async with database.open() as r:
        await sync(r, site)
        copies = [dict(record, identifier=f"http://copy.example/{n}") for n, record in enumerate(site.records)]
        site.records = [*copies, *site.records]

        run = await sync(r, site)

        assert (run.status, run.stats.deleted) == ("completed", 0)
    assert replayed(database) == contents(database)
    rebuilt = new_database()
    async with rebuilt.open() as r:
        await sync(r, site)
    assert index_of(database) == index_of(rebuilt)


async def test_a_dry_run_reports_moves_and_makes_none(database: ScratchDatabase, site: DataJsonSite) -> None:
    async with database.open() as r:
        await sync(r, site)
        before = index_of(database)
        rename(site)

        run = await r.sync(site.address, dry_run=True)

        assert (run.stats.moved, run.stats.created, run.stats.deleted) == (30, 0, 0)
    assert index_of(database) == before


LONG, OTHER = "Cut twice a year, dried in the sun, stored dry.", "Sown in autumn, harvested in July, sold by weight."
CITY = "Budget of the city"


def dataset(number: int, title: str, text: str = LONG, *, language: str | None = None, **record: Any) -> Fetched:
    return Fetched(page(number, text, title=title, media_type=DATASET, language=language, record=record))


def files(*urls: str) -> dict[str, Any]:
    return {"resources": [{"url": url} for url in urls]}


@pytest.fixture
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def listed(r: Rowen, *observations: Observation) -> Run:
    shows(*observations)
    return await r.sync("scripted:one")


@pytest.mark.usefixtures("_scripted")
@pytest.mark.parametrize(
    ("before", "now", "moved"),
    [
        (dataset(1, CITY), dataset(2, CITY, OTHER), 1),
        (dataset(1, "Budget"), dataset(2, "Budget", OTHER), 0),
        (dataset(1, "Budget"), dataset(2, "Budget"), 1),
        (dataset(1, "Budget", "None."), dataset(2, "Budget", "None."), 0),
        (dataset(1, "Budget", issued="2024-01-01"), dataset(2, "Budget", OTHER, issued="2024-01-01"), 1),
        (dataset(1, CITY, issued="2024-01-01"), dataset(2, CITY, OTHER, issued="2025-01-01"), 0),
        (dataset(1, CITY, issued="2024-01-01"), dataset(2, CITY, OTHER), 1),
        (dataset(1, CITY, **files("a", "b")), dataset(2, "Spending", OTHER, **files("b", "a")), 1),
        (dataset(1, CITY, **files("a", "b")), dataset(2, "Spending", OTHER, **files("a")), 0),
        (dataset(1, CITY, **files("")), dataset(2, "Spending", OTHER, **files("")), 0),
        (Fetched(page(1, LONG, title=CITY)), Fetched(page(2, LONG, title=CITY)), 0),
    ],
)
async def test_a_dataset_under_another_identifier_moves_only_with_evidence(
    database: ScratchDatabase, before: Fetched, now: Fetched, moved: int
) -> None:
    async with database.open() as r:
        await listed(r, before, dataset(9, "Another"), Complete())
        shows(now, dataset(9, "Another"), Complete())
        rehearsed = await r.sync("scripted:one", dry_run=True)
        run = await r.sync("scripted:one")

    for stats in (rehearsed.stats, run.stats):
        assert (stats.moved, stats.created, stats.deleted) == (moved, 1 - moved, 1 - moved)


@pytest.mark.usefixtures("_scripted")
@pytest.mark.parametrize(
    ("before", "now", "third"),
    [
        (dataset(1, CITY), dataset(2, CITY, OTHER), dataset(3, CITY, "Something else.")),
        (dataset(1, "Budget"), dataset(2, "Budget"), dataset(3, "Budget")),
        (
            dataset(1, "Budget", issued="2024-01-01"),
            dataset(2, "Budget", OTHER, issued="2024-01-01"),
            dataset(3, "Budget", "Something else.", issued="2024-01-01"),
        ),
        (
            dataset(1, CITY, **files("a")),
            dataset(2, "Spending", OTHER, **files("a")),
            dataset(3, "Something else", "Something else.", **files("a")),
        ),
    ],
)
async def test_content_shared_with_a_remaining_item_is_no_evidence(
    database: ScratchDatabase, before: Fetched, now: Fetched, third: Fetched
) -> None:
    async with database.open() as r:
        await listed(r, before, third, Complete())
        run = await listed(r, now, third, Complete())

    assert (run.stats.moved, run.stats.created, run.stats.deleted) == (0, 1, 1)


@pytest.mark.usefixtures("_scripted")
@pytest.mark.parametrize("text", [LONG, OTHER])
async def test_an_item_that_is_gone_does_not_move_to_one_that_was_always_there(
    database: ScratchDatabase, text: str
) -> None:
    async with database.open() as r:
        await listed(r, dataset(1, CITY), dataset(2, CITY, text), dataset(9, "Another"), Complete())
        await listed(r, dataset(1, CITY), dataset(2, CITY, text), dataset(9, "Another"))
        run = await listed(
            r, dataset(2, CITY, text), dataset(3, "New", "A new one."), dataset(9, "Another"), Complete()
        )

    assert (run.stats.moved, run.stats.created, run.stats.deleted) == (0, 1, 1)


@pytest.mark.usefixtures("_scripted")
async def test_a_dataset_moves_to_an_item_of_a_partial_run_with_its_versions(
    database: ScratchDatabase,
) -> None:
    async with database.open(revisions_kept=2) as r:
        await listed(r, dataset(1, CITY), dataset(9, "Another"), Complete())
        for text in (OTHER, "Three.", "Two.", LONG):
            await listed(r, dataset(2, CITY, text))
        run = await listed(r, dataset(2, CITY), dataset(9, "Another"), Complete())
        versions = await r.items.history(page(2).url)

    assert (run.stats.moved, run.stats.amended, run.stats.updated, run.stats.deleted) == (1, 0, 0, 0)
    assert [version.text for version in versions] == ["Three.", "Two.", LONG]
    assert replayed(database) == contents(database)


@pytest.mark.usefixtures("_scripted")
async def test_a_dataset_that_moved_keeps_as_many_earlier_versions_as_one_that_stayed(
    database: ScratchDatabase,
) -> None:
    async with database.open(revisions_kept=1) as r:
        await listed(r, dataset(1, CITY), dataset(9, "Another"), Complete())
        for text in (OTHER, LONG):
            await listed(r, dataset(2, CITY, text))
        run = await listed(r, dataset(2, CITY), dataset(9, "Another"), Complete())
        versions = await r.items.history(page(2).url)

    assert run.stats.moved == 1
    assert [version.text for version in versions] == [OTHER, LONG]


@pytest.mark.usefixtures("_scripted")
async def test_pending_deletions_that_turn_out_to_be_moves_are_pending_no_longer(database: ScratchDatabase) -> None:
    def some(first: int, count: int = 20) -> list[Observation]:
        return [dataset(first + n, f"Meadow number {n}") for n in range(count)]

    stay = [dataset(1000 + n, f"Pasture number {n}") for n in range(10)]
    async with database.open() as r:
        await listed(r, *some(0), *stay, Complete())
        held = await listed(r, *stay, Complete())
        run = await listed(r, *some(100), *stay, Complete())

    assert (held.stats.deletions_held, run.stats.moved, run.stats.deletions_held) == (20, 20, 0)
    assert database.query("select count(*) from item_held") == [(0,)]


@pytest.mark.usefixtures("_scripted")
async def test_two_moved_namesakes_are_matched_by_files_and_then_by_title(
    database: ScratchDatabase,
) -> None:
    stays = dataset(9, "Another")
    async with database.open() as r:
        await listed(r, dataset(1, CITY, **files("a")), dataset(2, CITY, OTHER, **files("b")), stays, Complete())
        now = [dataset(3, CITY, "Something else.", **files("a")), dataset(4, CITY, "Written anew.")]
        run = await listed(r, *now, stays, Complete())
        texts = [[version.text for version in await r.items.history(page(number).url)] for number in (3, 4)]

    assert (run.stats.moved, run.stats.created, run.stats.deleted) == (2, 0, 0)
    assert texts == [[LONG, "Something else."], [OTHER, "Written anew."]]


@pytest.mark.usefixtures("_scripted")
async def test_an_item_reported_gone_under_its_old_identifier_stays_under_its_new_one(
    database: ScratchDatabase,
) -> None:
    stays = dataset(9, "Another")
    async with database.open() as r:
        await listed(r, dataset(1, CITY), stays, Complete())
        moved = await listed(r, Gone(page(1).url), dataset(2, CITY), stays, Complete())
        partial = await listed(r, stays, Incomplete("It went away."))

    assert (moved.stats.moved, partial.status, partial.stats.deleted) == (1, "partial", 0)
    assert page(2).url in contents(database)


@pytest.mark.usefixtures("_scripted")
async def test_a_dataset_that_moves_and_gets_another_language_is_found_in_that_language(
    database: ScratchDatabase, new_database: Any
) -> None:
    now = [dataset(2, CITY, "Die Wiesen wurden gemäht.", language="de"), dataset(9, "Another"), Complete()]
    rebuilt = new_database()
    async with database.open() as r, rebuilt.open() as other:
        await listed(r, dataset(1, CITY, "Die Wiesen wurden gemäht."), dataset(9, "Another"), Complete())
        run = await listed(r, *now)
        await listed(other, *now)

    assert run.stats.moved == 1
    words = "select tsv::text from chunk order by text_hash"
    assert database.query(words) == rebuilt.query(words)
    assert index_of(database) == index_of(rebuilt)


@pytest.mark.usefixtures("_scripted")
async def test_a_dataset_that_moves_and_was_cut_by_an_earlier_release_is_cut_as_one_of_now(
    database: ScratchDatabase, new_database: Any
) -> None:
    stays = dataset(9, "Another")
    rebuilt = new_database()
    async with database.open() as r, rebuilt.open() as other:
        await listed(r, dataset(1, CITY), stays, Complete())
        database.execute(
            "update item set chunker = 0 where title <> 'Another';"
            "update chunk set heading = '{As of old}' from item where item.id = item_id and title <> 'Another'"
        )
        run = await listed(r, dataset(2, CITY), stays, Complete())
        await listed(other, dataset(2, CITY), stays, Complete())

    headings = "select heading from chunk order by text_hash"
    assert run.stats.moved == 1
    assert database.query(headings) == rebuilt.query(headings)
    assert index_of(database) == index_of(rebuilt)
