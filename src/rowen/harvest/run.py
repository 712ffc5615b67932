"""The garbage collector while a run is on: what flows through is freed by counting, and looked through in vain.

The stages of a run, side by side: the first failure ends them all.

One run: pull → group → sieve → prepare → commit, streaming, and a sweep when the source was seen whole.

Tasks hand groups to each other through short queues: one pulls, one plans, three write. A slow store fills the queues
and so slows the connector; memory holds a few groups, whatever the size of the source.
"""

import asyncio
import gc
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from rowen.concurrency import end
from rowen.connectors.base import Connector, FailedBefore, Meter
from rowen.errors import ItemError, PortionReadError, RowenError, SourceError
from rowen.harvest import observations
from rowen.harvest.commit import Committer
from rowen.harvest.known import Seen, StoredKnown
from rowen.harvest.observations import Group, first_documents
from rowen.harvest.parse_pool import Workers
from rowen.harvest.plan import Plan, Planner
from rowen.harvest.sieve import Recipes
from rowen.harvest.sweep import Guard, Swept, rehearse, sweep
from rowen.model.hashes import Hash
from rowen.model.item import (
    Checkpoint,
    Complete,
    Document,
    Failed,
    FellBack,
    Fetched,
    Gone,
    Incomplete,
    Namesakes,
    Observation,
    Proved,
    Redirected,
    Skipped,
    Unchanged,
)
from rowen.model.outside import message
from rowen.model.run import Mode, Run, RunStats, Status
from rowen.model.source import Source
from rowen.model.url import key as key_of
from rowen.net.target import redact
from rowen.settings import Settings
from rowen.store import gone, items, quarantine, runs, sources, statements, twins, withdrawn
from rowen.store import held as held_store
from rowen.store.database import Database
from rowen.store.word_index import WordIndex

__all__ = ["Harvest", "Order", "seldom_collecting", "together"]

OBJECTS_BETWEEN = 50_000
"""About what a group makes; they are freed by counting, so that the usual look at every 700 finds nothing."""

