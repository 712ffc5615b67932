"""Lists are read page by page, from a key on in the order of the list, whatever was added meanwhile."""

from collections.abc import Callable
from typing import Any

import pytest

from rowen import Complete, Failed, Fetched
from rowen.model.search import Query
from rowen.store import library, runs, sources
from rowen.store.search import search
from tests.conftest import ScratchDatabase
from tests.harvest.embedded import sync
from tests.portals.scripted import Scripted, page


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def test_runs_are_read_newest_first_page_by_page(database: ScratchDatabase) -> None:
    async with database.open() as r:
        made = [(await sync(r, Complete())).id for _ in range(5)]
        async with r._engine.database.connection() as c:
            first = await runs.recent(c, limit=2)
            await sync(r, Complete())
            second = await runs.recent(c, limit=2, after=first[-1].id)
            third = await runs.recent(c, limit=2, after=second[-1].id)
            none = await runs.recent(c, limit=2, after=third[-1].id)

    assert [run.id for run in (*first, *second, *third, *none)] == made[::-1]


async def test_sources_and_their_state_are_read_by_name_page_by_page(database: ScratchDatabase) -> None:
    async with database.open() as r, r._engine.database.connection() as c:
        for name in ("c", "a", "e", "b", "d"):
            await sources.add(c, name, kind="scripted", url=f"scripted:{name}", options={}, schedule=None)
        first = await sources.every(c, limit=2)
        rest = await sources.every(c, after=first[-1].name)
        states = await library.overview(c, after="b", limit=2)

    assert [source.name for source in first] == ["a", "b"]
    assert [source.name for source in rest] == ["c", "d", "e"]
    assert [state.name for state in states] == ["c", "d"]


async def test_the_quarantine_is_read_newest_first_page_by_page(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await sync(r, *(Failed(f"https://example.org/{n}", "no") for n in range(5)), Complete())
        await sync(r, *(Failed(f"https://example.org/{n}", "no") for n in (1, 3)), Complete())
        async with r._engine.database.connection() as c:
            whole = await library.quarantine_cases(c)
            pages: list[library.Case] = []
            while found := await library.quarantine_cases(c, limit=2, after=pages[-1].place if pages else None):
                pages += found

    assert len(whole) >= 2
    assert pages == whole


async def test_search_continues_where_a_page_ended(database: ScratchDatabase) -> None:
    texts = [f"Hay is cut in row {n}. " + "Hay! " * (n % 7) for n in range(45)]
    async with database.open(embedder="none") as r:
        await sync(r, *(Fetched(page(n, text)) for n, text in enumerate(texts)), Complete())
        async with r._engine.database.connection() as c:
            whole, _ = await search.search(c, Query(words=("hay",)), limit=45)
            found: list[search.RankedItem] = []
            while True:
                after = found[-1].place if found else None
                more, _ = await search.search(c, Query(words=("hay",)), limit=10, depth=45, after=after)
                found += more
                if not more:
                    break

    assert len(whole) == 45
    assert [one.item_id for one in found] == [one.item_id for one in whole]
