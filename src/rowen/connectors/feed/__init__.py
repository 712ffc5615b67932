"""Feeds in RSS, Atom and JSON Feed: each entry is an item, and entries that a feed no longer shows are kept."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.catalog.options import web_url
from rowen.connectors.feed.walk import FeedCursor, FeedOptions, FeedWalk
from rowen.connectors.probe import Probe
from rowen.model.items import Observation

_NAMED = re.compile(
    r"https?://[^?#]+(?:\.(?:rss|atom)|/(?:feed|rss|atom)(?:\.xml|\.json|/)?|/(?:rss|atom)\d?\.xml)(?:\?[^#]*)?",
    re.IGNORECASE,
)
_BEGINS = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?[^>]*>\s*|<!--.*?-->\s*|<!DOCTYPE[^\[>]*>\s*)*"
    rb"(?:<rss[\s>]|<feed\s[^>]*(?:2005/Atom|purl\.org/atom)|<rdf:RDF\s[^>]*purl\.org/rss/1\.0/[\"'])",
    re.DOTALL | re.IGNORECASE,
)
_JSON_BEGINS = re.compile(rb"\s*\{.{0,2000}?\"version\"\s*:\s*\"https://jsonfeed\.org/", re.DOTALL)
# No prolog is longer; the limit matters because the pattern may scan the prolog several times.
_HEAD_BYTES = 8192


class Feed:
    """A connector for feeds."""

    kind: ClassVar[str] = "feed"
    Options: ClassVar[type[Options]] = FeedOptions

    def __init__(self, url: str, options: FeedOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """Return the URL of `feed:https://…` or `feed://…`, or a web address with a typical feed name."""
        if address.startswith("feed:"):
            return cls.accept(address)
        return web_url(address, "feed") if _NAMED.fullmatch(address) else None

    @classmethod
    def accept(cls, address: str) -> str | None:
        """Return the URL of a web address, with or without the prefix `feed:`; None for any other address."""
        if address.startswith("feed://"):
            address = f"https://{address.removeprefix('feed://')}"
        return web_url(address, "feed")

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the address if the response is a feed."""
        head = probe.page.body[:_HEAD_BYTES] if probe.page is not None else b""
        return cls.accept(probe.url) if _BEGINS.match(head) or _JSON_BEGINS.match(head) else None

    @staticmethod
    def describe_cursor(cursor: Any, _notes: Mapping[str, int]) -> dict[str, Any]:
        """Return the hubs, the number of unfinished archive ranges, and whether the feed was read before."""
        stored = FeedCursor.of(cursor)
        backlog = sum(stretch.then is not None for stretch in stored.stretches)
        return {"hubs": tuple(stored.hubs), "backlog": backlog, "is_whole": cursor is not None}

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Read the feed, and its archives unless they were already read."""
        async with self._tools.client() as client:
            walk = FeedWalk(self._url, self._options, self._tools, known=known, client=client)
            async with aclosing(walk.observations()) as observations:
                async for observation in observations:
                    yield observation
