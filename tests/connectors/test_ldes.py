"""Event streams: each member once, whatever the pages do."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from rowen import Rowen, Run
from tests.conftest import ScratchDatabase
from tests.portals.ldes import MEDIA, LdesSite, Leaf, context_page


@pytest.fixture
def feed() -> Iterator[LdesSite]:
    with closing(LdesSite()) as site:
        yield site


async def keep(r: Rowen, feed: LdesSite, **options: object) -> Run:
    await r.sources.add(feed.address, name="feed", options={"delay_s": 0, **options})
    run = await r.sync("feed")
    feed.log.clear()
    return run


def titles(database: ScratchDatabase) -> dict[str, str]:
    return dict(database.query("select url, title from item order by url"))


@pytest.mark.parametrize("syntax", MEDIA)
async def test_members_of_every_syntax_become_items_as_their_latest_version_says(
    database: ScratchDatabase, feed: LdesSite, syntax: str
) -> None:
    feed.syntax = syntax
    feed.chain([feed.event("a", "Old"), feed.event("b", "Barley")], [feed.event("a", "New")])

    async with database.open() as r:
        run = await keep(r, feed)
        [hit] = (await r.search("barley", limit=1)).hits

    assert (run.kind, run.status, run.complete) == ("ldes", "completed", True)
    assert titles(database) == {feed.url_of("a"): "New", feed.url_of("b"): "Barley"}
    assert hit.url == feed.url_of("b")
    [(record,)] = database.query("select record from item where title = 'New'")
    assert (record["member"], record["time"]) == ("http://ex.example/a#3", "2024-01-01T00:03:00Z")
    assert record["rdf"]["http://ex.example/part"] == {
        "http://ex.example/size": {"@type": "xsd:integer", "@value": "3"}
    }
    assert "dct:isVersionOf" not in record["rdf"]


async def test_an_unchanged_stream_costs_one_request_for_each_page_that_may_change_and_no_row(
    database: ScratchDatabase, feed: LdesSite
) -> None:
    feed.chain(*[[feed.event(f"n{page}")] for page in range(4)])
    async with database.open() as r:
        first = await keep(r, feed)
        again = await r.sync("feed")

    assert (first.stats.requests, first.stats.created) == (5, 4)
    assert sorted((request.path, request.status, request.sent_bytes) for request in feed.log) == [
        ("/p3", 304, 0),
        ("/root", 304, 0),
    ]
    assert (again.status, again.stats.rows_written, again.stats.bytes) == ("completed", 0, 0)


async def test_a_member_more_costs_its_page_alone(database: ScratchDatabase, feed: LdesSite) -> None:
    pages = [[feed.event(f"n{page}")] for page in range(4)]
    feed.chain(*pages)
    async with database.open() as r:
        await keep(r, feed)
        feed.chain(*pages[:-1], [*pages[-1], feed.event("n0", "Again")])
        run = await r.sync("feed")

    assert [(request.path, request.status) for request in feed.log] == [("/p3", 200), ("/root", 304)] or [
        (request.path, request.status) for request in feed.log
    ] == [("/root", 304), ("/p3", 200)]
    assert (run.stats.updated, run.stats.created, run.stats.unchanged) == (1, 0, 1)


async def test_all_versions_stand_in_the_history_in_the_order_of_time(
    database: ScratchDatabase, feed: LdesSite
) -> None:
    late, early = [feed.event("a", "One")], [feed.event("a", "Two")]
    feed.leaves = {
        "/root": Leaf(
            relations=[
                ("/late", "GreaterThanOrEqualToRelation", early[0].minute),
                ("/early", "GreaterThanOrEqualToRelation", late[0].minute),
            ]
        ),
        "/late": Leaf(early),
        "/early": Leaf(late),
    }
    async with database.open() as r:
        await keep(r, feed, order="ascending")

    assert database.query("select kind, title from change order by number") == [("created", "One"), ("updated", "Two")]


@pytest.mark.parametrize("order", ["fast", "ascending"])
async def test_with_all_versions_each_member_is_an_item(database: ScratchDatabase, feed: LdesSite, order: str) -> None:
    feed.chain([feed.event("a", "One"), feed.event("a", "Two")])
    async with database.open() as r:
        run = await keep(r, feed, versions="all", order=order)

    assert run.stats.created == 2
    assert titles(database) == {"http://ex.example/a#/1": "One", "http://ex.example/a#/2": "Two"}


async def test_a_deleted_object_is_deleted_and_stays_so_when_older_versions_come_again(
    database: ScratchDatabase, feed: LdesSite
) -> None:
    old, gone = feed.event("a"), feed.event("a", deletes=True)
    feed.chain([old, feed.event("b")], [feed.event("c")], immutable=False)
    async with database.open() as r:
        await keep(r, feed)
        feed.leaves["/p1"].events.append(gone)
        deleted = await r.sync("feed")
        feed.leaves["/p0"].events.append(feed.event("d"))
        await r.sync("feed")

    assert deleted.stats.deleted == 1
    assert list(titles(database)) == [feed.url_of(name) for name in ("b", "c", "d")]


async def test_a_page_that_is_gone_is_an_empty_page(database: ScratchDatabase, feed: LdesSite) -> None:
    feed.chain([feed.event("a")], [feed.event("b")])
    feed.leaves["/root"].relations.append(("/lost", None, 0))
    feed.leaves["/lost"] = Leaf(status=410)
    async with database.open() as r:
        first = await keep(r, feed)
        await r.sync("feed")

    assert (first.status, first.stats.created) == ("completed", 2)
    assert "/lost" not in feed.asked()


async def test_a_broken_page_costs_itself_and_is_read_when_it_is_whole(
    database: ScratchDatabase, feed: LdesSite
) -> None:
    feed.chain([feed.event("a")], [feed.event("b")], immutable=False)
    feed.leaves["/root"].relations.append(("/torn", None, 0))
    feed.leaves["/torn"] = Leaf([feed.event("c")], body=b"<a> <b> .\n<c>")
    async with database.open() as r:
        first = await keep(r, feed)
        feed.leaves["/torn"].body = None
        second = await r.sync("feed")

    assert (first.status, first.stats.created, first.stats.failed) == ("partial", 2, 1)
    assert "/torn cannot be parsed as turtle" in (first.error or "")
    assert (second.status, second.stats.created, second.stats.failed) == ("completed", 1, 0)
    assert database.query("select count(*) from quarantine") == [(0,)]


async def test_pages_outside_of_the_window_are_not_requested(database: ScratchDatabase, feed: LdesSite) -> None:
    feed.chain(*[[feed.event(f"n{page}")] for page in range(6)])
    feed.leaves["/root"] = Leaf(
        relations=[
            pair
            for page in range(6)
            for pair in (
                (f"/p{page}", "GreaterThanOrEqualToRelation", page + 1),
                (f"/p{page}", "LessThanRelation", page + 2),
            )
        ]
    )
    for page in range(6):
        feed.leaves[f"/p{page}"].relations = []
    async with database.open() as r:
        await r.sources.add(
            feed.address, name="feed", options={"after": "2024-01-01T00:03:00Z", "before": "2024-01-01T00:05:00Z"}
        )
        run = await r.sync("feed")
        paths = feed.asked()
        await r.sources.edit("feed", options={"after": None})
        mixed = await r.sync("feed")

    assert list(titles(database)) == [feed.url_of("n3")]
    assert set(paths) == {"/root", "/p2", "/p3", "/p4"}
    assert run.status == "completed"
    assert "members of both would be mixed" in (mixed.error or "")


async def test_older_pages_are_left_alone_when_a_newer_one_has_no_news(
    database: ScratchDatabase, feed: LdesSite
) -> None:
    events = [feed.event(f"n{number}") for number in range(6)]

    def lay(newest_first: list[Any]) -> None:
        for number in range(0, len(newest_first), 2):
            following = [(f"/older?page={number}", "LessThanRelation", newest_first[number + 1].minute)]
            last = number + 2 >= len(newest_first)
            path = f"/older?page={number - 2}" if number else "/root"
            feed.leaves[path] = Leaf(newest_first[number : number + 2], [] if last else following)

    lay(events[::-1])
    async with database.open() as r:
        await keep(r, feed)
        lay([feed.event("new1"), feed.event("new2"), *events[::-1]])
        run = await r.sync("feed")

    assert feed.asked() == ["/root", "/older?page=0"]
    assert (run.status, run.stats.created) == ("completed", 2)


async def test_a_transaction_is_stored_when_it_is_over(database: ScratchDatabase, feed: LdesSite) -> None:
    feed.description += "ldes:transactionPath ex:in ; ldes:transactionFinalizedPath ex:last ;"
    first = feed.event("a", more="ex:in ex:t1 ;")
    feed.chain([first])
    async with database.open() as r:
        waiting = await keep(r, feed)
        feed.chain([first, feed.event("b", more="ex:in ex:t1 ; ex:last true ;")])
        over = await r.sync("feed")

    assert (waiting.stats.created, waiting.complete) == (0, False)
    assert (over.status, over.stats.created) == ("completed", 2)


async def test_a_member_in_another_document_is_fetched(database: ScratchDatabase, feed: LdesSite) -> None:
    name = f"{feed.url}/members/a"
    feed.leaves["/root"].body = (
        f"<{feed.url}/ldes> <https://w3id.org/tree#view> <{feed.url}/root> ; <https://w3id.org/tree#member> <{name}> ."
    ).encode()
    feed.leaves["/members/a"] = Leaf(body=f'<{name}> <http://purl.org/dc/terms/title> "Elsewhere" .'.encode())
    async with database.open() as r:
        await keep(r, feed)

    assert titles(database) == {name: "Elsewhere"}


async def test_a_context_is_fetched_once_and_pinned(database: ScratchDatabase, feed: LdesSite) -> None:
    from tests.portals.site import Page

    ldes, tree = "https://w3id.org/ldes#", "https://w3id.org/tree#"
    words = {
        "view": f"{tree}view",
        "member": f"{tree}member",
        "timestampPath": f"{ldes}timestampPath",
        "versionOfPath": f"{ldes}versionOfPath",
        "versionOf": {"@id": "http://purl.org/dc/terms/isVersionOf", "@type": "@id"},
        "at": "http://www.w3.org/ns/prov#generatedAtTime",
    }
    feed.syntax = "jsonld"
    context = f"{feed.url}/context.json"
    feed.pages["/context.json"] = Page(json.dumps({"@context": words}).encode())
    feed.leaves["/root"].body = context_page(feed, feed.event("a"), context)
    async with database.open() as r:
        first = await keep(r, feed)
        feed.leaves["/root"].body = context_page(feed, feed.event("b"), [context])
        await r.sync("feed")
        paths = feed.asked()
        await r.sources.edit("feed", options={"contexts": {context: "0" * 64}})
        changed = await r.sync("feed")

    assert (first.status, first.stats.created) == ("completed", 1)
    assert paths == ["/root"]
    assert list(titles(database)) == [feed.url_of("a"), feed.url_of("b")]
    assert f"should have the SHA-256 {'0' * 64}, and has " in (changed.error or "")


ENTRIES = {
    "the stream itself": ("/ldes", "<{0}/ldes> tree:view <{0}/root> .", 1),
    "several views": ("/ldes", "<{0}/ldes> tree:view <{0}/root>, <{0}/other> .", None),
    "several views, one of them meant for copies": (
        "/ldes",
        "<{0}/ldes> tree:view <{0}/root>, <{0}/other> . <{0}/root> a ldes:EventSource .",
        1,
    ),
    "something else": ("/ldes", "<{0}/ldes> a ex:Thing .", None),
    "a view that leads to itself": ("/ldes", "<{0}/ldes> tree:view <{0}/ldes> .", 0),
}


@pytest.mark.parametrize("name", ENTRIES)
async def test_a_stream_is_entered_by_the_address_of_anything_of_it(
    database: ScratchDatabase, feed: LdesSite, name: str
) -> None:
    from tests.portals.ldes import PREFIXES

    path, turtle, created = ENTRIES[name]
    feed.chain([feed.event("a")])
    feed.leaves[path] = Leaf(body=(PREFIXES + turtle.format(feed.url)).encode())
    async with database.open() as r:
        await r.sources.add(f"ldes:{feed.url}{path}", name="feed")
        run = await r.sync("feed")

    assert (run.stats.created if run.status == "completed" else None) == created, run.error


async def test_the_state_of_a_stream_is_reported(database: ScratchDatabase, feed: LdesSite) -> None:
    feed.description += "ldes:pollingInterval 60 ;"
    feed.chain([feed.event("a")], [feed.event("b")])
    async with database.open() as r:
        await keep(r, feed)
        well = await r.sources.following("feed")
        feed.leaves["/p1"].status = 500
        await r.sync("feed")
        ill = await r.sources.following("feed")

    assert well is not None
    assert (well.state, well.pages, well.members, well.polling_s, well.last_error) == ("following", 3, 2, 60.0, None)
    assert (well.pages_immutable, well.backlog) == (1, 0)
    assert well.last_member_at == "2024-01-01T00:02:00Z"
    assert ill is not None
    assert ill.state == "failing"
    assert "status 500" in (ill.last_error or "")
    assert ill.last_new_at == well.last_new_at
