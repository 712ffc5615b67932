"""The state of the whole system: sources, queue, circuits and database, and the savings of refreshing."""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from rowen.model.queue import LiveWorker, QueueDepth


@dataclass(frozen=True, slots=True)
class SwitchedOff:
    """A receiver (by name) or a source's endpoint that was disabled after its calls failed for days."""

    kind: Literal["webhook", "notice", "endpoint"]
    name: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """The state of everything in a few numbers, cheap enough to be requested with every page.

    `failing` counts active sources whose last run failed or was partial. `stale` is the expected share of stale items,
    None if no source was read completely yet. `next_source` is the source that is due next.
    """

    sources: int
    items: int
    paused: int
    unread: int
    failing: int
    held: int
    held_sources: int
    quarantined: int
    running: int
    changed_today: int
    switched_off: tuple[SwitchedOff, ...] = ()
    stale: float | None = None
    next_source: str | None = None
    next_at: datetime | None = None

    @property
    def needs(self) -> int:
        """The number of things that need a user's attention."""
        return self.failing + self.held_sources + len(self.switched_off)


@dataclass(frozen=True, slots=True)
class Savings:
    """The results of runs since a moment, by level of change detection, with their cost and the avoided cost.

    `listing`, `validator`, `body` and `content` count the checks that ended at that level; `paid` counts checks that
    found something new. `requests_spared` and `bytes_spared` are estimates. They are based on the cost per item of the
    run that read the most items.
    """

    since: datetime
    runs: int = 0
    listing: int = 0
    validator: int = 0
    body: int = 0
    content: int = 0
    paid: int = 0
    requests: int = 0
    bytes: int = 0
    embedded: int = 0
    tokens: int = 0
    usd: float = 0.0
    requests_spared: int = 0
    bytes_spared: int = 0
    embeddings_spared: int = 0
    calls_spared: int = 0
    tokens_spared: int = 0
    usd_spared: float = 0.0

    @property
    def rungs(self) -> tuple[tuple[str, int], ...]:
        """The number of checks that ended at each level, the cheapest level first."""
        return tuple((name, getattr(self, name)) for name in ("listing", "validator", "body", "content", "paid"))

    @property
    def ways(self) -> tuple[tuple[str, float, float], ...]:
        """The cost and the avoided cost in each unit; unused units are left out."""
        known = (
            ("requests", self.requests, self.requests_spared),
            ("bytes", self.bytes, self.bytes_spared),
            ("embeddings", self.embedded, self.embeddings_spared),
            ("tokens", self.tokens, self.tokens_spared),
            ("money", self.usd, self.usd_spared),
        )
        return tuple(way for way in known if way[1] or way[2])


@dataclass(frozen=True, slots=True)
class TroubleGroup:
    """Items of a source that could not be read for the same reason; `url` is the URL of one of them."""

    error: str
    hint: str | None
    items: int
    url: str


@dataclass(frozen=True, slots=True)
class FailingSource:
    """A source whose last runs all failed: their number, the first failure, and the time of the next try."""

    source: str
    failures: int
    failing_since: datetime | None
    due_at: datetime | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class OpenCircuit:
    """A source whose host failed too often: its job waits until the circuit admits requests again."""

    source: str
    job: int
    until: datetime | None
    error: str


@dataclass(frozen=True, slots=True)
class OverdueSource:
    """The source that has been due for the longest time without being started."""

    source: str
    due_at: datetime
    late_s: float


@dataclass(frozen=True, slots=True)
class Health:
    """The health of the whole system.

    `due` counts due sources that have not started, `oldest_due` is the one due for the longest time. `failing` lists
    sources whose last runs failed, by the number of consecutive failures, highest first.
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


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """The open database.

    `connections_in_use` are the connections of other processes at the time of opening. `connections_taken` is the
    maximum that this process opens, sufficient for `runs_at_once`.
    """

    place: str
    embedded: bool
    server_version: str
    schema: int
    last_change: int
    connections_allowed: int
    connections_in_use: int
    connections_taken: int
    runs_at_once: int


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The state of the embedded server, read without starting it; `version` is the major version of the cluster."""

    running: bool
    data_folder: Path
    pid: int | None = None
    socket_folder: Path | None = None
    port: int | None = None
    address: str | None = None
    version: str | None = None
    log_path: Path | None = None


@dataclass(frozen=True, slots=True)
class Tidied:
    """The number of unneeded vectors that were deleted, and of those that are kept for a while.

    `runs`, `answers` of models and `news` of saved searches count entries that were deleted because of their age.
    """

    dropped: int
    kept: int
    runs: int = 0
    answers: int = 0
    news: int = 0


CircuitKind: TypeAlias = Literal["embedder", "host", "model"]
CircuitState: TypeAlias = Literal["closed", "half-open", "open"]


@dataclass(frozen=True, slots=True)
class CircuitStatus:
    """The circuit of one service in one process: an embedder, a language model, or the host of a source.

    `failures` counts consecutive failures, `opened_at` is the time at which the circuit opened, `probe_at` is the time
    at which it admits calls again. `process` is None for a closed circuit.
    """

    kind: CircuitKind
    name: str
    state: CircuitState = "closed"
    failures: int = 0
    times_opened: int = 0
    opened_at: datetime | None = None
    probe_at: datetime | None = None
    process: str | None = None
