"""How everything is doing, as numbers: what `status` shows, and what can be measured over time."""

from dataclasses import dataclass, field
from datetime import datetime

from rowen.model.job import LiveWorker, QueueDepth

__all__ = ["FailingSource", "Health", "OpenCircuit", "OverdueSource"]


@dataclass(frozen=True, slots=True)
class FailingSource:
    """A source whose last runs all failed: how many, since when it is called failing, and when it is tried again."""

    source: str
    failures: int
    failing_since: datetime | None
    due_at: datetime | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class OpenCircuit:
    """A source whose host failed too often of late: its job waits until the host may be asked again."""

    source: str
    job: int
    until: datetime | None
    error: str


@dataclass(frozen=True, slots=True)
class OverdueSource:
    """The source that has been due for longest and has not begun."""

    source: str
    due_at: datetime
    late_s: float


@dataclass(frozen=True, slots=True)
class Health:
    """How everything is doing.

    `due` counts the sources that are due and not begun, `oldest_due` is the first of them. `failing` lists sources
    whose last runs failed, those with the most in a row first.
    """

    queue: QueueDepth
    due: int = 0
    oldest_due: OverdueSource | None = None
    failing: list[FailingSource] = field(default_factory=list)
    circuits: list[OpenCircuit] = field(default_factory=list)
    workers: list[LiveWorker] = field(default_factory=list)
    embeddings_pending: int = 0
    deletions_held: int = 0
    quarantined: int = 0
