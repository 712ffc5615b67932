"""Pokes: what is named is looked at first, by itself where that is possible, and several pokes are one job."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rowen import Complete, Fetched, NotFoundError, RefusedError
from rowen.jobs import push
from tests.conftest import ScratchDatabase
from tests.logical import contents
from tests.portals.scripted import Scripted, page, shows
from tests.portals.site import Page, Site, keep


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.grow(13)
    yield site
    site.close()


def jobs_of(database: ScratchDatabase) -> list[tuple[Any, ...]]:
    return database.query("select priority, args - 'source_id', status::text from procrastinate_jobs order by id")


async def test_a_page_that_is_held_is_looked_at_by_itself(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.put("/p3", "Page 3", "Something else.")
        [poked] = await r.push.poke(f"{site.url}/p3")
        waiting = jobs_of(database)
        await r.queue.work(until_idle=True)
        [run] = await r.runs.list("site", limit=1)

    assert (poked.source, poked.urls, poked.merged) == ("site", 1, False)
    assert waiting == [(20, {"only": [f"{site.url}/p3"], "widen": True}, "todo")]
    assert (run.job, run.stats.only, run.stats.updated) == (poked.job, 1, 1)
    assert site.asked() == ["/p3"]


async def test_pokes_of_one_source_become_one_job_and_too_many_a_look_at_all(
    database: ScratchDatabase, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "MOST_POKED", 3)
    async with database.open() as r:
        await keep(r, site)
        first = await r.push.poke(f"{site.url}/p1", f"{site.url}/p2")
        again = await r.push.poke(f"{site.url}/p2", f"{site.url}/p3")
        [(_, three, _)] = jobs_of(database)
        beyond = await r.push.poke(f"{site.url}/p4")
        later = await r.push.poke(f"{site.url}/p5")

    assert [one.job for one in (*first, *again, *beyond, *later)] == [first[0].job] * 4
    assert three["only"] == [f"{site.url}/p{number}" for number in (1, 2, 3)]
    assert [one.urls for one in (*again, *beyond, *later)] == [3, 0, 0]
    assert jobs_of(database) == [(20, {}, "todo")]


async def test_who_asks_for_the_whole_source_widens_the_poke_that_waits(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await keep(r, site)
        await r.push.poke(f"{site.url}/p1")
        await r.queue.enqueue("site", full=True)

    assert jobs_of(database) == [(20, {"full": True}, "todo")]


async def test_a_poke_makes_the_whole_of_a_look_at_the_pages_that_are_worth_it(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        await r.queue.enqueue("site")
        database.execute("update procrastinate_jobs set args = args || '{\"revisit\": true}'")
        await r.push.poke(f"{site.url}/p1")

    assert jobs_of(database) == [(20, {}, "todo")]


async def test_a_page_that_is_new_has_its_site_looked_at_and_one_elsewhere_none(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.put("/p12", "Page 12", links=("/fresh",))
        site.put("/fresh", "Fresh", "New words.")
        [poked] = await r.push.poke(f"{site.url}/fresh")
        await r.queue.work(until_idle=True)
        with pytest.raises(NotFoundError, match="belongs to no source"):
            await r.push.poke("https://elsewhere.example/")

    assert poked.urls == 0
    assert f"{site.url}/fresh" in contents(database)


async def test_what_cannot_be_judged_by_itself_is_followed_by_a_look_at_all(
    database: ScratchDatabase, site: Site
) -> None:
    async with database.open() as r:
        await keep(r, site)
        site.pages["/p12"] = Page(b"", status=301, headers={"Location": "/p11"})
        await r.push.poke(f"{site.url}/p12")
        await r.queue.work(until_idle=True)
        runs = await r.runs.list("site", limit=2)

    assert [(run.stats.only, run.complete) for run in runs] == [(0, True), (1, False)]
    assert f"{site.url}/p12" not in contents(database)


async def test_kinds_that_cannot_look_at_one_item_look_at_all(
    database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    kinds(Scripted)
    shows(Fetched(page(1)), Complete())
    async with database.open() as r:
        await r.sync("scripted:one")
        [source] = await r.sources.list()
        by_url = await r.push.poke(page(1).url)
        by_name = await r.push.poke(source.name)
        await r.sources.pause(source.name)
        with pytest.raises(RefusedError, match="Paused"):
            await r.push.poke(source.name)

    assert [(one.urls, one.merged) for one in (*by_url, *by_name)] == [(0, False), (0, True)]


async def test_a_narrow_look_leaves_the_due_time_of_its_source_alone(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await keep(r, site)
        await r.sources.edit("site", every="1d")
        database.execute("update source_due set due_at = now() + interval '1 hour', failures = 2")
        before = database.query("select * from source_due")
        await r.push.poke(f"{site.url}/p1")
        await r.queue.work(until_idle=True)

    assert database.query("select * from source_due") == before
