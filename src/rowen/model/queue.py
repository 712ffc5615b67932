"""The queue: jobs, and the workers that run them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from rowen.model.runs import Run

# Facts are extracted source by source, several items at a time: two sources keep a provider busy. Calls of receivers
# mostly wait for a response: with four, some slow receivers do not delay the others. A SPARQL endpoint gets one request
# after the other; there are few endpoints, so two at a time are enough.
SIDE_PLACES: Mapping[str, int] = {"deliver": 4, "extract": 2, "statements": 2}
"""The number of concurrent jobs of a worker for each kind except syncs: short jobs, which mostly wait for responses."""

JobState: TypeAlias = Literal["waiting", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Job:
    """One job of the queue.

    `tries` counts how often it was started. `waits` counts how often it waited for an external cause, such as an open
    circuit; a wait does not count as a try. `run` is its last run, `seen` is the number of items that the run has
    checked so far.
    """

    id: int
    task: str
    source: str | None
    state: JobState
    priority: int
    tries: int
    waits: int
    queued_at: datetime | None
    starts_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    worker: str | None = None
    run: int | None = None
    seen: int | None = None
    requests: int | None = None
    error: str | None = None
    error_code: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The result of a job: `done`, `failed`, `cancelled`, or `waiting` for a restart in `wait_s` seconds."""

    job: int
    task: str
    state: JobState
    run: Run | None = None
    error: str | None = None
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """A worker process: its host, its number of concurrent jobs by kind, and the time of its last heartbeat.

    `silent_s` is the time since the heartbeat, by the clock of the database.
    """

    id: int
    host: str
    pid: int
    version: str
    places: Mapping[str, int]
    started_at: datetime
    heard_at: datetime
    running: int = 0
    silent_s: float = 0.0


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The number of jobs that may start, that wait for their time, and that run; and whether the queue is paused."""

    ready: int = 0
    later: int = 0
    running: int = 0
    paused: bool = False
