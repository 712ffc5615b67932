"""What all runs of one process share, and the one way to run a source.

A process may live for weeks: nothing here grows with the number of runs, and stopping is a matter of the work that is
live at that moment, never of the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rowen.connectors import registry
from rowen.connectors.base import Meter, Tools
from rowen.harvest import agreements
from rowen.harvest.background import BackgroundEmbedding
from rowen.harvest.embedder import Embedders
from rowen.harvest.prepare import Workers
from rowen.harvest.recipes import recipes
from rowen.harvest.run import Harvest, Order
from rowen.model.run import Run, Tally
from rowen.model.source import Source
from rowen.settings import Settings
from rowen.store import terms
from rowen.store.database import Database
from rowen.store.ledger import ProviderLedger
from rowen.store.listener import Listener

if TYPE_CHECKING:
    from rowen.fetch.breaker import Breakers
    from rowen.fetch.client import Client
    from rowen.fetch.politeness import Pace

__all__ = ["Engine", "Observer", "Order", "Work"]

Observer = Callable[[Source, Tally], None]


@dataclass(slots=True, eq=False)
class Work:
    """One piece of work that this process was asked for: a sync, several side by side, an embedding.

    `stopped` says that it is to end soon, `patient` that it may still wait for the embedder.
    """

    stopped: bool = False
    patient: bool = True


class Engine:
    """Owns what runs share: the database pool, the parse workers, the pace and circuits of hosts, the embedder."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings)
        self.workers = Workers(settings.workers)
        self.embedders = Embedders(settings, ProviderLedger(self.database))
        self.embedding = BackgroundEmbedding(settings, self.database, self.embedders)
        self.listener = Listener(self.database)
        self._works: set[Work] = set()
        self._live: set[Harvest] = set()
        self._places: asyncio.Semaphore | None = None
        self._pace: Pace | None = None
        self._breakers: Breakers | None = None

    async def open(self) -> None:
        """Open the database."""
        await self.database.open()
        self._places = asyncio.Semaphore(self.places)

    async def close(self) -> None:
        """End worker processes and embedding, and close the database."""
        await self.listener.close()
        await self.workers.close()
        await self.embedding.close()
        await self.embedders.close()
        await self.database.close()

    @property
    def places(self) -> int:
        """How many runs may be live at a time: as many as were asked for, if the database has connections for them."""
        return self.database.connections.runs

    @asynccontextmanager
    async def work(self) -> AsyncIterator[Work]:
        """Something to do, during which passages are embedded in the background."""
        work = Work()
        self._works.add(work)
        try:
            async with self.embedding.session():
                yield work
        finally:
            self._works.discard(work)

    def stop(self) -> None:
        """End all that is live soon: runs as cancelled, embedding after the requests that are out."""
        for work in self._works:
            work.stopped = True
        for harvest in self._live:
            harvest.stop()
        self.embedding.stop()

    async def run(
        self, source: Source, order: Order, *, observe: Observer | None = None, work: Work | None = None
    ) -> Run:
        """Bring one source up to date, as a part of `work`; waits where as many runs are live as there is room for."""
        if work is None:
            async with self.work() as alone:
                return await self.run(source, order, observe=observe, work=alone)
        run = await self._harvest(source, order, observe, work)
        if order.dry_run:
            return run
        if run.status != "cancelled":
            await self.embedding.settle(work, self._embedded_observer(source, run.tally, observe))
        await terms.note(self.database, run.tally.chunks_written + run.tally.deleted)
        return await self.embedding.record_spend(run, source.id)

    async def _harvest(self, source: Source, order: Order, observe: Observer | None, work: Work) -> Run:
        agreements.refuse_strange(self.settings, source)
        harvest = self._assembled(source, order, observe if order.dry_run else self._waking(observe))
        assert self._places is not None  # noqa: S101 (the engine is open)
        async with self._places:
            self._live.add(harvest)
            if work.stopped:
                harvest.stop()
            try:
                async with self.embedding.behind():
                    return await harvest.run()
            finally:
                self._live.discard(harvest)

    def _assembled(self, source: Source, order: Order, observe: Observer | None) -> Harvest:
        options = registry.check_options(source.kind, dict(source.options))
        meter, bound = Meter(), self.settings.for_source(source.url)
        tools = Tools(
            read=self.workers.read,
            meter=meter,
            client=lambda: self._client(meter, bound),
            parse=self.workers.call,
            settings=bound,
        )
        return Harvest(
            self.database,
            source,
            registry.connector(source.kind)(source.url, options, tools),
            order=order,
            settings=self.settings,
            recipe=recipes(source.kind, options.reading()),
            workers=self.workers,
            meter=meter,
            observe=observe,
        )

    def _client(self, meter: Meter, settings: Settings) -> Client:
        """A client for one run; all of them keep one pace and one set of circuits."""
        from rowen.fetch.client import Client

        client = Client(settings, meter=meter, throttle=self._pace, breakers=self._breakers)
        self._pace, self._breakers = client.throttle, client.breakers
        return client

    def _waking(self, observe: Observer | None) -> Observer:
        """Tell the embedder, too, that something was stored."""

        def stored(source: Source, tally: Tally) -> None:
            self.embedding.wake()
            if observe is not None:
                observe(source, tally)

        return stored

    def _embedded_observer(self, source: Source, tally: Tally, observe: Observer | None) -> Callable[[], None]:
        def tell() -> None:
            if observe is not None:
                observe(source, replace(tally, embedded=self.embedding.embedded_for(source.id)))

        return tell
