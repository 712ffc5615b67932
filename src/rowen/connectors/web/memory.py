"""The cursor of a site: its bridges, its boilerplate, and the trust in its sitemap."""

import logging
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rowen.connectors.base import parse_stored
from rowen.connectors.web.boilerplate import Boilerplate, Edge
from rowen.model.files import claims
from rowen.model.items import Cursor

# For a page that its X-Robots-Tag excludes from the index: whether its 304 responses have that header.
TOLD, OMITTED = "told", "omitted"
# Maximum size of all bridges together, since each run reads and may write them as one value. A site of 100,000
# redirects needs half of it.
MOST_BRIDGE_CHARS = 20_000_000
_TEXTS = 5  # validators, target, twin, robots

log = logging.getLogger(__name__)


class Bridge(NamedTuple):
    """A URL that is no stored page but leads to pages: a redirect, a page with `noindex`, a second URL of a page.

    A bridge is stored for two reasons: an outage of the bridge must not hide the pages behind it, and checking it
    again must not transfer its body. `to` is the target of a redirect, or the canonical address of a page; it has the
    depth of the bridge. `twin` is the hash of the body that is also served at the page's first URL. `robots` is `TOLD`
    or `OMITTED` if only a header excludes the page from the index.
    """

    links: tuple[str, ...] = ()
    etag: str | None = None
    last_modified: str | None = None
    to: str | None = None
    twin: bytes | None = None
    robots: str | None = None

    @classmethod
    def of(cls, links: Any, *texts: Any) -> "Bridge":
        """Return the bridge in a cursor; raise `ValueError` if the value is invalid."""
        if not isinstance(links, list) or any(isinstance(text, list) for text in texts) or len(texts) > _TEXTS:
            raise ValueError("it has an invalid bridge")
        etag, modified, to, twin, robots = (*texts, *[None] * _TEXTS)[:_TEXTS]
        return cls(tuple(links), etag, modified, to, bytes.fromhex(twin) if twin else None, robots)

    def to_json(self) -> list[Any]:
        """Return the bridge as JSON for a cursor."""
        values = [list(self.links), self.etag, self.last_modified, self.to, self.twin.hex() if self.twin else None]
        return [*values, self.robots] if self.robots else values


@dataclass(frozen=True, slots=True)
class _StoredSiteCursor:
    """The JSON form of the cursor."""

    bridges: dict[str, list[list[str] | str | None]] = field(default_factory=dict)
    as_of: str | None = None
    sitemap_trust: int = 0
    boilerplate: list[list[str]] | None = None
    shell: list[list[str]] | None = None  # its name in older cursors
    edges: dict[str, list[list[str] | str | None]] | None = None
    known: bool = True
    pages: int | None = None
    claims: str | None = None
    select: str | None = None  # in older cursors, which had no `reading`
    reading: str | None = None


@dataclass(slots=True)
class SiteCursor:
    """The cursor of a site. `as_of` is the time of the site's own clock when the last complete walk began.

    `known` is true if all bridges are stored; without them, an outage may hide the way to stored pages. `studied` is
    true if all stored pages were read with this boilerplate. If the last walk had other boilerplate than the walk
    before, `pages` is the number of pages that it read: if more are stored, some were kept unread (they failed, or
    their deletion is pending), and `studied` is false. `reading` holds the options that decide which pages are
    bridges, and which links they have (`WebOptions.leading`).
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
        """Return the stored cursor for a walk with the options `reading`; an empty cursor if it cannot be read."""
        written = parse_stored(cursor, _StoredSiteCursor)
        if written is None:
            return cls(reading=reading)
        try:
            bridges = {url: Bridge.of(*(bridge or [None])) for url, bridge in written.bridges.items()}
            # Skip edges without a title, which earlier versions stored.
            with_title = [(url, e) for url, e in (written.edges or {}).items() if len(e) == len(Edge._fields)]
            edges = {url: Edge.from_json(edge) for url, edge in with_title}
        except ValueError as problem:
            log.warning("dropped a cursor that cannot be read; the site is walked from its beginning: %s", problem)
            return cls(reading=reading)
        if written.claims != claims() or written.reading != reading:
            # Under other options, an unchanged bridge may be a page or have other links.
            bridges = {url: bridge._replace(etag=None, last_modified=None) for url, bridge in bridges.items()}
        return cls(
            bridges,
            written.as_of,
            written.sitemap_trust,
            Boilerplate.of(written.boilerplate or written.shell),
            edges,
            studied=written.edges is not None,
            known=written.known,
            pages=written.pages,
            reading=reading,
        )

    def to_cursor(self) -> dict[str, Any]:
        """Return the cursor as JSON; `known` becomes false if there are more bridges than it can store."""
        pages = {} if self.pages is None else {"pages": self.pages}
        readers = {} if claims() is None else {"claims": claims()}
        reading = {} if self.reading is None else {"reading": self.reading}
        bridges: dict[str, list[Any]] = {}
        left_chars = MOST_BRIDGE_CHARS
        for url, bridge in sorted(self.bridges.items()):
            left_chars -= len(url) + len(bridge.to or "") + sum(map(len, bridge.links))
            if left_chars < 0:
                break
            bridges[url] = bridge.to_json()
        return {
            **pages,
            **readers,
            **reading,
            "bridges": bridges,
            "as_of": self.as_of,
            "sitemap_trust": self.sitemap_trust,
            "boilerplate": self.boilerplate.to_json(),
            "edges": {url: edge.to_json() for url, edge in self.edges.items()},
            "known": self.known and len(bridges) == len(self.bridges),
        }
