"""Cancelled runs beside others in one process: see `longlived`."""

import asyncio
from random import Random

from rowen.harvest import parse_pool
from tests.conftest import ScratchDatabase
from tests.portals.large import markup
from tests.portals.site import Page, Site, html
from tests.refresh.explore import script_of
from tests.refresh.longlived import LongLivedMachine

PAGES = 6
CANCELLED_RUNS = 12


def build(site: Site, name: str, version: int) -> None:
    """Pages that a parse worker reads, each of which says in its title and text which one it is."""
    links = tuple(f"/p{number}" for number in range(1, PAGES))
    for number in range(PAGES):
        title = f"{name} {number}"
        body = html(title, f"This is {title} in version {version}.", links=links if not number else ())
        menu = markup(Random(number), 4 * parse_pool.INLINE_BODY_BYTES).encode()
        site.pages[f"/p{number}" if number else "/"] = Page(body.replace(b"<main>", menu + b"<main>"))


async def test_twelve_cancelled_runs_beside_three_other_sites_leave_all_pages_right(database: ScratchDatabase) -> None:
    names = ["cancelled", "north", "south", "west"]
    sites = {name: Site() for name in names}
    chance = Random(12)
    try:
        async with database.open(workers=2) as r:
            for name, site in sites.items():
                build(site, name, 0)
                await r.sources.add(f"{site.url}/", name=name, options={"sitemap": False, "llms": False})
            for version in range(CANCELLED_RUNS):
                for name, site in sites.items():
                    build(site, name, version)
                runs = {name: asyncio.create_task(r.sync(name, full=True)) for name in names}
                while len(sites["cancelled"].log) < chance.randint(1, PAGES) and not runs["cancelled"].done():
                    await asyncio.sleep(0)
                for _ in range(chance.randrange(300)):
                    await asyncio.sleep(0)
                runs["cancelled"].cancel()
                await asyncio.wait(runs.values(), timeout=60)

                assert [runs[name].result().status for name in names[1:]] == ["completed"] * 3
                sites["cancelled"].log.clear()
                stored = database.query(
                    "select source.name, title, text from item join source on source.id = source_id"
                )
                for name, title, text in stored:
                    assert title.startswith(f"{name} "), (name, title)
                    assert f"This is {title} in version" in text, (name, title, text)
                assert sum(name != "cancelled" for name, _, _ in stored) == 3 * PAGES
            await r.sync("cancelled")
        after = database.query("select title, url from item")
    finally:
        for site in sites.values():
            site.close()

    assert len(after) == 4 * PAGES
    assert all(url.endswith(f"/p{title[-1]}" if title[-1] != "0" else "/") for title, url in after), after


def test_its_scripts_cancel_in_every_way() -> None:
    scripts = [script_of("long-lived", seed) for seed in range(200)]
    steps = [step for script in scripts for step in script.steps]

    assert {step.name for step in steps} == set(LongLivedMachine.draws)
    assert {step.arguments["way"] for step in steps if "way" in step.arguments} == {
        *("task", "run", "job", "worker", "stop")
    }
