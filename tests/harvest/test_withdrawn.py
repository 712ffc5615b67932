"""What was deleted can be looked at for a while, and goes on from there if it returns."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rowen import Complete, Fetched, Observation, Rowen, Run, Unchanged
from rowen.errors import NotFoundError
from tests.conftest import ScratchDatabase
from tests.logical import contents, replayed
from tests.portals.scripted import Scripted, page, shows

ADDRESS = "scripted:one"
ONE = page(1).url


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def sync(r: Rowen, *observations: Observation, **how: bool) -> Run:
    shows(*observations)
    return await r.sync(ADDRESS, **how)


REST = [Unchanged(page(number).url) for number in range(2, 10)]


async def withdraw(r: Rowen) -> None:
    """An item with two texts, and then without any."""
    rest = [Fetched(page(number)) for number in range(2, 10)]
    await sync(r, Fetched(page(1, "One.")), *rest, Complete())
    await sync(r, Fetched(page(1, "Two.", tags=("hay",))), *REST, Complete())
    await sync(r, *REST, Complete())


def copies(database: ScratchDatabase) -> int:
    return int(database.query("select count(*) from withdrawn")[0][0])


async def test_the_last_copy_of_a_deleted_item_is_shown_with_its_date(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await withdraw(r)
        entry = await r.get(ONE)
        history = await r.items.history(ONE)
        diff = await r.items.diff(ONE)
        found = await r.search("two")

    assert (entry.text, entry.tags, entry.revision, entry.withdrawn_at is not None) == ("Two.", ["hay"], 2, True)
    assert [(one.number, one.text) for one in history] == [(1, "One."), (2, "Two.")]
    assert ("-One." in diff, "+Two." in diff, list(found)) == (True, True, [])
    assert ONE not in contents(database)


async def test_an_item_that_returns_goes_on_with_its_history(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await withdraw(r)
        run = await sync(r, Fetched(page(1, "Three.")), *REST, Complete())
        entry = await r.get(ONE)
        history = await r.items.history(ONE)
        kinds = [change.kind for change in await r.changes() if change.url == ONE]

    assert (run.stats.created, copies(database)) == (1, 0)
    assert (entry.withdrawn_at, entry.revision) == (None, 3)
    assert [(one.number, one.text) for one in history] == [(1, "One."), (2, "Two."), (3, "Three.")]
    assert kinds == ["created", "updated", "deleted", "created"]
    assert replayed(database) == contents(database)


async def test_an_item_that_returns_as_it_was_has_no_new_text(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await withdraw(r)
        await sync(r, Fetched(page(1, "Two.", tags=("hay",))), *REST, Complete())
        history = await r.items.history(ONE)
        await sync(r, *REST, Complete())
        again = await r.items.history(ONE)

    assert [(one.number, one.text) for one in history] == [(1, "One."), (2, "Two.")]
    assert [(one.number, one.text) for one in again] == [(1, "One."), (2, "Two.")]


async def test_no_more_texts_return_than_are_kept(database: ScratchDatabase) -> None:
    async with database.open(revisions_kept=1) as r:
        await withdraw(r)
        await sync(r, Fetched(page(1, "Three.")), *REST, Complete())

        assert [one.text for one in await r.items.history(ONE)] == ["Two.", "Three."]


async def test_a_copy_that_is_too_old_is_not_shown_and_goes_with_the_next_run(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await withdraw(r)
        database.execute("update withdrawn set at = at - interval '91 days'")
        with pytest.raises(NotFoundError):
            await r.get(ONE)
        kept = copies(database)
        run = await sync(r, *REST, Complete())

    assert (kept, copies(database), run.stats.rows_written) == (1, 0, 0)


async def test_no_copies_are_made_where_none_are_wanted(database: ScratchDatabase) -> None:
    async with database.open(withdrawn_kept_days=0) as r:
        await withdraw(r)

        assert copies(database) == 0
        with pytest.raises(NotFoundError):
            await r.items.history(ONE)


async def test_a_removed_source_leaves_no_copies(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await withdraw(r)
        await r.sources.remove("one")
        with pytest.raises(NotFoundError):
            await r.get(ONE)

    assert copies(database) == 0


async def test_an_accepted_deletion_and_a_mass_deletion_leave_copies_too(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *(Fetched(page(number)) for number in range(30)), Complete())
        await sync(r, Unchanged(page(0).url), Complete())
        await r.deletions.accept("one", [ONE])
        first = copies(database)
        await sync(r, Unchanged(page(0).url), Complete(), accept_deletions=True)

    assert (first, copies(database)) == (1, 29)


async def test_a_dry_run_withdraws_nothing(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *(Fetched(page(number)) for number in range(9)), Complete())
        await sync(r, *(Unchanged(page(number).url) for number in range(8)), Complete(), dry_run=True)

    assert copies(database) == 0


async def test_a_withdrawn_item_is_like_nothing(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await withdraw(r)
        with pytest.raises(NotFoundError, match="withdrawn"):
            await r.items.similar(ONE)


async def test_exports_omit_withdrawn_items_by_default(database: ScratchDatabase, tmp_path: Path) -> None:
    async with database.open() as r:
        await withdraw(r)
        plain = await r.export("jsonl", tmp_path / "plain")
        asked = await r.export("sqlite", tmp_path / "asked", withdrawn=True)

    [line] = (tmp_path / "asked" / "withdrawn.jsonl").read_text().splitlines()
    copy = json.loads(line)
    assert (copy["url"], copy["text"], copy["source"], copy["withdrawn_at"] > "2020") == (ONE, "Two.", "one", True)
    assert (plain.items, plain.withdrawn, asked.items, asked.withdrawn) == (8, None, 8, 1)
    assert not (tmp_path / "plain" / "withdrawn.jsonl").exists()
