"""Assemble runs: the connector of a source's kind, its tools, and the harvest around it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from rowen.connectors import registry
from rowen.connectors.base import Confirms, Connector, Meter, Tools
from rowen.errors import Hint, UsageError, action
from rowen.harvest import agreements
from rowen.harvest.parse_pool import FactWorkers, Workers
from rowen.harvest.passages import Recut
from rowen.harvest.run import Harvest, Order
from rowen.harvest.sieve import recipes
from rowen.model.items import FactsWanted
from rowen.model.sources import Source
from rowen.net.politeness import Throttle
from rowen.net.shared_pace import SharedThrottle
from rowen.settings import Settings
from rowen.store import schemas as schema_store
from rowen.store.hosts import HostSlotTable

if TYPE_CHECKING:
    from rowen.connectors.base import Options
    from rowen.harvest.engine import Engine, Observer
    from rowen.net.client import Client


class Assembly:
    """Assembles runs from the resources of an engine, and owns the parse workers and the pace of hosts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._settings = settings = engine.settings
        self.workers = Workers(settings.workers)
        self.recut = Recut(engine.database, self.workers)
        self.pace: Throttle = SharedThrottle(
            HostSlotTable(engine.database),
            delay_s=settings.host_delay_s,
            concurrency=settings.host_concurrency,
            longest_s=settings.retry_after_limit_s,
        )

    async def close(self) -> None:
        """Release the slots of hosts and end the parse workers, even if one of these steps fails."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.workers.close)
            stack.push_async_callback(self.pace.close)

    def client(self, meter: Meter | None, settings: Settings, *, proxy: str | None = None) -> Client:
        """Return a client that shares circuits with all clients of this process, and rate limits with all processes."""
        from rowen.net.client import Client

        breakers = self._engine.circuits.breakers("host", settings)
        return Client(settings, meter=meter, throttle=self.pace, breakers=breakers, proxy=proxy)

    async def confirm(self, source: Source) -> None:
        """Raise `SourceGoneError` if the source does not exist; do nothing if its kind cannot check that."""
        options = registry.check_options(source.kind, dict(source.options))
        if issubclass(registry.connector(source.kind), Confirms):
            connector = self._connector(source, options, Meter(), self.workers)
            assert isinstance(connector, Confirms)  # noqa: S101 (its class is one)
            await connector.confirm()

    def trial_run(self, source: Source) -> Harvest:
        """Return a run that is only started, to probe or sample a source."""
        agreements.refuse_strange(self._settings, source)
        return self._assembled(source, Order(dry_run=True), None, None)

    async def harvest(self, source: Source, order: Order, observe: Observer | None) -> Harvest:
        """Return a run of a source."""
        agreements.refuse_strange(self._settings, source)
        if order.only and not hasattr(registry.connector(source.kind), "look"):
            raise UsageError(
                f"A source of kind {source.kind!r} can only be synced as a whole. {source.name!r} was not contacted.",
                hint=Hint(action("sync", source.name), " does that, and pays only for what changed."),
            )
        async with self._engine.database.connection() as c:
            schemas = await schema_store.attached(c, source.id)
        facts = None
        if schemas:
            from rowen.enrich.extract.structured import wanted_names

            rules = [
                (f"{source_schema.schema.name}.{name}", rule["at"])
                for source_schema in schemas
                for name, rule in sorted(source_schema.rules.items())
                if "at" in rule
            ]
            facts = FactsWanted(wanted_names([row.schema for row in schemas]), tuple(rules)) or None
        return self._assembled(source, order, observe, facts)

    def _assembled(self, source: Source, order: Order, observe: Observer | None, facts: FactsWanted | None) -> Harvest:
        options = registry.check_options(source.kind, dict(source.options))
        meter = Meter()
        workers = FactWorkers(self.workers, facts) if facts else self.workers
        # Pages are parsed again when the wanted facts change.
        reading = {**options.reading(), **({"facts": facts} if facts else {})}
        return Harvest(
            database=self._engine.database,
            source=source,
            connector=self._connector(source, options, meter, workers),
            order=order,
            settings=self._settings,
            recipe=recipes(source.kind, reading),
            workers=workers,
            meter=meter,
            observe=observe,
        )

    def _connector(self, source: Source, options: Options, meter: Meter, workers: Workers | FactWorkers) -> Connector:
        bound = self._settings.for_source(source.url)
        tools = Tools(
            read=workers.read,
            meter=meter,
            client=lambda: self.client(meter, bound),
            parse=workers.call,
            settings=bound,
        )
        return registry.connector(source.kind)(source.url, options, tools)
