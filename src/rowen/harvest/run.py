"""Run a harvest: pull → group → sieve → prepare → commit as a stream, and a sweep after a complete walk.

Tasks pass groups on through short queues: one task pulls, one plans, three write. A slow store fills the queues and so
slows the connector down; memory holds a few groups, whatever the size of the source.
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
from rowen.harvest.commit import Committer
from rowen.harvest.known import Seen, StoredKnown
from rowen.harvest.observations import Group, selected
from rowen.harvest.parse_pool import Workers
from rowen.harvest.plan import Plan, Planner
from rowen.harvest.sieve import Recipes
from rowen.harvest.sweep import Guard, Swept, sweep
from rowen.model.hashes import Hash
from rowen.model.items import (
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
    Raw,
    Redirected,
    Skipped,
    Unchanged,
)
from rowen.model.runs import Mode, Run, RunStats, RunStatus
from rowen.model.sources import Source
from rowen.model.text import message
from rowen.model.url import key as key_of
from rowen.net.target import redact
from rowen.settings import Settings
from rowen.store import rdf, runs, sources
from rowen.store.database import Database
from rowen.store.items import deletions, duplicates, items
from rowen.store.search.words import WordIndex

# One group waits while another is processed: no stage is idle, and memory holds a few groups.
QUEUE_GROUPS = 1
# While one transaction waits to commit, another is sent and a third is executed; a fourth writer gained nothing.
WRITERS = 3
# A slow source is searchable after this time; a fast source fills its groups sooner.
PATIENCE_S = 1.0
# The delay until a run shows its progress and notices a cancellation; a row of 1 kB at this rate is cheap.
RENEWAL_S = 5.0
# The limit for a user who waits at the terminal. A slow portal may still be fine, so the error says what was observed.
LOOK_S = 30.0
# About the number of objects of a group. Reference counting frees them, so the usual collection at 700 finds nothing.
OBJECTS_BETWEEN = 50_000

_ABOUT_SOURCE = frozenset({Complete, FellBack, Incomplete, Namesakes, Proved, Redirected})

log = logging.getLogger(__name__)

_usual_thresholds: list[tuple[int, int, int]] = []


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Collect garbage less often until the last active run has ended."""
    usual = gc.get_threshold()
    _usual_thresholds.append(usual)
    if 0 < usual[0] < OBJECTS_BETWEEN:
        gc.set_threshold(OBJECTS_BETWEEN, *usual[1:])
    try:
        yield
    finally:
        first = _usual_thresholds[0]
        _usual_thresholds.pop()
        if not _usual_thresholds:
            gc.set_threshold(*first)


@dataclass(frozen=True, slots=True)
class Order:
    """The options of a run."""

    mode: Mode = "incremental"
    distrust: bool = False
    accept_deletions: bool = False
    dry_run: bool = False
    job: int | None = None
    most_items: int | None = None
    only: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Source, *, full: bool = False, only: Sequence[str] = (), **options: Any) -> "Order":
        """Return the order for a source; its mode is full if the source was never read as a whole and has no cursor.

        An order for `only` some items never reads the whole source, and leaves its cursor unchanged.
        """
        first = source.last_complete_at is None and source.cursor is None
        mode: Mode = "full" if (full or first) and not only else "incremental"
        return cls(mode, full, only=tuple(dict.fromkeys(only)), **options)


