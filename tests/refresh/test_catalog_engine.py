"""The engine of all catalogs under every harm at once, without a server and a database: many lives in a short time."""

import asyncio
import os
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rowen.errors import SourceError
from tests.portals.shelf import Catalog, Index, Shelf, expected

BROKEN = frozenset({"n1", "n3"})
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
        {"broken": BROKEN},
        {"counts": False},
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
    "broken": frozenset(),
    "counts": True,
}
STEP = st.tuples(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["put", "remove"]), st.sampled_from([0.1, 1, 30]))),
    HARM,
    st.sampled_from([1, 2, 3, 100]),
    st.one_of(st.none(), st.integers(1, 5)),
    st.booleans(),
)


@settings(max_examples=int(os.environ.get("ROWEN_TEST_EXAMPLES", "180")))
@given(steps=st.lists(STEP, max_size=8), rising=st.booleans())
def test_one_clean_run_leaves_what_a_first_one_would(steps: list[Any], rising: bool) -> None:
    asyncio.run(_live(steps, rising=rising))


async def _live(steps: list[Any], *, rising: bool) -> None:
    catalog, index = Catalog(), Index()
    catalog.put("always")
    for changes, harm, size, die_after, full in steps:
        for number, what, hours in changes:
            _change(catalog, f"n{number}", what, hours)
        for name, value in {**HEALED, **harm}.items():
            setattr(catalog, name, value)
        catalog.size = size
        before = set(index.items)
        with suppress(SourceError):
            await index.sync(Shelf(catalog, rising=rising), die_after=die_after, full=full)
        lost = {url for url in before - set(index.items) if url in expected(catalog)}
        assert not lost, (harm, lost)
    for name, value in HEALED.items():
        setattr(catalog, name, value)
    for name in BROKEN & set(catalog.dates):
        catalog.put(name, "Healed.")
    await index.sync(Shelf(catalog, rising=rising))
    assert index.items == expected(catalog)
    cursor = index.cursor
    await index.sync(Shelf(catalog, rising=rising))
    assert (index.cursor, index.items) == (cursor, expected(catalog))


def _change(catalog: Catalog, name: str, what: str, hours: float) -> None:
    match what:
        case "remove":
            catalog.dates.pop(name, None)
        case _:
            catalog.put(name, f"{what} at {catalog.clock}", hours=hours)
