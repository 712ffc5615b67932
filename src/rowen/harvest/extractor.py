"""Facts of pages and of whole sources: what jobs and doors ask for."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rowen.connectors.base import Meter
from rowen.enrich.extract.structured import wanted_names
from rowen.enrich.ledger import Purse, charged_to, paid_from
from rowen.errors import BusyError, Hint, NotFoundError, RefusedError, SourceError, action
from rowen.harvest.extraction import ExtractionOrder, ExtractionPass, Observe
from rowen.harvest.page_facts import PageFacts, PageInput, PageReading
from rowen.harvest.rule_learning import RuleLearning
from rowen.model.facts import FactsWanted
from rowen.model.item import Document, Raw
from rowen.model.url import file_url
from rowen.store import carried_schemas

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowen.enrich.llm.base import LanguageModel
    from rowen.fetch.response import Response
    from rowen.harvest.engine import Engine, Work
    from rowen.model.extraction import Extracted, ExtractionReport
    from rowen.model.source import Source
    from rowen.store.carried_schemas import Carried

__all__ = ["Extractor"]

# So many items for each question that may be out: while some are saved, others wait for their turn with the provider,
# which is never idle. With one, a thousand pages took 1.85 times as long as the provider alone; more change nothing.
AHEAD = 2
# What a text file may have to be read for facts: a page of this size has more than any model reads.
_MOST_FILE_BYTES = 20_000_000


class Extractor:
    """Reads pages for facts, with what the engine has."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._database = engine.database
        self._models = engine.language_models
        self._reader = PageFacts(engine.database, engine.language_models, engine.settings)

    async def page(self, address: str, reading: PageReading, *, purse: Purse | None = None) -> Extracted:
        """The facts of one page or file, fetched now; nothing is kept of it but the answer that was paid for."""
        page = await self.read(address, reading)
        with charged_to(subject=reading.schema.name), paid_from(purse or Purse()):
            found, _ = await self._reader.read(page, reading)
        return found

    async def estimate(self, address: str, reading: PageReading) -> tuple[int, float | None]:
        """About how many tokens a page will take, and what they cost."""
        usage = await self._reader.estimate(await self.read(address, reading), reading)
        if usage is None:
            return 0, 0.0
        model = self._model(reading.model)
        return sum(usage), None if model is None or model.price is None else model.price.of(usage)

    async def read(self, address: str, reading: PageReading) -> PageInput:
        """A page as it is now, with what its markup says of the wanted fields."""
        rules = tuple((f"{reading.schema.name}.{name}", rule["at"]) for name, rule in reading.rules.items())
        document = await self.document(address, FactsWanted(wanted_names([reading.schema]), rules))
        return PageInput(document.url, document.title, document.text, document.record, document.media_type)

    async def document(self, address: str, facts: FactsWanted | None = None) -> Document:
        """A page or file as it is now."""
        if address.startswith(("http://", "https://")):
            raw = await self._fetched(address, facts)
        else:
            raw = _file(Path(address), facts)
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
            held = await carried_schemas.carried(c, source.id)
        carried = [given] if given is not None else [one for one in held if name in (None, one.schema.name)]
        if not carried:
            raise NotFoundError(
                f"Source {source.name!r} carries no schema" + (f" {name!r}." if name else "."),
                hint=Hint(action("edit", source.name, schema=name or "product@1"), " gives it one."),
            )
        reports = []
        async with self._alone(source, waived=asked.dry_run):
            for one in carried:
                learning = RuleLearning(self._database, self._engine.workers, self._body) if one.learns else None
                made = ExtractionPass(
                    self._database,
                    self._reader,
                    source,
                    one,
                    order=asked,
                    places=AHEAD * self._engine.settings.llm_concurrency,
                    model=lambda: self._model(asked.model),
                    learning=None if asked.dry_run else learning,
                    is_stopped=lambda: work is not None and work.stopped,
                    observe=observe,
                )
                reports.append(await made.run())
        return reports

    def _model(self, name: str | None) -> LanguageModel | None:
        return self._models.of(name) if self._models.is_set else None

    @asynccontextmanager
    async def _alone(self, source: Source, *, waived: bool) -> AsyncIterator[None]:
        """The right to extract a source: two at a time would both pay."""
        if waived:
            yield
            return
        async with carried_schemas.exclusive(self._database, source.id) as is_mine:
            if not is_mine:
                raise BusyError(f"Another process is extracting {source.name!r} at this moment.")
            yield

    async def _fetched(self, url: str, facts: FactsWanted | None) -> Raw:
        response = await self._got(url)
        return Raw(
            response.url,
            response.body,
            media_type=response.media_type,
            charset=response.charset,
            facts=facts,
        )

    async def _body(self, url: str) -> str:
        """The markup of a page."""
        from rowen.formats.charset import decode

        response = await self._got(url)
        return decode(response.body, charset=response.charset, media_type=response.media_type or "text/html", name=url)

    async def _got(self, url: str) -> Response:
        from rowen.fetch.robots import Robots

        settings = self._engine.settings.for_source(url)
        async with self._engine.client(Meter(), settings) as client:
            rules = await Robots(client).rules(url)
            if rules.refused is not None:
                raise SourceError(rules.refused)
            if not rules.allows(url):
                raise RefusedError(f"The robots.txt of its host does not let {url} be read.")
            response = await client.get(url, accept="text/html,*/*;q=0.5")
        if response.status in (404, 410):
            raise NotFoundError(f"{url} is not there (status {response.status}).")
        if not response.ok:
            raise SourceError(f"{url} answered with status {response.status}.")
        return response


def _file(path: Path, facts: FactsWanted | None) -> Raw:
    try:
        if path.stat().st_size > _MOST_FILE_BYTES:
            raise RefusedError(f"{path} has more than {_MOST_FILE_BYTES:,} bytes.")
        return Raw(file_url(bytes(path.absolute())), path.read_bytes(), name=path.name, facts=facts)
    except FileNotFoundError:
        raise NotFoundError(f"{str(path)!r} is neither a URL nor a file.") from None
    except OSError as problem:
        raise SourceError(f"{path} cannot be read: {problem.strerror}.") from None
