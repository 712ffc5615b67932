"""The tasks of a worker, and the retry policy of jobs.

A task gets its active job. It returns, or raises `JobTroubledError` if it failed, `JobReleasedError` if the worker
stops, `JobCancelledError` if a user cancelled the job. Any other exception is a bug and fails the job. The class of the
error decides what follows:

| error                                                  | consequence                                         |
|--------------------------------------------------------|-----------------------------------------------------|
| the source or a provider sent a retry time, or its     | the job waits until then; no attempt is counted     |
| circuit is open                                        |                                                     |
| another run of the source is live                      | the job waits for it; no attempt is counted         |
| temporary (`retryable`)                                | the job is retried, with growing delays             |
| its worker died or fell silent                         | it is retried at once, then with growing delays     |
| anything else: a wrong option, key or model, a missing | the job has failed; the next due time tries again   |
| source, a refusal, a bug                               |                                                     |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from rowen.errors import BudgetExceededError, BusyError, FetchError, PortionReadError, RowenError, class_of
from rowen.harvest.engine import Engine, Work
from rowen.harvest.extraction import ExtractionOrder
from rowen.harvest.extractor import Extractor
from rowen.harvest.run import Order
from rowen.jobs import freshness, push, schedules
from rowen.jobs.queue import POKED, put, put_extraction_if_behind
from rowen.jobs.schedules import StatusChange
from rowen.model.runs import Run, RunStats
from rowen.model.sources import Source
from rowen.store import schemas as schema_store
from rowen.store import sources
from rowen.store.database import Connection
from rowen.store.queue import JobClaim

if TYPE_CHECKING:
    from rowen.model.extraction import ExtractionReport

TRIES = 4
"""One attempt and three retries within half an hour; longer outages are left to the schedule."""

# Multiples of `job_retry_s`, which is a minute: a restart takes 1, a deployment 5, an outage that needs a person
# half an hour.
_WAITS = (1, 5, 30)
# Jobs that failed together must not be retried together.
_JITTER = 0.25
# The delay for a source with a manual run: most runs take less, and another try costs a few statements.
_BUSY_S = 30.0
# A half-open circuit admits one probe; other jobs should start after the probe has closed it.
_BEHIND_S = 2.0
# A requested delay of a year may be a mistake for seconds, so a day is the maximum.
_LONGEST_S = 86_400.0


@dataclass(frozen=True, slots=True)
class JobTrouble:
    """The failure of a job: a message, the class of the error, and the requested delay, None without one."""

    words: str
    kind: type[RowenError] = RowenError
    retry_in_s: float | None = None

    @property
    def code(self) -> str:
        """The error code."""
        return self.kind.code

    @classmethod
    def of(cls, problem: RowenError) -> JobTrouble:
        """Return the failure for an error."""
        words = f"{problem} {problem.hint}" if problem.hint else str(problem)
        return cls(words, type(problem), getattr(problem, "retry_in_s", None) or None)

    @classmethod
    def named(cls, words: str, code: str | None, retry_in_s: float | None = None) -> JobTrouble:
        """Return the failure for the message and error code that a run has stored."""
        return cls(words, class_of(code), retry_in_s)


@dataclass(frozen=True, slots=True)
class Retry:
    """The delay of a retry, and whether it counts as an attempt."""

    wait_s: float
    counted: bool = True


def decide_retry(trouble: JobTrouble, tries: int, random: Random, *, first_s: float) -> Retry | None:
    """Return the retry of a job after this number of attempts; None if the job has failed."""
    if trouble.retry_in_s is not None:
        wait_s = min(trouble.retry_in_s, _LONGEST_S)
        return Retry(wait_s + min(_BEHIND_S, wait_s * _JITTER) * random.random(), counted=False)
    if issubclass(trouble.kind, BusyError):
        return Retry(_BUSY_S * _spread(random), counted=False)
    if trouble.kind.retryable and tries < TRIES:
        return Retry(_wait_s(tries, random, first_s))
    return None


def delay_after_loss(tries: int, random: Random, *, first_s: float) -> float | None:
    """Return the delay before a job whose worker died is retried; None after too many deaths.

    The first retry is immediate, since most workers die of other causes than the job. Later delays vary, so that a job
    that kills its workers runs alone at last.
    """
    if tries >= TRIES:
        return None
    return 0.0 if tries == 1 else _wait_s(tries - 1, random, first_s)


def _wait_s(tries: int, random: Random, first_s: float) -> float:
    return first_s * _WAITS[min(tries, len(_WAITS)) - 1] * _spread(random)


def _spread(random: Random) -> float:
    return 1 + _JITTER * (2 * random.random() - 1)


class JobTroubledError(Exception):
    """A job failed."""

    def __init__(self, trouble: JobTrouble) -> None:
        super().__init__(trouble.words)
        self.trouble = trouble


class JobReleasedError(Exception):
    """A job stopped at a checkpoint, so that another worker can continue it."""


class JobCancelledError(Exception):
    """A user cancelled a job."""


@dataclass(slots=True, eq=False)
class ActiveJob:
    """A running job: `progress` grows while it advances, `stopped` is the reason why it should end early.

    `leaving` means that another worker should continue it, `cancelled` that a user cancelled it, and `over` that only
    its result remains to be stored. `run` is the run that it made.
    """

    engine: Engine
    job: JobClaim
    work: Work = field(default_factory=Work)
    progress: int = 0
    stopped: RowenError | None = None
    leaving: bool = False
    cancelled: bool = False
    over: bool = False
    run: Run | None = None
    _seen: tuple[int, int, int] = (0, 0, 0)

    def stop(self, why: RowenError | None = None) -> None:
        """End the job soon: as failed if a reason is given, otherwise released for another worker."""
        if self.stopped is None:
            self.stopped, self.leaving = why, why is None
        self.engine.end(self.work)

    def cancel(self) -> None:
        """End the job soon, as cancelled."""
        self.cancelled = True
        self.engine.end(self.work)

    @property
    def is_ending(self) -> bool:
        """Whether the job should end early."""
        return self.stopped is not None or self.leaving or self.cancelled

    def early_end(self) -> Exception:
        """Return the exception that a task raises when it ends early."""
        if self.stopped is not None:
            return JobTroubledError(JobTrouble.of(self.stopped))
        return JobReleasedError() if self.leaving and not self.cancelled else JobCancelledError()

    def observe(self, source: Source, stats: RunStats) -> None:
        """Record progress if the number of items, requests or bytes has changed."""
        seen = (stats.seen, stats.requests, stats.bytes)
        if seen != self._seen:
            self.tick()
        self._seen = seen

    def tick(self) -> None:
        """Record progress."""
        self.progress += 1


@dataclass(frozen=True, slots=True)
class Task:
    """The function that runs a kind of job, and the function that is called when such a job has finally failed."""

    do: Callable[..., Awaitable[None]]
    on_failure: OnFailure | None = None


OnFailure: TypeAlias = Callable[[Engine, Connection, Mapping[str, Any], str], Awaitable[StatusChange | None]]


async def sync(
    active: ActiveJob,
    *,
    source_id: int,
    full: bool = False,
    accept_deletions: bool = False,
    only: Sequence[str] = (),
    revisit: bool = False,
    widen: bool = False,
) -> None:
    """Sync a source, as `rowen sync` does, or `only` some of its items.

    With `revisit`, check only the pages of a site that are worth a check now. With `widen`, a sync of the whole source
    follows if some items could not be checked individually. A job that reaches its item limit enqueues the next job.
    """
    engine = active.engine
    async with engine.database.connection() as c:
        source = await sources.by_id(c, source_id)
        chosen = await freshness.worth_checking(c, engine.settings, source) if source and revisit and not only else []
    if source is None or source.state == "paused" or (revisit and not only and not chosen):
        return
    only = only or [page.url for page in chosen]
    order = Order.of(
        source,
        full=full,
        accept_deletions=accept_deletions,
        only=only,
        job=active.job.id,
        # A full run cannot resume where the previous one ended.
        most_items=None if full or only else engine.settings.job_items,
    )
    async with engine.work() as work:
        # Embedding runs in the background of all jobs, so no job waits for it.
        work.patient = False
        active.work = work
        if active.is_ending:
            engine.end(work)
        run = active.run = await engine.run(source, order, observe=active.observe, work=work)
    if run.status != "failed" and (chosen or not only):
        # A failure is counted when the job has failed after all attempts.
        checked = [page.item_id for page in chosen]
        await schedules.settle(engine.database, engine.settings, source, run, checked=checked)
    elif only:
        async with engine.database.transaction() as c:
            await put_extraction_if_behind(c, engine.database, source_id)
    if run.error_code == PortionReadError.code:
        # Another job continues, behind the waiting jobs.
        arguments = {"accept_deletions": True} if accept_deletions else {}
        async with engine.database.transaction() as c:
            await put(c, engine.database, source_id, priority=active.job.priority, **arguments)
        return
    if run.status == "cancelled":
        raise active.early_end()
    if run.status == "failed" or (run.status == "partial" and issubclass(class_of(run.error_code), FetchError)):
        retry_in_s = None
        if run.retry_at is not None and run.finished_at is not None:
            # Both times were read from the database's clock.
            retry_in_s = (run.retry_at - run.finished_at).total_seconds()
        raise JobTroubledError(JobTrouble.named(run.error or "", run.error_code, retry_in_s))
    if widen and run.stats.skipped:
        async with engine.database.transaction() as c:
            await put(c, engine.database, source_id, priority=POKED)


async def extract(
    active: ActiveJob, *, source_id: int, schema: str | None = None, order: Mapping[str, Any] | None = None
) -> None:
    """Extract facts from the changes of a source, as `rowen extract --source` does."""
    engine = active.engine
    async with engine.database.connection() as c:
        source = await sources.by_id(c, source_id)
        schemas = await schema_store.attached(c, source_id)
    if source is None or all(schema not in (None, row.schema.name) for row in schemas):
        return
    extraction = ExtractionOrder(**(order or {}))

    def observe(_: ExtractionReport) -> None:
        active.tick()

    async with engine.work() as work:
        active.work = work
        if active.is_ending:
            engine.end(work)
        reports = await Extractor(engine).source(source, name=schema, order=extraction, work=work, observe=observe)
    if active.is_ending and any(report.pending for report in reports):
        raise active.early_end()
    waits_for = next((report.waits_for for report in reports if report.waits_for), None)
    if waits_for is None:
        return
    async with engine.database.connection() as c:
        until, code = await schema_store.waits(c, source_id)
    wait_s = max((until - datetime.now(UTC)).total_seconds(), 1.0) if until is not None else None
    trouble = JobTrouble(waits_for, class_of(code), wait_s)
    # When the budget of this pass is spent, no other pass must be started.
    if not (trouble.kind is BudgetExceededError and extraction.has_budget):
        raise JobTroubledError(trouble)


async def subscribe(active: ActiveJob, *, source_id: int) -> None:
    """Renew the subscription of a source at its hub."""
    await push.renew(active.engine, source_id)


async def count_sync_failure(
    engine: Engine, c: Connection, arguments: Mapping[str, Any], why: str
) -> StatusChange | None:
    """Count the failure of a source's sync, unless the sync was of selected items."""
    if arguments.get("only"):
        return None
    source_id = arguments.get("source_id")
    source = await sources.by_id(c, source_id) if isinstance(source_id, int) else None
    return None if source is None else await schedules.count_failure(c, engine.settings, source, why)
