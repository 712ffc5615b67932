"""A saved search tells what newly matches, and what no longer does: each once, and nothing that it knew."""

from collections.abc import Callable
from typing import Any

import pytest

from rowen import Complete, Fetched, NotFoundError, RefusedError, UsageError
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def _harvest(r: Any, texts: dict[int, str], *, name: str = "one") -> None:
    shows(*(Fetched(page(f"{name}/{n}", text)) for n, text in texts.items()), Complete())
    await r.sync(f"scripted:{name}", accept_deletions=True)


async def test_what_matches_when_it_is_saved_is_no_news(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, {1: "Barley and hay.", 2: "Oats."})

        made = await r.searches.save("barley", "barley")

        assert made.matches == 1
        assert await r.searches.news("barley") == []


async def test_what_newly_matches_and_what_no_longer_does_is_told_once(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, {1: "Barley and hay.", 2: "Oats.", 3: "Barley, too.", 4: "Oats."})
        await r.searches.save("barley", "barley hay OR barley")
        await _harvest(r, {1: "Barley and more hay.", 2: "Barley instead.", 4: "Oats."})
        first = await r.searches.news("barley")
        await _harvest(r, {1: "Wheat.", 2: "Barley instead.", 4: "Oats."})
        second = await r.searches.news("barley", after=first[-1].id)
        again = await r.searches.news("barley", after=second[-1].id)
        (saved,) = await r.searches.list()

    told = [(one.kind, one.url.rpartition("/")[2]) for one in first]
    assert sorted(told) == [("matches", "2"), ("no longer matches", "3")]
    assert [(one.kind, one.url.rpartition("/")[2]) for one in second] == [("no longer matches", "1")]
    assert again == []
    assert saved.matches == 1


async def test_a_saved_search_keeps_to_its_sources(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, {1: "Oats."})
        name = (await r.sources.list())[0].name
        await r.searches.save("barley", "barley", sources=[name])
        await _harvest(r, {1: "Barley."})
        await _harvest(r, {1: "Barley."}, name="two")

        news = await r.searches.news("barley")

    assert [one.source for one in news] == [name]


async def test_what_changed_and_changed_back_between_two_looks_is_no_news(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, {1: "Oats."})
        await r.searches.save("barley", "barley")
        await _harvest(r, {1: "Barley."})
        await _harvest(r, {1: "Oats."})

        assert await r.searches.news("barley") == []


async def test_names_are_used_once_and_words_are_needed(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await r.searches.save("barley", "barley")
        with pytest.raises(RefusedError):
            await r.searches.save("barley", "hay")
        with pytest.raises(UsageError):
            await r.searches.save("nothing", " … ")
        await r.searches.remove("barley")
        with pytest.raises(NotFoundError):
            await r.searches.news("barley")


async def test_so_many_searches_can_be_saved_and_no_more(database: ScratchDatabase) -> None:
    database.execute(
        "insert into saved_search (name, query, after) select 'search ' || n, 'hay', 0 from generate_series(1, 999) n"
    )
    async with database.open() as r:
        await r.searches.save("the last", "barley")
        with pytest.raises(RefusedError, match="1,000 searches are saved"):
            await r.searches.save("one more", "barley")
        await r.searches.remove("search 7")
        await r.searches.save("one more", "barley")
        saved = await r.searches.list()

    assert len(saved) == 1_000
