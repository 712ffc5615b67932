"""A source whose order is that of time: each later word on an item supersedes the earlier ones, and none is lost."""

from collections.abc import Callable
from typing import Any

import pytest

from rowen import Checkpoint, Complete, Failed, Fetched, Gone, Observation, Rowen, Run, Unchanged
from tests.conftest import ScratchDatabase
from tests.logical import contents, replayed
from tests.portals.scripted import Scripted, page, shows

ADDRESS = "scripted:stream"
ONE = "https://example.org/1"


class Stream(Scripted):
    chronological = True


@pytest.fixture(autouse=True)
def _stream(kinds: Callable[[Any], None]) -> None:
    kinds(Stream)


async def replay(r: Rowen, *observations: Observation) -> Run:
    shows(*observations)
    return await r.sync(ADDRESS)


async def texts(r: Rowen, url: str = ONE) -> list[str]:
    return [revision.text for revision in await r.items.history(url)]


async def test_the_last_version_stands_and_the_earlier_ones_are_its_history(database: ScratchDatabase) -> None:
    async with database.open() as r:
        run = await replay(r, *(Fetched(page(1, f"Version {n}.")) for n in (1, 2, 3)), Complete())

        assert await texts(r) == ["Version 1.", "Version 2.", "Version 3."]
        assert [change.kind for change in await r.changes()] == ["created", "updated", "updated"]
        assert (run.stats.created, run.stats.updated, run.stats.duplicates) == (1, 2, 0)


async def test_versions_of_one_item_are_far_apart(database: ScratchDatabase) -> None:
    between = [Fetched(page(f"other-{n}")) for n in range(1200)]
    async with database.open() as r:
        await replay(r, Fetched(page(1, "Old.")), *between, Fetched(page(1, "New.")), Complete())

        assert await texts(r) == ["Old.", "New."]
        assert len(await r.changes()) == 1202


async def test_a_stream_that_was_replayed_writes_nothing_when_the_last_versions_come_again(
    database: ScratchDatabase,
) -> None:
    async with database.open() as r:
        await replay(r, Fetched(page(1, "Old.")), Fetched(page(1, "New.")), Complete())
        run = await replay(r, Fetched(page(1, "New.")), Complete())

        assert (run.stats.unchanged, run.stats.rows_written) == (1, 0)


async def test_a_deleted_item_that_returns_exists(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await replay(r, Fetched(page(1, "Old.")), Gone(ONE, "deleted"), Fetched(page(1, "Back.")), Checkpoint("c"))

        assert await texts(r) == ["Old.", "Back."]


async def test_an_item_deleted_last_does_not_exist(database: ScratchDatabase) -> None:
    async with database.open() as r:
        run = await replay(
            r, Fetched(page(1)), Fetched(page(2)), Fetched(page(3)), Gone(ONE, "deleted"), Checkpoint("c")
        )

        assert run.stats.deleted == 1
        assert contents(database) == replayed(database)
        assert [change.kind for change in await r.changes()] == ["created", "created", "created", "deleted"]


@pytest.mark.parametrize("between", [[], [Checkpoint(1)]])
@pytest.mark.parametrize("end", [[], [Complete()]])
async def test_an_item_read_after_its_failure_has_not_failed(
    database: ScratchDatabase, between: list[Observation], end: list[Observation]
) -> None:
    async with database.open() as r:
        run = await replay(r, Failed(ONE, "It cannot be read."), *between, Fetched(page(1)), *end)

        assert (run.stats.failed, run.stats.created) == (0, 1)
        assert await r.items.quarantine() == []


async def test_an_item_that_fails_last_keeps_its_last_good_copy(database: ScratchDatabase) -> None:
    async with database.open() as r:
        run = await replay(r, Fetched(page(1, "Good.")), Failed(ONE, "It cannot be read."), Complete())

        assert run.stats.failed == 1
        assert await texts(r) == ["Good."]
        assert [item.url for item in await r.items.quarantine()] == [ONE]


async def test_unchanged_after_a_new_version_changes_nothing(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await replay(r, Fetched(page(1, "Old.")), Fetched(page(1, "New.")), Unchanged(ONE), Complete())

        assert await texts(r) == ["Old.", "New."]


async def test_without_that_word_the_first_version_of_a_run_is_kept(
    database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    kinds(Scripted)
    async with database.open() as r:
        run = await replay(r, Fetched(page(1, "First.")), Fetched(page(1, "Second.")), Complete())

        assert await texts(r) == ["First."]
        assert run.stats.duplicates == 1
