"""What becomes of a job that did not go well, by the class of the error, never by its words.

| what went wrong                                        | what follows                                        |
|--------------------------------------------------------|-----------------------------------------------------|
| the source or a provider said when to come back, or    | the job waits until then; no try is counted         |
| its circuit is open                                    |                                                     |
| another live run has the source                        | the job waits for it; no try is counted             |
| what may be over soon (`retryable`)                    | the job is tried again, later each time             |
| its worker died or fell silent                         | it is begun again, at once and then later each time |
| anything else: a wrong option, key or model, a source  | the job has failed; the next due time tries again   |
| that is gone, a refusal, a bug                         |                                                     |


What a worker can do. A task gets its job, with the engine to do it by, and ends or raises.

What ends badly raises `JobTroubledError`; `JobReleasedError` if the worker wants to stop, `JobCancelledError` if a user
wants the job to. Whatever else comes out of a task is a bug, and fails the job.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from rowen.errors import BudgetExceededError, BusyError, FetchError, PortionReadError, RowenError, class_of
from rowen.harvest.engine import Engine, Work
from rowen.harvest.run import Order
from rowen.jobs import freshness, push, schedules
from rowen.jobs.queue import POKED, put, put_extraction_if_behind
from rowen.jobs.schedules import Turn
from rowen.model.runs import Run, RunStats
from rowen.model.sources import Source
from rowen.store import source_schemas, sources
from rowen.store.database import Connection, Database
from rowen.store.queue import JobClaim

if TYPE_CHECKING:
    from rowen.model.extraction import ExtractionReport

__all__ = [
    "TASKS",
    "TRIES",
    "Again",
    "AtWork",
    "JobCancelledError",
    "JobReleasedError",
    "JobTrouble",
    "JobTroubledError",
    "Task",
    "after_loss",
    "again",
]

TRIES = 4
"""The first one and three more, over half an hour: what takes longer to be repaired is a matter of the schedule."""

# Of `job_retry_s`, which is a minute: a restart is over after one, a deployment after five, an outage that somebody has
# to look at after half an hour.
_WAITS = (1, 5, 30)
# Jobs that failed together must not come back together.
_JITTER = 0.25
# A run that somebody began by hand: most take less, and asking again costs a few statements.
_BUSY_S = 30.0
# A circuit opens again for the first one that comes; the others should find it closed.
_BEHIND_S = 2.0
# Whoever says "come back in a year" is asked tomorrow: he may have meant seconds.
_LONGEST_S = 86_400.0


@dataclass(frozen=True, slots=True)
class JobTrouble:
    """Why a job did not go well: in words, by class, and in how many seconds it may be tried, if that was said."""

    words: str
    kind: type[RowenError] = RowenError
    retry_in_s: float | None = None

    @property
    def code(self) -> str:
        """The name of its class for programs."""
        return self.kind.code

    @classmethod
    def of(cls, problem: RowenError) -> JobTrouble:
        """The trouble that an error tells of."""
        words = f"{problem} {problem.hint}" if problem.hint else str(problem)
        return cls(words, type(problem), getattr(problem, "retry_in_s", None) or None)

    @classmethod
    def named(cls, words: str, code: str | None, retry_in_s: float | None = None) -> JobTrouble:
        """The trouble that a run has written down."""
        return cls(words, class_of(code), retry_in_s)


@dataclass(frozen=True, slots=True)
class Again:
    """When a job is begun again, and whether that counts as a try."""

    wait_s: float
    counted: bool = True


def again(trouble: JobTrouble, tries: int, random: Random, *, first_s: float) -> Again | None:
    """Whether a job that was begun so many times is begun once more; None if it has failed."""
    if trouble.retry_in_s is not None:
        wait_s = min(trouble.retry_in_s, _LONGEST_S)
        return Again(wait_s + min(_BEHIND_S, wait_s * _JITTER) * random.random(), counted=False)
    if issubclass(trouble.kind, BusyError):
        return Again(_BUSY_S * _spread(random), counted=False)
    if trouble.kind.retryable and tries < TRIES:
        return Again(_wait_s(tries, random, first_s))
    return None


def after_loss(tries: int, random: Random, *, first_s: float) -> float | None:
    """How long a job waits whose worker died in the middle of it; None if it died with too many.

    The first time it is begun at once, since most workers die of something else. After that those that died together
    do not come back together, so that the one which kills its workers is alone in the end.
    """
    if tries >= TRIES:
        return None
    return 0.0 if tries == 1 else _wait_s(tries - 1, random, first_s)


def _wait_s(tries: int, random: Random, first_s: float) -> float:
    return first_s * _WAITS[min(tries, len(_WAITS)) - 1] * _spread(random)


def _spread(random: Random) -> float:
    return 1 + _JITTER * (2 * random.random() - 1)


class JobTroubledError(Exception):
    """A job did not go well."""

    def __init__(self, trouble: JobTrouble) -> None:
        super().__init__(trouble.words)
        self.trouble = trouble


class JobReleasedError(Exception):
    """A job was left in good order, for another worker to go on with."""


class JobCancelledError(Exception):
    """Somebody asked for the end of a job."""


@dataclass(slots=True, eq=False)
class AtWork:
    """A job at work: `progress` grows as long as something happens, `stopped` says why it is to end early.

    `leaving` says that it is to be left for another worker, `cancelled` that somebody wants its end, `over` that only
    its end has to be written down; `run` is what was made of it.
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
        """End the job soon: for a reason, which fails it, or because the worker leaves, which releases it."""
        if self.stopped is None:
            self.stopped, self.leaving = why, why is None
        self.engine.end(self.work)

    def cancel(self) -> None:
        """End the job soon, since somebody asked for it."""
        self.cancelled = True
        self.engine.end(self.work)

    @property
    def is_ending(self) -> bool:
        """Whether it is to end early."""
        return self.stopped is not None or self.leaving or self.cancelled

    def early_end(self) -> Exception:
        """What a task raises that was to end early, and did."""
        if self.stopped is not None:
            return JobTroubledError(JobTrouble.of(self.stopped))
        return JobReleasedError() if self.leaving and not self.cancelled else JobCancelledError()

    def observe(self, source: Source, stats: RunStats) -> None:
        """Take notice of progress: of items, requests and bytes."""
        seen = (stats.seen, stats.requests, stats.bytes)
        if seen != self._seen:
            self.tick()
        self._seen = seen

    def tick(self) -> None:
        """Take notice that something happened."""
        self.progress += 1


