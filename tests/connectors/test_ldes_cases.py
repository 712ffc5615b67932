"""What clients of event streams are tested for: windows, orders, shapes, state and trouble, case by case."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from rowen.errors import RowenError, SourceError
from rowen.model.items import Document, Fetched
from rowen.settings import Settings
from tests.portals.follower import Follower
from tests.portals.ldes import PREFIXES, Event, LdesSite, Leaf
from tests.portals.site import Page

ORDERS = ("fast", "ascending", "descending")
AFTER = "GreaterThanOrEqualToRelation"


@pytest.fixture
def feed() -> Iterator[LdesSite]:
    with closing(LdesSite()) as site:
        yield site


@pytest.fixture
def follow(feed: LdesSite, tmp_path: Path) -> Callable[..., Follower]:
    def make(**options: Any) -> Follower:
        tries = options.pop("tries", 1)
        settings = Settings(
            home=tmp_path,
            host_delay_s=0,
            allow_addresses=(ip_network("127.0.0.0/8"),),
            proxy=None,
            fetch_tries=tries,
            cb_failure_threshold=1000,
        )
        return Follower(options.pop("url", f"{feed.url}/root"), settings, options)

    return make


def names(documents: list[Document]) -> list[str]:
    return [document.record["member"].removeprefix("http://ex.example/") for document in documents]


def times(documents: list[Document]) -> list[str]:
    return [document.record["time"] for document in documents]


def in_order(documents: list[Document], order: str) -> bool:
    """Whether times are in the order that was asked for."""
    return order == "fast" or times(documents) == sorted(times(documents), reverse=order == "descending")


def grown(feed: LdesSite) -> list[Event]:
    """Twelve versions of six objects, two an hour."""
    return [Event(f"n{number % 6}", 30 * number) for number in range(12)]


def lay_tree(feed: LdesSite) -> None:
    """The root leads to all pages, not in the order of their times."""
    events = grown(feed)
    leaves = {f"/p{start}": Leaf(events[start : start + 3], immutable=start < 9) for start in range(0, 12, 3)}
    order = ["/p6", "/p0", "/p9", "/p3"]
    root = Leaf(relations=[(path, AFTER, leaves[path].events[0].minute) for path in order])
    feed.leaves = {"/root": root, **leaves}


def lay_list(feed: LdesSite) -> None:
    """Each page leads to the next one, and no page tells its times."""
    events = grown(feed)
    feed.leaves = {
        "/root" if start == 0 else f"/p{start}": Leaf(
            events[start : start + 3], [] if start == 9 else [(f"/p{start + 3}", None, 0)]
        )
        for start in range(0, 12, 3)
    }


def lay_in_between(feed: LdesSite) -> None:
    """Pages of an hour each, told by both bounds."""
    events = grown(feed)
    root = Leaf()
    feed.leaves = {"/root": root}
    for hour in range(6):
        path = f"/h{hour}"
        root.relations += [(path, AFTER, 60 * hour), (path, "LessThanRelation", 60 * hour + 60)]
        feed.leaves[path] = Leaf(events[2 * hour : 2 * hour + 2])


def lay_dump(feed: LdesSite) -> None:
    feed.leaves = {"/root": Leaf(grown(feed))}


def lay_newest_first(feed: LdesSite) -> None:
    """Each page leads to the one of the times before, as publication feeds do."""
    events = grown(feed)[::-1]
    for start in range(0, 12, 3):
        older = [] if start == 9 else [(f"/older?page={start}", "LessThanRelation", events[start + 2].minute)]
        path = f"/older?page={start - 3}" if start else "/root"
        feed.leaves[path] = Leaf(events[start : start + 3], older)


LAYOUTS = {
    "a tree": lay_tree,
    "a linked list": lay_list,
    "hours": lay_in_between,
    "a dump": lay_dump,
    "newest first": lay_newest_first,
}


class Window(NamedTuple):
    """A window, exclusive at both ends, and how many members and objects are within."""

    members: int
    objects: int
    after: str | None = None
    before: str | None = None


WINDOWS = {
    "all": Window(12, 6),
    "after the end": Window(0, 0, after="3024-01-01T00:00:00Z"),
    "before the beginning": Window(0, 0, before="1325-01-01T00:00:00Z"),
    "exclusive": Window(3, 3, "2024-01-01T01:00:00Z", "2024-01-01T03:00:00Z"),
    "in another zone": Window(3, 3, "2024-01-01T02:00:00+01:00", "2024-01-01T04:00:00+01:00"),
    "more than one version of some": Window(9, 6, after="2024-01-01T01:00:00Z"),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("layout", LAYOUTS)
async def test_a_window_has_its_members_and_a_second_run_finds_none(
    feed: LdesSite, follow: Callable[..., Follower], layout: str, window: str, order: str
) -> None:
    LAYOUTS[layout](feed)
    members, objects, after, before = WINDOWS[window]
    bounds = {"after": after, "before": before, "order": order}
    every, latest = follow(versions="all", **bounds), follow(**bounds)

    documents = await every.run()
    await latest.run()
    again = await every.run()

    assert len(set(names(documents))) == len(documents) == members
    assert len(latest.items) == objects
    assert in_order(documents, order)
    assert again == []
    assert all("dct:isVersionOf" not in item.record["rdf"] for item in latest.items.values())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("layout", LAYOUTS)
async def test_a_run_that_broke_off_is_resumed_and_no_member_comes_twice(
    feed: LdesSite, follow: Callable[..., Follower], layout: str, order: str
) -> None:
    LAYOUTS[layout](feed)
    follower = follow(versions="all", order=order)

    runs = [await follower.run(checkpoints=1) for _ in range(2)] + [await follower.run()]

    received = [name for run in runs for name in names(run)]
    assert len(received) == len(set(received)) == 12
    assert all(in_order(run, order) for run in runs)


class Shaped(NamedTuple):
    """Which shape is used, and whether the other node of a member then belongs to it."""

    of_feed: str | None
    option: str | None
    is_inside: bool


FULL = "[ a sh:NodeShape ; sh:property [ sh:path ex:link ; sh:node [ a sh:NodeShape ; sh:targetClass ex:Other ] ] ]"
PARTIAL = "[ a sh:NodeShape ; sh:targetClass ex:Thing ]"
SHAPES = {
    "no shape": Shaped(None, None, False),
    "the feed's own": Shaped(FULL, None, True),
    "the feed's own, left out": Shaped(FULL, "none", False),
    "a partial one that the user names": Shaped(FULL, "/partial", False),
    "a full one that the user names": Shaped(None, "/full", True),
    "the feed's own, which lies elsewhere": Shaped("</full>", None, True),
    "the feed's own, which is not there": Shaped("</lost>", None, False),
    "several of the feed's own": Shaped(f"{PARTIAL}, {FULL}", None, True),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SHAPES)
async def test_a_shape_decides_the_statements_of_a_member(
    feed: LdesSite, follow: Callable[..., Follower], name: str, order: str
) -> None:
    of_feed, option, is_inside = SHAPES[name]
    if of_feed:
        feed.description += f"tree:shape {of_feed.replace('</', f'<{feed.url}/')} ;"
    feed.pages["/full"] = Page(f"{PREFIXES} {FULL} .".encode(), headers={"Content-Type": "text/turtle"})
    feed.pages["/partial"] = Page(f"{PREFIXES} {PARTIAL} .".encode(), headers={"Content-Type": "text/turtle"})
    event = Event("a", 1, more="ex:link ex:other ;")
    other = "ex:other a ex:Other ; ex:word 'inner' ."
    feed.leaves["/root"] = Leaf(body=f"{feed._turtle('/root', Leaf([event]))}\n{other}".encode())
    shape = option if option in (None, "none") else f"{feed.url}{option}"

    [document] = await follow(shape=shape, order=order, after="2023-01-01T00:00:00Z").run()

    link = document.record["rdf"]["http://ex.example/link"]
    assert ("http://ex.example/word" in link) == is_inside
    assert ("inner" in document.text) == is_inside


async def test_a_shape_that_the_user_names_has_to_be_there(feed: LdesSite, follow: Callable[..., Follower]) -> None:
    lay_dump(feed)

    with pytest.raises(SourceError, match=r"The shape .*/lost cannot be read: .*404"):
        await follow(shape=f"{feed.url}/lost").run()


async def test_parts_that_a_shape_requires_are_fetched_where_they_lie(
    feed: LdesSite, follow: Callable[..., Follower]
) -> None:
    inner = "[ a sh:NodeShape ; sh:property [ sh:path ex:word ; sh:minCount 1 ] ]"
    feed.description += f"tree:shape [ a sh:NodeShape ; sh:property [ sh:path ex:link ; sh:node {inner} ] ] ;"
    events = [Event(f"n{number}", number, more=f"ex:link <{feed.url}/part{number}> ;") for number in range(4)]
    feed.leaves["/root"] = Leaf(events)
    for number in range(3):
        part = f"{PREFIXES}<{feed.url}/part{number}> ex:word 'word {number}' ."
        feed.pages[f"/part{number}"] = Page(part.encode(), headers={"Content-Type": "text/turtle"})

    documents = await follow(order="ascending").run()

    words = [document.record["rdf"]["http://ex.example/link"].get("http://ex.example/word") for document in documents]
    assert words == ["word 0", "word 1", "word 2", None]


@pytest.mark.parametrize("branched", [False, True])
async def test_members_are_handed_on_in_order_before_a_slow_page_is_there(
    feed: LdesSite, follow: Callable[..., Follower], branched: bool
) -> None:
    requested = threading.Event()
    feed.leaves["/root"] = Leaf(
        [Event("first", 5)], [("/slow", AFTER, 10), *([("/more", AFTER, 7)] if branched else [])]
    )
    slow = feed._turtle("/slow", Leaf([Event("last", 11)])).encode()
    feed.leaves["/more"] = Leaf([Event("second", 8)])

    async def answer(request: web.Request) -> web.Response:
        assert await asyncio.to_thread(requested.wait, 20)
        return web.Response(body=slow, content_type="text/turtle")

    feed.pages["/slow"] = Page(handler=answer)
    order = []
    async for observation in follow(order="ascending").pull():
        if isinstance(observation, Fetched):
            requested.set()
            order.append(observation.item.url.rpartition("/")[2])

    assert order == (["first", "second", "last"] if branched else ["first", "last"])


async def test_the_newest_members_are_handed_on_before_older_pages_are_there(
    feed: LdesSite, follow: Callable[..., Follower]
) -> None:
    requested = threading.Event()
    feed.leaves["/root"] = Leaf([Event("last", 11), Event("first", 12)], [("/slow", "LessThanRelation", 11)])
    slow = feed._turtle("/slow", Leaf([Event("old", 5)])).encode()

    async def answer(request: web.Request) -> web.Response:
        assert await asyncio.to_thread(requested.wait, 20)
        return web.Response(body=slow, content_type="text/turtle")

    feed.pages["/slow"] = Page(handler=answer)
    order = []
    async for observation in follow(order="descending").pull():
        if isinstance(observation, Fetched):
            order.append(observation.item.url.rpartition("/")[2])
            if len(order) == 2:
                requested.set()

    assert order == ["first", "last", "old"]


@pytest.mark.parametrize("order", ["ascending", "descending"])
async def test_what_moved_to_older_pages_comes_in_its_turn(
    feed: LdesSite, follow: Callable[..., Follower], order: str
) -> None:
    lay_newest_first(feed)
    follower = follow(versions="all", order=order)
    await follower.run()
    news = [Event(f"new{number}", 1000 + number) for number in range(5)]
    feed.leaves["/root"] = Leaf(news[:2:-1], [("/older?page=0", "LessThanRelation", news[3].minute)])
    feed.leaves["/older?page=0"].events = [*news[2::-1], *feed.leaves["/older?page=0"].events]

    documents = await follower.run()

    assert len(documents) == 5
    assert in_order(documents, order)


@pytest.mark.parametrize("order", ORDERS)
async def test_a_transaction_may_end_on_a_page_before_its_beginning(
    feed: LdesSite, follow: Callable[..., Follower], order: str
) -> None:
    feed.description += "ldes:transactionPath ex:in ; ldes:transactionFinalizedPath ex:last ;"
    begin, end = Event("a", 1, more="ex:in ex:t1 ;"), Event("b", 2, more="ex:in ex:t1 ; ex:last true ;")
    feed.leaves["/root"] = Leaf([end], [("/older", "LessThanRelation", 2)])
    feed.leaves["/older"] = Leaf([begin])
    follower = follow(order=order)

    documents = await follower.run()

    assert sorted(names(documents)) == ["a#1", "b#2"]
    assert in_order(documents, order)
    assert follower.cursor["complete"]


async def test_members_that_would_have_to_wait_without_end_are_an_error(
    feed: LdesSite, follow: Callable[..., Follower], monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_list(feed)
    monkeypatch.setattr("rowen.connectors.ldes.walk.MOST_WAITING", 8)

    for order in ("ascending", "descending"):
        with pytest.raises(SourceError, match="more than 8 members would have to be kept in memory"):
            await follow(order=order).run()


async def test_members_of_one_time_come_by_their_sequence(feed: LdesSite, follow: Callable[..., Follower]) -> None:
    feed.description = "ldes:sequencePath ex:number ; ldes:versionOfPath dct:isVersionOf ;"
    numbers = [3, 1, 2]
    feed.leaves["/root"] = Leaf([Event("a", n, f"title {n}", more=f"ex:number {n} ;") for n in numbers])
    every, latest = follow(versions="all", order="ascending"), follow()

    documents = await every.run()
    await latest.run()

    assert [document.title for document in documents] == ["title 1", "title 2", "title 3"]
    assert [item.title for item in latest.items.values()] == ["title 3"]


async def test_versions_may_come_out_of_order_and_the_latest_counts(
    feed: LdesSite, follow: Callable[..., Follower]
) -> None:
    feed.description += "ldes:versionTimestampPath ex:changed ;"
    late = Event("a", 1, "late", more='ex:changed "2024-06-02T00:00:00Z"^^xsd:dateTime ;')
    early = Event("a", 2, "early", more='ex:changed "2024-06-01T00:00:00Z"^^xsd:dateTime ;')
    feed.leaves["/root"] = Leaf([late, early])
    follower = follow(order="ascending")

    await follower.run()

    assert [item.title for item in follower.items.values()] == ["late"]


async def test_a_member_on_two_pages_is_handed_on_once_also_after_a_restart(
    feed: LdesSite, follow: Callable[..., Follower]
) -> None:
    shared = Event("a", 1)
    feed.leaves = {"/root": Leaf([shared], [("/next", None, 0)]), "/next": Leaf([shared, Event("b", 2)])}
    follower = follow(versions="all")

    first, second = await follower.run(checkpoints=1), await follower.run()

    assert names([*first, *second]) == ["a#1", "b#2"]


@pytest.mark.parametrize(
    ("codes", "tries", "members"), [([429, 503], 3, 2), ([500, 500], 2, None), ([404], 3, None), ([410], 1, 1)]
)
async def test_temporary_failures_are_retried_and_lasting_ones_are_errors(
    feed: LdesSite, follow: Callable[..., Follower], codes: list[int], tries: int, members: int | None
) -> None:
    feed.leaves = {"/root": Leaf([Event("a", 1)], [("/next", None, 0)])}
    body = feed._turtle("/next", Leaf([Event("b", 2)])).encode()
    waiting = list(codes)

    async def answer(request: web.Request) -> web.Response:
        if waiting:
            return web.Response(status=waiting.pop(0), headers={"Retry-After": "0"})
        return web.Response(body=body, content_type="text/turtle")

    feed.pages["/next"] = Page(handler=answer)
    follower = follow(tries=tries)

    await follower.run()

    whole = follower.cursor["complete"]
    assert (len(follower.items) if whole else None) == members


async def test_redirects_are_followed_and_a_loop_is_an_error(feed: LdesSite, follow: Callable[..., Follower]) -> None:
    feed.leaves = {
        "/old": Leaf(status=301, location="/moved"),
        "/moved": Leaf(status=302, location="/root"),
        "/root": Leaf([Event("a", 1)], [("/gone", None, 0)]),
        "/gone": Leaf(status=307, location="/there"),
        "/there": Leaf([Event("b", 2)], [("/root", None, 0)]),
        "/loop": Leaf(status=302, location="/round"),
        "/round": Leaf(status=302, location="/loop"),
    }

    documents = await follow(url=f"{feed.url}/old").run()

    assert sorted(names(documents)) == ["a#1", "b#2"]
    with pytest.raises(RowenError, match="redirect"):
        await follow(url=f"{feed.url}/loop").run()


async def test_a_page_that_was_immutable_is_not_requested_again_though_it_moved(
    feed: LdesSite, follow: Callable[..., Follower]
) -> None:
    feed.leaves = {"/root": Leaf([], [("/full", None, 0)]), "/full": Leaf([Event("a", 1)], header="public, immutable")}
    follower = follow()
    await follower.run()
    feed.leaves["/full"] = Leaf(status=410)
    feed.leaves["/root"] = replace(feed.leaves["/root"], events=[Event("b", 2)])
    feed.log.clear()

    await follower.run()

    assert feed.asked() == ["/root"]
    assert len(follower.items) == 2


async def test_a_page_with_the_profile_of_trees_and_graphs_without_a_name_is_read(
    feed: LdesSite, follow: Callable[..., Follower]
) -> None:
    text = feed._turtle("/root", Leaf([])) + "ex:s ex:p ex:o . _:g { ex:x ex:y ex:z } "
    text += f"<{feed.url}/ldes> tree:member ex:a . ex:a {{ ex:a dct:title 'Named' ; dct:isVersionOf ex:thing }}"
    profile = 'application/trig; profile="https://w3id.org/tree/profile"'
    feed.pages["/page"] = Page(text.replace("/root", "/page").encode(), headers={"Content-Type": profile})

    [document] = await follow(url=f"{feed.url}/page").run()

    assert (document.title, document.url) == ("Named", "http://ex.example/thing")


async def test_what_a_view_does_not_say_of_its_stream_is_found_at_the_streams_own_address(
    feed: LdesSite, follow: Callable[..., Follower]
) -> None:
    stream = f"{feed.url}/ldes"
    described = f"{PREFIXES}<{stream}> a ldes:EventStream ; {feed.description} tree:view <{feed.url}/root> ."
    feed.pages["/ldes"] = Page(described.encode(), headers={"Content-Type": "text/turtle"})
    events = [Event("b", 2), Event("a", 1)]
    lines = [f"<{stream}> tree:member <{event.name}> . {event.turtle()}" for event in events]
    feed.leaves["/root"] = Leaf(body="\n".join([PREFIXES, *lines]).encode())

    documents = await follow(order="ascending").run()

    assert names(documents) == ["a#1", "b#2"]
