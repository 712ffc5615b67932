"""The engine of all catalogs under every harm at once, without a server and a database: many lives in a short time."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowen.connectors.catalog import changes
from rowen.errors import SourceError
from tests.portals.shelf import Catalog, Index, NamedCatalog, NamedShelf, Shelf, expected

Make = Callable[[Any], Shelf]

BROKEN = frozenset({"n1", "n3"})
HARM: list[dict[str, Any]] = [
    {},
    {"miscount": 1},
    {"miscount": -1},
    {"miscount": 40},
    {"ignores_filter": True},
    {"empty_when_filtered": True},
    {"repeats": True},
    {"rewinds": True},
    {"lists_nothing": True},
    {"doubt_at": 5},
    {"expired": True},
    {"twice": ["always"]},
    {"broken": BROKEN},
]
HARM_OF = {"by number": [*HARM, {"counts": False}], "by name": [*HARM, {"forgets": 1}, {"nameless": {"n5"}}]}
HEALED: dict[str, Any] = {
    "miscount": 0,
    "ignores_filter": False,
    "empty_when_filtered": False,
    "repeats": False,
    "rewinds": False,
    "lists_nothing": False,
    "doubt_at": None,
    "expired": False,
    "twice": [],
    "broken": frozenset(),
    "counts": True,
    "forgets": 0,
    "nameless": set(),
}
CHANGE = st.tuples(st.integers(0, 9), st.sampled_from(["put", "remove"]), st.sampled_from([0, 0.1, 1, 30]))
EXAMPLES = int(os.environ.get("ROWEN_TEST_EXAMPLES", "120"))


def steps(listed: str) -> st.SearchStrategy[list[Any]]:
    """Changes, a harm, the size of pages, after how many checkpoints the run is killed, whether it is a full one."""
    died = st.one_of(st.none(), st.integers(1, 5))
    step = st.tuples(
        st.lists(CHANGE), st.sampled_from(HARM_OF[listed]), st.sampled_from([1, 2, 3, 100]), died, st.booleans()
    )
    return st.lists(step, max_size=8)


@pytest.mark.parametrize("crowd", [100, 0])
@pytest.mark.parametrize("listed", HARM_OF)
@settings(max_examples=EXAMPLES)
@given(data=st.data(), rising=st.booleans())
def test_one_clean_run_leaves_what_a_first_one_would(
    listed: str, crowd: int, data: st.DataObject, rising: bool
) -> None:
    """A crowd of 0 has every overlap counted."""
    lived = data.draw(steps(listed))
    with patch.object(changes, "_CROWD", crowd):
        if listed == "by name":
            asyncio.run(_live(NamedCatalog(), NamedShelf, lived))
        else:
            asyncio.run(_live(Catalog(), lambda catalog: Shelf(catalog, rising=rising), lived))


async def _live(catalog: Any, shelf: Make, lived: list[Any]) -> None:
    """The life of a catalog and its index: changes, harm, killed runs; in the end all is well."""
    index = Index()
    catalog.put("always")
    for edits, harm, size, die_after, full in lived:
        for number, what, hours in edits:
            _change(catalog, f"n{number}", what, hours)
        _become(catalog, harm)
        catalog.size = size
        before = set(index.items)
        with suppress(SourceError):
            await index.sync(shelf(catalog), die_after=die_after, full=full)
        lost = {url for url in before - set(index.items) if url in expected(catalog)}
        assert not lost or "nameless" in harm, (harm, lost)
    _become(catalog, {})
    if "n5" in catalog.dates:
        # Nobody can ask for a record without a name: that it has one again shows by its date.
        catalog.put("n5", "Named.")
    await index.sync(shelf(catalog))
    assert index.items == expected(catalog)
    if index.cursor.get("filters") is False:
        # So many runs went by that the filter, which is healed, is tried again.
        index.cursor["waited"] = 1 << 20
        await index.sync(shelf(catalog))
        assert index.cursor["filters"] is True
    cursor = index.cursor
    await index.sync(shelf(catalog))
    assert (index.cursor, index.items) == (cursor, expected(catalog))


def _become(catalog: Any, harm: dict[str, Any]) -> None:
    for name, value in {**HEALED, **harm}.items():
        setattr(catalog, name, value)


def _change(catalog: Catalog, name: str, what: str, hours: float) -> None:
    match what:
        case "remove":
            catalog.dates.pop(name, None)
        case _:
            catalog.put(name, f"{what} at {catalog.clock}", hours=hours)