@dataclass(kw_only=True, eq=False)
class Harvest:
    """One pass over one source."""

    database: Database
    source: Source
    connector: Connector
    order: Order
    settings: Settings
    recipe: Recipes
    workers: Workers
    meter: Meter
    observe: Callable[[Source, RunStats], None] | None = None

    def __post_init__(self) -> None:
        self.stats = RunStats(only=len(self.order.only))
        self._chronological: bool = getattr(self.connector, "chronological", False)
        self._guard = Guard.of(self.settings, accepted=self.order.accept_deletions)
        self._group = Group()
        self._groups: asyncio.Queue[Group | None] = asyncio.Queue(QUEUE_GROUPS)
        self._plans: asyncio.Queue[Plan | None] = asyncio.Queue(QUEUE_GROUPS)
        self._words = WordIndex(self.database)
        self._complete: Complete | None = None
        self._pulling: asyncio.Task[None] | None = None
        self._redirects: dict[Hash, Hash] = {}
        self._stopped = self._crashed = self._is_proved = False
        self._trouble: RowenError | None = None
        self._started = 0.0

    def stop(self) -> None:
        """End the run soon, as cancelled; observations received so far are still committed."""
        self._stopped = True
        if self._pulling is not None:
            self._pulling.cancel()

    async def run(self) -> Run:
        """Harvest the source; raise only if the store fails or another run of the source is live."""
        self._started = time.monotonic()
        if self.order.dry_run:
            return await self._dry_run()
        lease = await runs.Lease.take(
            self.database, self.source, mode=self.order.mode, lease_s=self.settings.lease_s, job=self.order.job
        )
        try:
            status = await self._flow(lease)
        except BaseException as problem:
            self._close_stats()
            with suppress(RowenError):
                await lease.close("failed", complete=False, stats=self.stats, problem=_problem(problem))
            raise
        self._close_stats()
        complete = self._complete is not None and status == "completed"
        proved = self._is_proved and status == "completed"
        await lease.close(status, complete=complete, proved=proved, stats=self.stats, problem=_problem(self._trouble))
        async with self.database.connection() as connection:
            run = await runs.get(connection, lease.run_id)
        log.info("run closed", extra={"fields": run.to_json()})
        return run

    async def probe(self) -> None:
        """Read until the first observation of an item; raise if the source cannot be read. Write nothing."""
        await self._planner()
        failed: Failed | None = None
        try:
            async with asyncio.timeout(LOOK_S), aclosing(self._observations) as observations:
                with self._connector_named():
                    async for observation in observations:
                        if isinstance(observation, Incomplete):
                            raise SourceError(observation.why)
                        if isinstance(observation, Fetched | Unchanged | Gone):
                            return
                        if isinstance(observation, Failed):
                            failed = failed or observation
        except TimeoutError:
            raise SourceError(f"{redact(self.source.url)} returned nothing within {LOOK_S:.0f} s.") from None
        if failed is not None:
            raise SourceError(failed.error, hint=failed.hint)

    async def sample(self, limit: int) -> tuple[list[Document], bool]:
        """Return the first documents and whether there are more; raise if the source cannot be read. Write nothing."""
        await self._planner()
        documents: list[Document] = []
        trouble: str | None = None
        try:
            async with asyncio.timeout(LOOK_S):
                with self._connector_named():
                    async with aclosing(self._observations) as observations:
                        async for observation in observations:
                            match observation:
                                case Fetched() if len(documents) == limit:
                                    return documents, True
                                case Fetched(Document() as item):
                                    documents.append(item)
                                case Fetched(Raw() as item):
                                    documents.append(await self.workers.read(item))
                                case Failed(_, why) | Incomplete(why):
                                    trouble = trouble or why
        except TimeoutError:
            trouble = trouble or f"The source returned nothing within {LOOK_S:.0f} s."
        except ItemError as problem:
            trouble = trouble or str(problem)
        if not documents and trouble is not None:
            raise SourceError(trouble)
        return documents, False

    async def _dry_run(self) -> Run:
        """Return the run that would happen; write nothing, not even the run."""
        planner = await self._planner()

        async def count() -> None:
            while (plan := await self._plans.get()) is not None:
                self.stats.add(plan.counts)
                planner.note_arrivals(plan)
                self._plans.task_done()
                self._report()

        await self._together(self._pull(), self._plan(planner, readers=1), count())
        status = await self._finish(0, planner, Seen())
        self._close_stats()
        now = datetime.now(UTC)
        complete = self._complete is not None and status == "completed" and not self.stats.truncated
        source, problem = self.source, _problem(self._trouble)
        error, code = (problem.message, problem.code) if problem else (None, None)
        return Run(0, source.name, source.kind, self.order.mode, status, complete, now, now, self.stats, error, code)

    async def _flow(self, lease: runs.Lease) -> RunStatus:
        self.stats.rows_written += await duplicates.fill_marks(self.database, self.source.id)
        planner = await self._planner()
        committer = Committer(
            self.database,
            self.source,
            lease.run_id,
            self.recipe,
            self.settings.revisions_kept,
            planner.seen,
            planner.failed,
            restores=planner.pending.withdrawn_since is not None,
            forgets=not self._resumes,
            states=planner.states,
        )

        async def renew() -> None:
            while True:
                await asyncio.sleep(min(RENEWAL_S, lease.lease_s / 3))
                self._meter_to_stats()
                if await lease.renew(self.stats):
                    self.stop()
                self._report()

        async def commit() -> None:
            while (plan := await self._plans.get()) is not None:
                counts = await committer.commit(plan)
                self._known.forgets = committer.forgets
                counts.update(plan.counts)
                self.stats.add(counts)
                planner.settle(plan)
                self._plans.task_done()
                await self._words.grown(self.stats.chunks_written)
                self._report()

        renewal = asyncio.create_task(renew())
        try:
            with seldom_collecting():
                writers = [commit() for _ in range(WRITERS)]
                await self._together(self._pull(), self._plan(planner, readers=WRITERS), *writers, watch=renewal)
                await committer.finish()
            return await self._finish(lease.run_id, planner, committer.created)
        finally:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)

    async def _planner(self) -> Planner:
        async with self.database.connection() as connection:
            count = await items.count(connection, self.source.id)
            quarantined = await items.quarantined(connection, self.source.id)
            marked = await deletions.reported_gone(connection, self.source.id)
            pending = await deletions.pending(connection, self.source.id)
            states = await rdf.has_statements(connection, self.source.id)
            if self.order.only:
                spent = await runs.deleted_since_whole(connection, self.source.id)
                self._guard = replace(self._guard, spent=spent)
        self._known = known = StoredKnown(
            database=self.database,
            source=self.source,
            mode=self.order.mode,
            recipes=self.recipe,
            distrust=self.order.distrust,
            count=count,
            failed=[FailedBefore(*row[1:]) for row in quarantined],
            losable=count if self.order.accept_deletions else self._guard.bound(count),
            leaving=frozenset(pending.item_ids),
        )
        self._observations: AsyncGenerator[Observation] = (
            selected(self.connector, known, self.order.only, skip=self._skip)
            if self.order.only
            else self.connector.pull(known)
        )
        self._resumes = known.cursor is not None
        return Planner(
            database=self.database,
            source=self.source,
            known=known,
            redirects=self._redirects,
            recipes=self.recipe,
            workers=self.workers,
            quarantined={row.key for row in quarantined},
            marked=marked,
            pending=pending,
            chronological=self._chronological,
            states=states,
        )

    @staticmethod
    async def _together(*stages: Coroutine[None, None, None], watch: asyncio.Task[None] | None = None) -> None:
        """Run the stages concurrently; the first failure of a stage or of the task `watch` ends all stages."""
        tasks = [asyncio.create_task(stage) for stage in stages]
        waiting: set[asyncio.Task[None]] = {*tasks, *([watch] if watch else [])}
        try:
            while not all(task.done() for task in tasks):
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            await end(tasks)

    async def _pull(self) -> None:

        async def flush_in_time() -> None:
            """Pass a group on after a while if the source is slow, unless the store is slower."""
            while True:
                await asyncio.sleep(PATIENCE_S)
                if self._group and not self._groups.full():
                    await self._flush()

        self._pulling = asyncio.create_task(self._pull_all())
        ticking = asyncio.create_task(flush_in_time())
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
        await self._flush()
        await self._groups.put(None)

    async def _pull_all(self) -> None:
        if self._stopped:
            return
        with self._connector_named():
            async with aclosing(self._observations) as observations:
                async for observation in observations:
                    if type(observation) in _ABOUT_SOURCE:
                        if self._note(observation):
                            return
                        continue
                    if self._chronological and self._group.supersedes(observation):
                        await self._flush()
                        self._group.supersedes(observation)
                    if self._group.add(observation):
                        await self._flush()
                    stored = self.stats.created + self.stats.updated + self.stats.amended
                    most = self.order.most_items
                    if type(observation) is Checkpoint and most is not None and stored >= most:
                        self._trouble = PortionReadError(
                            f"This job has read its share, {stored:,} new items. The next job continues from there."
                        )
                        return

    def _note(self, observation: Observation) -> bool:
        """Record an observation about the source as a whole; return whether it ends the walk."""
        match observation:
            case Complete():
                self._complete = observation
                return True
            case Incomplete(why, some_failed):
                self._trouble = ItemError(why) if some_failed else SourceError(why)
                return True
            case Namesakes(shared, dropped):
                self.stats.add({"shared": shared, "dropped": dropped})
            case Redirected(url, to):
                self._redirects[key_of(url)] = key_of(to)
            case Proved():
                self._is_proved = True
            case FellBack(why):
                log.warning("fell back to a whole walk of %s: %s", self.source.name, why)
                self.stats.fell_back += 1
                self.stats.fell_back_because = self.stats.fell_back_because or why
        return False

    @contextmanager
    def _connector_named(self) -> Iterator[None]:
        """Turn unexpected exceptions into a `SourceError` that names the connector, which may be a plug-in."""
        try:
            yield
        except RowenError:
            raise
        except Exception as problem:
            self._crashed = True
            raise SourceError(
                f"The connector of kind {self.source.kind!r} failed: {type(problem).__name__}: {problem}",
                hint="The next run reads the source from its beginning.",
            ) from problem

    def _skip(self, skipped: Skipped) -> None:
        """Count a selected item that only a walk of the whole source can check."""
        log.info("skipped %s until a sync of the whole source: %s", redact(skipped.url), skipped.why)
        self.stats.skipped += 1

    async def _flush(self) -> None:
        if self._group:
            group, self._group = self._group, Group()
            await self._groups.put(group)

    async def _plan(self, planner: Planner, *, readers: int) -> None:
        while (group := await self._groups.get()) is not None:
            await self._plans.put(await planner.plan(group, settled=self._plans.join))
        for _ in range(readers):
            await self._plans.put(None)

    async def _finish(self, run_id: int, planner: Planner, created: Seen) -> RunStatus:
        """Sweep, complete the statistics and return the status of the run."""
        stats, source_id = self.stats, self.source.id
        if self._crashed and not (self.order.dry_run or self.order.only):
            # The cursor may contain the value that made the connector fail, so that every run would fail.
            async with self.database.transaction() as c:
                await runs.fence(c, run_id)
                await sources.move_cursor(c, source_id, None)
        complete = self._complete
        if complete is not None and complete.expected is not None and planner.encountered < complete.expected:
            self._trouble = SourceError(
                f"The source declares {complete.expected} items, but returned {planner.encountered}."
            )
        whole = complete is not None and self._trouble is None and not self._stopped
        sweeps = whole and complete is not None and not complete.keeps_unseen
        swept = Swept()
        # A stopped run leaves its marked items to the next run, which knows more.
        if not self._stopped and (sweeps or planner.gone or planner.marked_before or planner.returned):
            swept = await sweep(
                self.database,
                self.source,
                None if self.order.dry_run else run_id,
                planner=planner,
                created=created,
                whole=sweeps,
                guard=self._guard,
                settings=self.settings,
            )
            stats.moved += swept.moved
            # Moved items were counted as created.
            stats.created -= swept.amended + swept.updated
            stats.amended += swept.amended
            stats.updated += swept.updated
            stats.deleted = swept.deleted
            stats.statements_removed += swept.unstated
            stats.deletions_held = swept.pending
            stats.rows_written += swept.moved + swept.deleted + swept.newly_pending
            self._report()
        if whole and complete is not None:
            stats.truncated, stats.generated = complete.beyond, complete.generated
        elif self._status() == "completed" and not self.order.only:
            expected = planner.count + stats.created - stats.deleted - swept.joined
            stats.not_asked = max(0, expected - len(planner.seen))
        if not self.order.dry_run:
            if planner.pending.item_ids and not sweeps:
                # Includes pending deletions that this run has not checked.
                async with self.database.connection() as c:
                    stats.deletions_held = await deletions.count_pending(c, source_id)
            if not whole and planner.seen and self._status() != "completed" and not self.order.only:
                # The next run knows which items this one observed.
                async with self.database.transaction() as c:
                    await items.touch(c, run_id, planner.seen)
            days, since = self.settings.withdrawn_kept_days, planner.pending.withdrawn_since
            if since is not None and since <= datetime.now(UTC) - timedelta(days=days):
                async with self.database.transaction() as c:
                    await deletions.expire_withdrawn(c, source_id, days=days)
            if (planner.failed or planner.failed_before) and not self.order.only:
                async with self.database.connection() as c:
                    stats.missing = await items.count_unread(c, source_id)
        return self._status()

    def _status(self) -> RunStatus:
        if self._stopped:
            return "cancelled"
        if self._trouble is not None:
            return "partial" if self.stats.seen else "failed"
        if self._complete is None and not (self._resumes or self.order.only):
            return "partial"
        return "completed"

    def _close_stats(self) -> None:
        self._meter_to_stats()
        self.stats.seconds = round(time.monotonic() - self._started, 3)

    def _meter_to_stats(self) -> None:
        self.stats.requests = self.meter.requests
        self.stats.not_modified = self.meter.not_modified
        self.stats.bytes = self.meter.bytes
        self.stats.known = self.meter.known

    def _report(self) -> None:
        if self.observe is not None:
            self._meter_to_stats()
            self.observe(self.source, self.stats)


def _problem(problem: BaseException | None) -> runs.Problem | None:
    if problem is None:
        return None
    if isinstance(problem, asyncio.CancelledError):
        return runs.Problem("cancelled at once")
    words = str(problem) or type(problem).__name__
    if not isinstance(problem, RowenError):
        return runs.Problem(message(words))
    words = message(f"{words} {problem.hint}" if problem.hint else words)
    return runs.Problem(words, problem.code, getattr(problem, "retry_in_s", None) or None)
