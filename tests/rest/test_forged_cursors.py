"""A cursor is written by whoever likes: what does not fit its list is a mistake of the caller, never of the server."""

import json
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from rowen import Complete, Failed, Fetched
from rowen.interfaces.web.routing import PAGES
from rowen.operations import paging
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows
from tests.server.interfaces import interface

_NAMES = ("\ud800", "2026-01-01T00:00:00+00:00", "2026-01-01", "9999-12-31T23:59:59-23:59")
_PARTS: list[Any] = [None, True, -1, 2**63, 1.5, "x", "\x00", []]
_VALUES: list[Any] = [
    *(*_PARTS, 7, 10**400, 1e308, float("nan"), float("inf")),
    *(*_NAMES, {}, [["x"]], "a" * 2900, "ab" * 32, "zz" * 32),
]


def _places() -> Iterator[list[Any]]:
    """Places with up to three parts: each value alone, and in each part of a place that would be right."""
    yield []
    for value in _VALUES:
        yield [value]
    for right in ([0.5, 7], ["docs", "x"], ["2026-01-01T00:00:00+00:00", "x", "docs"], ["product", "docs", "x"]):
        for at, value in product(range(len(right)), _PARTS):
            yield [*right[:at], value, *right[at + 1 :]]


@pytest.fixture
def forged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Cursors that each list takes for its own."""
    monkeypatch.setattr(paging, "_digest", lambda _: b"list")
    monkeypatch.setattr(paging, "canonical_json", lambda value: json.dumps(value).encode())
    return [cursor for place in _places() if len(cursor := paging.encoded("any", place)) <= 4000]


async def test_no_list_takes_a_forged_cursor_for_an_error_of_the_server(
    database: ScratchDatabase, kinds: Callable[[Any], None], forged: list[str]
) -> None:
    kinds(Scripted)
    shows(*(Fetched(page(n, "Dry hay.")) for n in range(3)), Failed("https://example.org/9", "No."), Complete())
    wrong: dict[str, tuple[str, int, str]] = {}
    async with interface(database) as it:
        await it.rowen.sources.add("scripted:docs", name="docs")
        await it.rowen.sync("docs")
        await it.rowen.searches.save("hay", "hay")
        lists = list(_lists(it.interfaces.inner.openapi()))
        # The pages ask the same lists.
        asked = [*product(lists, forged), *product(map(_filled, PAGES), forged[::9])]
        for path, cursor in asked:
            answer = await it.http.get(path, params={"after": cursor, "q": "hay"})
            if answer.status_code not in (200, 400, 404) or "he database" in answer.text:
                wrong[path] = (cursor, answer.status_code, answer.text[:300])

    assert wrong == {}
    assert len(lists) > 10


def _lists(document: dict[str, Any]) -> Iterator[str]:
    """The routes that take a cursor."""
    for path, methods in document["paths"].items():
        if any(one["name"] == "after" for one in methods.get("get", {}).get("parameters", ())):
            yield _filled(path)


def _filled(path: str) -> str:
    return path.replace("{name}", "docs").replace("{number:int}", "1")
