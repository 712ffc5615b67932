"""Sources: the things that are kept as copies, and their state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

from rowen.model.items import Cursor, Document
from rowen.model.wording import brief, count

__all__ = [
    "AppliedSource",
    "Following",
    "FoundVersion",
    "Overview",
    "Preview",
    "Source",
    "SourceAction",
    "SourceState",
    "one_or_more",
]

SourceState: TypeAlias = Literal["active", "paused"]
SourceAction: TypeAlias = Literal["added", "changed", "paused", "resumed", "unchanged", "removed"]


def one_or_more(sources: Sequence[str] | None) -> tuple[str, ...]:
    """Names of sources, where one name may stand for itself instead of a list of its letters."""
    return (sources,) if isinstance(sources, str) else tuple(sources or ())


@dataclass(frozen=True, slots=True)
class Source:
    """One thing we keep a copy of; `truncated` counts what its last run knew of beyond a limit.

    `due_at` is when it is to be looked at again, None if only somebody who asks makes it due. `failures` counts how
    often in a row it could not be read; with many of them it is called failing, since `failing_since`. `stale` is the
    share of its items that are expected to be stale now, None if it was never seen whole.
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
        """What the versions of one package have in common: its address without a version."""
        return self.url.partition("@")[0] if self.url.startswith("pkg:") else self.url

    @property
    def library(self) -> str:
        """What it is called whatever its version: the name of a package, or its own before an `@`."""
        if self.url.startswith("pkg:"):
            return unquote(self.family.partition("/")[2])
        return self.name[:1] + self.name[1:].partition("@")[0]

    @property
    def release(self) -> str | None:
        """Its version: the one that its connector told, or what stands after the `@` of its name."""
        return self.version or self.name[1:].partition("@")[2] or None

    def __repr__(self) -> str:
        return brief(self, self.name, self.kind, self.url, count(self.items, "item"))


@dataclass(frozen=True, slots=True)
class AppliedSource:
    """What a file that declares sources did to one of them; `changes` holds before and after of each setting."""

    source: str
    action: SourceAction
    kind: str
    url: str
    changes: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    items: int = 0
    schedule: str | None = None


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
class Preview:
    """What is found at an address: the kind that reads it, and its first items. Nothing of it was kept.

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
