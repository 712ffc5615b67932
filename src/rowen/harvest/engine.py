"""The engine: the resources that all runs of a process share, and the method that runs a source.

A process may live for weeks: nothing here grows with the number of runs, and stopping ends the current work, never the
engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from rowen.model.items import Document
from rowen.model.runs import Run, RunStats
from rowen.model.sources import Source
from rowen.settings import Settings
from rowen.store.database import Database, Patience
from rowen.store.listener import Listener
from rowen.store.search import words
from rowen.tracing import span

if TYPE_CHECKING:
    from rowen.connectors.base import Meter
    from rowen.harvest.assembly import Assembly
    from rowen.harvest.background import BackgroundEmbedding
    from rowen.harvest.circuits import CircuitReports
    from rowen.harvest.language_models import LanguageModels
    from rowen.harvest.models import Embedders
    from rowen.harvest.parse_pool import Workers
    from rowen.harvest.resources import Resources
    from rowen.harvest.run import Harvest, Order
    from rowen.net.client import Client

Observer = Callable[[Source, RunStats], None]


@dataclass(slots=True, eq=False)
class Work:
    """A unit of requested work: one sync, several concurrent syncs, or an embedding.

    `stopped` means that it should end soon, `patient` that it may still wait for the embedder.
    """

    stopped: bool = False
    patient: bool = True


class Engine:
    """Owns the database pool, the parse workers, the rate limits and circuits of hosts, and the embedder.

    Everything for syncing and for models is imported and created on first use: most commands only query the database.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings)
        self.listener = Listener(self.database)
        self._works: set[Work] = set()
        self._live: dict[Harvest, Work] = {}
        self._renewing = asyncio.Lock()

    async def open(self, *, patience: Patience | None = None) -> None:
        """Open the database; with `patience`, wait for the end of an outage."""
        await self.database.open(patience=patience)

    async def close(self) -> None:
        """Close all resources, even if one of them fails."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.database.close)
            if "_resources" in vars(self):
                stack.push_async_callback(self._resources.close)
            if "_assembly" in vars(self):
                stack.push_async_callback(self._assembly.close)
            stack.push_async_callback(self.listener.close)

    @cached_property
    def _resources(self) -> Resources:
        from rowen.harvest.resources import Resources

        return Resources(self.settings, self.database)

    @property
    def embedders(self) -> Embedders:
        """The embedders."""
        return self._resources.embedders

    @property
    def embedding(self) -> BackgroundEmbedding:
        """The background task that embeds passages during any work."""
        return self._resources.embedding

    @property
    def language_models(self) -> LanguageModels:
        """The language models."""
        return self._resources.language_models

    @property
    def circuits(self) -> CircuitReports:
        """The circuits of services that failed too often."""
        return self._resources.circuits

    @cached_property
    def _assembly(self) -> Assembly:
        from rowen.harvest.assembly import Assembly

        return Assembly(self)

    @property
    def workers(self) -> Workers:
        """The parse workers."""
        return self._assembly.workers

    @cached_property
    def _places(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(self.places)

    @property
    def places(self) -> int:
        """The maximum number of live runs, which the settings and the connections of the database limit."""
        return self.database.connections.runs

    @asynccontextmanager
    async def work(self) -> AsyncIterator[Work]:
        """Register work, during which passages are embedded in the background."""
        work = Work()
        self._works.add(work)
        try:
            async with self.embedding.session():
                yield work
        finally:
            self._works.discard(work)

    def stop(self) -> None:
        """End all work soon: runs as cancelled, embedding after its pending requests."""
        for work in self._works:
            self.end(work)
        if "_resources" in vars(self):
            self.embedding.stop()

    def end(self, work: Work) -> None:
        """End the runs of `work` soon, as cancelled."""
        work.stopped = True
        for harvest, owner in self._live.items():
            if owner is work:
                harvest.stop()

    async def run(
        self, source: Source, order: Order, *, observe: Observer | None = None, work: Work | None = None
    ) -> Run:
        """Sync a source as part of `work`; wait while the maximum number of runs is live."""
        if work is None:
            async with self.work() as own_work:
                return await self.run(source, order, observe=observe, work=own_work)
        if not order.dry_run:
            async with self._renewing:
                await self._assembly.recut.run(stopped=lambda: work.stopped)

        def stored(source: Source, stats: RunStats) -> None:
            self.embedding.wake()
            if observe is not None:
                observe(source, stats)

        with span("run", {"rowen.source": source.name, "rowen.kind": source.kind}) as note:
            harvest = await self._assembly.harvest(source, order, observe if order.dry_run else stored)
            async with self._places:
                self._live[harvest] = work
                if work.stopped:
                    harvest.stop()
                try:
                    async with self.embedding.behind():
                        run = await harvest.run()
                finally:
                    del self._live[harvest]
            note({"rowen.run": run.id, "rowen.mode": run.mode, "rowen.status": run.status})
        if order.dry_run:
            return run
        await words.restore_word_index(self.database)
        await words.count_words(self.database)
        if run.status != "cancelled":

            def report() -> None:
                if observe is not None:
                    observe(source, replace(run.stats, embedded=self.embedding.embedded_for(source.id)))

            await self.embedding.settle(work, report)
        return await self.embedding.record_spend(run, source.id)

    async def confirm(self, source: Source) -> None:
        """Raise `SourceGoneError` if the source does not exist; do nothing if its kind cannot check that.

        Agreements are not checked, since the user has just entered the source.
        """
        await self._assembly.confirm(source)

    async def probe(self, source: Source) -> None:
        """Read a source until the first observation of an item; raise if it cannot be read."""
        harvest = self._assembly.trial_run(source)
        async with self._places:
            await harvest.probe()

    async def sample(self, source: Source, limit: int) -> tuple[list[Document], bool]:
        """Return the first items of a source and whether there are more; raise if it cannot be read. Store nothing."""
        harvest = self._assembly.trial_run(source)
        async with self._places:
            return await harvest.sample(limit)

    def client_for(self, source: Source) -> Client:
        """Return a client for requests about a source outside of a run."""
        return self.client(None, self.settings.for_source(source.url))

    def client(self, meter: Meter | None, settings: Settings, *, proxy: str | None = None) -> Client:
        """Return a client that shares circuits with all clients of this process, and rate limits with all processes."""
        return self._assembly.client(meter, settings, proxy=proxy)
