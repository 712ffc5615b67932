"""What is remembered of a site between runs besides its pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rowen.connectors.web.shell import Edge, Shell
from rowen.model.item import Cursor

__all__ = ["Bridge", "Memory"]


class Bridge(NamedTuple):
    """A URL that is no page of ours but leads on: a redirect, a page that asks not to be indexed, a second name.

    It is remembered so that an outage of a bridge does not cut off what lies behind it, and so that asking again
    whether it still is what it was costs no body. `to` is where it sends its readers, at its own depth: the target
    of a redirect, or the address that a page prefers. `twin` is the body that it shares with the page's first name.
    """

    links: tuple[str, ...] = ()
    etag: str | None = None
    last_modified: str | None = None
    to: str | None = None
    twin: bytes | None = None

    @classmethod
    def of(cls, links: Sequence[str], etag: str | None, modified: str | None, *more: str | None) -> "Bridge":
        """A bridge as a cursor has it."""
        to, twin = more or (None, None)
        return cls(tuple(links), etag, modified, to, bytes.fromhex(twin) if twin else None)

    def to_json(self) -> list[Any]:
        """The bridge as a cursor has it."""
        return [list(self.links), self.etag, self.last_modified, self.to, self.twin.hex() if self.twin else None]


@dataclass(slots=True)
class Memory:
    """The cursor of a site. `as_of` is the site's own clock when the last complete walk began.

    `known` tells that all bridges are in it: without them, an outage may hide the way to pages that we hold.
    `studied` tells that all that we hold was read with this shell.
    """

    bridges: dict[str, Bridge] = field(default_factory=dict)
    as_of: str | None = None
    sitemap_trust: int = 0
    shell: Shell = field(default_factory=Shell)
    edges: dict[str, Edge] = field(default_factory=dict)
    studied: bool = False
    known: bool = False

    @classmethod
    def of(cls, cursor: Cursor) -> "Memory":
        """What a cursor says; nothing, where there is none or it is not ours."""
        if not isinstance(cursor, Mapping):
            return cls()
        return cls(
            {url: Bridge.of(*bridge) for url, bridge in cursor.get("bridges", {}).items()},
            cursor.get("as_of"),
            int(cursor.get("sitemap_trust", 0)),
            Shell.of(cursor.get("shell")),
            {url: Edge.from_json(edge) for url, edge in cursor.get("edges", {}).items()},
            studied="edges" in cursor,
            known=bool(cursor.get("known", True)),
        )

    def to_cursor(self) -> dict[str, Any]:
        """The memory as a cursor."""
        return {
            "bridges": {url: bridge.to_json() for url, bridge in sorted(self.bridges.items())},
            "as_of": self.as_of,
            "sitemap_trust": self.sitemap_trust,
            "shell": self.shell.to_json(),
            "edges": {url: edge.to_json() for url, edge in self.edges.items()},
            "known": self.known,
        }
