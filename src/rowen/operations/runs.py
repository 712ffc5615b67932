"""Runs: starting, stopping and looking at them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rowen.errors import Hint, NotFoundError, RefusedError, RowenError, SourceGoneError, action
from rowen.harvest.engine import Engine, Observer, Work
from rowen.harvest.run import Order
from rowen.jobs import schedules
from rowen.model.datasets import host_of
from rowen.model.page import Page
from rowen.model.runs import Run
from rowen.model.sources import Source
from rowen.model.url import Address, path_url
from rowen.operations.paging import as_moment, as_number, as_text, decoded, page_of
from rowen.operations.sources import Announce, Sources
from rowen.store import runs, source_schemas
from rowen.store import schedules as store_schedules
from rowen.store import sources as source_store

if TYPE_CHECKING:
    from rowen.model.items import Case
    from rowen.operations.extractions import Extractions

__all__ = ["Runs", "Turns", "named"]


class Runs:
    """Bringing sources up to date."""

    def __init__(self, engine: Engine, sources: Sources, extractions: Callable[[], Extractions]) -> None:
        self._engine = engine
        self._database = engine.database
        self._sources = sources
        self._extractions = extractions

    async def sync(
        self,
        target: str,
        *,
        full: bool = False,
        accept_deletions: bool = False,
        dry_run: bool = False,
        only: Sequence[str] = (),
        observe: Observer | None = None,
        found: Announce | None = None,
    ) -> Run:
        """Bring one source up to date. `target` is its name, or an address, which is added if it is new.

        With `only`, just the items at these URLs are looked at again; what is not held yet is counted as skipped.
        """
        async with self._engine.work() as work:
            return await self._sync(
                work,
                target,
                observe=observe,
                found=found,
                full=full,
                accept_deletions=accept_deletions,
                dry_run=dry_run,
                only=only,
            )

    async def sync_all(
        self,
        names: Sequence[str] = (),
        *,
        observe: Observer | None = None,
        finished: Callable[[str, Run | Exception], None] | None = None,
        found: Announce | None = None,
        only: Sequence[str] = (),
        **how: bool,
    ) -> list[Run | Exception]:
        """Bring several sources up to date side by side; by default all active ones, those first that are due.

        One that fails does not hold the others: its error stands in its place. `finished` is told of each as soon as it
        is done. After `stop`, those that have not begun are left out.
        """
        held = await self._sources.every(counted=False)
        targets = list(names) or [source.name for source in await self.in_turn()]
        turns = Turns(targets, {source.name: host_of(source.url) or source.name for source in held})
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
        ids = {source.name: source.id for source in await self._sources.every(counted=False)}
        return [await self._embedded_since(result, ids) for result in done]

    async def in_turn(self) -> list[Source]:
        """All active sources in the order in which they should be looked at: the longest due first, then by name."""
        active = [source for source in await self._sources.every(counted=False) if source.state == "active"]
        async with self._database.connection() as c:
            now = await store_schedules.database_time(c)
        return sorted(active, key=lambda source: min(source.due_at or now, now))

    def stop(self) -> None:
        """End all that is live in this process soon, runs as cancelled; what is asked for afterwards is done."""
        self._engine.stop()

    async def cancel(self, target: str) -> Run:
        """Ask a live run, given by its number or its source, to end as cancelled; whichever process it runs in."""
        async with self._database.transaction() as c:
            try:
                source = await source_store.get(c, target)
            except NotFoundError:
                if not (target.isascii() and target.isdigit()):
                    raise
                return await runs.request_cancel(c, int(target))
            return await runs.request_cancel(c, await runs.live_of(c, source))

    async def cancel_run(self, run_id: int) -> Run:
        """The same for a run by its number alone, whatever sources are called."""
        async with self._database.transaction() as c:
            return await runs.request_cancel(c, run_id)

    async def recent(self, source: str | None = None, *, limit: int = 20, after: str | None = None) -> Page[Run]:
        """The last runs, newest first; `after` is the `next` of the page before."""
        listing = ["runs", source]
        place = decoded(after, listing, as_number)
        async with self._database.connection() as c:
            if source is not None:
                await source_store.need(c, source)
            found = await runs.recent(c, source=source, limit=limit + 1, after=place[0] if place else None)
        return page_of(found, limit, listing, lambda run: [run.id])

    async def get(self, run_id: int) -> Run:
        """One run."""
        async with self._database.connection() as c:
            return await runs.get(c, run_id)

    async def quarantine(self, source: str | None = None, *, limit: int = 100, after: str | None = None) -> Page[Case]:
        """What could not be read, with the reasons, newest trouble first; `after` is the `next` of the page before."""
        from rowen.store import library

        listing = ["quarantine", source]
        place = decoded(after, listing, as_moment, as_text, as_text)
        start = (place[0], place[1], place[2]) if place else None
        async with self._database.connection() as c:
            if source is not None:
                await source_store.need(c, source)
            found = await library.quarantine_cases(c, source=source, limit=limit + 1, after=start)
        return page_of(found, limit, listing, lambda item: [item.last_at.isoformat(), item.url, item.source])

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
        source, is_new = await self._sources.find_or_add(target, keep=not (how.get("dry_run") or only), found=found)
        if only and not source.id:
            raise NotFoundError(f"{target!r} is no source yet, so there is nothing to look at again.")
        if source.state == "paused":
            raise RefusedError(
                f"Source {source.name!r} is paused.", hint=Hint(action("resume", source.name), " takes it in again.")
            )
        order = Order.of(source, only=[named(source, url) for url in only], **how)
        run = await self._engine.run(source, order, observe=observe, work=work)
        if not how.get("dry_run"):
            run = await self._extracted(source, run, work)
        if not (how.get("dry_run") or only):
            await schedules.settle(self._database, self._engine.settings, source, run)
        if is_new and run.status == "failed":
            await self._drop_if_never_found(source)
        return run

    async def _extracted(self, source: Source, run: Run, work: Work) -> Run:
        """Have facts extracted from what a run changed, where the source carries a schema."""
        async with self._database.connection() as c:
            is_behind = await source_schemas.sources_behind(c, source.id)
        return await self._extractions().after_run(source, run, work) if is_behind else run

    async def _drop_if_never_found(self, source: Source) -> None:
        """Forget a source that was only now added, if there is nothing at its address; what is down is kept."""
        try:
            await self._engine.look(source)
        except SourceGoneError as problem:
            await self._sources.remove(source.name)
            raise SourceGoneError(f"{problem} Nothing was added.", hint=problem.hint) from problem
        except RowenError:
            return

    async def _embedded_since(self, result: Run | Exception, ids: Mapping[str, int]) -> Run | Exception:
        """A run with what was embedded for it after it had ended, while others went on."""
        if isinstance(result, Exception) or not result.stats.embeddings_pending or result.source not in ids:
            return result
        return await self._engine.embedding.record_spend(result, ids[result.source])


def named(source: Source, url: str) -> str:
    """The URL that somebody means by what they typed: of a file, its path will do."""
    place = Address.of(url)
    if source.kind == "files" and not place.scheme:
        return path_url(url)
    return place.text.strip()


class Turns:
    """A queue of targets. First comes the host that is asked least at the moment, then the order of the list.

    Those of one slow host do not hold up all others.
    """

    def __init__(self, targets: Sequence[str], hosts: Mapping[str, str]) -> None:
        self._waiting = list(range(len(targets)))
        self._hosts = [hosts.get(target, target) for target in targets]
        self._live: Counter[str] = Counter()

    def take(self) -> int | None:
        """The place in the list of the target whose turn it is; None when all are taken."""
        if not self._waiting:
            return None
        chosen = min(self._waiting, key=lambda place: (self._live[self._hosts[place]], place))
        self._waiting.remove(chosen)
        self._live[self._hosts[chosen]] += 1
        return chosen

    def give_back(self, place: int) -> None:
        """Say that a target is done with."""
        self._live[self._hosts[place]] -= 1
