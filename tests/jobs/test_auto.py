"""`every auto`: what changes daily is looked at daily, what never does hardly, and large sites page by page."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from random import Random
from typing import Any

import pytest

import rowen
from rowen import Complete, Fetched
from rowen.jobs.freshness import outlook
from rowen.jobs.ticks import tick
from rowen.jobs.worker import TASKS
from rowen.model.schedules import Schedule
from rowen.operations import sources as source_operations
from tests.conftest import ScratchDatabase
from tests.logical import index_of
from tests.portals.scripted import Scripted, page, shows
from tests.portals.site import Site, keep, links_of

DAY_S = 86_400.0


def later(database: ScratchDatabase, days: float = 1.0) -> None:
    """Let time pass: all that was written happened longer ago."""
    past = f"- interval '{days * DAY_S} seconds'"
    database.execute(f"update run set started_at = started_at {past}, finished_at = finished_at {past}")
    database.execute(f"update source_freshness set looked_at = looked_at {past}")
    database.execute(f"update item_change_rate set looked_at = looked_at {past}")
    database.execute(f"update item set created_at = created_at {past}, updated_at = updated_at {past}")
    database.execute(f"update change set at = at {past}")
    database.execute(f"update refresh_price set at = at {past}")
    database.execute(f"update source_due set due_at = due_at {past}")


def schedule(database: ScratchDatabase, text: str = "every auto") -> None:
    database.execute(f"update source set schedule = '{text}'")


def waits(database: ScratchDatabase) -> dict[str, float]:
    """In how many days each source is due."""
    rows = database.query(
        "select name, extract(epoch from due_at - now())::float8 / 86400"
        " from source_due join source on source.id = source_id"
    )
    return dict(rows)


async def days_pass(database: ScratchDatabase, r: rowen.Rowen, number: int, *, changes: dict[str, int]) -> None:
    """Look at sources of twenty pages every day; so many pages of each have changed each time."""
    for day in range(number):
        for name, changed in changes.items():
            texts = [f"Day {day}." if place < changed else "Always the same." for place in range(20)]
            shows(*(Fetched(page(f"{name}{place}", text)) for place, text in enumerate(texts)), Complete())
            await r.sync(name)
        later(database)


async def test_a_daily_changing_source_is_due_long_before_a_static_one(
    database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    kinds(Scripted)
    async with database.open() as r:
        for name in ("busy", "calm"):
            await r.sources.add(f"scripted:{name}", name=name)
        schedule(database)
        await days_pass(database, r, 12, changes={"busy": 10, "calm": 0})
        checks = database.query("select item_id, checked_at from item_check order by 1")
        await days_pass(database, r, 1, changes={"busy": 0, "calm": 0})
        found = waits(database)

    busy, calm = found["busy"] + 1, found["calm"] + 1
    assert busy < 0.2 < calm <= 7.7
    assert calm > 4 * busy
    assert checks == database.query("select item_id, checked_at from item_check order by 1")
    assert database.query("select count(*) from item_change_rate") == [(0,)]


async def test_limits_and_the_requests_of_a_day_hold(database: ScratchDatabase, kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)
    async with database.open(refresh_requests_per_day=1) as r:
        for name in ("a", "b", "c", "d"):
            await r.sources.add(f"scripted:{name}", name=name)
        schedule(database, "every auto between 1h and 1d")
        database.execute("update source set schedule = 'every auto between 3d and 4d' where name = 'd'")
        await days_pass(database, r, 4, changes={"a": 10, "b": 10, "c": 10, "d": 10})
        await days_pass(database, r, 1, changes={"a": 10, "b": 10, "c": 10, "d": 10})
        found = {name: days + 1 for name, days in waits(database).items()}

    # One look a day, where their longest intervals would make it three and a quarter: all wait that much longer.
    assert [found[name] for name in "abcd"] == pytest.approx([3.25, 3.25, 3.25, 13], rel=0.1)


async def test_a_window_holds_for_auto_too(database: ScratchDatabase, kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)
    async with database.open() as r:
        await r.sources.add("scripted:a", name="a")
        schedule(database, "every auto during mon 03:00-04:00")
        await days_pass(database, r, 2, changes={"a": 10})

    [(due_at,)] = database.query("select (due_at + interval '1 day') at time zone 'UTC' from source_due")
    assert (due_at.weekday(), due_at.hour) == (0, 3)


async def test_status_shows_the_expected_share_of_stale_items(
    database: ScratchDatabase, kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds(Scripted)
    # Weeks pass here within a second.
    monkeypatch.setattr(source_operations, "_STALE_FOR", timedelta(0))
    async with database.open() as r:
        for name in ("busy", "calm", "new"):
            await r.sources.add(f"scripted:{name}", name=name)
        await days_pass(database, r, 10, changes={"busy": 10, "calm": 0})
        after_a_day = {one.name: one.stale for one in await r.sources.overview()}
        later(database, 20)
        after_three_weeks = {one.name: one.stale for one in await r.sources.overview()}
        shown = (await r.sources.get("busy")).stale

    assert after_a_day["busy"] == pytest.approx(0.5, abs=0.1)
    assert after_a_day["calm"] == pytest.approx(0, abs=0.02)
    assert after_three_weeks["busy"] == pytest.approx(0.9, abs=0.1)
    assert after_three_weeks["busy"] == pytest.approx(shown, abs=0.01)
    assert after_a_day["new"] is None


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.grow(60)
    yield site
    site.close()


VOLATILE = ["/p3", "/p40"]


def edit(site: Site, paths: list[str], words: object) -> None:
    for path in paths:
        number = int(path[2:])
        site.put(path, f"Page {number}", f"Fresh words: {words}.", links=links_of(number, 60))


async def watched(database: ScratchDatabase, r: rowen.Rowen, site: Site) -> None:
    """Walk a site for a week, of which two pages change every day."""
    await keep(r, site)
    schedule(database)
    for day in range(7):
        later(database)
        edit(site, VOLATILE, day)
        await r.sync("site")
    site.log.clear()


def rates(database: ScratchDatabase) -> list[tuple[str, float]]:
    """The pages that have rates of their own, and how often each is thought to change in a day."""
    return database.query(  # type: ignore[return-value]
        "select url, shape / span_s * 86400 from item_change_rate join item on item.id = item_id"
        " order by length(url), url"
    )


async def work_when_due(database: ScratchDatabase, r: rowen.Rowen) -> None:
    """Let a worker do what is due, the source among it."""
    database.execute("update source_due set due_at = now()")
    await r.queue.work(until_idle=True)


async def test_changing_pages_of_a_large_site_are_checked_between_two_walks(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await watched(database, r, site)
        due_in = waits(database)["site"]
        later(database, 0.4)
        edit(site, ["/p3", "/p50"], "between two walks")
        before = rates(database)
        written = database.query("select count(*) from item_check where checked_at > now() - interval '1 minute'")
        await work_when_due(database, r)
        [run, *_] = await r.runs.list("site")
        after = rates(database)

    assert 0.005 < due_in < 0.4
    assert sorted(site.asked()) == VOLATILE
    assert (run.mode, run.status, run.complete) == ("incremental", "completed", False)
    assert (run.stats.only, run.stats.updated, run.stats.unchanged, run.stats.deleted) == (2, 1, 1, 0)
    # /p50 waits for the next walk, which is due within a week.
    assert [url.removeprefix(site.url) for url, _ in after] == VOLATILE
    # The look found the one changed and the other not, since half a day.
    assert after[0][1] > before[0][1]
    assert after[1][1] < before[1][1]
    assert 0 < waits(database)["site"] < 0.4
    assert written == database.query("select count(*) from item_check where checked_at > now() - interval '1 minute'")


async def test_after_checks_of_single_pages_a_walk_equals_a_rebuild(
    database: ScratchDatabase, site: Site, new_database: Callable[[], ScratchDatabase]
) -> None:
    rebuilt = new_database()
    async with database.open() as r, rebuilt.open() as other:
        await watched(database, r, site)
        for look in range(3):
            later(database, 0.4)
            edit(site, ["/p3", "/p40", "/p50"], f"look {look}")
            if look == 1:
                del site.pages["/p40"]
            await work_when_due(database, r)
        gone = database.query("select count(*) from item where url like '%/p40'")
        later(database, 30)
        site.log.clear()
        await work_when_due(database, r)
        walked = site.asked()
        await keep(other, site)

    assert gone == [(0,)]
    assert len(walked) >= 60
    assert index_of(database) == index_of(rebuilt)


async def test_a_requested_sync_is_a_walk_even_if_only_some_pages_were_due(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await watched(database, r, site)
        later(database, 0.4)
        database.execute("update source_due set due_at = now()")
        async with r._engine.database.connection() as c:
            await tick(r._engine, c, tasks=TASKS, random=Random(1))
        [waiting] = await r.queue.list("site")
        await r.queue.enqueue("site")
        await r.queue.work(until_idle=True)

    assert waiting.arguments["revisit"] is True
    assert len(site.asked()) >= 60


async def test_when_the_requests_of_a_day_are_used_up_sources_wait(database: ScratchDatabase, site: Site) -> None:
    async with database.open(refresh_requests_per_day=100) as r:
        await watched(database, r, site)
        database.execute("""update run set tally = tally || '{"requests": 100}', started_at = now() - interval '1 hour'
                          where id = (select max(id) from run)""")
        await work_when_due(database, r)
        idle = site.asked()
        wait_s = waits(database)["site"] * DAY_S
        later(database)
        await work_when_due(database, r)

    assert idle == []
    assert timedelta(minutes=12) < timedelta(seconds=wait_s) < timedelta(minutes=18)
    assert site.asked() != []


MANY = """
with made as (insert into source (name, kind, url, schedule, state)
    select 'many' || n, 'scripted', 'scripted:many' || n, 'every auto', 'active' from generate_series(1, 200) n
    returning id, substr(name, 5)::integer as number),
