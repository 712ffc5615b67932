"""Sources and their state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

from rowen.model.items import Cursor, Document
from rowen.model.wording import brief, count

SourceState: TypeAlias = Literal["active", "paused"]
SourceAction: TypeAlias = Literal["added", "changed", "paused", "resumed", "unchanged", "removed"]


def one_or_more(sources: Sequence[str] | None) -> tuple[str, ...]:
    """Return source names as a tuple; a single name may be given as a string."""
    return (sources,) if isinstance(sources, str) else tuple(sources or ())


@dataclass(frozen=True, slots=True)
class Source:
    """One source; `truncated` counts items that the last run knew of beyond a limit.

    `due_at` is the time of the next check, None if the source is checked on request only. `failures` counts
    consecutive failed runs; after many of them the source is failing, since `failing_since`. `stale` is the expected
    share of stale items, None if the source was never read completely.
    """

    id: int
    name: str
    kind: str
    url: str
    options: Mapping[str, Any] = field(default_factory=dict)
    schedule: str | None = None
    state: SourceState = "active"
    cursor: Cursor = None
    version: str | None = None
    created_at: datetime | None = None
    items: int = 0
    deletions_held: int = 0
    last_run_at: datetime | None = None
    last_complete_at: datetime | None = None
    truncated: int = 0
    due_at: datetime | None = None
    failures: int = 0
    failing_since: datetime | None = None
    stale: float | None = None

    @property
    def family(self) -> str:
        """The address without a version; all versions of a package have the same family."""
        return self.url.partition("@")[0] if self.url.startswith("pkg:") else self.url

    @property
    def library(self) -> str:
        """The name without a version: the name of the package, or the part of the source's name before an `@`."""
        if self.url.startswith("pkg:"):
            return unquote(self.family.partition("/")[2])
        return self.name[:1] + self.name[1:].partition("@")[0]

    @property
    def release(self) -> str | None:
        """The version: reported by the connector, or the part of the name after an `@`."""
        return self.version or self.name[1:].partition("@")[2] or None

    def __repr__(self) -> str:
        return brief(self, self.name, self.kind, self.url, count(self.items, "item"))


@dataclass(frozen=True, slots=True)
class AppliedSource:
    """The effect of a declaration file on one source; `changes` maps each setting to its old and new value."""

    source: str
    action: SourceAction
    kind: str
    url: str
    changes: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    items: int = 0
    schedule: str | None = None


@dataclass(frozen=True, slots=True)
class Overview:
    """The state of a source.

    `truncated` counts items that the last run knew of beyond a limit. `coverage` is the share of the source's passages
    that are not waiting for a vector, None if there is no model. `stale` is the expected share of stale items, None if
    the source was never read completely. `due_at` is the time of the next check, None if the source is checked on
    request only.
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
    """The progress of following a feed or an event stream.

    `state` is `running`, `paused`, `failing` (the last run was not complete), `replicating` (the first read is not
    complete) or `following`. `last_new_at` is the time at which a run last stored something new, `last_member_at` is
    the latest time in a member. `pages` counts pages that were read, `pages_immutable` counts immutable ones,
    `backlog` counts known pages that have not been read. `polling_s` is the polling interval that the source requests;
    `hubs` announce its changes.
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
class FoundVersion:
    """The versions of a library, and the source of the requested version.

    `source` and `version` are None if no version was requested. `available` lists all stored versions, `unversioned`
    lists the library's sources without a version.
    """

    library: str
    source: str | None
    version: str | None
    available: tuple[str, ...]
    unversioned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """A preview of an address: its kind and its first items; nothing is stored.

    `kept_as` is the name of the existing source with this address. `trouble` is the reason why reading failed or was
    incomplete.
    """

    address: str
    kind: str
    url: str
    name: str
    items: tuple[Document, ...] = ()
    more: bool = False
    kept_as: str | None = None
    trouble: str | None = None
