"""Sources: the things we keep a copy of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

from rowen.model.item import Cursor
from rowen.model.wording import brief, count

__all__ = ["AppliedSource", "Source", "SourceAction", "SourceState", "one_or_more"]

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
