"""Deletions that were held back do not pile up: they are decided one by one, all at once, or by time."""

from collections.abc import Callable
from typing import Any

import pytest

from rowen import Checkpoint, Complete, Fetched, Gone, Incomplete, Observation, Rowen, Run, Unchanged
from rowen.errors import BusyError, NotFoundError
from rowen.store.locks import Lock, hold_session, release_session
from tests.conftest import ScratchDatabase
from tests.logical import contents, replayed
from tests.portals.scripted import Scripted, page, shows

ADDRESS = "scripted:one"
PATIENCE = {"deletion_patience_runs": 3, "deletion_patience_days": 2.0}


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def sync(r: Rowen, *observations: Observation, **how: bool) -> Run:
    shows(*observations)
    return await r.sync(ADDRESS, **how)


def fetched(*numbers: int) -> list[Observation]:
    return [Fetched(page(number)) for number in numbers]


def unchanged(*numbers: int) -> list[Observation]:
    return [Unchanged(page(number).url) for number in numbers]


def age(database: ScratchDatabase, days: float = 3) -> None:
    database.execute(f"update item_held set at = at - interval '{days} days'")


async def hold(r: Rowen) -> Run:
    """Thirty items, of which twenty vanish."""
    await sync(r, *fetched(*range(30)), Complete())
    return await sync(r, *unchanged(*range(10)), Complete())


