"""What a user says about a feed: its address and its options."""

import re
from typing import Any, ClassVar, Literal

from pydantic import Field

from rowen.connectors.base import Options
from rowen.connectors.catalog.options import web_url

__all__ = ["FeedOptions", "accept", "recognise"]

_NAMED = re.compile(
    r"https?://[^?#]+(?:\.(?:rss|atom)|/(?:feed|rss|atom)(?:\.xml|\.json|/)?|/(?:rss|atom)\d?\.xml)(?:\?[^#]*)?",
    re.IGNORECASE,
)


class FeedOptions(Options):
    """Options of a feed. `record_version` is raised when entries are read into something else than before."""

    record_version: ClassVar[int] = 1

    secret_neutral: ClassVar[frozenset[str]] = Options.secret_neutral | {"content", "archives", "robots"}

    content: Literal["entry", "page"] = Field(
        default="entry", description="what is stored of an entry: its own content, or the page that it links to"
    )
    archives: bool = Field(default=True, description="walk the older documents of a paged or archived feed, once")
    robots: bool = Field(default=True, description="respect robots.txt for linked pages")
    headers: dict[str, str] = Field(default_factory=dict, description="headers to send; env:NAME and file:PATH refer")
    delay_s: float | None = Field(default=None, ge=0, description="least time between two requests")
    # The largest feeds that were seen have 10 MB, with all their articles; four times as much is a feed gone wrong.
    max_bytes: int = Field(default=40 << 20, ge=1, description="largest document that is read")

    def reading(self) -> dict[str, Any]:
        """What an entry is read into depends on these, and whether the page that it links to is read at all."""
        pages = self.chosen("max_bytes", "robots") if self.content == "page" else {}
        return {"content": self.content, "language": self.language, "entries": self.record_version, **pages}

    def listing(self) -> dict[str, Any]:
        """Archives are read again where entries would be read otherwise."""
        return {**self.reading(), "archives": self.archives, "headers": self.headers}


def recognise(address: str) -> str | None:
    """The URL of `feed:https://…`, `feed://…`, or of an address that is named like a feed."""
    if address.startswith("feed:"):
        return accept(address)
    return web_url(address, "feed") if _NAMED.fullmatch(address) else None


def accept(address: str) -> str | None:
    """The URL of any web address."""
    if address.startswith("feed://"):
        address = f"https://{address.removeprefix('feed://')}"
    return web_url(address, "feed")
