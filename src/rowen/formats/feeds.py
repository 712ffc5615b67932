"""Machine-readable links in feeds, pages and headers: to hubs, to feeds, to entries, and to the document itself.

They are found in one pass over the tags, whether the document is well-formed or not, since a hub may send a feed of
any kind, or a part of one.
"""

import html
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# Machine-readable links are at the top; a feed of a thousand entries is smaller than this.
_MOST_CHARS = 2_000_000
_LONGEST = 2000  # of an accepted URL; the tag may be longer
_TAG = re.compile(r"<(?:[a-z0-9]{1,20}:)?link\b([^<>]{0,6000})>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""([a-z:-]{1,20})\s{0,20}=\s{0,20}(?:"([^"<>]{0,4000})"|'([^'<>]{0,4000})')""", re.IGNORECASE)
_TEXT_LINK = re.compile(r"<link>\s{0,100}(?:<!\[CDATA\[)?\s{0,100}(https?://[^\s<>\]]{1,2000})", re.IGNORECASE)
_HEADER_LINK = re.compile(r"<([^<>]{1,4000})>([^<>]{0,2000})")
_REL = re.compile(r"""\brel\s{0,5}=\s{0,5}(?:"([^"]{0,200})"|([\w-]{1,50}))""", re.IGNORECASE)
_FEEDS = frozenset({"application/atom+xml", "application/rss+xml", "application/feed+json"})


class FeedLink(NamedTuple):
    """A link and its relation (`rel`) to the document that contains it."""

    rel: str
    href: str

    @property
    def is_feed(self) -> bool:
        """Return whether the link leads to a feed."""
        return self.rel == "feed"


def link_tags(body: bytes) -> list[FeedLink]:
    """Return the links of a page or a feed, in order; a link to a feed of the page has the relation `feed`."""
    text = body[:_MOST_CHARS].decode("utf-8", "replace")
    links: list[FeedLink] = []
    for tag in _TAG.finditer(text):
        attributes = {
            name.lower(): html.unescape(double or other) for name, double, other in _ATTRIBUTE.findall(tag[1])
        }
        href, rels = attributes.get("href", "").strip(), attributes.get("rel", "alternate").lower().split()
        if href and len(href) <= _LONGEST:
            is_feed = "alternate" in rels and attributes.get("type", "").lower().strip() in _FEEDS
            links += [FeedLink("feed", href)] if is_feed else [FeedLink(rel, href) for rel in rels]
    return links


def entry_links(body: bytes) -> list[str]:
    """Return the URLs of the pages that a feed links to, including its own page."""
    text = body[:_MOST_CHARS].decode("utf-8", "replace")
    tags = [link.href for link in link_tags(body) if link.rel == "alternate"]
    return list(dict.fromkeys([*tags, *(html.unescape(url) for url in _TEXT_LINK.findall(text))]))


def header_links(values: Iterable[str]) -> Iterator[FeedLink]:
    """Yield the links in `Link` headers (RFC 8288)."""
    for value in values:
        for href, parameters in _HEADER_LINK.findall(value[: _LONGEST * 10]):
            match = _REL.search(parameters)
            for rel in (match[1] or match[2] or "").lower().split() if match else ():
                yield FeedLink(rel, href.strip())
