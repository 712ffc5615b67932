"""Lists and search go on where a page ended, by a cursor that fits the list and no other."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from rowen import Complete, Failed, Fetched, Page, UsageError
from rowen.operations.paging import as_number, as_score, as_text, decoded, encoded
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def _walked(read: Callable[..., Any], *, limit: int) -> list[Any]:
    """All pages of a list, one after the other."""
    found: list[Any] = []
    after = None
    while True:
        part = await read(limit=limit, after=after)
        assert len(part) <= limit
        found += part
        if (after := part.next) is None:
            return found


async def test_each_list_is_the_same_page_by_page(database: ScratchDatabase) -> None:
    async with database.open() as r:
        for number in range(7):
            shows(*(Failed(f"https://example.org/{number}/{n}", "No.") for n in range(3)), Complete())
            await r.sync(f"scripted:{number}")

        for read in (r.runs.list, r.items.quarantine):
            assert await _walked(read, limit=2) == list(await read(limit=100))
        # How stale they are grows while they are read.
        names = [source.name for source in await _walked(r.sources.list, limit=2)]
        assert names == [source.name for source in await r.sources.list(limit=100)]
        assert len(await r.items.quarantine(limit=100)) == 21


async def test_the_change_log_is_read_page_by_page(database: ScratchDatabase) -> None:
    async with database.open() as r:
        shows(*(Fetched(page(n)) for n in range(25)), Complete())
        await r.sync("scripted:one")

        assert [change.number for change in await _walked(r.changes, limit=10)] == list(range(1, 26))


async def test_search_goes_on_where_it_ended(database: ScratchDatabase) -> None:
    async with database.open() as r:
        shows(*(Fetched(page(n, f"Barley and hay, field {n}. " + "hay " * n)) for n in range(25)), Complete())
        await r.sync("scripted:one")
        whole = await r.search("hay", limit=25)

        async def read(*, limit: int, after: str | None) -> Any:
            return await r.search("hay", limit=limit, after=after)

        assert [hit.url for hit in await _walked(read, limit=10)] == [hit.url for hit in whole]
        assert whole.next is None


async def test_search_with_a_relative_date_goes_on_where_it_ended(database: ScratchDatabase) -> None:
    async with database.open() as r:
        shows(*(Fetched(page(n, "Hay.")) for n in range(5)), Complete())
        await r.sync("scripted:one")
        first = await r.search("hay", limit=3, since=timedelta(days=7))
        second = await r.search("hay", limit=3, since=timedelta(days=7), after=first.next)

        assert len({hit.url for hit in (*first, *second)}) == 5
        with pytest.raises(UsageError, match="another list"):
            await r.search("hay", limit=3, since=timedelta(days=8), after=first.next)


async def test_a_cursor_of_another_list_is_refused(database: ScratchDatabase) -> None:
    async with database.open() as r:
        shows(*(Fetched(page(n, "Hay.")) for n in range(5)), Complete())
        await r.sync("scripted:one")
        cursor = (await r.search("hay", limit=2)).next

        with pytest.raises(UsageError, match="another list"):
            await r.search("oats", limit=2, after=cursor)
        with pytest.raises(UsageError, match="another list"):
            await r.runs.list(after=cursor)


@pytest.mark.parametrize("text", ["", "x", "?!", "AAAA", "a" * 5000, "é"])
def test_what_is_no_cursor_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="cursor"):
        decoded(text, "runs")


def test_a_cursor_keeps_a_place_exactly() -> None:
    place = [0.1 + 0.2, 17, "näher"]

    assert decoded(encoded("list", place), "list", as_score, as_number, as_text) == place


def test_a_page_is_a_list() -> None:
    assert Page([1, 2], "next") == [1, 2]
