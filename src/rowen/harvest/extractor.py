"""Facts of pages and of whole sources: what jobs and interfaces ask for."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rowen.enrich.extract.structured import wanted_names
from rowen.enrich.ledger import Purse, charged_to, paid_from
from rowen.errors import BusyError, Hint, NotFoundError, action
from rowen.harvest.extraction import ExtractionOrder, ExtractionPass, Observe
from rowen.harvest.page_facts import PageFacts, PageInput, PageReading
from rowen.harvest.page_source import PageAccess, PageSource
from rowen.harvest.rule_learning import RuleLearning
from rowen.model.facts import FactsWanted
from rowen.model.item import Document
from rowen.net.breaker import CircuitLimits
from rowen.store import source_schemas
from rowen.store.locks import Lock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowen.enrich.llm.base import LanguageModel
    from rowen.harvest.engine import Engine, Work
    from rowen.model.address import Address
    from rowen.model.extraction import Extracted, ExtractionReport
    from rowen.model.source import Source
    from rowen.store.source_schemas import Carried

__all__ = ["Extractor"]

# So many items for each question that may be out: while some are saved, others wait for their turn with the provider,
# which is never idle. With one, a thousand pages took 1.85 times as long as the provider alone; more change nothing.
AHEAD = 2


class Extractor:
    """Reads pages for facts, with what the engine has."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._database = engine.database
        self._models = engine.language_models
        self._pages = PageSource(engine)
        self._reader = PageFacts(engine.database, engine.language_models, engine.settings)

    async def page(
        self, place: Address, reading: PageReading, *, access: PageAccess | None = None, purse: Purse | None = None
    ) -> Extracted:
        """The facts of one page or file, fetched now; nothing is kept of it but the answer that was paid for."""
        page = await self.read(place, reading, access)
        with charged_to(subject=reading.schema.name), paid_from(purse or Purse()):
            found, _ = await self._reader.read(page, reading)
        return found

    async def estimate(
        self, place: Address, reading: PageReading, *, access: PageAccess | None = None
    ) -> tuple[int, float | None]:
        """About how many tokens a page will take, and what they cost."""
        usage = await self._reader.estimate(await self.read(place, reading, access), reading)
        if usage is None:
            return 0, 0.0
        model = self._model(reading.model)
        return sum(usage), None if model is None or model.price is None else model.price.of(usage)

    async def read(self, place: Address, reading: PageReading, access: PageAccess | None = None) -> PageInput:
        """A page as it is now, with what its markup says of the wanted fields."""
        rules = tuple((f"{reading.schema.name}.{name}", rule["at"]) for name, rule in reading.rules.items())
        document = await self.document(place, FactsWanted(wanted_names([reading.schema]), rules), access)
        return PageInput(document.url, document.title, document.text, document.record, document.media_type)

    async def document(
        self, place: Address, facts: FactsWanted | None = None, access: PageAccess | None = None
    ) -> Document:
        """A page or file as it is now."""
        raw = await self._pages.raw(place, facts, access)
        document: Document = await self._engine.workers.read(raw)
        return document

    async def source(
        self,
        source: Source,
        *,
        name: str | None = None,
        order: ExtractionOrder | None = None,
        work: Work | None = None,
        observe: Observe | None = None,
        given: Carried | None = None,
    ) -> list[ExtractionReport]:
        """Extract what changed in a source, under one of its schemas or all; raises only for what is no item's fault.

        What waits for a provider or a budget is told in the report.
        """
        asked = order or ExtractionOrder()
        async with self._database.connection() as c:
            held = await source_schemas.carried(c, source.id)
        carried = [given] if given is not None else [one for one in held if name in (None, one.schema.name)]
        if not carried:
            raise NotFoundError(
                f"Source {source.name!r} carries no schema" + (f" {name!r}." if name else "."),
                hint=Hint(action("edit", source.name, schema=name or "product@1"), " gives it one."),
            )
        reports = []
        async with self._alone(source, waived=asked.dry_run):
            for one in carried:
                learning = (
                    RuleLearning(self._database, self._engine.workers, self._pages.markup) if one.learns else None
                )
                made = ExtractionPass(
                    self._database,
                    self._reader,
                    source,
                    one,
                    order=asked,
                    places=AHEAD * self._engine.settings.llm_concurrency,
                    recovery_s=CircuitLimits.of(self._engine.settings).first_pause_s,
                    model=lambda: self._model(asked.model),
                    learning=None if asked.dry_run else learning,
                    is_stopped=lambda: work is not None and work.stopped,
                    observe=observe,
                )
                reports.append(await made.run())
        return reports

    def _model(self, name: str | None) -> LanguageModel | None:
        return self._models.of(name) if self._models.has(name) else None

    @asynccontextmanager
    async def _alone(self, source: Source, *, waived: bool) -> AsyncIterator[None]:
        """The right to extract a source: two at a time would both pay."""
        if waived:
            yield
            return
        async with self._database.alone(Lock.EXTRACTION, source.id) as is_mine:
            if not is_mine:
                raise BusyError(f"Another process is extracting {source.name!r} at this moment.")
            yield
