"""What is cancelled leaves no mark on what goes on: sources of one engine share its parse workers and connections."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from rowen.harvest import parse_pool
from rowen.harvest.parse_worker import Task, Uncut
from rowen.model.items import Raw
from tests.conftest import ScratchDatabase
from tests.portals.site import Site

ROUNDS = 12
PAGES = 8
OTHERS = ("hay", "pollen", "quince")


@pytest.fixture
def sites() -> Iterator[dict[str, Site]]:
    made = {name: Site() for name in ("victim", *OTHERS)}
    yield made
    for site in made.values():
        site.close()


def write(name: str, site: Site, edition: int) -> None:
    """Write all pages anew. Each is long enough to be read by a worker, and says what no other page says."""
    for number in range(PAGES):
        words = f"{name} {number} edition {edition}. "
        links = tuple(f"/{other}" for other in range(1, PAGES)) if not number else ()
        site.put(f"/{number or ''}", f"{name} {number}", *[words * 40] * 10, links=links)


def expected(name: str, site: Site, edition: int) -> dict[str, tuple[str, str]]:
    return {
        f"{site.url}/{number or ''}": (f"{name} {number}", f"{name} {number} edition {edition}.")
        for number in range(PAGES)
    }


def contents(database: ScratchDatabase, site: Site, edition: int) -> dict[str, tuple[str, str]]:
    """Title and first sentence of each page as it is kept; its text has nothing else in it."""
    kept = database.query("select item.url, title, text from item where starts_with(item.url, %s)", f"{site.url}/")
    return {url: (title, _only_sentence(text)) for url, title, text in kept}


def _only_sentence(text: str) -> str:
    paragraphs = [line for line in text.splitlines() if "edition" in line]
    sentences = {f"{sentence.strip()}." for line in paragraphs for sentence in line.split(".") if sentence.strip()}
    return sentences.pop() if len(sentences) == 1 else f"several: {sorted(sentences)}"


async def test_twelve_cancelled_runs_of_one_site_leave_the_pages_of_three_others_right(
    database: ScratchDatabase, sites: dict[str, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = sites["victim"]
    asked = asyncio.Event()
    ask = parse_pool._Worker.ask

    async def noted(worker: parse_pool._Worker, batch: list[Task]) -> list[Any]:
        """Say when a worker is asked about a page of the site whose runs are cancelled."""
        raws = [task.raw if isinstance(task, Uncut) else task for task in batch]
        if any(isinstance(raw, Raw) and raw.url.startswith(victim.url) for raw in raws):
            asked.set()
        return await ask(worker, batch)

    monkeypatch.setattr(parse_pool._Worker, "ask", noted)
    async with database.open(workers=2, side_by_side=4) as r:
        for name, site in sites.items():
            await r.sources.add(f"{site.url}/", name=name, options={"sitemap": False, "llms": False})
        for edition in range(ROUNDS):
            for name, site in sites.items():
                write(name, site, edition)
            asked.clear()
            others = [asyncio.create_task(r.sync(name)) for name in OTHERS]
            cancelled = asyncio.create_task(r.sync("victim"))
            async with asyncio.timeout(120):
                await asked.wait()
                cancelled.cancel()
                [result] = await asyncio.gather(cancelled, return_exceptions=True)
                runs = await asyncio.gather(*others)

            assert isinstance(result, asyncio.CancelledError)
            assert [(run.status, run.stats.failed) for run in runs] == [("completed", 0)] * len(OTHERS)
            for name in OTHERS:
                assert contents(database, sites[name], edition) == expected(name, sites[name], edition), edition
        run = await r.sync("victim")

        assert run.status == "completed"
        assert contents(database, victim, edition) == expected("victim", victim, edition)
