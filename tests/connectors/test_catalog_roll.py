"""The engine behind catalogs whose identifiers can be listed alone: what names prove, and what they do not."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowen.connectors.catalog.listing import Names, Row
from rowen.errors import SourceError
from rowen.model.item import Complete, Failed, Incomplete
from tests.portals.shelf import Catalog, Index, KnownIndex, Shelf, expected, url_of


@dataclass
class NamedCatalog(Catalog):
    """A catalog that lists its records by name, and can list the names alone."""

    nameless: set[str] = field(default_factory=set)
    hides: set[str] = field(default_factory=set)
    forgets: int = 0

    def found(self, since: datetime | None) -> list[str]:
        return sorted(name for name in super().found(since) if name not in self.hides)


class NamedShelf(Shelf):
    """Its listing, with a roll call."""

    def __init__(self, catalog: NamedCatalog, **how: Any) -> None:
        super().__init__(catalog, rising=False, **how)
        self.roll = self
        self._named = catalog

    async def names(self) -> AsyncGenerator[Names]:
        catalog = self._named
        names = [] if catalog.lists_nothing else sorted([*catalog.dates, *catalog.twice])
        told = names[: len(names) - catalog.forgets]
        for start in range(0, len(told) or 1, 3 * catalog.size):
            catalog.asked.append("names")
            page = told[start : start + 3 * catalog.size]
            urls = [None if name in catalog.nameless else url_of(name) for name in page]
            yield Names(urls, len(names) + catalog.miscount)

    async def record(self, url: str) -> Row:
        self._named.asked.append("record")
        return self._row(url.rpartition("/")[2])

    def _row(self, name: str) -> Row:
        if name in self._named.nameless:
            return Row(Failed(f"https://catalog.example/#/unread/{name}", "no object"), named=False)
        return super()._row(name)


@pytest.fixture
def catalog() -> NamedCatalog:
    catalog = NamedCatalog()
    catalog.fill(35)
    return catalog


@pytest.fixture
def index() -> Index:
    return Index()


async def test_a_deletion_shows_in_the_count_and_is_proved_by_names(catalog: NamedCatalog, index: Index) -> None:
    await index.sync(NamedShelf(catalog))
    del catalog.dates["n003"]
    catalog.asked.clear()
    await index.sync(NamedShelf(catalog))

    assert catalog.asked == ["since", "count", "names", "names"]
    assert (index.ending, index.deleted) == (Complete(expected=34), {url_of("n003")})


async def test_an_item_that_comes_back_with_its_old_date_is_read_by_its_name(
    catalog: NamedCatalog, index: Index
) -> None:
    await index.sync(NamedShelf(catalog))
    at = catalog.dates.pop("n003")
    await index.sync(NamedShelf(catalog))
    catalog.dates["n003"] = at
    catalog.asked.clear()
    await index.sync(NamedShelf(catalog))

    assert catalog.asked == ["since", "count", "names", "names", "record"]
    assert index.items == expected(catalog)


async def test_records_that_are_no_items_are_not_asked_for_in_every_roll_call(
    catalog: NamedCatalog, index: Index
) -> None:
    catalog.gone, catalog.broken = {"n001", "n002"}, frozenset({"n005"})
    await index.sync(NamedShelf(catalog))
    del catalog.dates["n003"]
    catalog.asked.clear()
    await index.sync(NamedShelf(catalog))

    assert catalog.asked == ["since", "count", "names", "names"]
    assert index.deleted == {url_of("n003")}


async def test_a_record_that_stops_being_an_item_costs_no_roll_call(catalog: NamedCatalog, index: Index) -> None:
    await index.sync(NamedShelf(catalog))
    catalog.put("n003")
    catalog.gone.add("n003")
    catalog.asked.clear()
    await index.sync(NamedShelf(catalog))

    assert catalog.asked == ["since", "count"]
    assert index.items == expected(catalog)


@pytest.mark.parametrize("ignores_filter", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
async def test_an_edit_before_the_place_of_an_interrupted_walk_is_read(
    catalog: NamedCatalog, index: Index, ignores_filter: bool, is_first: bool
) -> None:
    catalog.ignores_filter = ignores_filter
    if not is_first:
        await index.sync(NamedShelf(catalog))
        index.now += timedelta(days=8)
    await index.sync(NamedShelf(catalog), die_after=2)
    catalog.put("n001", "Edited.", hours=0.1)
    del catalog.dates["n002"]
    catalog.asked.clear()
    await index.sync(NamedShelf(catalog))

    assert isinstance(index.ending, Complete)
    assert index.items == expected(catalog)
    # In a first walk, all that is known is that nothing was edited before the newest date of its first page.
    is_proved = not ignores_filter and not is_first
    assert ("names" in catalog.asked) == is_proved
    assert catalog.asked.count("page") <= (3 if is_proved else 5)


async def test_names_prove_nothing_where_a_filter_begins_to_lie(catalog: NamedCatalog, index: Index) -> None:
    await index.sync(NamedShelf(catalog))
    index.now += timedelta(days=8)
    await index.sync(NamedShelf(catalog), die_after=2)
    catalog.words["n001"] = "Edited in silence."
    catalog.empty_when_filtered = True
    await index.sync(NamedShelf(catalog))

    assert index.items == expected(catalog)


async def test_a_record_that_slipped_past_a_walk_is_read_and_not_only_named(
    catalog: NamedCatalog, index: Index
) -> None:
    await index.sync(NamedShelf(catalog))
    catalog.words["n001"] = "Edited in silence."
    catalog.hides, catalog.miscount = {"n001"}, 1

    def show() -> None:
        catalog.miscount = 0
        catalog.hides = set()

    catalog.after_page = lambda following: show() if following == 34 else None
    await index.sync(NamedShelf(catalog), full=True)

    assert isinstance(index.ending, Complete)
    assert index.items == expected(catalog)


async def test_a_roll_call_that_falls_short_deletes_nothing(catalog: NamedCatalog, index: Index) -> None:
    await index.sync(NamedShelf(catalog))
    del catalog.dates["n003"]
    catalog.forgets = 1
    await index.sync(NamedShelf(catalog))

    assert isinstance(index.ending, Incomplete)
    assert "declares 34 records, but it lists 33" in index.ending.why
    assert len(index.items) == 35


async def test_a_name_that_was_lost_deletes_nothing_at_once(catalog: NamedCatalog, index: Index) -> None:
    await index.sync(NamedShelf(catalog))
    del catalog.dates["n003"]
    catalog.nameless.add("n005")
    await index.sync(NamedShelf(catalog))

    assert index.fell_back
    assert isinstance(index.ending, Incomplete)
    assert len(index.items) == 35


async def test_a_list_of_changes_that_was_interrupted_is_resumed(catalog: NamedCatalog, index: Index) -> None:
    await index.sync(NamedShelf(catalog))
    for number in range(30):
        catalog.put(f"n{number:03}", "Edited.")
    await index.sync(NamedShelf(catalog), die_after=2)
    catalog.put("n001", "Edited again.", hours=0.1)
    catalog.asked.clear()
    await index.sync(NamedShelf(catalog))

    assert catalog.asked[0] == "since"
    assert "page" not in catalog.asked
    assert index.items == expected(catalog)


async def test_a_list_of_changes_that_was_interrupted_is_not_resumed_where_a_walk_is_wanted(
    catalog: NamedCatalog, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    await index.sync(NamedShelf(catalog))
    catalog.words["n034"] = "Edited in silence."
    for number in range(30):
        catalog.put(f"n{number:03}", "Edited.")
    await index.sync(NamedShelf(catalog), die_after=2)
    monkeypatch.setattr(KnownIndex, "unsettled", True)
    await index.sync(NamedShelf(catalog))

    assert index.items == expected(catalog)


HARM = st.sampled_from(
    [
        {},
        {"miscount": 1},
        {"miscount": -1},
        {"miscount": 40},
        {"ignores_filter": True},
        {"empty_when_filtered": True},
        {"repeats": True},
        {"lists_nothing": True},
        {"doubt_at": 5},
        {"expired": True},
        {"twice": ["always"]},
        {"forgets": 1},
        {"nameless": {"n1"}},
        {"broken": frozenset({"n1", "n3"})},
    ]
)
HEALED: dict[str, Any] = {
    "miscount": 0,
    "ignores_filter": False,
    "empty_when_filtered": False,
    "repeats": False,
    "lists_nothing": False,
    "doubt_at": None,
    "expired": False,
    "twice": [],
    "forgets": 0,
    "nameless": set(),
    "broken": frozenset(),
}
STEP = st.tuples(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["put", "remove"]), st.sampled_from([0, 0.1, 1, 30]))),
    HARM,
    st.sampled_from([1, 2, 3, 100]),
    st.one_of(st.none(), st.integers(1, 5)),
    st.booleans(),
)


@settings(
    derandomize="ROWEN_TEST_EXAMPLES" not in os.environ,
    max_examples=int(os.environ.get("ROWEN_TEST_EXAMPLES", "12")) * 15,
    deadline=None,
    database=None,
)
@given(steps=st.lists(STEP, max_size=8))
def test_one_clean_run_leaves_what_a_first_one_would(steps: list[Any]) -> None:
    asyncio.run(live(steps))


async def live(steps: list[Any]) -> None:
    """The life of a catalog and its index: changes, harm, killed runs; in the end all is well."""
    catalog, index = NamedCatalog(), Index()
    catalog.put("always")
    for changes, harm, size, die_after, full in steps:
        for number, what, hours in changes:
            _change(catalog, f"n{number}", what, hours)
        for name, value in {**HEALED, **harm}.items():
            setattr(catalog, name, value)
        catalog.size = size
        before = set(index.items)
        with suppress(SourceError):
            await index.sync(NamedShelf(catalog), die_after=die_after, full=full)
        lost = {url for url in before - set(index.items) if url in expected(catalog)}
        assert not lost or "nameless" in harm, (harm, lost)
    for name, value in HEALED.items():
        setattr(catalog, name, value)
    for name in {"n1", "n3"} & set(catalog.dates):
        catalog.put(name, "Healed.")
    await index.sync(NamedShelf(catalog))
    assert index.items == expected(catalog)
    cursor = index.cursor
    await index.sync(NamedShelf(catalog))
    assert (index.cursor, index.items) == (cursor, expected(catalog))


def _change(catalog: NamedCatalog, name: str, what: str, hours: float) -> None:
    match what:
        case "remove":
            catalog.dates.pop(name, None)
        case _:
            catalog.put(name, f"{what} at {catalog.clock}", hours=hours)
