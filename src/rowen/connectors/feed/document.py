"""A document of a feed: its entries, and where it leads."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rowen.connectors.feed.entry import FeedEntry
from rowen.model.item import Failed

__all__ = ["Deletion", "FeedDocument"]

_LINK = re.compile(r"<([^<>]*)>((?:\s*;\s*[\w*-]+\s*=\s*(?:\"[^\"]*\"|[^\s\",;]+))*)")
_REL = re.compile(r"\brel\s*=\s*(?:\"([^\"]*)\"|([^\s\",;]+))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Deletion:
    """An entry that its feed says was deleted (RFC 6721)."""

    url: str
    stamp: str | None


@dataclass(slots=True)
class FeedDocument:
    """What one document says.

    `older` is the archive before it (RFC 5005, section 4), `following` the next page (section 3). `trouble` tells what
    of it could not be read: such a document is read again next time, whatever its validators say.
    """

    entries: list[FeedEntry] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    deleted: list[Deletion] = field(default_factory=list)
    older: str | None = None
    following: str | None = None
    hubs: tuple[str, ...] = ()
    topic: str | None = None
    trouble: str | None = None

    def take(self, seen: FeedEntry | Failed) -> None:
        """Take an entry in, or that it could not be read."""
        if isinstance(seen, Failed):
            self.failed.append(seen)
        else:
            self.entries.append(seen)

    def link(self, rel: str, address: str | None) -> None:
        """Note where the document leads."""
        if address is None:
            return
        match rel:
            case "prev-archive":
                self.older = self.older or address
            case "next":
                self.following = self.following or address
            case "self":
                self.topic = self.topic or address
            case "hub" if address not in self.hubs:
                self.hubs = (*self.hubs, address)

    def link_headers(self, lines: list[str], resolve: Callable[[str], Any]) -> None:
        """Note what the answer's headers say of hubs (WebSub, section 4); they come before the document's own."""
        told = [
            (rel.lower(), resolve(found[1]))
            for line in lines
            for found in _LINK.finditer(line)
            for name in _REL.findall(found[2])[:1]
            for rel in (name[0] or name[1]).split()
        ]
        hubs = tuple(dict.fromkeys(address for rel, address in told if rel == "hub" and address))
        self.hubs = (*hubs, *(hub for hub in self.hubs if hub not in hubs))
        self.topic = next((address for rel, address in told if rel == "self" and address), None) or self.topic

    def settle(self) -> None:
        """Of several versions of an entry the latest one counts, of those of the same time the first."""
        latest: dict[str, FeedEntry] = {}
        for entry in self.entries:
            held = latest.get(entry.url)
            if held is None or (entry.stamp or "") > (held.stamp or ""):
                latest[entry.url] = entry
        self.entries = list(latest.values())
