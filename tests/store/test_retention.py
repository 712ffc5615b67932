"""Expired rows are deleted in batches; needed ones stay, and nothing is paid twice."""

from collections.abc import Callable
from typing import Any

import pytest

from rowen import Complete, Fetched
from rowen.errors import NotFoundError
from rowen.jobs.ticks import tidy
from rowen.store import runs as store_runs
from tests.conftest import ScratchDatabase
from tests.harvest.shop import market, stock
from tests.portals.language_model import says
from tests.portals.scripted import Scripted, page, shows


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def tidied(r: Any) -> None:
    """Delete expired rows, as a worker does once an hour."""
    async with r._engine.database.connection() as c:
        await tidy(c, r._engine.settings)


# Runs 1 to 200 of two sources in turn, a day apart, that ended 400 days before now and earlier; all are partial.
RUNS = """
insert into source (name, kind, url) values ('hay', 'scripted', 'scripted:hay'), ('oats', 'scripted', 'scripted:oats');
insert into run (source_id, mode, status, complete, started_at, finished_at, tally)
select 1 + n % 2, 'incremental', 'partial', false, now() - (600 - n) * interval '1 day',
       now() - (600 - n) * interval '1 day', '{}' from generate_series(1, 200) n
"""


def runs(database: ScratchDatabase, source: int = 1) -> list[int]:
    return [number for (number,) in database.query("select id from run where source_id = %s order by id", source)]


async def test_old_runs_are_deleted_except_the_first_and_last_ones_of_each_source(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_runs, "_RUNS_KEPT", 3)
    async with database.open() as r:
        database.execute(RUNS)
        await tidied(r)

    assert runs(database) == [2, 196, 198, 200]
    assert runs(database, 2) == [1, 195, 197, 199]


async def test_runs_of_the_last_year_and_runs_needed_for_deletions_and_moves_stay(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_runs, "_RUNS_KEPT", 3)
    async with database.open() as r:
        database.execute(RUNS)
        database.execute(
            "update run set status = 'completed' where id in (20, 60, 70, 80);"
            "update run set complete = true where id in (20, 60, 80);"
            """update run set tally = '{"truncated": 4}' where id = 80;"""
            """update run set tally = '{"deleted": 2}' where id in (50, 150);"""
            "update run set started_at = now() - interval '300 days' where id in (101, 121)"
        )
        await tidied(r)
        spent = database.query("select sum((tally ->> 'deleted')::int) from run where source_id = 1 and id > 80")

    # Whole and complete, complete up to a limit, and what was deleted since.
    assert runs(database) == [2, 60, 80, 150, 196, 198, 200]
    assert runs(database, 2) == [1, 101, 121, 195, 197, 199]
    assert spent == [(2,)]


async def test_runs_that_count_for_pending_deletions_stay(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_runs, "_RUNS_KEPT", 3)
    async with database.open() as r:
        database.execute(RUNS)
        shows(Fetched(page(1)), Complete())
        await r.sync("hay")
        database.execute(
            "update run set complete = true where id = 180; update run set complete = false where id > 200;"
            "insert into item_held (item_id, source_id, run_id) select id, 1, 170 from item"
        )
        await tidied(r)
        left = runs(database)
        database.execute("update item_held set kept_at = now()")
        await tidied(r)

    assert left == [2, *range(170, 202, 2), 201]
    assert runs(database) == [2, 180, 198, 200, 201]


async def test_one_transaction_deletes_at_most_a_batch(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_runs, "_RUNS_KEPT", 3)
    monkeypatch.setattr(store_runs, "_AT_ONCE", 7)
    async with database.open() as r:
        database.execute(RUNS)
        await tidied(r)
        once = 200 - len(runs(database)) - len(runs(database, 2))
        whole = await r.database.tidy()

    assert once == 7
    assert whole.runs == 200 - 7 - 8
    assert (len(runs(database)), len(runs(database, 2))) == (4, 4)


async def test_the_lines_of_a_deleted_run_are_still_listed(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_runs, "_RUNS_KEPT", 1)
    async with database.open() as r:
        await r.sources.add("scripted:hay", name="hay")
        made = []
        for number in range(1, 5):
            shows(*(Fetched(page(one)) for one in range(1, number + 1)), Complete())
            made.append((await r.sync("hay")).id)
        database.execute("update run set started_at = started_at - interval '2 years'")
        await tidied(r)
        lines = await r.changes.newest(run=made[1])
        everything = await r.changes()
        with pytest.raises(NotFoundError, match="ROWEN_RUNS_KEPT_DAYS"):
            await r.runs.get(made[1])
        with pytest.raises(NotFoundError):
            await r.changes.newest(run=4711)
        after = await r.sync("hay")

    assert runs(database)[:2] == [made[0], made[3]]
    assert [(line.url, line.run) for line in lines] == [(page(2).url, made[1])]
    assert [line.run for line in everything] == made
    assert (after.status, after.stats.created, after.stats.deleted) == ("completed", 0, 0)


