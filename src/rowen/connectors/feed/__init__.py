"""Feeds: RSS, Atom and JSON Feed, one item per entry; entries that a feed no longer shows are kept."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Literal

from pydantic import Field

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.catalog.options import web_url
from rowen.connectors.feed.walk import FeedCursor, FeedWalk
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
# A prolog is shorter; the pattern reads it again for each of its parts.
_HEAD_BYTES = 8192


class FeedOptions(Options):
    """Options of a feed. `record_version` is raised when entries are read into something else than before."""

    record_version: ClassVar[int] = 1

    secret_neutral: ClassVar[frozenset[str]] = Options.secret_neutral | {"content", "archives", "robots"}

    content: Literal["entry", "page"] = Field(
        default="entry", description="store the content of an entry itself, or the page that it links to"
    )
    archives: bool = Field(default=True, description="walk the older documents of a paged or archived feed, once")
    robots: bool = Field(default=True, description="obey robots.txt for linked pages")
    headers: dict[str, str] = Field(
        default_factory=dict, description="headers to send; env:NAME and file:PATH are references"
    )
    delay_s: float | None = Field(default=None, ge=0, description="pause between requests, instead of the setting's")
    # The largest feeds that were seen have 10 MB, with all their articles; four times as much is a feed gone wrong.
    max_bytes: int = Field(default=40 << 20, ge=1, description="maximum size of a document")

    def reading(self) -> dict[str, Any]:
        """Return the options that decide how an entry is read, and whether its page is read at all."""
        pages = self.chosen("max_bytes", "robots") if self.content == "page" else {}
        return {"content": self.content, "language": self.language, "entries": self.record_version, **pages}

    def listing(self) -> dict[str, Any]:
        """Return the options under which archives need not be read again."""
        return {**self.reading(), "archives": self.archives, "headers": self.headers}


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
        """Return the URL of `feed:https://…`, `feed://…`, or of an address that is named like a feed."""
        if address.startswith("feed:"):
            return cls.accept(address)
        return web_url(address, "feed") if _NAMED.fullmatch(address) else None

    @classmethod
    def accept(cls, address: str) -> str | None:
        """Return the URL of any web address."""
        if address.startswith("feed://"):
            address = f"https://{address.removeprefix('feed://')}"
        return web_url(address, "feed")

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the address itself if its answer is a feed."""
        head = probe.page.body[:_HEAD_BYTES] if probe.page is not None else b""
        return cls.accept(probe.url) if _BEGINS.match(head) or _JSON_BEGINS.match(head) else None

    @staticmethod
    def describe_cursor(cursor: Any, _notes: Mapping[str, int]) -> dict[str, Any]:
        """Return the hubs, the number of archives to be read, and whether the feed was read before."""
        stored = FeedCursor.of(cursor)
        backlog = sum(stretch.then is not None for stretch in stored.stretches)
        return {"hubs": tuple(stored.hubs), "backlog": backlog, "is_whole": cursor is not None}

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Read the feed, and its archives once."""
        async with self._tools.client() as client:
            walk = FeedWalk(self._url, self._options, self._tools, known=known, client=client)
            async with aclosing(walk.observations()) as observations:
                async for observation in observations:
                    yield observation
