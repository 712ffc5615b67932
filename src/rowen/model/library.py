"""What is kept, as doors show it: items with their history, sources with their state, what is in quarantine."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["Case", "Entry", "Overview", "Revision"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One item as it is stored."""

    id: int
    source: str
    url: str
    title: str
    text: str
    tags: list[str]
    record: Mapping[str, Any]
    language: str | None
    media_type: str | None
    remarks: list[str]
    revision: int
    created_at: datetime
    updated_at: datetime
    checked_at: datetime


@dataclass(frozen=True, slots=True)
class Revision:
    """One distinct text of an item."""

    number: int
    at: datetime
    title: str
    text: str
    tags: list[str]


@dataclass(frozen=True, slots=True)
class Overview:
    """How a source is doing."""

    name: str
    kind: str
    url: str
    state: str
    items: int
    quarantined: int
    deletions_held: int
    last_status: str | None
    last_run_at: datetime | None
    last_complete_at: datetime | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class Case:
    """One item that could not be read."""

    source: str
    url: str
    error: str
    hint: str | None
    tries: int
    first_at: datetime
    last_at: datetime

    @property
    def place(self) -> tuple[datetime, str, str]:
        """Where it stands in the list; what follows is read from here."""
        return self.last_at, self.url, self.source