async def test_pending_deletions_can_be_listed_individually(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await hold(r)
        first = await r.deletions.list("one", limit=15)
        rest = await r.deletions.list("one", limit=15, after=first.next)

    assert [one.url for one in [*first, *rest]] == sorted(page(number).url for number in range(10, 30))
    assert {(one.told, one.kept_at, one.title[:5]) for one in first} == {(False, None, "Page ")}


async def test_an_accepted_deletion_goes_at_once_and_the_others_wait(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await hold(r)
        accepted = await r.deletions.accept("one", [page(11).url, page(12).url])
        waiting = (await r.sources.get("one")).deletions_held
        again = await sync(r, *unchanged(*range(10)), Complete())

    assert (accepted, waiting, again.stats.deletions_held, len(contents(database))) == (2, 18, 18, 28)
    assert replayed(database) == contents(database)


async def test_a_kept_item_stays_and_no_longer_waits_for_a_decision(database: ScratchDatabase) -> None:
    async with database.open(**PATIENCE) as r:
        await hold(r)
        await r.deletions.keep("one", [page(11).url])
        waiting = (await r.sources.get("one")).deletions_held
        accepted = await sync(r, *unchanged(*range(10)), Complete(), accept_deletions=True)
        age(database)
        later = [await sync(r, *unchanged(*range(10)), Complete()) for _ in range(4)][-1]
        kept = len(contents(database))
        let_go = await r.deletions.accept("one", [page(11).url])

    assert (waiting, accepted.stats.deleted, accepted.stats.deletions_held, kept) == (19, 19, 0, 11)
    assert (later.stats.deletions_held, later.stats.deleted, later.stats.rows_written) == (0, 0, 0)
    assert (let_go, len(contents(database))) == (1, 10)


async def test_a_kept_item_that_returns_is_an_ordinary_item(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await hold(r)
        await r.deletions.keep("one", [page(11).url])
        await sync(r, *unchanged(*range(30)), Complete())
        gone = await sync(r, *unchanged(*range(11), *range(12, 30)), Complete())

    assert (gone.stats.deleted, gone.stats.deletions_held) == (1, 0)
    assert database.query("select count(*) from item_held") == [(0,)]


async def test_only_pending_deletions_can_be_decided(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await hold(r)
        for decide in (r.deletions.accept, r.deletions.keep):
            with pytest.raises(NotFoundError, match="Nothing was changed"):
                await decide("one", [page(11).url, page(1).url])
        waiting = (await r.sources.get("one")).deletions_held

    assert (waiting, len(contents(database))) == (20, 30)


async def test_nothing_is_accepted_while_a_run_is_live(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await hold(r)
        database.execute("insert into run (source_id, mode, lease_until) values (1, 'full', now() + interval '1 hour')")
        number = database.query("select max(id) from run")[0][0]
        async with r._engine.database.connection() as c:
            await hold_session(c, Lock.RUN, number)
            with pytest.raises(BusyError):
                await r.deletions.accept("one", [page(11).url])
            await release_session(c, Lock.RUN, number)


async def test_items_missing_from_many_complete_runs_over_many_days_are_deleted(database: ScratchDatabase) -> None:
    async with database.open(**PATIENCE) as r:
        await hold(r)
        young = [await sync(r, *unchanged(*range(10)), Complete()) for _ in range(3)]
        age(database)
        old = await sync(r, *unchanged(*range(10)), Complete())

    assert {(run.stats.deleted, run.stats.deletions_held, run.stats.rows_written) for run in young} == {(0, 20, 0)}
    assert (old.stats.deleted, old.stats.deletions_held, len(contents(database))) == (20, 0, 10)
    assert replayed(database) == contents(database)


async def test_days_alone_and_partial_runs_let_nothing_go(database: ScratchDatabase) -> None:
    async with database.open(**PATIENCE) as r:
        await hold(r)
        age(database, 300)
        for _ in range(5):
            await sync(r, *unchanged(*range(5)), Incomplete("Half of it is missing."))
        second = await sync(r, *unchanged(*range(10)), Complete())
        third = await sync(r, *unchanged(*range(10)), Complete())

    assert [(run.stats.deleted, run.stats.deletions_held) for run in (second, third)] == [(0, 20), (20, 0)]


async def test_an_item_that_is_seen_in_between_waits_from_the_beginning(database: ScratchDatabase) -> None:
    async with database.open(**PATIENCE) as r:
        await hold(r)
        age(database)
        await sync(r, *unchanged(*range(11, 23)), Incomplete("Half of it is missing."))
        for _ in range(2):
            run = await sync(r, *unchanged(*range(10)), Complete())

    assert (run.stats.deleted, run.stats.deletions_held) == (8, 12)
    assert page(11).url in contents(database)


async def test_pending_tombstones_are_deleted_in_time_without_a_whole_walk(database: ScratchDatabase) -> None:
    async with database.open(**PATIENCE) as r:
        await sync(r, *fetched(*range(30)), Checkpoint(1), Complete())
        await sync(r, *(Gone(page(number).url) for number in range(20)), Checkpoint(2))
        age(database)
        second = await sync(r, Checkpoint(3), *unchanged(25))
        third = await sync(r, Checkpoint(4), *unchanged(25))

    assert [(run.stats.deleted, run.stats.deletions_held) for run in (second, third)] == [(0, 20), (20, 0)]


async def test_an_empty_listing_lets_nothing_go_however_often_it_comes(database: ScratchDatabase) -> None:
    async with database.open(**PATIENCE) as r:
        await sync(r, *fetched(*range(30)), Complete())
        await sync(r, Complete())
        age(database, 300)
        runs = [await sync(r, Complete()) for _ in range(5)]

    assert {(run.stats.deleted, run.stats.deletions_held) for run in runs} == {(0, 30)}


async def test_a_dry_run_reports_overdue_deletions_and_keeps_them(database: ScratchDatabase) -> None:
    async with database.open(**PATIENCE) as r:
        await hold(r)
        await sync(r, *unchanged(*range(10)), Complete())
        age(database)
        dry = await sync(r, *unchanged(*range(10)), Complete(), dry_run=True)

    assert (dry.stats.deleted, dry.stats.deletions_held, len(contents(database))) == (20, 0, 30)


async def test_a_change_listing_still_counts_pending_deletions(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *fetched(*range(30)), Checkpoint(1), Complete())
        await sync(r, *unchanged(*range(10)), Checkpoint(2), Complete())
        run = await sync(r, *unchanged(1, 11), Checkpoint(3))
        kept = await r.deletions.keep("one", [page(12).url])
        last = await sync(r, Checkpoint(4))

    assert (run.stats.deletions_held, kept, last.stats.deletions_held, last.stats.deleted) == (19, 1, 18, 0)


async def test_search_marks_items_with_pending_deletions(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await hold(r)
        found = {hit.url: hit.held for hit in await r.search("page", limit=30)}

    assert (found[page(1).url], found[page(11).url], len(found)) == (False, True, 30)
