"""What is remembered of announcements and of overviews, in notes beside the cursor."""

from dataclasses import asdict, dataclass, field
from typing import Any

from rowen.connectors.remembered import remembered
from rowen.model.announcement import Announcement

__all__ = ["OVERVIEWS", "AnnouncedCursor", "AnnouncementNote", "OverviewNote"]

OVERVIEWS = "overview"
"""The room of pages that only lead to documents: they are asked for in each job that has something to do."""


@dataclass(slots=True)
class AnnouncedCursor:
    """Up to which line of the change log the feed's announcements were collected."""

    number: int = 0

    @classmethod
    def of(cls, cursor: Any) -> "AnnouncedCursor":
        """What was remembered; the beginning, if that is nothing, or cannot be read."""
        return remembered(cursor, cls) or cls()

    def to_cursor(self) -> dict[str, Any]:
        """The cursor as JSON."""
        return asdict(self)


@dataclass(slots=True)
class AnnouncementNote:
    """An announcement and what became of it; one that is `waiting` has no job yet."""

    location: str
    member: str
    at: str
    outcome: str = "waiting"
    why: str | None = None

    @classmethod
    def of(cls, announcement: Announcement, location: str) -> "AnnouncementNote":
        """The note of what was announced just now."""
        return cls(location, announcement.member, announcement.at)

    def to_note(self) -> dict[str, Any]:
        """The note as JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(slots=True)
class OverviewNote:
    """A page that only leads to documents, with its validators."""

    links: list[str] = field(default_factory=list)
    etag: str | None = None
    last_modified: str | None = None
