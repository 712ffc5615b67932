"""Feeds: RSS, Atom and JSON Feed, one item an entry; what a feed no longer shows is kept."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.feed.cursor import FeedCursor
from rowen.connectors.feed.options import FeedOptions, accept, recognise
from rowen.connectors.feed.walk import FeedWalk
from rowen.connectors.probe import Probe
from rowen.model.item import Observation

__all__ = ["Feed"]

_BEGINS = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?[^>]*>\s*|<!--.*?-->\s*|<!DOCTYPE[^\[>]*>\s*)*"
    rb"(?:<rss[\s>]|<feed\s[^>]*(?:2005/Atom|purl\.org/atom)|<rdf:RDF\s[^>]*purl\.org/rss/1\.0/[\"'])",
    re.DOTALL | re.IGNORECASE,
)
_JSON_BEGINS = re.compile(rb"\s*\{.{0,2000}?\"version\"\s*:\s*\"https://jsonfeed\.org/", re.DOTALL)
# A prolog is shorter; the pattern reads it again for each of its parts.
_HEAD_BYTES = 8192


class Feed:
    """Reads a feed."""

    kind: ClassVar[str] = "feed"
    Options: ClassVar[type[Options]] = FeedOptions
    recognise = staticmethod(recognise)
    accept = staticmethod(accept)

    def __init__(self, url: str, options: FeedOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """The address itself, if it answers with a feed."""
        head = probe.page.body[:_HEAD_BYTES] if probe.page is not None else b""
        return accept(probe.url) if _BEGINS.match(head) or _JSON_BEGINS.match(head) else None

    @staticmethod
    def told(cursor: Any, _notes: Mapping[str, int]) -> dict[str, Any]:
        """What a cursor tells people of how the feed is followed; archives that are left to be read are its backlog."""
        memory = FeedCursor.of(cursor)
        left = sum(stretch.then is not None for stretch in memory.stretches)
        return {"hubs": tuple(memory.hubs), "backlog": left, "is_whole": cursor is not None}

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Read what the feed shows, and once what its archives hold."""
        async with self._tools.client() as client:
            walk = FeedWalk(self._url, self._options, self._tools, known=known, client=client)
            async with aclosing(walk.observations()) as observations:
                async for observation in observations:
                    yield observation
