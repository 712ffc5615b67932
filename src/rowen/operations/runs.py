"""Runs: start, cancel and watch them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from rowen.errors import Hint, NotFoundError, RefusedError, RowenError, SourceGoneError, StoreError, action
from rowen.harvest.engine import Engine, Observer, Work
from rowen.harvest.run import Order
from rowen.jobs import schedules
from rowen.model.access import Scope
from rowen.model.datasets import host_of
from rowen.model.runs import Run
from rowen.model.sources import Source
from rowen.model.url import Address, path_url
from rowen.operations.discovery import Announce
from rowen.operations.operation import ResourceGroup, operation
from rowen.operations.paging import Page, as_number, decoded, page_of
from rowen.store import jobs, runs, status
from rowen.store import schemas as schema_store
from rowen.store import sources as source_store

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta

    from rowen.model.status import TroubleGroup
    from rowen.operations.parameters import After, DryRun, Limit, OnlySource, RunId


log = logging.getLogger(__name__)

T = TypeVar("T")

# Nobody reads more groups of errors than this.
MOST_GROUPS = 20
# A run writes its statistics when it renews its lease, at about this interval; polling more often shows nothing new.
POLL_S = 1.0


class Runs(ResourceGroup):
    """Runs."""

    def _prepare(self) -> None:
        self.watches = Watches(self._engine)

    @operation(scope=Scope.WRITE)
    async def sync(
        self,
        target: Annotated[str, Meta(description="Name of a source, or an address, which is added if it is new.")],
        *,
        full: Annotated[bool, Meta(description="Read and compare every item, whatever validators say.")] = False,
        accept_deletions: Annotated[bool, Meta(description="Delete pending deletions as well.")] = False,
        dry_run: DryRun = False,
        only: Annotated[
            Sequence[str], Meta(description="Check only the items with these URLs.", extra={"flag": "only"})
        ] = (),
        observe: Observer | None = None,
        found: Announce | None = None,
    ) -> Run:
        """Bring one source up to date. `target` is its name, or an address, which is added if it is new.

        With `only`, just the items at these URLs are checked; URLs that are not stored are counted as skipped.
        """
        async with self._engine.work() as work:
            how = {"full": full, "accept_deletions": accept_deletions, "dry_run": dry_run}
            return await self._sync(work, target, observe=observe, found=found, only=only, **how)

    @operation(scope=None)
    async def sync_all(
        self,
        names: Annotated[Sequence[str], Meta(description="Names of sources.")] = (),
        *,
        observe: Observer | None = None,
        finished: Callable[[str, Run | Exception], None] | None = None,
        found: Announce | None = None,
        only: Annotated[
            Sequence[str], Meta(description="Check only the items with these URLs.", extra={"flag": "only"})
        ] = (),
        **how: bool,
    ) -> list[Run | Exception]:
        """Bring several sources up to date side by side; by default all active ones, longest due first.

        A failure does not stop the others: its error is returned in its place. `finished` is called with each result.
        After `stop`, sources that have not begun are left out.
        """
        sources = await self._client.sources.list(counted=False)
        targets = list(names) or [source.name for source in await self._client.sources.list_due()]
        turns = Turns(targets, {source.name: host_of(source.url) or source.name for source in sources})
        results: dict[int, Run | Exception] = {}

        async def sync_in_turn(work: Work) -> None:
            while (place := turns.take()) is not None:
                sync = self._sync(work, targets[place], observe=observe, found=found, only=only, **how)
                [result] = await asyncio.gather(sync, return_exceptions=True)
                turns.give_back(place)
                if not isinstance(result, Run | Exception):
                    raise result
                results[place] = result
                if finished is not None:
                    finished(targets[place], result)
                if work.stopped:
                    return

        async with self._engine.work() as work:
            tasks = [asyncio.create_task(sync_in_turn(work)) for _ in range(min(self._engine.places, len(targets)))]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        done = [results[place] for place in sorted(results)]
        if not any(isinstance(result, Run) and result.stats.embeddings_pending for result in done):
            return done
        ids = {source.name: source.id for source in await self._client.sources.list(counted=False)}
        for place, result in enumerate(done):
            # The texts of a run may have been embedded after the run.
            if isinstance(result, Run) and result.stats.embeddings_pending and result.source in ids:
                done[place] = await self._engine.embedding.record_spend(result, ids[result.source])
        return done

    @operation(scope=Scope.WRITE)
    async def cancel(
        self, target: Annotated[str | int, Meta(description="Number of the run, or name of its source.")]
    ) -> Run:
        """Request that a live run ends as cancelled, in any process; name it by its number or its source."""
        async with self._database.transaction() as c:
            if isinstance(target, int):
                return await runs.request_cancel(c, target)
            try:
                source = await source_store.get(c, target)
            except NotFoundError:
                if not (target.isascii() and target.isdigit()):
                    raise
                return await runs.request_cancel(c, int(target))
            return await runs.request_cancel(c, await runs.live_of(c, source))

    @operation(scope=Scope.READ)
    async def get(self, run_id: RunId) -> Run:
        """Return one run."""
        async with self._database.connection() as c:
            return await runs.get(c, run_id)

    async def _sync(
        self,
        work: Work,
        target: str,
        *,
        observe: Observer | None,
        found: Announce | None,
        only: Sequence[str] = (),
        **how: bool,
    ) -> Run:
        source, is_new = await self._client.sources.editor.find_or_add(
            target, keep=not (how.get("dry_run") or only), found=found
        )
        if only and not source.id:
            raise NotFoundError(f"{target!r} is no source yet, so there is nothing to look at again.")
        if source.state == "paused":
            raise RefusedError(
                f"Source {source.name!r} is paused.", hint=Hint(action("resume", source.name), " takes it in again.")
            )
        order = Order.of(source, only=[named(source, url) for url in only], **how)
        run = await self._engine.run(source, order, observe=observe, work=work)
        if not how.get("dry_run"):
            async with self._database.connection() as c:
                is_behind = await schema_store.is_behind(c, source.id)
            if is_behind:
                run = await self._client.extraction.after_run(source, run, work)
        if not (how.get("dry_run") or only):
            await schedules.settle(self._database, self._engine.settings, source, run)
        if is_new and run.status == "failed":
            # A source whose address does not exist is removed again; a source with an outage is kept.
            try:
                await self._engine.probe(source)
            except SourceGoneError as problem:
                await self._client.sources.remove(source.name)
                raise SourceGoneError(f"{problem} Nothing was added.", hint=problem.hint) from problem
            except RowenError:
                pass
        return run

    @operation(scope=Scope.READ)
    def watch(self, run: Run) -> AsyncGenerator[Run]:
        """Yield this state of a run, and then each new one, until the run is deleted."""
        return self.watches.states(("run", run.id), run)

    @operation(scope=Scope.READ)
    def watch_recent(self, recent: Sequence[Run], *, limit: Limit) -> AsyncGenerator[Sequence[Run]]:
        """Yield these last runs, and then the last runs whenever they differ."""
        return self.watches.states(("recent", limit), recent)

    @operation(scope=Scope.READ)
    async def latest_by_source(
        self, names: Annotated[Sequence[str], Meta(description="Names of sources.")], *, limit: Limit = 30
    ) -> dict[str, list[Run]]:
        """Return the last runs of each source, oldest first."""
        async with self._database.connection() as c:
            return await status.last_runs(c, list(names), limit)

    @operation(scope=Scope.READ)
    async def error_groups(self, run_id: RunId) -> list[TroubleGroup]:
        """Return why items could not be read in a run or since, most frequent reason first."""
        async with self._database.connection() as c:
            run = await runs.get(c, run_id)
            return await status.troubles(c, run.source, run.started_at, MOST_GROUPS)

    @operation(scope=Scope.READ)
    async def list(
        self, source: OnlySource | None = None, *, limit: Limit = 20, after: After | None = None
    ) -> Page[Run]:
        """List the last runs, newest first."""
        listing = ["runs", source]
        place = decoded(after, listing, as_number)
        async with self._database.connection() as c:
            if source is not None:
                await source_store.need(c, source)
            recent = await runs.recent(c, source=source, limit=limit + 1, after=place[0] if place else None)
        return page_of(recent, limit, listing, lambda run: [run.id])


def named(source: Source, url: str) -> str:
    """Return the URL of an item; the item may be given by the path of its file."""
    place = Address.of(url)
    if source.kind == "files" and not place.scheme:
        return path_url(url)
    return place.text.strip()


class Turns:
    """A queue of targets; first come targets whose host has the fewest running syncs, in the order of the list.

    Sources on one slow host do not delay the others.
    """

    def __init__(self, targets: Sequence[str], hosts: Mapping[str, str]) -> None:
        self._waiting = list(range(len(targets)))
        self._hosts = [hosts.get(target, target) for target in targets]
        self._live: Counter[str] = Counter()

    def take(self) -> int | None:
        """Return the index of the next target; None if all targets have been taken."""
        if not self._waiting:
            return None
        chosen = min(self._waiting, key=lambda place: (self._live[self._hosts[place]], place))
        self._waiting.remove(chosen)
        self._live[self._hosts[chosen]] += 1
        return chosen

    def give_back(self, place: int) -> None:
        """Mark a target as finished; `place` is its index."""
        self._live[self._hosts[place]] -= 1


_Key: TypeAlias = tuple[Literal["run", "job", "recent"], int]


class _Watched:
    """The last state of an object, and the number of clients that watch it."""

    def __init__(self) -> None:
        self.state: Any = None
        self.readers = 0
        self.news = asyncio.Event()

    def note(self, state: Any) -> None:
        """Store a state, and wake the watchers if it differs; the state None means that the object was deleted."""
        if state != self.state:
            self.state = state
            news, self.news = self.news, asyncio.Event()
            news.set()


class Watches:
    """The objects that clients of this process watch, and the task that polls them."""

    def __init__(self, engine: Engine) -> None:
        self._database = engine.database
        self._watched: dict[_Key, _Watched] = {}
        self._polling: asyncio.Task[None] | None = None

    async def states(self, key: _Key, first: T) -> AsyncGenerator[T]:
        """Yield the state `first` of an object, and then each new state, until the object is deleted."""
        watched = self._watched.setdefault(key, _Watched())
        watched.readers += 1
        try:
            watched.note(first)
            if self._polling is None or self._polling.done():
                self._polling = asyncio.create_task(self._poll())
            while watched.state is not None:
                news = watched.news
                yield watched.state
                await news.wait()
        finally:
            watched.readers -= 1
            if not watched.readers:
                del self._watched[key]

    async def _poll(self) -> None:
        while self._watched:
            await asyncio.sleep(POLL_S)
            keys = tuple(self._watched)
            try:
                states = await self._read(keys)
            except StoreError as problem:
                log.warning("runs and jobs that are watched could not be read: %s", problem)
                continue
            for key in keys:
                if key in self._watched:
                    self._watched[key].note(states.get(key))

    async def _read(self, keys: Sequence[_Key]) -> dict[_Key, Any]:
        """Read the states of all watched objects."""
        wanted = {sort: [number for of, number in keys if of == sort] for sort, _ in keys}
        states: dict[_Key, Any] = {}
        if not keys:
            return states
        async with self._database.connection() as c:
            if numbers := wanted.get("run"):
                states |= {("run", run.id): run for run in await runs.of_numbers(c, numbers)}
            if numbers := wanted.get("job"):
                states |= {("job", job.id): job for job in await jobs.of_numbers(c, numbers)}
            if limits := wanted.get("recent"):
                recent = await runs.recent(c, limit=max(limits))
                states |= {("recent", limit): recent[:limit] for limit in limits}
        return states
