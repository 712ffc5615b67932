"""What a worker can do. A task gets its job, with the engine to do it by, and ends or raises.

What ends badly raises `JobTroubledError`; `JobReleasedError` if the worker wants to stop, `JobCancelledError` if a user
wants the job to. Whatever else comes out of a task is a bug, and fails the job.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rowen.errors import FetchError, PortionReadError, RowenError, class_of
from rowen.harvest.engine import Engine, Work
from rowen.harvest.run import Order
from rowen.jobs import auto, schedule, websub
from rowen.jobs.extracting import extract_task, put_behind
from rowen.jobs.policy import JobTrouble
from rowen.jobs.queue import POKED, put
from rowen.jobs.schedule import Turn
from rowen.model.run import Run, RunStats
from rowen.model.source import Source
from rowen.store import sources
from rowen.store.database import Connection
from rowen.store.queue import JobClaim

__all__ = ["TASKS", "AtWork", "JobCancelledError", "JobReleasedError", "JobTroubledError", "Task"]


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
    given_up: "GivenUp | None" = None


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
        chosen = await auto.worth_looking(c, engine.settings, source) if source and revisit and not only else []
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
        await schedule.settle(engine.database, engine.settings, source, run, looked=looked)
    elif only:
        async with engine.database.transaction() as c:
            await put_behind(c, engine.database, source_id)
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


async def subscribe(at_work: AtWork, *, source_id: int) -> None:
    """Renew the subscription of a source at its hub."""
    await websub.renew(at_work.engine, source_id)


def _judge(at_work: AtWork, run: Run) -> None:
    """Raise unless the run went well."""
    if run.status == "cancelled":
        raise at_work.early_end()
    if run.status == "failed" or (run.status == "partial" and issubclass(class_of(run.error_code), FetchError)):
        raise JobTroubledError(JobTrouble.named(run.error or "", run.error_code, _wait_s(run)))


def _wait_s(run: Run) -> float | None:
    """In how many seconds the source may be asked again, by the database's clock."""
    if run.retry_at is None or run.finished_at is None:
        return None
    return (run.retry_at - run.finished_at).total_seconds()


async def deliver(at_work: AtWork, *, webhook_id: int) -> None:
    """Tell a receiver what changed."""
    from rowen.jobs.deliveries import deliver_job

    await deliver_job(at_work, webhook_id=webhook_id)


async def push_statements(at_work: AtWork, *, target_id: int) -> None:
    """Tell a SPARQL endpoint what pages state."""
    from rowen.jobs.statement_push import push_job

    await push_job(at_work, target_id=target_id)


async def _sync_given_up(engine: Engine, c: Connection, arguments: Mapping[str, Any], why: str) -> Turn | None:
    """Count it against the source; a look at some of its items tells nothing about the others."""
    if arguments.get("only"):
        return None
    source_id = arguments.get("source_id")
    source = await sources.by_id(c, source_id) if isinstance(source_id, int) else None
    return None if source is None else await schedule.count_failure(c, engine.settings, source, why)


TASKS: Mapping[str, Task] = {
    "deliver": Task(deliver),
    "extract": Task(extract_task),
    "statements": Task(push_statements),
    "subscribe": Task(subscribe),
    "sync": Task(sync, _sync_given_up),
}