known as (insert into source_freshness (source_id, looked_at, shape, span_s, items, requests)
    select id, now() - interval '6 days', 1, 86400.0 * 2 * number, 20, 10 from made),
due as (insert into source_due (source_id, due_at) select id, now() - interval '1 minute' from made)
select 1
"""


async def test_two_hundred_sources_share_the_requests_of_a_day_by_one_price(
    database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    kinds(Scripted)
    async with database.open(refresh_requests_per_day=400) as r:
        database.execute(MANY)
        async with r._engine.database.connection() as c:
            await tick(r._engine, c, tasks=TASKS, random=Random(1))
            reckoned = database.query("select price_s, stretch, at from refresh_price")
            ids = database.query("select id from source order by substr(name, 5)::integer")
            every = Schedule.parse("every auto")
            known = [await outlook(c, r._engine.settings, source_id, every) for (source_id,) in ids]
        intervals_s = [one.walk_s for one in known if one is not None]

    assert database.query("select count(*) from procrastinate_jobs") == [(160,)]
    assert database.query("select price_s, stretch, at from refresh_price") == reckoned
    assert len(intervals_s) == 200
    # Ten requests a look: the budget is used, and not exceeded.
    assert 380 < sum(10 * DAY_S / interval_s for interval_s in intervals_s) <= 400
    # What changes daily is looked at more often than what does so once in a year, and nobody is left out.
    assert intervals_s[0] * 2 < intervals_s[182] <= max(intervals_s) <= 7 * DAY_S
