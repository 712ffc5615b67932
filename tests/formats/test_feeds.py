"""Links for programs: of pages, feeds and headers, well-formed or not."""

import pytest

from rowen.formats.feeds import FeedLink, entry_links, header_links, link_tags

ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="https://hub.example/"/>
<link rel='self' href='https://site.example/feed?a=1&amp;b=2'/><link href="https://site.example/"/>
<entry><link rel="alternate" href="https://site.example/one"/></entry><entry><link href="https://site.example/two"></link>"""
RSS = b"""<rss><channel><atom:link rel="hub" href="https://hub.example/"/><link>https://site.example/</link>
<item><link><![CDATA[https://site.example/a?x=1&y=2]]></link></item>
<item><link> https://site.example/b </link></item>"""
PAGE = b"""<head><LINK rel="stylesheet" href="x.css"><link rel="alternate" type="application/rss+xml" href="/rss">
<link rel="canonical hub" href="https://hub.example/"></head>"""


def test_a_feed_names_its_hub_itself_and_its_entries() -> None:
    assert link_tags(ATOM)[:2] == [
        FeedLink("hub", "https://hub.example/"),
        FeedLink("self", "https://site.example/feed?a=1&b=2"),
    ]
    assert entry_links(ATOM) == ["https://site.example/", "https://site.example/one", "https://site.example/two"]


def test_the_items_of_a_channel_are_found_as_well() -> None:
    assert FeedLink("hub", "https://hub.example/") in link_tags(RSS)
    assert entry_links(RSS) == ["https://site.example/", "https://site.example/a?x=1&y=2", "https://site.example/b"]


def test_a_page_names_its_feed() -> None:
    assert [link.href for link in link_tags(PAGE) if link.is_feed] == ["/rss"]
    assert FeedLink("hub", "https://hub.example/") in link_tags(PAGE)


def test_headers_have_links_too() -> None:
    header = '<https://hub.example/>; rel="hub first", </feed>; title="a, b"; rel=self, <x>; title=none'

    assert list(header_links([header])) == [
        FeedLink("hub", "https://hub.example/"),
        FeedLink("first", "https://hub.example/"),
        FeedLink("self", "/feed"),
    ]


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe<link", b"<link " * 10_000, b"<link>" * 10_000, b'<link href="' * 9999]
)
def test_what_is_no_feed_has_no_links(body: bytes) -> None:
    assert link_tags(body) == []
    assert entry_links(body) == []
    assert list(header_links([body.decode("latin-1")])) == []
