"""Recorded event streams give the members that are known to be in them.

The counts are those that another client is tested for. Its dump and its calendar are read like all others.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from ipaddress import ip_network
from pathlib import Path
from typing import NamedTuple

import pytest

from rowen.connectors.ldes.page import StreamBody, contexts_of, read_entry, read_page
from rowen.errors import SourceError
from rowen.settings import Settings
from tests.conftest import ScratchDatabase
from tests.corpus import CORPUS, needs
from tests.portals.follower import Follower
from tests.portals.site import Page, Site

pytestmark = needs(CORPUS)

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
async def test_a_recorded_stream_gives_its_members(
    database: ScratchDatabase, site: Site, name: str, order: str
) -> None:
    case = CASES[name]
    window = {"after": case.after, "before": case.before}
    options = {"delay_s": 0, "order": order, **{name: at for name, at in window.items() if at}}
    async with database.open() as r:
        await r.sources.add(f"ldes:{site.url}/{case.stream}.ttl", name="all", options={**options, "versions": "all"})
        await r.sources.add(f"ldes:{site.url}/{case.stream}", name="latest", options=options)
        members, objects = await r.sync("all"), await r.sync("latest")
        again = await r.sync("all")

    assert members.status == "completed", members.error
    assert members.stats.created == case.members
    assert case.objects is None or objects.stats.created == case.objects
    assert (again.status, again.stats.created, again.stats.rows_written) == ("completed", 0, 0)


SHAPES = {
    "the feed's own": (None, True),
    "a partial one": ("partial-shape.ttl", False),
    "a full one": ("full-shape.ttl", True),
    "none": ("none", False),
}
SHAPED = {
    "mock-ldes": Case("mock-ldes", 3, 3, "2024-07-14T09:00:00Z", "2024-07-14T10:30:00Z"),
    "mock-ldes-atypical": Case("mock-ldes-atypical", 10, 6, *ATYPICAL),
    "mock-ldes-inbetween": Case("mock-ldes-inbetween", 7, 3, *BETWEEN),
}


def follower(site: Site, folder: Path, stream: str, **options: object) -> Follower:
    loopback = (ip_network("127.0.0.0/8"),)
    settings = Settings(home=folder, host_delay_s=0, allow_addresses=loopback, proxy=None)
    return Follower(f"{site.url}/{stream}.ttl", settings, dict(options))


@pytest.mark.parametrize("order", ["fast", "ascending"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stream", SHAPED)
async def test_the_shape_of_a_recorded_stream_decides_which_classes_are_seen(
    site: Site, tmp_path: Path, stream: str, shape: str, order: str
) -> None:
    (named, is_inside), case = SHAPES[shape], SHAPED[stream]
    url = named if named in (None, "none") else f"{site.url}/{named}"
    window = {"after": case.after, "before": case.before, "order": order, "shape": url}

    found = await follower(site, tmp_path, stream, versions="all", **window).run()
    latest = follower(site, tmp_path, stream, **window)
    await latest.run()

    times = [document.record["time"] for document in found]
    assert (len(found), len(latest.items)) == (case.members, case.objects)
    assert order == "fast" or times == sorted(times)
    assert any("Clazz2" in document.record_json for document in found) == is_inside
    assert not any("isVersionOf" in item.record_json for item in latest.items.values())


async def test_parts_of_recorded_members_that_lie_elsewhere_are_fetched(site: Site, tmp_path: Path) -> None:
    found = await follower(site, tmp_path, "mock-ldes-linked-list", order="ascending").run()

    assert len(found) == 9
    assert all("subprop" in document.record_json for document in found)


# Members and relations of single pages, as other clients find them.
PAGES = {
    "gipod/1-relation-3-members.jsonld": (3, 1),
    "gipod/1-relation-3-members.nq": (3, 1),
    "gipod/1-relation-3-members.ttl": (3, 1),
    "gipod/10-member-fragment.page1.ttl": (10, 1),
    "gipod/100-member-fragment.page1.ttl": (100, 1),
    "gipod/250-member-fragment.page1.ttl": (250, 1),
    "ldesserver/example-ldes-fragment.nq": (1, 0),
    "ldesserver/treenode_small_ldes_page1.ttl": (1016, 0),
    "publication-feed/full-example.jsonld": (2, 1),
    "publication-feed/full-example.ttl": (1, 1),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_recorded_page_has_its_members_and_relations(name: str) -> None:
    given = StreamBody((CORPUS / "ldes" / name).read_bytes(), f"https://farm.example/{name}", None, None)
    words = json.loads((CORPUS / "ldes" / "publication-feed" / "publicatie-feed-context.jsonld").read_bytes())
    contexts = dict.fromkeys(contexts_of(given), words["@context"])

    stream = read_entry(given, given.url, contexts).stream
    answer = read_page(given, given.url, stream, contexts, None, False)

    assert (len(answer.members), len(answer.relations)) == PAGES[name]
    assert answer.broken == 0


@pytest.mark.parametrize("name", ["fragment.invalid.ttl", "fragment-2.invalid.ttl"])
def test_a_recorded_page_that_is_broken_says_where(name: str) -> None:
    body = (CORPUS / "ldes" / "publication-feed" / name).read_bytes()

    with pytest.raises(SourceError, match="line 8"):
        read_entry(StreamBody(body, "https://farm.example/page", "text/turtle", None), "https://farm.example/page", {})
