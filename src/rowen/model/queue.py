"""The queue: jobs, and the workers that take them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from rowen.model.runs import Run

# Facts are extracted source by source, several items at a time: two sources keep a provider busy. Calls of receivers
# mostly wait for an answer: four may be slow before others wait for them. A SPARQL endpoint gets one request after the
# other: two slow ones block nobody, since there are few.
SIDE_PLACES: Mapping[str, int] = {"deliver": 4, "extract": 2, "statements": 2}
"""The number of concurrent jobs of a worker, for kinds other than syncs: short jobs that mostly wait for answers."""

JobState: TypeAlias = Literal["waiting", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Job:
    """One entry of the queue.

    `tries` counts how often it was started; `waits` how often it had to wait for an external cause, such as an open
    circuit, which does not count as a try. `run` is its last run, `seen` the number of items that the run has checked
    so far.
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
    """The result of a job: `done`, `failed`, `cancelled`, or `waiting` to be started again in `wait_s`."""

    job: int
    task: str
    state: JobState
    run: Run | None = None
    error: str | None = None
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """A process that takes jobs: where it runs, how many of each kind it takes at a time, when it was last heard of.

    `silent_s` is how long ago that is, by the clock of the database.
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
    """The amount of work: jobs that may start, that wait for their time, that run; and whether the queue is paused."""

    ready: int = 0
    later: int = 0
    running: int = 0
    paused: bool = False
