"""Feeds: a window on entries, which are read once and stay."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from rowen import Rowen, Run
from rowen.connectors.feed.document import read_json_feed
from rowen.connectors.feed.xml_feed import read_xml_feed
from rowen.connectors.registry import recognise
from tests.conftest import ScratchDatabase
from tests.portals.feed import FORMATS, FeedSite

FEED = "https://farm.example/blog/feed"


@pytest.fixture
def feed() -> Iterator[FeedSite]:
    with closing(FeedSite()) as site:
        for name in ("a", "b", "c"):
            site.make(name)
        yield site


async def keep(r: Rowen, feed: FeedSite, **options: object) -> Run:
    await r.sources.add(feed.address, name="feed", options={"delay_s": 0, **options})
    run = await r.sync("feed")
    feed.log.clear()
    return run


def titles(database: ScratchDatabase) -> list[str]:
    return [title for (title,) in database.query("select title from item order by title")]


@pytest.mark.parametrize("notation", FORMATS)
async def test_entries_of_every_format_become_items(database: ScratchDatabase, feed: FeedSite, notation: str) -> None:
    feed.format = notation

    async with database.open() as r:
        run = await keep(r, feed)
        [hit] = (await r.search("all about b", limit=1)).hits

    assert (run.kind, run.status, run.complete, run.stats.created) == ("feed", "completed", True, 3)
    assert (hit.title, hit.url) == ("Entry b", feed.entry_url("b"))
    text, tags, record = database.query("select text, tags, record from item where title = 'Entry b'")[0]
    assert text.startswith("All about **b**.")
    assert tags == ["hay"]
    assert (record["published"] or record["updated"]) == "2024-01-01T00:02:00Z"


async def test_an_unchanged_feed_costs_one_request_no_body_and_no_row(
    database: ScratchDatabase, feed: FeedSite
) -> None:
    async with database.open() as r:
        await keep(r, feed)
        again = await r.sync("feed")

    assert [(request.path, request.status, request.sent_bytes) for request in feed.log] == [("/feed", 304, 0)]
    assert (again.status, again.complete, again.stats.rows_written, again.stats.bytes) == ("completed", True, 0, 0)


async def test_entries_that_leave_the_window_stay_and_edited_ones_are_updated(
    database: ScratchDatabase, feed: FeedSite
) -> None:
    feed.window = 3
    async with database.open() as r:
        await keep(r, feed)
        feed.make("d")
        feed.make("c", text="All about <b>clover</b>.")
        run = await r.sync("feed")
        full = await r.sync("feed", full=True)

    assert titles(database) == ["Entry a", "Entry b", "Entry c", "Entry d"]
    assert (run.stats.created, run.stats.updated, run.stats.unchanged, run.stats.deleted) == (1, 1, 1, 0)
    assert (full.status, full.stats.deleted, full.stats.deletions_held) == ("completed", 0, 0)


async def test_the_linked_page_is_read_once_for_each_version_of_an_entry(
    database: ScratchDatabase, feed: FeedSite
) -> None:
    for name in ("a", "b", "c"):
        feed.put(f"/posts/{name}", f"Page {name}", f"The whole story of {name}.")
    feed.pages["/posts/b"] = feed.default
    async with database.open() as r:
        first = await keep(r, feed, content="page", robots=False)
        feed.put("/posts/b", "Page b", "The whole story of b.")
        second = await r.sync("feed")
        paths = feed.asked()
        [hit] = (await r.search("whole story of b", limit=1)).hits

    assert (first.stats.created, first.stats.failed) == (2, 1)
    assert (second.stats.created, second.stats.unchanged, second.stats.failed) == (1, 2, 0)
    assert paths == ["/feed", "/posts/b"]
    assert hit.title == "Entry b"


async def test_archives_are_walked_once_and_the_walk_goes_on_where_it_was_stopped(
    database: ScratchDatabase, feed: FeedSite
) -> None:
    feed.format = "atom"
    feed.archives = [[feed.make(f"old{n}")] for n in range(4)]
    feed.posts = feed.posts[4:]
    newer, feed.archives[2] = feed.archives[2], []
    async with database.open() as r:
        feed.pages["/archive/1"] = feed.default
        first = await keep(r, feed)
        feed.archives[2] = newer
        feed.archives.append([feed.make("new")])
        feed.posts = feed.posts[1:]
        await r.sync("feed")
        paths = feed.asked()
        await r.sync("feed")

    assert first.stats.created == 3 + 3
    assert paths == ["/feed", "/archive/4"]
    assert feed.asked() == [*paths, "/feed"]


async def test_a_feed_with_pages_is_walked_until_a_stored_entry(database: ScratchDatabase, feed: FeedSite) -> None:
    feed.window, feed.paged = 2, True
    async with database.open() as r:
        first = await keep(r, feed)
        for name in ("d", "e", "f"):
            feed.make(name)
        second = await r.sync("feed")
        paths = feed.asked()

    assert (first.stats.created, second.stats.created) == (3, 3)
    assert paths == ["/feed", "/feed?page=1"]


async def test_a_deleted_entry_is_deleted(database: ScratchDatabase, feed: FeedSite) -> None:
    feed.format = "atom"
    async with database.open() as r:
        await keep(r, feed)
        feed.posts = feed.posts[1:]
        feed.deleted = ["c@9"]
        run = await r.sync("feed")

    assert (run.stats.deleted, titles(database)) == (1, ["Entry a", "Entry b"])


async def test_a_torn_entry_costs_itself_and_is_read_when_it_is_whole(
    database: ScratchDatabase, feed: FeedSite
) -> None:
    feed.posts[1] = replace(feed.posts[1], spoil="<b>torn</i>")
    async with database.open() as r:
        first = await keep(r, feed)
        feed.posts[1] = replace(feed.posts[1], spoil="")
        second = await r.sync("feed")

    assert (first.status, first.stats.created, first.stats.failed) == ("partial", 2, 1)
    assert (second.status, second.stats.created, second.stats.failed) == ("completed", 1, 0)
    assert database.query("select count(*) from quarantine") == [(0,)]


async def test_the_hub_is_remembered(database: ScratchDatabase, feed: FeedSite) -> None:
    feed.hub = "https://hub.example/"
    async with database.open() as r:
        await keep(r, feed)

    [(cursor,)] = database.query("select cursor from source")
    assert cursor["hubs"] == ["https://hub.example/"]


@pytest.mark.parametrize(
    "address", ["feed:https://a.example/x", "https://a.example/blog/feed/", "https://a.example/x.rss"]
)
def test_a_feed_is_recognised_by_its_address(address: str) -> None:
    assert recognise(address)[0] == "feed"


DOCUMENTS = {
    "RSS 0.91 with a type definition": (
        (
            '<!DOCTYPE rss PUBLIC "-//Netscape//DTD RSS 0.91//EN" "http://my.netscape.com/rss-0.91.dtd">'
            "<rss version='0.91'><channel><item><title>A</title><link>http://a.example/1</link></item></channel></rss>"
        ),
        [("http://a.example/1", "A", "", None)],
    ),
    "entities of HTML, bare ampersands and a prefix that nobody declared": (
        (
            "<rss><channel><item><guid>http://a.example/1</guid><title>Hay&nbsp;&amp; straw & more</title>"
            "<dc:date>2024-05-01</dc:date><odd:x/><description>caf&eacute;</description></item></channel></rss>"
        ),
        [("http://a.example/1", "Hay & straw & more", "café", "2024-05-01T00:00:00.000000Z")],
    ),
    "markup in a title": (
        (
            "<rss><channel><item><guid isPermaLink='false'>7</guid><title>&lt;b&gt;AT&amp;amp;T&lt;/b&gt;</title>"
            "<pubDate>Wed, 02 Oct 2002 15:00:00 +0200</pubDate></item></channel></rss>"
        ),
        [(f"{FEED}#/entry/7", "AT&T", "", "2002-10-02T13:00:00.000000Z")],
    ),
    "Atom with a base, XHTML and a text that is none": (
        (
            "<feed xmlns='http://www.w3.org/2005/Atom' xml:base='http://a.example/x/'><entry xml:base='y/'>"
            "<id>tag:a.example,2024:1</id><title type='text'>1 &lt; 2</title><link href='z'/>"
            "<content type='xhtml'><div xmlns='http://www.w3.org/1999/xhtml'><p>Hay</p></div></content></entry></feed>"
        ),
        [(f"{FEED}#/entry/tag:a.example,2024:1", "1 < 2", "<div><p>Hay</p></div>", None)],
    ),
    "two versions of an entry": (
        (
            "<feed xmlns='http://www.w3.org/2005/Atom'><entry><id>http://a.example/1</id><title>Old</title>"
            "<updated>2024-01-01T00:00:00Z</updated></entry><entry><id>http://a.example/1</id><title>New</title>"
            "<updated>2024-01-01T00:00:00.5Z</updated></entry></feed>"
        ),
        [("http://a.example/1", "New", "", "2024-01-01T00:00:00.500000Z")],
    ),
    "a feed that breaks off": (
        ("<rss><channel><item><guid>http://a.example/1</guid><title>A</title></item><item><guid>http://a.exa"),
        [("http://a.example/1", "A", "", None)],
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
async def test_documents_as_they_are_found(name: str) -> None:
    body, entries = DOCUMENTS[name]

    document = read_xml_feed(body.encode(), FEED, FEED, None)

    assert [(entry.url, entry.title, entry.content, entry.stamp) for entry in document.entries] == entries


async def test_a_charset_that_only_the_document_declares_is_read() -> None:
    body = "<?xml version='1.0' encoding='iso-8859-1'?><rss><channel><item><title>Käse</title></item></channel></rss>"

    document = read_xml_feed(body.encode("iso-8859-1"), FEED, FEED, None)

    assert [entry.title for entry in document.entries] == ["Käse"]


def test_relative_addresses_of_an_entry_are_resolved_and_its_counts_are_no_part_of_it() -> None:
    body = b'{"items": [{"id": 1, "url": "x", "content_text": "One\\n\\n<two>", "attachments": [{"url": "/m.mp3"}]}]}'

    [entry] = read_json_feed(body, FEED, FEED).entries

    assert (entry.link, entry.content) == ("https://farm.example/blog/x", "<p>One</p><p>&lt;two&gt;</p>")
    assert entry.record["enclosures"] == ["https://farm.example/m.mp3"]


async def test_a_linked_page_that_is_too_large_by_now_goes_although_its_entry_is_the_same(
    database: ScratchDatabase, feed: FeedSite
) -> None:
    for name in ("a", "b", "c"):
        feed.put(f"/posts/{name}", f"Page {name}", f"The whole story of {name}.")
    feed.put("/posts/b", "Page b", "The whole story of b. " * 2000)
    async with database.open() as r:
        await keep(r, feed, content="page", robots=False)
        await r.sources.edit("feed", options={"content": "page", "robots": False, "max_bytes": 20_000})
        lowered = await r.sync("feed")
        feed.log.clear()
        await r.sync("feed")

    assert (lowered.stats.failed, lowered.stats.deleted, titles(database)) == (1, 1, ["Entry a", "Entry c"])
    assert feed.asked() == ["/feed", "/posts/b"]
