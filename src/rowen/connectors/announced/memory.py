"""What is remembered of announcements and of overviews, in notes beside the cursor."""

from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeAlias

import msgspec

from rowen.connectors.remembered import remembered
from rowen.model.announcement import Announcement

__all__ = ["GONE", "LINKS_VERSION", "OVERVIEWS", "AnnouncedCursor", "AnnouncementNote", "GoneNote", "OverviewNote"]

GONE = "gone"
"""The addresses that answer 404 or 410; they are requested again at growing intervals."""

LINKS_VERSION = 2
"""Raised when other links would be read from the same overview: such pages are then read again."""

_YOUNG = timedelta(hours=1)  # a deployment that answers 404 for everything is over by then
# Share of the time that an address has been gone. With a job every ten minutes, an address costs some sixty requests in
# its first day and seventy in the following month; with twice the share it is half as many, and what returns without an
# announcement is late by twice as long.
_WAIT_SHARE = 0.05

OVERVIEWS = "overview"
"""The room of pages that only lead to documents: they are asked for in each job that has something to do."""


Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]


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
    """A page that only leads to documents, with its validators, and the version of the rules that read its links."""

    links: list[str] = field(default_factory=list)
    etag: str | None = None
    last_modified: str | None = None
    version: int = 1

    @property
    def current(self) -> "OverviewNote":
        """Return the note without its validators where the page would be read in another way now."""
        return self if self.version == LINKS_VERSION else OverviewNote(self.links, version=self.version)


@dataclass(slots=True)
class GoneNote:
    """An address where there is nothing: since when, when it was last asked for, and what it answered."""

    since: Moment
    last: Moment
    why: str

    def is_due(self, now: datetime) -> bool:
        """Whether it is time to ask again."""
        gone_for = self.last - self.since
        return gone_for < _YOUNG or now - self.last >= gone_for * _WAIT_SHARE

    def to_note(self) -> dict[str, Any]:
        """Return the note as JSON."""
        return {"since": self.since.isoformat(), "last": self.last.isoformat(), "why": self.why}
