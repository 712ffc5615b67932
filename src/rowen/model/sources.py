"""Sources: the things that are kept as copies, and their state."""

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
    """Return names of sources as a tuple, where a single name may be given as a string."""
    return (sources,) if isinstance(sources, str) else tuple(sources or ())


@dataclass(frozen=True, slots=True)
class Source:
    """One source; `truncated` counts items that its last run knew of beyond a limit.

    `due_at` is the time of the next check, None if only requests trigger one. `failures` counts failed runs in a row;
    with many of them the source is failing, since `failing_since`. `stale` is the expected share of stale items, None
    if the source was never seen whole.
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
        """The address without a version, which all versions of a package share."""
        return self.url.partition("@")[0] if self.url.startswith("pkg:") else self.url

    @property
    def library(self) -> str:
        """The name without a version: that of a package, or the part of the source's name before an `@`."""
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
    """The effect of a declaration file on one source; `changes` maps each setting to its old and new values."""

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

    `truncated` counts items that its last run knew of beyond a limit. `coverage` is the share of its passages that do
    not wait for a vector, None without a model. `stale` is the expected share of stale items, None if the source was
    never seen whole. `due_at` is the time of the next check, None if only requests trigger one.
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

    `state` is `running`, `paused`, `failing` (the last run did not see it whole), `replicating` (not all of it has been
    read yet) or `following`. `last_new_at` is when a run last stored something new, `last_member_at` the latest time in
    a member. `pages` counts the pages that were read, `pages_immutable` those that never change, `backlog` known pages
    that have not been read. `polling_s` is the polling interval that the source asks for, `hubs` announce its changes.
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
    """The source with the requested version of a library; None if no version was requested.

    `available` are all stored versions, `unversioned` are its sources without a version.
    """

    library: str
    source: str | None
    version: str | None
    available: tuple[str, ...]
    unversioned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """A preview of an address: its kind and first items, none of which are stored.

    `kept_as` is the name of the source that has it already. `trouble` says why nothing, or no more, could be read.
    """

    address: str
    kind: str
    url: str
    name: str
    items: tuple[Document, ...] = ()
    more: bool = False
    kept_as: str | None = None
    trouble: str | None = None