@dataclass(frozen=True, slots=True)
class Task:
    """How a kind of job is done, and what follows when it is given up."""

    do: Callable[..., Awaitable[None]]
    given_up: GivenUp | None = None


GivenUp: TypeAlias = Callable[[Engine, Connection, Mapping[str, Any], str], Awaitable[Turn | None]]


async def sync(
    at_work: AtWork,
    *,
    source_id: int,
    full: bool = False,
    accept_deletions: bool = False,
    only: Sequence[str] = (),
    revisit: bool = False,
    widen: bool = False,
) -> None:
    """Bring a source up to date, as `rowen sync` does, or `only` some items of it.

    To `revisit` is to look at just those pages of a site that are worth it now. With `widen`, the whole source follows
    if some items could not be judged by themselves. What is too much for one job is left to the next.
    """
    engine = at_work.engine
    async with engine.database.connection() as c:
        source = await sources.by_id(c, source_id)
        chosen = await freshness.worth_looking(c, engine.settings, source) if source and revisit and not only else []
    if source is None or source.state == "paused" or (revisit and not only and not chosen):
        return
    only = only or [page.url for page in chosen]
    order = Order.of(
        source,
        full=full,
        accept_deletions=accept_deletions,
        only=only,
        job=at_work.job.id,
        # A run in full does not see where the one before it ended.
        most_items=None if full or only else engine.settings.job_items,
    )
    async with engine.work() as work:
        # Vectors are made behind all jobs of the worker: none has to wait for them.
        work.patient = False
        at_work.work = work
        if at_work.is_ending:
            engine.end(work)
        run = at_work.run = await engine.run(source, order, observe=at_work.observe, work=work)
    if run.status != "failed" and (chosen or not only):
        # A failure is counted when the job is given up, with all its tries.
        looked = [page.item_id for page in chosen]
        await schedules.settle(engine.database, engine.settings, source, run, looked=looked)
    elif only:
        async with engine.database.transaction() as c:
            await put_extraction_if_behind(c, engine.database, source_id)
    if run.error_code == PortionReadError.code:
        await _go_on(at_work, source_id, accept_deletions=accept_deletions)
        return
    _judge(at_work, run)
    if widen and run.stats.skipped:
        async with engine.database.transaction() as c:
            await put(c, engine.database, source_id, priority=POKED)


