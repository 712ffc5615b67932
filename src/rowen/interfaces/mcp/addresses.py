"""The addresses of resources: sources, items, and differences between revisions of an item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import parse_qs, quote, unquote, urlsplit

from rowen.errors import NotFoundError
from rowen.model.hashes import Hash
from rowen.model.url import key

Room: TypeAlias = Literal["sources", "source", "item", "diff"]

SOURCES = "rowen://sources"
_SUCH = "Such as rowen://sources, or rowen://items/{url}."
# No item has a billion revisions.
_DIGITS = 9
TEMPLATES = {
    "rowen://sources/{name}": ("source", "How one source is doing: what it is, how much is held, how fresh it is."),
    "rowen://items/{url}": (
        "item",
        "The text of one item as Markdown; `url` is its percent-encoded URL. Subscribe to hear when it changes.",
    ),
    "rowen://diffs/{url}{?older,newer}": (
        "diff",
        "What changed between two revisions of an item, by default the last two; `url` is its percent-encoded URL.",
    ),
}
_SINGLE: dict[str, Room] = {"sources": "source", "items": "item", "diffs": "diff"}


def source_uri(name: str) -> str:
    """Return the address of a source."""
    return f"{SOURCES}/{quote(name, safe='')}"


def item_uri(url: str) -> str:
    """Return the address of an item."""
    return f"rowen://items/{quote(url, safe='')}"


def diff_uri(url: str) -> str:
    """Return the address of the difference between an item's last two revisions."""
    return f"rowen://diffs/{quote(url, safe='')}"


@dataclass(frozen=True, slots=True)
class ResourceAddress:
    """A parsed address: the kind of the resource, its source or URL, and the revisions of a difference."""

    room: Room
    name: str = ""
    older: int | None = None
    newer: int | None = None

    @classmethod
    def parse(cls, uri: str) -> ResourceAddress:
        """Parse an address; raise `NotFoundError` if it is not the address of a resource."""
        try:
            parts = urlsplit(uri)
        except ValueError:
            raise NotFoundError(f"{uri!r} is no resource.", hint=_SUCH) from None
        name = unquote(parts.path.removeprefix("/"))
        room: Room | None = "sources" if uri.rstrip("/") == SOURCES else _SINGLE.get(parts.netloc)
        if parts.scheme != "rowen" or room is None or (room != "sources" and not name):
            raise NotFoundError(f"{uri!r} is no resource.", hint=_SUCH)
        revisions = {
            field: int(value[0])
            for field, value in parse_qs(parts.query).items()
            if value[0].isdecimal() and len(value[0]) <= _DIGITS
        }
        return cls(room, "" if room == "sources" else name, revisions.get("older"), revisions.get("newer"))

    @property
    def watched(self) -> str | Hash | None:
        """The value by which a change finds the resource: the name of a source, or the key of an item."""
        if self.room in ("sources", "source"):
            return self.name
        try:
            return key(self.name)
        except ValueError:
            return None
