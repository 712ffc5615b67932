"""What is remembered of a feed: validators, hubs, and which archives were walked."""

from dataclasses import asdict, dataclass, field
from typing import Any

from rowen.connectors.remembered import remembered

__all__ = ["FeedCursor", "Stretch"]


@dataclass(slots=True)
class Stretch:
    """Archives that were read: from `newest` on, up to `then`, which was not; None if there are no more."""

    newest: str
    then: str | None


@dataclass(slots=True)
class FeedCursor:
    """The cursor. `older` is where the feed itself leads to; `paged` tells that its pages were walked to their end."""

    etag: str | None = None
    last_modified: str | None = None
    hubs: list[str] = field(default_factory=list)
    topic: str | None = None
    older: str | None = None
    stretches: list[Stretch] = field(default_factory=list)
    paged: bool = False

    @classmethod
    def of(cls, cursor: Any) -> "FeedCursor":
        """What was remembered; nothing, if that cannot be read."""
        return remembered(cursor, cls) or cls()

    def to_cursor(self) -> dict[str, Any]:
        """The cursor as JSON."""
        return asdict(self)

    def walked(self, url: str) -> Stretch | None:
        """The stretch that begins with this archive."""
        return next((one for one in self.stretches if one.newest == url), None)
