"""Runs: one pass over one source, the outcome of each item, and the cost."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from rowen.model.wording import brief, count

Mode: TypeAlias = Literal["full", "incremental"]
RunStatus: TypeAlias = Literal["running", "completed", "partial", "cancelled", "failed"]


class Outcome(StrEnum):
    """The outcome of one item in one run."""

    CREATED = "created"
    UPDATED = "updated"
    AMENDED = "amended"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(slots=True)
class RunStats:
    """The counts of a run, its cost, and the avoided cost.

    `fell_back_because` is the reason for a full walk, if there was one. `not_asked` counts items that the source's
    listing proved unchanged. `truncated` counts known items beyond a limit. `generated` counts skipped files that
    documentation generators wrote for their own search. `missing` counts records of which no version could ever be
    read. `only` is the number of items to which the run was limited. `known` is the number of items known so far
    during a walk; 0 if the number is known only at its end.
    """

    created: int = 0
    updated: int = 0
    amended: int = 0
    unchanged: int = 0
    deleted: int = 0
    failed: int = 0
    skipped: int = 0
    duplicates: int = 0
    shared: int = 0
    dropped: int = 0
    moved: int = 0
    deletions_held: int = 0
    fell_back: int = 0
    fell_back_because: str | None = None
    not_asked: int = 0
    truncated: int = 0
    generated: int = 0
    missing: int = 0
    only: int = 0
    known: int = 0

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

    extracted: int = 0
    extractions_same: int = 0
    extractions_failed: int = 0
    extractions_pending: int = 0
    extraction_calls: int = 0
    extraction_tokens: int = 0
    extraction_usd: float = 0.0
    extraction_calls_avoided: int = 0

    statements_added: int = 0
    statements_removed: int = 0

    stopped_at_validator: int = 0
    stopped_at_body: int = 0
    stopped_at_content: int = 0
    seconds: float = 0.0

    def add(self, counts: Mapping[str, int]) -> None:
        """Increase counts by name."""
        for name, times in counts.items():
            setattr(self, name, getattr(self, name) + times)

    @property
    def seen(self) -> int:
        """The number of items that the run checked."""
        return self.created + self.updated + self.amended + self.unchanged + self.failed + self.skipped

    def to_json(self) -> dict[str, Any]:
        """Return the statistics as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "RunStats":
        """Create the statistics from the result of `to_json`; unknown counts of other versions are ignored."""
        names = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in names})


@dataclass(frozen=True, slots=True)
class Run:
    """One pass over one source.

    `error_code` identifies the class of its error. `retry_at` is the time at which the source allows the next request,
    if the source named one. `job` is the job that started the run.
    """

    id: int
    source: str
    kind: str
    mode: Mode
    status: RunStatus
    complete: bool
    started_at: datetime
    finished_at: datetime | None
    stats: RunStats
    error: str | None = None
    error_code: str | None = None
    retry_at: datetime | None = None
    job: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the run as plain values, including its statistics."""
        return {
            "run": self.id,
            "source": self.source,
            "kind": self.kind,
            "mode": self.mode,
            "status": self.status,
            "complete": self.complete,
            "total_found": self.stats.seen,
            **self.stats.to_json(),
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat() if self.finished_at else None,
            "error": self.error,
            "error_code": self.error_code,
            "retry_at": self.retry_at.isoformat() if self.retry_at else None,
            "job": self.job,
        }

    def __repr__(self) -> str:
        return brief(
            self, self.source, self.status, count(self.stats.seen, "item"), count(self.stats.requests, "request")
        )
