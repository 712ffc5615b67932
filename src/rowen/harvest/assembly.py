"""Assembling runs: the connector of a source's kind, its tools, and the harvest around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowen.connectors import registry
from rowen.connectors.base import Confirms, Connector, Meter, Tools
from rowen.harvest import agreements
from rowen.harvest.observations import refuse_unable
from rowen.harvest.parse_pool import FactWorkers, Workers
from rowen.harvest.run import Harvest, Order
from rowen.harvest.sieve import recipes
from rowen.model.items import FactsWanted
from rowen.model.sources import Source
from rowen.store import schemas as schema_store

if TYPE_CHECKING:
    from rowen.connectors.base import Options
    from rowen.harvest.engine import Engine, Observer

__all__ = ["Assembly"]


class Assembly:
    """Assembles runs from the resources of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._settings = engine.settings

    async def confirm(self, source: Source) -> None:
        """Raise `SourceGoneError` if the source does not exist, where its kind can check that."""
        options = registry.check_options(source.kind, dict(source.options))
        if issubclass(registry.connector(source.kind), Confirms):
            connector = self._connector(source, options, Meter(), self._engine.workers)
            assert isinstance(connector, Confirms)  # noqa: S101 (its class is one)
            await connector.confirm()

    def probe(self, source: Source) -> Harvest:
        """Return a run that will only be started, to look or sample."""
        agreements.refuse_strange(self._settings, source)
        return self._assembled(source, Order(dry_run=True), None, None)

    async def harvest(self, source: Source, order: Order, observe: Observer | None) -> Harvest:
        """Return a run of a source."""
        agreements.refuse_strange(self._settings, source)
        if order.only:
            refuse_unable(registry.connector(source.kind), source)
        async with self._engine.database.connection() as c:
            schemas = await schema_store.attached(c, source.id)
        facts = None
        if schemas:
            from rowen.enrich.extract.structured import wanted_names

            rules = [
                (f"{each.schema.name}.{name}", rule["at"])
                for each in schemas
                for name, rule in sorted(each.rules.items())
                if "at" in rule
            ]
            facts = FactsWanted(wanted_names([each.schema for each in schemas]), tuple(rules)) or None
        return self._assembled(source, order, observe, facts)

    def _assembled(self, source: Source, order: Order, observe: Observer | None, facts: FactsWanted | None) -> Harvest:
        options = registry.check_options(source.kind, dict(source.options))
        meter = Meter()
        workers = FactWorkers(self._engine.workers, facts) if facts else self._engine.workers
        # Pages are parsed again when the wanted facts change.
        reading = {**options.reading(), **({"facts": facts} if facts else {})}
        return Harvest(
            self._engine.database,
            source,
            self._connector(source, options, meter, workers),
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
            client=lambda: self._engine.client(meter, bound),
            parse=workers.call,
            settings=bound,
        )
        return registry.connector(source.kind)(source.url, options, tools)
