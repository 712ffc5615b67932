"""Recorded event streams give the members that are known to be in them; runs where CORPUS names the folder.

The counts are those that another client is tested for. Its dump and its calendar are read like all others.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import House
from tests.portals.site import Page, Site

CORPUS = Path(os.environ.get("CORPUS") or "/nowhere")
pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="CORPUS names no folder of recorded answers")

ATYPICAL = ("2024-09-18T09:00:00Z", "2024-09-18T10:53:00Z")
BETWEEN = ("2024-09-26T09:00:00Z", "2024-09-26T10:25:00Z")


class Case(NamedTuple):
    """A stream, its window, and how many members and objects are in it."""

    stream: str
    members: int
    objects: int | None = None
    after: str | None = None
    before: str | None = None


CASES = {
    "all": Case("mock-ldes", 12, 6),
    "all, with odd relations": Case("mock-ldes-atypical", 12, 6),
    "all, in between": Case("mock-ldes-inbetween", 15, 3),
    "a linked list": Case("mock-ldes-linked-list", 9),
    "newest first": Case("mock-ldes-reverse", 12, 6),
    "a view that does not name its stream": Case("mock-ldes-minimal-view", 12),
    "a calendar": Case("mock-calendar-ldes", 6),
    "a dump": Case("ldes-dump", 4),
    "after the end": Case("mock-ldes", 0, 0, after="3024-01-01T00:00:00Z"),
    "after the end, odd": Case("mock-ldes-atypical", 0, 0, after="3024-01-01T00:00:00Z"),
    "after the end, in between": Case("mock-ldes-inbetween", 0, 0, after="3024-01-01T00:00:00Z"),
    "before the beginning, odd": Case("mock-ldes-atypical", 0, 0, before="1325-01-01T00:00:00Z"),
    "before the beginning": Case("mock-ldes-inbetween", 0, 0, before="1325-01-01T00:00:00Z"),
    "after a day": Case("mock-ldes-inbetween", 3, None, after="2024-10-01T00:00:00Z"),
    "after a day, calendar": Case("mock-calendar-ldes", 3, None, after="2025-01-02T00:00:00Z"),
    "a window": Case("mock-ldes", 3, 3, "2024-07-14T08:30:00Z", "2024-07-14T09:30:00Z"),
    "another window": Case("mock-ldes", 3, 3, "2024-07-14T09:00:00Z", "2024-07-14T10:30:00Z"),
    "a window, odd": Case("mock-ldes-atypical", 10, 6, *ATYPICAL),
    "a window, in between": Case("mock-ldes-inbetween", 7, 3, *BETWEEN),
    "a window in a dump": Case("ldes-dump", 2, None, "2024-08-22T05:56:57Z", "2024-08-22T07:56:57Z"),
}


@pytest.fixture
def site() -> Iterator[Site]:
    """The recorded pages, with their addresses on loopback; those that say so are immutable."""
    with closing(Site()) as site:
        for path in (CORPUS / "ldes" / "mock-ldes").iterdir():
            text = path.read_text("utf-8").replace("http://localhost:3000", site.url)
            headers = {"Content-Type": "text/turtle"}
            if text.startswith("# immutable"):
                headers["Cache-Control"] = "public, immutable"
            site.pages[f"/{path.name}"] = Page(text.encode(), headers=headers)
            site.pages[f"/{path.stem}"] = site.pages[f"/{path.name}"]
        yield site


@pytest.mark.parametrize("order", ["fast", "ascending"])
@pytest.mark.parametrize("name", CASES)
async def test_a_recorded_stream_gives_its_members(house: House, site: Site, name: str, order: str) -> None:
    case = CASES[name]
    window = {"after": case.after, "before": case.before}
    options = {"delay_s": 0, "order": order, **{name: at for name, at in window.items() if at}}
    async with house.open() as r:
        await r.add(f"ldes:{site.url}/{case.stream}.ttl", name="all", options={**options, "versions": "all"})
        await r.add(f"ldes:{site.url}/{case.stream}", name="latest", options=options)
        members, objects = await r.sync("all"), await r.sync("latest")
        again = await r.sync("all")

    assert members.status == "completed", members.error
    assert members.tally.created == case.members
    assert case.objects is None or objects.tally.created == case.objects
    assert (again.status, again.tally.created, again.tally.rows_written) == ("completed", 0, 0)
