"""Groups are written side by side, and committed one after the other."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rowen import Checkpoint, Complete, Failed, Fetched, Gone, Observation, Rowen, Unchanged
from rowen.harvest.plan import Plan, Planner
from rowen.model.hashes import Hash
from rowen.model.runs import Run
from rowen.store import database as database_module
from rowen.store.items import items
from rowen.store.items.items import StoredItem
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows

ADDRESS = "scripted:one"

# The first group is slow: its row takes a while, once.
SLOW = """
create function dawdle() returns trigger language plpgsql as $$
begin
    if new.title = 'Page 1' then perform pg_sleep(0.5); end if;
    return new;
end $$;
create trigger dawdle before insert on item for each row execute function dawdle();
"""


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def groups(r: Rowen, *observations: Observation) -> Run:
    """A run in which each observation is a group of its own."""
    shows(*(each for number, one in enumerate(observations) for each in (one, Checkpoint(number))), Complete())
    async with asyncio.timeout(60):
        return await r.sync(ADDRESS)


def numbers(database: ScratchDatabase) -> list[str]:
    return [url.rpartition("/")[2] for (url,) in database.query("select url from change order by number")]


async def test_a_quick_group_waits_for_the_slow_one_before_it(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await r.sources.add(ADDRESS)
        database.execute(SLOW)
        run = asyncio.create_task(groups(r, *(Fetched(page(number)) for number in range(1, 9))))
        seen: list[set[str]] = []
        while not run.done():
            seen.append({row[0] for row in database.query("select title from item")})
            await asyncio.sleep(0.01)

        assert (await run).stats.created == 8
    assert numbers(database) == [str(number) for number in range(1, 9)]
    assert all("Page 1" in titles for titles in seen if titles)


async def test_the_cursor_never_passes_a_group_that_is_not_committed(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await r.sources.add(ADDRESS)
        database.execute(SLOW)
        run = asyncio.create_task(groups(r, *(Fetched(page(number)) for number in range(1, 9))))
        while not run.done():
            [(cursor, held)] = database.query("select cursor, (select count(*) from item) from source")
            assert cursor is None or held > cursor
            await asyncio.sleep(0.01)
        assert (await run).status == "completed"


async def test_a_commit_that_stalls_does_not_fail_those_that_wait_for_it(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The server throws out a session that is idle inside a transaction for so long.
    monkeypatch.setattr(database_module, "SHORTEST_IDLE_S", 0.6)
    async with database.open(lease_s=0.6) as r:
        await r.sources.add(ADDRESS)
        database.execute(SLOW.replace("0.5", "2.5"))
        run = await groups(r, *(Fetched(page(number)) for number in range(1, 5)))

    assert (run.status, run.stats.created) == ("completed", 4)
    assert numbers(database) == ["1", "2", "3", "4"]


async def test_a_refused_row_in_the_slow_group_costs_that_row_alone(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await r.sources.add(ADDRESS)
        database.execute(SLOW + "alter table item add constraint no_one check (title <> 'Page 1');")
        shows(*(Fetched(page(number)) for number in (1, 2)), Checkpoint(1), Fetched(page(3)), Checkpoint(2), Complete())
        async with asyncio.timeout(60):
            run = await r.sync(ADDRESS)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 2, 1)
    assert numbers(database) == ["2", "3"]


async def test_the_cursor_waits_for_all_parts_of_a_group_with_a_refused_row(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await r.sources.add(ADDRESS)
        database.execute("""
            alter table item add constraint no_one check (title <> 'Page 1');
            create table moved_with (items bigint);
            create function note_items() returns trigger language plpgsql as $$
            begin
                insert into moved_with select count(*) from item;
                return new;
            end $$;
            create trigger note_items before update of cursor on source for each row execute function note_items();
        """)
        shows(*(Fetched(page(number)) for number in (1, 2, 3, 4)), Checkpoint(1), Complete())
        run = await r.sync(ADDRESS)

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 3, 1)
    assert database.query("select items from moved_with") == [(3,)]


@pytest.mark.parametrize(
    ("last", "held"),
    [
        (Gone("https://example.org/1"), []),
        (Failed("https://example.org/1", "It is broken."), ["Page 1"]),
    ],
)
async def test_an_observation_of_an_item_of_the_previous_group_finds_it_stored(
    database: ScratchDatabase, last: Observation, held: list[str]
) -> None:
    async with database.open() as r:
        await r.sources.add(ADDRESS)
        database.execute(SLOW)
        run = await groups(r, Fetched(page(1)), last)

    assert run.status == "completed"
    assert [title for (title,) in database.query("select title from item")] == held


async def test_a_group_that_is_committed_while_the_store_answers_for_the_next_creates_its_items_once(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed, ask, settle, answers = asyncio.Event(), items.find_stored, Planner.settle, 0

    async def answer_late(*asked: Any) -> dict[Hash, StoredItem]:
        """What was there when the second group asked; by the time it hears of it, the first one is committed."""
        nonlocal answers
        found, answers = await ask(*asked), answers + 1
        if answers == 2:
            await committed.wait()
        return found

    def note(planner: Planner, plan: Plan) -> None:
        settle(planner, plan)
        committed.set()

    monkeypatch.setattr(items, "find_stored", answer_late)
    monkeypatch.setattr(Planner, "settle", note)
    async with database.open() as r:
        await r.sources.add(ADDRESS)
        database.execute(SLOW)
        run = await groups(r, Fetched(page(1)), Fetched(page(1)))

    assert (run.status, run.stats.created, run.stats.failed, run.stats.duplicates) == ("completed", 1, 0, 1)


async def test_an_item_deleted_and_returned_in_one_run_is_stored(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await groups(r, Fetched(page(1)), Fetched(page(2)))
        await groups(r, Gone("https://example.org/1"), Fetched(page(1, "Other text.")), Fetched(page(2)))
        again = await r.get("https://example.org/1")

    assert again.text == "Other text."


async def test_an_item_that_returns_while_it_is_marked_gone_keeps_no_mark(
    database: ScratchDatabase,
) -> None:
    async with database.open() as r:
        await groups(r, Fetched(page(2)))
        database.execute(SLOW)
        url = page(2).url
        shows(Gone(url), Fetched(page(1)), Checkpoint(1), Unchanged(url), Checkpoint(2))
        async with asyncio.timeout(60):
            await r.sync(ADDRESS)

    assert database.query("select item_id from item_gone") == []


async def test_a_run_that_is_taken_over_while_it_writes_commits_nothing_more(database: ScratchDatabase) -> None:
    async with database.open(lease_s=1000) as r:
        await r.sources.add(ADDRESS)
        database.execute(SLOW)
        run = asyncio.create_task(groups(r, Fetched(page(1)), Fetched(page(2))))
        await asyncio.sleep(0.25)
        database.execute("update run set status = 'failed', lease_until = null")
        with pytest.raises(Exception, match="taken over"):
            await run

    assert database.query("select title from item") == []
