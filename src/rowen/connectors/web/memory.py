"""What is remembered of a site between runs besides its pages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rowen.connectors.web.shell import Shell
from rowen.model.item import Cursor

__all__ = ["Bridge", "Memory"]


class Bridge(NamedTuple):
    """A URL that is no page of ours but leads on: a redirect, a page that asks not to be indexed, a second name.

    It is remembered so that an outage of a bridge does not cut off what lies behind it, and so that asking again
    whether it still is what it was costs no body.
    """

    links: tuple[str, ...] = ()
    etag: str | None = None
    last_modified: str | None = None


@dataclass(slots=True)
class Memory:
    """The cursor of a site. `as_of` is the site's own clock when the last complete walk began."""

    bridges: dict[str, Bridge] = field(default_factory=dict)
    as_of: str | None = None
    sitemap_trust: int = 0
    shell: Shell = field(default_factory=Shell)
    sample: str = ""
    known: bool = False

    @classmethod
    def of(cls, cursor: Cursor) -> "Memory":
        """What a cursor says; nothing, where there is none or it is not ours."""
        if not isinstance(cursor, Mapping):
            return cls()
        bridges = {
            url: Bridge(tuple(links), etag, modified)
            for url, (links, etag, modified) in cursor.get("bridges", {}).items()
        }
        return cls(
            bridges,
            cursor.get("as_of"),
            int(cursor.get("sitemap_trust", 0)),
            Shell.of(cursor.get("shell")),
            str(cursor.get("sample", "")),
            known=True,
        )

    def to_cursor(self) -> dict[str, Any]:
        """The memory as a cursor."""
        return {
            "bridges": {url: [list(b.links), b.etag, b.last_modified] for url, b in sorted(self.bridges.items())},
            "as_of": self.as_of,
            "sitemap_trust": self.sitemap_trust,
            "shell": self.shell.to_json(),
            "sample": self.sample,
        }
