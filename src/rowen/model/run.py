"""Runs: one pass over one source, what became of each item, and what it cost."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, TypeAlias

__all__ = ["Change", "ChangeKind", "Mode", "Outcome", "Run", "Status", "Tally"]

Mode: TypeAlias = Literal["full", "incremental"]
Status: TypeAlias = Literal["running", "completed", "partial", "cancelled", "failed"]
ChangeKind: TypeAlias = Literal["created", "updated", "amended", "deleted", "moved"]


class Outcome(StrEnum):
    """What became of one item in one run."""

    CREATED = "created"
    UPDATED = "updated"
    AMENDED = "amended"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(slots=True)
class Tally:
    """A run's counts, its cost, and the cost it avoided."""

    created: int = 0
    updated: int = 0
    amended: int = 0
    unchanged: int = 0
    deleted: int = 0
    failed: int = 0
    skipped: int = 0
    duplicates: int = 0
    moved: int = 0
    deletions_held: int = 0
    fell_back: int = 0

    requests: int = 0
    not_modified: int = 0
    bytes: int = 0
    chunks_written: int = 0
    chunks_kept: int = 0
    rows_written: int = 0
    embedded: int = 0
    embeddings_reused: int = 0
    embeddings_pending: int = 0
    embeddings_truncated: int = 0
    embedding_tokens: int = 0
    embedding_usd: float = 0.0

    stopped_at_validator: int = 0
    stopped_at_body: int = 0
    stopped_at_content: int = 0
    seconds: float = 0.0

    def add(self, counts: Mapping[str, int]) -> None:
        """Add to counts by their names."""
        for name, times in counts.items():
            setattr(self, name, getattr(self, name) + times)

    @property
    def seen(self) -> int:
        """How many items the run looked at."""
        return self.created + self.updated + self.amended + self.unchanged + self.failed + self.skipped

    def to_json(self) -> dict[str, Any]:
        """The tally as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Tally":
        """The inverse of `to_json`; counts of other versions are ignored."""
        names = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in names})


@dataclass(frozen=True, slots=True)
class Run:
    """One pass over one source."""

    id: int
    source: str
    kind: str
    mode: Mode
    status: Status
    complete: bool
    started_at: datetime
    finished_at: datetime | None
    tally: Tally
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The run with its tally's counts beside its own fields."""
        return {
            "run": self.id,
            "source": self.source,
            "kind": self.kind,
            "mode": self.mode,
            "status": self.status,
            "complete": self.complete,
            **self.tally.to_json(),
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat() if self.finished_at else None,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class Change:
    """One numbered line of the append-only log."""

    number: int
    kind: ChangeKind
    url: str
    title: str
    source: str
    at: datetime
    run: int | None = None
    moved_from: str | None = None
