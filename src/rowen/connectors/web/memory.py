"""What is remembered of a site between runs besides its pages."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rowen.connectors.base import remembered
from rowen.connectors.web.boilerplate import Boilerplate, Edge
from rowen.model.files import claims
from rowen.model.items import Cursor

__all__ = ["OMITTED", "TOLD", "Bridge", "SiteCursor"]

TOLD, OMITTED = "told", "omitted"
"""Of a page that its X-Robots-Tag keeps out of the index: whether an answer 304 may have that header."""

MOST_BRIDGE_CHARS = 20_000_000
"""Of all bridges together, which stand in one value that each run reads and may write. A site of a hundred thousand
redirects comes to half of it."""

_TEXTS = 5  # validators, target, twin, robots

log = logging.getLogger(__name__)


class Bridge(NamedTuple):
    """A URL that is no page of ours but leads on: a redirect, a page that asks not to be indexed, a second name.

    It is remembered so that an outage of a bridge does not cut off what lies behind it, and so that asking again
    whether it still is what it was costs no body. `to` is where it sends its readers, at its own depth: the target
    of a redirect, or the address that a page prefers. `twin` is the body that it shares with the page's first name.
    `robots` is `TOLD` or `OMITTED` where nothing but a header keeps the page out of the index.
    """

    links: tuple[str, ...] = ()
    etag: str | None = None
    last_modified: str | None = None
    to: str | None = None
    twin: bytes | None = None
    robots: str | None = None

    @classmethod
    def of(cls, links: Any, *texts: Any) -> "Bridge":
        """A bridge as a cursor has it; raises `ValueError` for what is none."""
        if not isinstance(links, list) or any(isinstance(text, list) for text in texts) or len(texts) > _TEXTS:
            raise ValueError("it remembers a bridge that is none")
        etag, modified, to, twin, robots = (*texts, *[None] * _TEXTS)[:_TEXTS]
        return cls(tuple(links), etag, modified, to, bytes.fromhex(twin) if twin else None, robots)

    def to_json(self) -> list[Any]:
        """The bridge as a cursor has it."""
        told = [list(self.links), self.etag, self.last_modified, self.to, self.twin.hex() if self.twin else None]
        return [*told, self.robots] if self.robots else told


@dataclass(frozen=True, slots=True)
class _StoredSiteCursor:
    """The memory as a cursor has it."""

    bridges: dict[str, list[list[str] | str | None]] = field(default_factory=dict)
    as_of: str | None = None
    sitemap_trust: int = 0
    boilerplate: list[list[str]] | None = None
    shell: list[list[str]] | None = None  # its name in older cursors
    edges: dict[str, list[list[str] | str | None]] | None = None
    known: bool = True
    pages: int | None = None
    claims: str | None = None
    select: str | None = None  # of earlier cursors, which had no `reading`
    reading: str | None = None


@dataclass(slots=True)
class SiteCursor:
    """The cursor of a site. `as_of` is the site's own clock when the last complete walk began.

    `known` tells that all bridges are in it: without them, an outage may hide the way to pages that we hold.
    `studied` tells that all that we hold was read with this boilerplate. Where the last walk had
    another one than the walk before, `pages` tells how many it read: if we hold more, some were kept unread (they
    failed, or their deletion was held back), and nothing was studied. `reading` is what decided whether a page was a
    bridge, and which links it has (`WebOptions.leading`).
    """

    bridges: dict[str, Bridge] = field(default_factory=dict)
    as_of: str | None = None
    sitemap_trust: int = 0
    boilerplate: Boilerplate = field(default_factory=Boilerplate)
    edges: dict[str, Edge] = field(default_factory=dict)
    studied: bool = False
    known: bool = False
    pages: int | None = None
    reading: str | None = None

    @classmethod
    def of(cls, cursor: Cursor, *, reading: str | None = None) -> "SiteCursor":
        """Return what a cursor says for a walk that reads pages in this way; nothing, where it cannot be used."""
        written = remembered(cursor, _StoredSiteCursor)
        try:
            return cls(reading=reading) if written is None else cls._of(written, reading)
        except ValueError as problem:
            log.warning("dropped a cursor that cannot be read; the site is walked from its beginning: %s", problem)
            return cls(reading=reading)

    @classmethod
    def _of(cls, written: "_StoredSiteCursor", reading: str | None) -> "SiteCursor":
        bridges = {url: Bridge.of(*(bridge or [None])) for url, bridge in written.bridges.items()}
        if written.claims != claims() or written.reading != reading:
            # Read in another way, a bridge may be a page or have other links, although it has not changed.
            bridges = {url: bridge._replace(etag=None, last_modified=None) for url, bridge in bridges.items()}
        return cls(
            bridges,
            written.as_of,
            written.sitemap_trust,
            Boilerplate.of(written.boilerplate or written.shell),
            dict(_edges(written.edges or {})),
            studied=written.edges is not None,
            known=written.known,
            pages=written.pages,
            reading=reading,
        )

    def to_cursor(self) -> dict[str, Any]:
        """The memory as a cursor. Of more bridges than a cursor can hold, it tells that they are not all in it."""
        pages = {} if self.pages is None else {"pages": self.pages}
        readers = {} if claims() is None else {"claims": claims()}
        reading = {} if self.reading is None else {"reading": self.reading}
        bridges = dict(_first(sorted(self.bridges.items())))
        return {
            **pages,
            **readers,
            **reading,
            "bridges": {url: bridge.to_json() for url, bridge in bridges.items()},
            "as_of": self.as_of,
            "sitemap_trust": self.sitemap_trust,
            "boilerplate": self.boilerplate.to_json(),
            "edges": {url: edge.to_json() for url, edge in self.edges.items()},
            "known": self.known and len(bridges) == len(self.bridges),
        }


def _edges(written: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Edge]]:
    """The edges that a cursor remembers; those of one that knew no titles are looked at again."""
    return ((url, Edge.from_json(edge)) for url, edge in written.items() if len(edge) == len(Edge._fields))


def _first(bridges: Iterable[tuple[str, Bridge]]) -> Iterator[tuple[str, Bridge]]:
    left_chars = MOST_BRIDGE_CHARS
    for url, bridge in bridges:
        left_chars -= len(url) + len(bridge.to or "") + sum(map(len, bridge.links))
        if left_chars < 0:
            return
        yield url, bridge