def age_answers(database: ScratchDatabase, days: int = 200) -> None:
    database.execute(f"update answer set used_at = used_at - interval '{days} days'")


async def test_an_answer_behind_data_in_force_is_kept_for_ever(database: ScratchDatabase) -> None:
    with market(3) as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            await r.sync("shop")
            age_answers(database)
            await tidied(r)
            [noted] = database.query("select count(*) filter (where used_at > now() - interval '1 hour') from answer")
            age_answers(database)
            await r.database.tidy()
            [again] = await r.extraction.extract_source("shop", everything=True)

    assert noted == (3,)
    assert (again.calls, again.avoided_reused, model.calls) == (0, 3, 3)


@pytest.mark.parametrize(("days", "paid"), [(170, 0), (200, 1)])
async def test_an_answer_to_an_earlier_text_is_kept_for_half_a_year(
    database: ScratchDatabase, days: int, paid: int
) -> None:
    with market(1) as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            await r.sync("shop")
            age_answers(database, 1_000)
            shop.sell(1, price=12)
            await r.sync("shop")
            # Only now facts rest on another answer.
            await tidied(r)
            answers = database.query("select count(*) from answer")
            age_answers(database, days)
            await tidied(r)
            before = model.calls
            shop.sell(1, price=10)
            await r.sync("shop")

    assert answers == [(2,)]
    assert model.calls - before == paid


@pytest.mark.parametrize("way", ["page", "source"])
async def test_a_recently_deleted_item_returns_without_another_paid_call(database: ScratchDatabase, way: str) -> None:
    with market(2) as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            await r.sync("shop")
            age_answers(database, 1_000)
            sold = shop.pages["/2"]
            if way == "page":
                del shop.pages["/2"]
                await r.sync("shop")
            else:
                await r.sources.remove("shop")
            await tidied(r)
            shop.pages["/2"] = sold
            if way == "source":
                await r.sources.add(f"{shop.url}/", name="shop", options={"sitemap": False, "llms": False})
                await r.extraction.attach("shop", "lamp@1")
            run = await r.sync("shop")

    assert run.stats.extracted >= 1
    assert model.calls == 2


async def test_a_refused_answer_is_not_paid_for_again(database: ScratchDatabase) -> None:
    with market(1) as (shop, model):
        model.moods.append(says('{"name": "Chandelier", "price": null, "colour": null}'))
        async with database.open(**model.settings) as r:
            await stock(r, shop, grounding="fail")
            first = await r.sync("shop")
            age_answers(database)
            await tidied(r)
            [again] = await r.extraction.extract_source("shop", everything=True)

    assert (first.stats.extractions_failed, again.failed, model.calls) == (1, 1, 1)


async def test_an_answer_about_one_page_counts_as_used_at_each_request(database: ScratchDatabase) -> None:
    with market(1) as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            for _ in range(3):
                await r.extract(f"{shop.url}/1", "lamp@1")
                age_answers(database, 100)
                await tidied(r)
            calls = model.calls
            age_answers(database, 100)
            await tidied(r)
            await r.extract(f"{shop.url}/1", "lamp@1")

    assert (calls, model.calls) == (1, 2)


NEWS = """
insert into saved_search (name, query, after) values ('seldom', 'hay', 0), ('often', 'oats', 0);
insert into saved_news (search_id, kind, number, source, url, title, at)
select 1 + n % 2, 'matches', n, 's', 'https://example.org/' || n, 'Field', now() - (400 - n) * interval '1 day'
  from generate_series(1, 398) n
"""


async def test_old_news_of_a_search_are_deleted_except_the_last_ones(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_runs, "_NEWS_KEPT", 5)
    async with database.open() as r:
        database.execute(NEWS)
        database.execute("delete from saved_news where search_id = 1 and number > 100")
        await tidied(r)
        seldom = database.query("select number from saved_news where search_id = 1 order by id")
        often = database.query("select min(number), max(number), count(*) from saved_news where search_id = 2")

    assert [number for (number,) in seldom] == [92, 94, 96, 98, 100]
    # Each second day of ninety.
    assert often == [(311, 397, 44)]


async def test_the_news_of_a_search_are_limited(database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_runs, "_NEWS_KEPT", 5)
    monkeypatch.setattr(store_runs, "_NEWS_MOST", 10)
    async with database.open() as r:
        database.execute(NEWS)
        await tidied(r)

    assert database.query("select search_id, count(*) from saved_news group by 1 order by 1") == [(1, 10), (2, 10)]