async def _go_on(at_work: AtWork, source_id: int, *, accept_deletions: bool) -> None:
    """Leave the rest to another job, behind those that wait."""
    told = {"accept_deletions": True} if accept_deletions else {}
    database = at_work.engine.database
    async with database.transaction() as c:
        await put(c, database, source_id, priority=at_work.job.priority, **told)


async def extract(
    at_work: AtWork, *, source_id: int, schema: str | None = None, order: Mapping[str, Any] | None = None
) -> None:
    """Extract what changed in a source, as `rowen extract --source` does; to end early is to begin no more calls."""
    from rowen.harvest.extraction import ExtractionOrder
    from rowen.harvest.extractor import Extractor

    engine = at_work.engine
    async with engine.database.connection() as c:
        source = await sources.by_id(c, source_id)
        carried = await source_schemas.carried(c, source_id)
    if source is None or all(schema not in (None, one.schema.name) for one in carried):
        return
    asked = ExtractionOrder(**(order or {}))

    def observe(_: ExtractionReport) -> None:
        at_work.tick()

    async with engine.work() as work:
        at_work.work = work
        if at_work.is_ending:
            engine.end(work)
        reports = await Extractor(engine).source(source, name=schema, order=asked, work=work, observe=observe)
    if at_work.is_ending and any(report.pending for report in reports):
        raise at_work.early_end()
    trouble = await _extraction_trouble(engine.database, source_id, reports)
    # Who set a budget for one pass did not ask for another one when it is spent.
    if trouble is not None and not (trouble.kind is BudgetExceededError and asked.has_budget):
        raise JobTroubledError(trouble)


async def _extraction_trouble(database: Database, source_id: int, reports: list[ExtractionReport]) -> JobTrouble | None:
    """What the rest waits for, with the time at which it may go on."""
    waiting = next((report.waits_for for report in reports if report.waits_for), None)
    if waiting is None:
        return None
    async with database.connection() as c:
        until, code = await source_schemas.waits(c, source_id)
    wait_s = max((until - datetime.now(UTC)).total_seconds(), 1.0) if until is not None else None
    return JobTrouble(waiting, class_of(code), wait_s)


async def subscribe(at_work: AtWork, *, source_id: int) -> None:
    """Renew the subscription of a source at its hub."""
    await push.renew(at_work.engine, source_id)


def _judge(at_work: AtWork, run: Run) -> None:
    """Raise unless the run went well."""
    if run.status == "cancelled":
        raise at_work.early_end()
    if run.status == "failed" or (run.status == "partial" and issubclass(class_of(run.error_code), FetchError)):
        raise JobTroubledError(JobTrouble.named(run.error or "", run.error_code, _retry_in_s(run)))


def _retry_in_s(run: Run) -> float | None:
    """In how many seconds the source may be asked again, by the database's clock."""
    if run.retry_at is None or run.finished_at is None:
        return None
    return (run.retry_at - run.finished_at).total_seconds()


async def deliver(at_work: AtWork, *, webhook_id: int) -> None:
    """Tell a receiver what changed."""
    from rowen.jobs.webhooks import deliver_job

    await deliver_job(at_work, webhook_id=webhook_id)


async def push_statements(at_work: AtWork, *, target_id: int) -> None:
    """Tell a SPARQL endpoint what pages state."""
    from rowen.jobs.rdf import push_job

    await push_job(at_work, target_id=target_id)


async def _sync_given_up(engine: Engine, c: Connection, arguments: Mapping[str, Any], why: str) -> Turn | None:
    """Count it against the source; a look at some of its items tells nothing about the others."""
    if arguments.get("only"):
        return None
    source_id = arguments.get("source_id")
    source = await sources.by_id(c, source_id) if isinstance(source_id, int) else None
    return None if source is None else await schedules.count_failure(c, engine.settings, source, why)


TASKS: Mapping[str, Task] = {
    "deliver": Task(deliver),
    "extract": Task(extract),
    "statements": Task(push_statements),
    "subscribe": Task(subscribe),
    "sync": Task(sync, _sync_given_up),
}
