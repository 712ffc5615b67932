"""What is remembered of a stream; its pages stand in notes beside it, since there may be many."""

from dataclasses import asdict, dataclass, field
from typing import Any

from rowen.connectors.base import remembered
from rowen.connectors.ldes.stream import EventStream

__all__ = ["CLOSED", "CONTEXTS", "DELETED", "OPEN", "UNREAD", "LdesCursor", "PageNote"]

OPEN = "page"
"""The room of pages that are asked for in each run, since they may change."""
UNREAD = "unread"
"""The room of pages that others lead to, and that were never read."""
CLOSED = "closed"
"""The room of pages that are never asked for again: immutable ones, and those that are gone."""
DELETED = "deleted"
"""The room of objects that were deleted, and when: older versions of them may come later."""
CONTEXTS = "context"
"""The room of JSON-LD contexts, as they were when they were first needed."""


@dataclass(slots=True)
class PageNote:
    """A page that is asked for in each run, and between which times its members are, as far as that is told.

    `under` is the newer page that leads to it by a relation of time.
    """

    etag: str | None = None
    last_modified: str | None = None
    low: int | None = None
    high: int | None = None
    under: str | None = None


@dataclass(slots=True)
class LdesCursor:
    """The cursor. `complete` tells that the last run saw all that there was to see; counts are for people."""

    root: str
    stream: EventStream
    window: list[str | None]
    complete: bool = False
    pages: int = 0
    members: int = 0
    last_member_at: str | None = None
    contexts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, cursor: Any) -> "LdesCursor | None":
        """What was remembered; None, if that is nothing, or cannot be read."""
        return remembered(cursor, cls)

    def to_cursor(self) -> dict[str, Any]:
        """The cursor as JSON."""
        return asdict(self)
