"""One run: pull → group → sieve → prepare → commit, streaming, and a sweep when the source was seen whole.

Tasks hand groups to each other through short queues: one pulls, one plans, three write. A slow store fills the queues
and so slows the connector; memory holds a few groups, whatever the size of the source.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from rowen.connectors.base import Connector, Meter
from rowen.errors import RowenError, SourceError
from rowen.harvest.collector import seldom_collecting
from rowen.harvest.commit import Committer
from rowen.harvest.group import Group
from rowen.harvest.known import StoredKnown
from rowen.harvest.plan import Plan, Planner
from rowen.harvest.prepare import Workers
from rowen.harvest.recipes import Recipes
from rowen.harvest.sweep import Guard, sweep
from rowen.model.item import Complete, FellBack, Incomplete, Observation
from rowen.model.outside import message
from rowen.model.run import Mode, Run, Status, Tally
from rowen.model.source import Source
from rowen.settings import Settings
from rowen.store import gone, items, quarantine, runs, sources, twins
from rowen.store.database import Database

__all__ = ["Harvest", "Order"]

# One group waits while one is worked on: a stage is never idle, and memory holds a few groups.
QUEUE_GROUPS = 1
# While one transaction waits for its turn to commit, another is being sent, another executed; a fourth gained nothing.
WRITERS = 3
# A slow source is searchable after a second, and a fast one fills its groups in less.
PATIENCE_S = 1.0
# A task that has not ended by then has lost its cancellation; a transaction ends in a fraction of it.
PERSISTENCE_S = 5.0
# Who watches or cancels a run from elsewhere waits no longer; a row of 1 kB at that pace costs the database nothing.
RENEWAL_S = 5.0

_ENDINGS = frozenset({Complete, Incomplete})

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Order:
    """How a run is to be done."""

    mode: Mode = "incremental"
    distrust: bool = False
    accept_deletions: bool = False
    dry_run: bool = False


class Harvest:
    """One pass over one source."""

    def __init__(
        self,
        database: Database,
        source: Source,
        connector: Connector,
        *,
        order: Order,
        settings: Settings,
        recipe: Recipes,
        workers: Workers,
        meter: Meter,
        observe: Callable[[Source, Tally], None] | None = None,
    ) -> None:
        self.tally = Tally()
        self._database = database
        self._source = source
        self._connector = connector
        self._chronological: bool = getattr(connector, "chronological", False)
        self._order = order
        self._settings = settings
        self._recipe = recipe
        self._workers = workers
        self._meter = meter
        self._guard = Guard.of(settings, accepted=order.accept_deletions)
        self._observe = observe
        self._group = Group()
        self._groups: asyncio.Queue[Group | None] = asyncio.Queue(QUEUE_GROUPS)
        self._plans: asyncio.Queue[Plan | None] = asyncio.Queue(QUEUE_GROUPS)
        self._complete: Complete | None = None
        self._pulling: asyncio.Task[None] | None = None
        self._stopped = self._crashed = False
        self._trouble: RowenError | None = None

    def stop(self) -> None:
        """End the run soon, as cancelled; what was pulled is still committed."""
        self._stopped = True
        if self._pulling is not None:
            self._pulling.cancel()

    async def run(self) -> Run:
        """Do it; raises only when the store fails or the source has another live run."""
        started = time.monotonic()
        if self._order.dry_run:
            return await self._dry_run(started)
        lease = await runs.Lease.take(
            self._database, self._source, mode=self._order.mode, lease_s=self._settings.lease_s
        )
        try:
            status = await self._flow(lease)
        except BaseException as problem:
            self._tick(started)
            with suppress(RowenError):
                await lease.close("failed", complete=False, tally=self.tally, error=_reason(problem))
            raise
        self._tick(started)
        complete = self._complete is not None and status == "completed"
        await lease.close(status, complete=complete, tally=self.tally, error=_reason(self._trouble))
        async with self._database.connection() as connection:
            run = await runs.get(connection, lease.run_id)
        log.info("run closed", extra={"fields": run.to_json()})
        return run

    async def _dry_run(self, started: float) -> Run:
        """Find out what a run would do; nothing is written, not even that it was tried."""
        planner = await self._planner()
        await _together(self._pull(), self._plan(planner, readers=1), self._count(planner))
        status = await self._finish(0, planner)
        self._tick(started)
        now = datetime.now(UTC)
        complete = self._complete is not None and status == "completed"
        source, mode = self._source, self._order.mode
        return Run(0, source.name, source.kind, mode, status, complete, now, now, self.tally, _reason(self._trouble))

    async def _flow(self, lease: runs.Lease) -> Status:
        self.tally.rows_written += await twins.fill(self._database, self._source.id)
        planner = await self._planner()
        committer = Committer(
            self._database,
            self._source,
            lease.run_id,
            self._recipe,
            self._settings.revisions_kept,
            planner.seen,
            planner.failed,
        )
        renewal = asyncio.create_task(self._renew(lease))
        try:
            with seldom_collecting():
                writers = [self._commit(committer, planner) for _ in range(WRITERS)]
                await _together(self._pull(), self._plan(planner, readers=WRITERS), *writers, watch=renewal)
                await committer.finish()
        finally:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)
        return await self._finish(lease.run_id, planner)

    async def _planner(self) -> Planner:
        async with self._database.connection() as connection:
            held = await items.count(connection, self._source.id)
            quarantined = await quarantine.keys(connection, self._source.id)
            unsettled = await quarantine.is_unsettled(connection, self._source.id)
            marked = await gone.marked(connection, self._source.id)
        known = StoredKnown(
            self._database,
            self._source,
            mode=self._order.mode,
            recipes=self._recipe,
            distrust=self._order.distrust,
            count=held,
            unsettled=unsettled,
            losable=held if self._order.accept_deletions else self._guard.bound(held),
        )
        self._observations: AsyncGenerator[Observation] = self._connector.pull(known)
        self._resumes = known.cursor is not None
        return Planner(
            self._database,
            self._source,
            known=known,
            recipe=self._recipe,
            workers=self._workers,
            quarantined=quarantined,
            gone=marked,
            chronological=self._chronological,
        )

    async def _pull(self) -> None:
        self._pulling = asyncio.create_task(self._pull_all())
        ticking = asyncio.create_task(self._hand_over_in_time())
        try:
            await self._pulling
        except asyncio.CancelledError:
            if not self._stopped:
                raise
        except RowenError as problem:
            self._trouble = problem
        finally:
            ticking.cancel()
            await asyncio.gather(ticking, self._pulling, return_exceptions=True)
        await self._hand_over()
        await self._groups.put(None)

    async def _pull_all(self) -> None:
        if self._stopped:
            return
        try:
            async with aclosing(self._observations) as observations:
                async for observation in observations:
                    if type(observation) in _ENDINGS:
                        self._end(observation)
                        return
                    if type(observation) is FellBack:
                        self._fall_back(observation)
                        continue
                    if self._chronological and self._group.supersedes(observation):
                        await self._hand_over()
                        self._group.supersedes(observation)
                    if self._group.add(observation):
                        await self._hand_over()
        except RowenError:
            raise
        except Exception as problem:
            self._crashed = True
            raise SourceError(
                f"The connector of kind {self._source.kind!r} failed: {type(problem).__name__}: {problem}",
                hint="The next run looks at the source from its beginning.",
            ) from problem

    def _fall_back(self, fallen: FellBack) -> None:
        log.warning("fell back to a whole walk of %s: %s", self._source.name, fallen.why)
        self.tally.fell_back += 1

    def _end(self, ending: Observation) -> None:
        match ending:
            case Complete():
                self._complete = ending
            case Incomplete(why):
                self._trouble = SourceError(why)

    async def _hand_over_in_time(self) -> None:
        """Send a group on its way when the source is slow, unless the store is slower."""
        while True:
            await asyncio.sleep(PATIENCE_S)
            if self._group and not self._groups.full():
                await self._hand_over()

    async def _hand_over(self) -> None:
        if self._group:
            group, self._group = self._group, Group()
            await self._groups.put(group)

    async def _plan(self, planner: Planner, *, readers: int) -> None:
        while (group := await self._groups.get()) is not None:
            plan = await planner.plan(group, settled=self._plans.join)
            await self._plans.put(plan)
        for _ in range(readers):
            await self._plans.put(None)

    async def _commit(self, committer: Committer, planner: Planner) -> None:
        while (plan := await self._plans.get()) is not None:
            counts = await committer.commit(plan)
            counts.update(plan.counts)
            self.tally.add(counts)
            planner.settle(plan)
            self._plans.task_done()
            self._report()

    async def _count(self, planner: Planner) -> None:
        while (plan := await self._plans.get()) is not None:
            self.tally.add(plan.counts)
            self._plans.task_done()
            self._report()

    async def _renew(self, lease: runs.Lease) -> None:
        while True:
            await asyncio.sleep(min(RENEWAL_S, lease.lease_s / 3))
            self._meter_to_tally()
            if await lease.renew(self.tally):
                self.stop()

    async def _finish(self, run_id: int, planner: Planner) -> Status:
        if self._crashed and not self._order.dry_run:
            await self._forget_cursor(run_id)
        if self._complete is not None:
            self._doubt(self._complete, len(planner.seen) + len(planner.failed))
        whole = self._complete is not None and self._trouble is None and not self._stopped
        # A run that somebody stopped leaves its marks: the next one decides, knowing more.
        if not self._stopped and (whole or planner.gone or planner.marked_before):
            swept = await sweep(
                self._database,
                self._source,
                run_id,
                planner=planner,
                whole=whole,
                guard=self._guard,
                dry_run=self._order.dry_run,
            )
            self.tally.deleted = swept.deleted
            self.tally.deletions_held = swept.held_back
            self.tally.rows_written += swept.deleted
        if not whole and planner.seen and self._status() != "completed" and not self._order.dry_run:
            async with self._database.transaction() as c:
                await items.touch(c, run_id, planner.seen)
        return self._status()

    async def _forget_cursor(self, run_id: int) -> None:
        """Begin anew next time: what the connector failed over may stand in its cursor, and would stop it for ever."""
        async with self._database.transaction() as c:
            await runs.fence(c, run_id)
            await sources.move_cursor(c, self._source.id, None)

    def _doubt(self, complete: Complete, seen: int) -> None:
        """A walk that saw less than the source declares was not whole, whatever its connector says."""
        if complete.expected is not None and seen < complete.expected:
            self._trouble = SourceError(f"The source declares {complete.expected} items, but showed {seen}.")

    def _status(self) -> Status:
        if self._stopped:
            return "cancelled"
        if self._trouble is not None:
            return "partial" if self.tally.seen else "failed"
        if self._complete is None and not self._resumes:
            return "partial"
        return "completed"

    def _tick(self, started: float) -> None:
        self._meter_to_tally()
        self.tally.seconds = round(time.monotonic() - started, 3)

    def _meter_to_tally(self) -> None:
        self.tally.requests = self._meter.requests
        self.tally.not_modified = self._meter.not_modified
        self.tally.bytes = self._meter.bytes

    def _report(self) -> None:
        if self._observe is not None:
            self._meter_to_tally()
            self._observe(self._source, self.tally)


async def _together(*stages: Coroutine[None, None, None], watch: asyncio.Task[None] | None = None) -> None:
    """Run the stages side by side; the first failure, also of the watched task, ends them all."""
    tasks = [asyncio.create_task(stage) for stage in stages]
    waiting: set[asyncio.Task[None]] = {*tasks, *([watch] if watch else [])}
    try:
        while not all(task.done() for task in tasks):
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        await _end(tasks)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks until they are over: a cancellation can get lost in code that is not ours."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=PERSISTENCE_S)
    await asyncio.gather(*tasks, return_exceptions=True)


def _reason(problem: BaseException | None) -> str | None:
    if problem is None:
        return None
    if isinstance(problem, asyncio.CancelledError):
        return "cancelled at once"
    words = str(problem) or type(problem).__name__
    return message(f"{words} {problem.hint}" if isinstance(problem, RowenError) and problem.hint else words)