_usual: list[tuple[int, int, int]] = []


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Look for garbage less often until the last of the runs that are on has ended."""
    usual = gc.get_threshold()
    _usual.append(usual)
    if 0 < usual[0] < OBJECTS_BETWEEN:
        gc.set_threshold(OBJECTS_BETWEEN, *usual[1:])
    try:
        yield
    finally:
        first = _usual[0]
        _usual.pop()
        if not _usual:
            gc.set_threshold(*first)


async def together(*stages: Coroutine[None, None, None], watch: asyncio.Task[None] | None = None) -> None:
    """Run the stages side by side; the first failure, also of the watched task, ends them all."""
    tasks = [asyncio.create_task(stage) for stage in stages]
    waiting: set[asyncio.Task[None]] = {*tasks, *([watch] if watch else [])}
    try:
        while not all(task.done() for task in tasks):
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        await end(tasks)


# One group waits while one is worked on: a stage is never idle, and memory holds a few groups.
QUEUE_GROUPS = 1
# While one transaction waits for its turn to commit, another is being sent, another executed; a fourth gained nothing.
WRITERS = 3
# A slow source is searchable after a second, and a fast one fills its groups in less.
PATIENCE_S = 1.0
# Who watches or cancels a run from elsewhere waits no longer; a row of 1 kB at that pace costs the database nothing.
RENEWAL_S = 5.0
# Somebody waits at the terminal. A portal that needs longer for its first page may be well; it is said what was seen.
LOOK_S = 30.0

_ENDINGS = frozenset({Complete, Incomplete})
_NOTES = frozenset({FellBack, Namesakes, Proved, Redirected})

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Order:
    """How a run is to be done."""

    mode: Mode = "incremental"
    distrust: bool = False
    accept_deletions: bool = False
    dry_run: bool = False
    job: int | None = None
    most_items: int | None = None
    only: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Source, *, full: bool = False, only: Sequence[str] = (), **how: Any) -> "Order":
        """The order for a source as it stands: what was never seen whole, and cannot be resumed, is read in full.

        A look at `only` some items never sees a source whole, and leaves its cursor as it is.
        """
        first = source.last_complete_at is None and source.cursor is None
        mode: Mode = "full" if (full or first) and not only else "incremental"
        return cls(mode, full, only=tuple(dict.fromkeys(only)), **how)


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
        observe: Callable[[Source, RunStats], None] | None = None,
    ) -> None:
        self.stats = RunStats(only=len(order.only))
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
        self._words = WordIndex(database)
        self._complete: Complete | None = None
        self._pulling: asyncio.Task[None] | None = None
        self._redirects: dict[Hash, Hash] = {}
        self._stopped = self._crashed = self._is_proved = False
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
            self._database, self._source, mode=self._order.mode, lease_s=self._settings.lease_s, job=self._order.job
        )
        try:
            status = await self._flow(lease)
        except BaseException as problem:
            self._tick(started)
            with suppress(RowenError):
                await lease.close("failed", complete=False, stats=self.stats, problem=_problem(problem))
            raise
        self._tick(started)
        complete = self._complete is not None and status == "completed"
        proved = self._is_proved and status == "completed"
        await lease.close(status, complete=complete, proved=proved, stats=self.stats, problem=_problem(self._trouble))
        async with self._database.connection() as connection:
            run = await runs.get(connection, lease.run_id)
        log.info("run closed", extra={"fields": run.to_json()})
        return run

    async def look(self) -> None:
        """Begin to pull, until something is seen; raises where nothing can be read. Nothing is written."""
        await self._planner()
        failed: Failed | None = None
        try:
            async with asyncio.timeout(LOOK_S), aclosing(self._observations) as observations:
                with self._bugs_named():
                    async for observation in observations:
                        if isinstance(observation, Incomplete):
                            raise SourceError(observation.why)
                        if isinstance(observation, Fetched | Unchanged | Gone):
                            return
                        if isinstance(observation, Failed):
                            failed = failed or observation
        except TimeoutError:
            raise SourceError(f"{redact(self._source.url)} showed nothing within {LOOK_S:.0f} s.") from None
        if failed is not None:
            raise SourceError(failed.error, hint=failed.hint)

    async def sample(self, limit: int) -> tuple[list[Document], bool]:
        """The first documents, and whether there is more; raises where nothing can be read. Nothing is written."""
        await self._planner()
        with self._bugs_named():
            return await first_documents(self._observations, self._workers.read, limit=limit, within_s=LOOK_S)

    async def _dry_run(self, started: float) -> Run:
        """Find out what a run would do; nothing is written, not even that it was tried."""
        planner = await self._planner()
        await together(self._pull(), self._plan(planner, readers=1), self._count(planner))
        status = await self._finish(0, planner, Seen())
        self._tick(started)
        now = datetime.now(UTC)
        complete = self._complete is not None and status == "completed" and not self.stats.truncated
        source, mode, problem = self._source, self._order.mode, _problem(self._trouble)
        words, code = (problem.words, problem.code) if problem else (None, None)
        return Run(0, source.name, source.kind, mode, status, complete, now, now, self.stats, words, code)

    async def _flow(self, lease: runs.Lease) -> Status:
        self.stats.rows_written += await twins.fill(self._database, self._source.id)
        planner = await self._planner()
        committer = Committer(
            self._database,
            self._source,
            lease.run_id,
            self._recipe,
            self._settings.revisions_kept,
            planner.seen,
            planner.failed,
            restores=planner.pending.withdrawn_since is not None,
            forgets=not self._resumes,
            states=planner.states,
        )
        renewal = asyncio.create_task(self._renew(lease))
        try:
            with seldom_collecting():
                writers = [self._commit(committer, planner) for _ in range(WRITERS)]
                await together(self._pull(), self._plan(planner, readers=WRITERS), *writers, watch=renewal)
                await committer.finish()
            return await self._finish(lease.run_id, planner, committer.created)
        finally:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)

    async def _planner(self) -> Planner:
        async with self._database.connection() as connection:
            held = await items.count(connection, self._source.id)
            quarantined = await quarantine.failed(connection, self._source.id)
            marked = await gone.marked(connection, self._source.id)
            pending = await held_store.pending(connection, self._source.id)
            states = await statements.are_kept(connection, self._source.id)
            if self._order.only:
                spent = await runs.deleted_since_whole(connection, self._source.id)
                self._guard = replace(self._guard, spent=spent)
        known = StoredKnown(
            self._database,
            self._source,
            mode=self._order.mode,
            recipes=self._recipe,
            distrust=self._order.distrust,
            count=held,
            failed=[FailedBefore(*one[1:]) for one in quarantined],
            losable=held if self._order.accept_deletions else self._guard.bound(held),
            leaving=pending.held,
        )
        self._observations: AsyncGenerator[Observation] = (
            observations.selected(self._connector, known, self._order.only, skip=self._skip)
            if self._order.only
            else self._connector.pull(known)
        )
        self._known = known
        self._resumes = known.cursor is not None
        return Planner(
            self._database,
            self._source,
            known=known,
            redirects=self._redirects,
            recipe=self._recipe,
            workers=self._workers,
            quarantined={one.key for one in quarantined},
            gone=marked,
            pending=pending,
            chronological=self._chronological,
            states=states,
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
        with self._bugs_named():
            async with aclosing(self._observations) as observations:
                async for observation in observations:
                    if type(observation) in _ENDINGS:
                        self._end(observation)
                        return
                    if type(observation) in _NOTES:
                        self._note(observation)
                        continue
                    if self._chronological and self._group.supersedes(observation):
                        await self._hand_over()
                        self._group.supersedes(observation)
                    if self._group.add(observation):
                        await self._hand_over()
                    if type(observation) is Checkpoint and self._has_portion():
                        return

    def _has_portion(self) -> bool:
        """Whether so much was stored that the rest is left to another run, which goes on from the cursor."""
        most, stored = self._order.most_items, self.stats.created + self.stats.updated + self.stats.amended
        if most is None or stored < most:
            return False
        self._trouble = PortionReadError(f"This job has read its share, {stored:,} new items; the next one goes on.")
        return True

    @contextmanager
    def _bugs_named(self) -> Iterator[None]:
        """Say which connector failed over what it did not expect: it may be anybody's."""
        try:
            yield
        except RowenError:
            raise
        except Exception as problem:
            self._crashed = True
            raise SourceError(
                f"The connector of kind {self._source.kind!r} failed: {type(problem).__name__}: {problem}",
                hint="The next run looks at the source from its beginning.",
            ) from problem

    def _note(self, told: Observation) -> None:
        """Count what is said of the source as a whole."""
        match told:
            case Namesakes(shared, dropped):
                self.stats.add({"shared": shared, "dropped": dropped})
            case Redirected(url, to):
                self._redirects[key_of(url)] = key_of(to)
            case Proved():
                self._is_proved = True
            case FellBack(why):
                log.warning("fell back to a whole walk of %s: %s", self._source.name, why)
                self.stats.fell_back += 1
                self.stats.fell_back_because = self.stats.fell_back_because or why

    def _skip(self, skipped: Skipped) -> None:
        """Count what a narrow look leaves to a whole one: nothing is known of it, not even that it is there."""
        log.info("left %s to a look at the whole source: %s", redact(skipped.url), skipped.why)
        self.stats.skipped += 1

    def _end(self, ending: Observation) -> None:
        match ending:
            case Complete():
                self._complete = ending
            case Incomplete(why, some_failed):
                self._trouble = ItemError(why) if some_failed else SourceError(why)

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
            self._known.forgets = committer.forgets
            counts.update(plan.counts)
            self.stats.add(counts)
            planner.settle(plan)
            self._plans.task_done()
            await self._words.grown(self.stats.chunks_written)
            self._report()

    async def _count(self, planner: Planner) -> None:
        while (plan := await self._plans.get()) is not None:
            self.stats.add(plan.counts)
            planner.note_arrivals(plan)
            self._plans.task_done()
            self._report()

    async def _renew(self, lease: runs.Lease) -> None:
        while True:
            await asyncio.sleep(min(RENEWAL_S, lease.lease_s / 3))
            self._meter_to_stats()
            if await lease.renew(self.stats):
                self.stop()
            self._report()

    async def _finish(self, run_id: int, planner: Planner, created: Seen) -> Status:
        if self._crashed and not (self._order.dry_run or self._order.only):
            await self._forget_cursor(run_id)
        if self._complete is not None:
            self._doubt(self._complete, planner.met)
        whole = self._complete is not None and self._trouble is None and not self._stopped
        sweeps = whole and self._complete is not None and not self._complete.keeps_unseen
        swept = Swept()
        # A run that somebody stopped leaves its marks: the next one decides, knowing more.
        if not self._stopped and (sweeps or planner.gone or planner.marked_before or planner.returned):
            swept = await self._sweep(run_id, planner, created, whole=sweeps)
            self._add_swept(swept)
            self._report()
        if whole and self._complete is not None:
            self.stats.truncated, self.stats.generated = self._complete.beyond, self._complete.generated
        elif self._status() == "completed" and not self._order.only:
            held = planner.held + self.stats.created - self.stats.deleted - swept.joined
            self.stats.not_asked = max(0, held - len(planner.seen))
        if not self._order.dry_run:
            if planner.pending.held and not sweeps:
                self.stats.deletions_held = await self._still_held()
            await self._tidy(run_id, planner, whole=whole)
            if (planner.failed or planner.failed_before) and not self._order.only:
                async with self._database.connection() as c:
                    self.stats.missing = await quarantine.missing(c, self._source.id)
        return self._status()

    async def _still_held(self) -> int:
        """How many deletions wait, also those about which this run knows nothing."""
        async with self._database.connection() as c:
            return await held_store.waiting(c, self._source.id)

    async def _tidy(self, run_id: int, planner: Planner, *, whole: bool) -> None:
        """Note what a run that was not whole has reached; forget withdrawn copies that are too old."""
        if not whole and planner.seen and self._status() != "completed" and not self._order.only:
            async with self._database.transaction() as c:
                await items.touch(c, run_id, planner.seen)
        days, since = self._settings.withdrawn_kept_days, planner.pending.withdrawn_since
        if since is not None and since <= datetime.now(UTC) - timedelta(days=days):
            async with self._database.transaction() as c:
                await withdrawn.expire(c, self._source.id, days=days)

    async def _sweep(self, run_id: int, planner: Planner, created: Seen, *, whole: bool) -> Swept:
        if self._order.dry_run:
            return await rehearse(
                self._database, self._source, planner=planner, whole=whole, guard=self._guard, settings=self._settings
            )
        return await sweep(
            self._database,
            self._source,
            run_id,
            planner=planner,
            created=created,
            whole=whole,
            guard=self._guard,
            settings=self._settings,
        )

    def _add_swept(self, swept: Swept) -> None:
        """Add what the end of the run did; what moved was not created after all."""
        self.stats.moved += swept.moved
        self.stats.created -= swept.amended + swept.updated
        self.stats.amended += swept.amended
        self.stats.updated += swept.updated
        self.stats.deleted = swept.deleted
        self.stats.statements_removed += swept.unstated
        self.stats.deletions_held = swept.held_back
        self.stats.rows_written += swept.moved + swept.deleted + swept.noted

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
            return "partial" if self.stats.seen else "failed"
        if self._complete is None and not (self._resumes or self._order.only):
            return "partial"
        return "completed"

    def _tick(self, started: float) -> None:
        self._meter_to_stats()
        self.stats.seconds = round(time.monotonic() - started, 3)

    def _meter_to_stats(self) -> None:
        self.stats.requests = self._meter.requests
        self.stats.not_modified = self._meter.not_modified
        self.stats.bytes = self._meter.bytes
        self.stats.known = self._meter.known

    def _report(self) -> None:
        if self._observe is not None:
            self._meter_to_stats()
            self._observe(self._source, self.stats)


def _problem(problem: BaseException | None) -> runs.Problem | None:
    if problem is None:
        return None
    if isinstance(problem, asyncio.CancelledError):
        return runs.Problem("cancelled at once")
    words = str(problem) or type(problem).__name__
    if not isinstance(problem, RowenError):
        return runs.Problem(message(words))
    told = message(f"{words} {problem.hint}" if problem.hint else words)
    return runs.Problem(told, problem.code, getattr(problem, "retry_in_s", None) or None)
