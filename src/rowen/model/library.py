"""What is kept, as interfaces show it: items with their history, sources with their state, what is in quarantine."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rowen.model.wording import brief, count

__all__ = ["Case", "Entry", "Following", "FoundVersion", "HeldDeletion", "Overview", "Revision"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One item as it is stored, or its last copy if it was withdrawn."""

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
    withdrawn_at: datetime | None = None

    def __repr__(self) -> str:
        return brief(self, self.title, self.source, self.url, count(len(self.text), "character"))


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
    """How a source is doing.

    `truncated` counts what its last run knew of beyond a limit. `coverage` is the share of its passages that wait for
    no vector, None without a model. `stale` is the share of its items that are expected to be stale now, None if it was
    never seen whole. `due_at` is when it is to be looked at again, None if only somebody who asks makes it due.
    """

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
    truncated: int = 0
    coverage: float | None = None
    stale: float | None = None
    due_at: datetime | None = None
    schedule: str | None = None


@dataclass(frozen=True, slots=True)
class Following:
    """How a feed or an event stream is followed.

    `state` is `running`, `paused`, `failing` (the last run did not see it whole), `replicating` (not all of it was read
    yet) or `following`. `last_new_at` is when a run last stored something new of it, `last_member_at` the latest time
    that a member tells. Of its `pages`, as many as were read, some never change. `backlog` counts those that are known
    and were not read yet. `polling_s` is how often the source wants to be asked, `hubs` are those that tell of changes.
    """

    source: str
    kind: str
    state: str
    last_poll_at: datetime | None
    last_new_at: datetime | None
    last_member_at: str | None = None
    pages: int | None = None
    pages_immutable: int | None = None
    members: int | None = None
    backlog: int = 0
    next_poll_at: datetime | None = None
    polling_s: float | None = None
    hubs: tuple[str, ...] = ()
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class HeldDeletion:
    """One item that its source no longer shows, and that was not deleted.

    `told` says that the source called it gone itself, `kept_at` that somebody wants it kept.
    """

    source: str
    url: str
    title: str
    since: datetime
    told: bool
    kept_at: datetime | None


@dataclass(frozen=True, slots=True)
class FoundVersion:
    """Which source holds the version of a library that somebody means; None where no version is meant.

    `available` are all versions that are held, `unversioned` are sources of it that have none.
    """

    library: str
    source: str | None
    version: str | None
    available: tuple[str, ...]
    unversioned: tuple[str, ...] = ()


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
