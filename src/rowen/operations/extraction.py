"""Extraction: facts of a page or a source, their history, and schemas of sources."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from rowen.enrich.ledger import Purse
from rowen.errors import BusyError, Hint, NotFoundError, UsageError, action
from rowen.harvest.engine import Work
from rowen.harvest.extraction import ExtractionOrder
from rowen.harvest.extractor import Extractor, PageAccess, evaluate
from rowen.harvest.page_facts import PageReading
from rowen.model.access import Reach, Scope
from rowen.model.extraction import Extracted, Extraction, ExtractionReport, ModelScore, SourceSchema
from rowen.model.items import Document
from rowen.model.runs import Run
from rowen.model.schemas import Schema, SchemaRef
from rowen.model.search import Condition
from rowen.model.sources import Source
from rowen.operations.items import key_of
from rowen.operations.operation import ResourceGroup, operation
from rowen.operations.paging import Page, as_text, decoded, page_of
from rowen.operations.schemas import check_fields, checked_rules, resolve, schema_of, url_patterns
from rowen.operations.validation import refuse_local
from rowen.store import extraction as store
from rowen.store import runs, schemas
from rowen.store import sources as source_store
from rowen.store.schemas import AttachedSchema

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta
    from pydantic import BaseModel

    from rowen.harvest.extraction import Observe
    from rowen.operations.parameters import (
        After,
        BudgetTokens,
        BudgetUsd,
        CallerReach,
        Conditions,
        DryRun,
        Everything,
        Force,
        GroundingMode,
        ItemLimit,
        ItemUrl,
        ItemUrls,
        Limit,
        ModelName,
        OnlySource,
        OnlySources,
        PageOptions,
        Rules,
        SchemaName,
        SourceAddress,
        SourceName,
        UrlPatterns,
    )


class Extractions(ResourceGroup):
    """Extraction of facts."""

    def _prepare(self) -> None:
        self._extractor = Extractor(self._engine)

    @operation(scope=Scope.WRITE)
    async def extract(
        self,
        address: SourceAddress,
        schema: Annotated[
            str | Mapping[str, Any] | type[BaseModel], Meta(description="A schema by name, or a JSON Schema.")
        ],
        *,
        budget_usd: BudgetUsd | None = None,
        budget_tokens: BudgetTokens | None = None,
        reach: CallerReach = Reach.ALL,
        **how: Unpack[PageOptions],
    ) -> Extracted:
        """Extract the facts of one page or file. The schema is a name, a JSON Schema, or a Pydantic model.

        With a model class, `data` is an instance of it. Cached answers are used unless `force` is set. `reach` limits
        what of this machine the address may name.
        """
        place = refuse_local(reach, address)
        reading = _reading(await self._schema(schema), how)
        purse = Purse(usd=budget_usd, tokens=budget_tokens)
        extracted = await self._extractor.page(place, reading, access=_access(how), purse=purse)
        if isinstance(schema, str | Mapping):
            return extracted
        return replace(extracted, data=schema.model_validate(extracted.data))

    @operation(scope=Scope.WRITE)
    async def read_page(self, url: ItemUrl, *, reach: CallerReach = Reach.ALL) -> Document:
        """Return the current text of a page; nothing is stored."""
        return await self._extractor.document(refuse_local(reach, url))

    @operation(scope=Scope.WRITE)
    async def estimate(
        self,
        address: SourceAddress,
        schema: Annotated[
            str | Mapping[str, Any] | type[BaseModel], Meta(description="A schema by name, or a JSON Schema.")
        ],
        *,
        reach: CallerReach = Reach.ALL,
        **how: Unpack[PageOptions],
    ) -> tuple[int, float | None]:
        """Return the approximate number of tokens of a page, and their cost if known; no model is called."""
        place = refuse_local(reach, address)
        reading = _reading(await self._schema(schema), how)
        return await self._extractor.estimate(place, reading, access=_access(how))

    @operation(scope=None)
    async def evaluate(
        self,
        folder: Annotated[Path | str, Meta(description="A folder with pages and expected facts.")],
        schema: Annotated[
            str | Mapping[str, Any] | type[BaseModel], Meta(description="A schema by name, or a JSON Schema.")
        ],
        *,
        models: Annotated[Sequence[str], Meta(description="Language models to compare.", extra={"flag": "model"})] = (),
        budget_usd: BudgetUsd | None = None,
        budget_tokens: BudgetTokens | None = None,
        **how: Unpack[PageOptions],
    ) -> list[ModelScore]:
        """Score how well models read the pages of a folder; without names, the model of the settings.

        The expected facts of `lamp.html` stand in `lamp.expected.json`, if that exists. Cached answers are used unless
        `force` is set.
        """
        reading = _reading(await self._schema(schema), how)
        purse = Purse(usd=budget_usd, tokens=budget_tokens)
        return await evaluate(
            self._engine, self._extractor, Path(folder), reading, models=list(models) or [""], purse=purse
        )

    @operation(scope=Scope.WRITE)
    async def extract_source(
        self,
        name: SourceName,
        schema: SchemaName | None = None,
        *,
        everything: Everything = False,
        dry_run: DryRun = False,
        force: Force = False,
        budget_usd: BudgetUsd | None = None,
        budget_tokens: BudgetTokens | None = None,
        model: ModelName | None = None,
        limit: ItemLimit | None = None,
        observe: Observe | None = None,
    ) -> list[ExtractionReport]:
        """Extract what changed in a source, or everything: under one schema, or all attached ones.

        A schema that is not attached is attached, except in a dry run.
        """
        order = ExtractionOrder(everything, dry_run, force, budget_usd, budget_tokens, model, limit)
        source = await self._source(name)
        detached = None
        if schema is not None:
            ref = SchemaRef.parse(schema)
            async with self._database.connection() as c:
                resolved = await resolve(c, schema)
                carried = {known.schema.name: known.schema for known in await schemas.attached(c, source.id)}
            attached = carried.get(ref.name)
            if attached is None or not ref.means(attached.number):
                detached = AttachedSchema(source.id, resolved, 0, 0, "warn", False, {}, ())
        if detached is not None and not dry_run:
            await self.attach(source.name, detached.schema.ref)
            detached = None
        wanted = None if schema is None else SchemaRef.parse(schema).name
        async with self._engine.work() as work:
            return await self._extractor.source(
                source, name=wanted, order=order, work=work, observe=observe, only=detached
            )

    async def after_run(self, source: Source, run: Run, work: Work) -> Run:
        """Extract the changes of a run, and add the cost to its statistics. What cannot be done now waits."""
        if work.stopped or run.status in ("cancelled", "failed"):
            return run
        try:
            reports = await self._extractor.source(source, work=work)
        except BusyError:
            return run
        stats = replace(run.stats)
        for report in reports:
            stats.add({"extracted": report.created + report.changed, "extractions_same": report.same})
            stats.add({"extractions_failed": report.failed, "extractions_pending": report.pending})
            stats.add({"extraction_calls": report.calls, "extraction_tokens": report.tokens})
            stats.add({"extraction_calls_avoided": report.avoided})
            stats.extraction_usd = round(stats.extraction_usd + (report.usd or 0.0), 6)
        async with self._database.connection() as c:
            await runs.amend(c, run.id, stats)
        return replace(run, stats=stats)

    @operation(scope=Scope.WRITE)
    async def attach(
        self,
        source: SourceName,
        schema: SchemaName,
        *,
        grounding: GroundingMode | None = None,
        learn: Annotated[bool | None, Meta(description="Let a model find rules once.")] = None,
        rules: Rules | None = None,
        conditions: Conditions | None = None,
        only_urls: UrlPatterns | None = None,
    ) -> SourceSchema:
        """Attach a schema to a source: new and changed items are extracted from now on.

        A rule says where a field is (`price`: `.amount | number`); with `learn` a model finds rules once. A condition
        (`price<100`) is announced in the change log when it becomes true. `only_urls` are patterns of the items to
        extract (`*/lamps/*`). Parameters that are None keep their values.
        """
        texts = None if conditions is None else list(map(str, Condition.parse_all(conditions)))
        patterns = None if only_urls is None else url_patterns(only_urls)
        source_id = (await self._source(source)).id
        async with self._database.transaction() as c:
            resolved = await resolve(c, schema)
            check_fields(resolved, [*(rules or {}), *(Condition.parse(text).path[0] for text in texts or ())])
            await schemas.attach(
                *(c, source_id, resolved, await schemas.number_of(c, await schemas.add(c, resolved))),
                grounding=grounding,
                learns=learn,
                rules=None if rules is None else checked_rules(rules),
                conditions=texts,
                only_urls=patterns,
            )
            attached = await store.overview(c, source_id)
            return next(known for known in attached if known.schema.startswith(f"{resolved.name}@"))

    @operation(scope=Scope.WRITE)
    async def detach(self, source: SourceName, schema: SchemaName) -> None:
        """Detach a schema from a source; extracted facts stay."""
        source_id = (await self._source(source)).id
        name = SchemaRef.parse(schema).name
        async with self._database.connection() as c:
            if not await schemas.detach(c, source_id, name):
                raise NotFoundError(f"Source {source!r} carries no schema {name!r}.")

    @operation(scope=Scope.READ)
    async def list_attached(self, source: OnlySource | None = None) -> list[SourceSchema]:
        """List which sources have which schemas, and their progress."""
        number = None if source is None else (await self._source(source)).id
        async with self._database.connection() as c:
            return await store.overview(c, number)

    @operation(scope=Scope.READ)
    async def history(self, url: ItemUrl, schema: SchemaName, *, source: OnlySource | None = None) -> list[Extraction]:
        """List all versions of an item's facts under a schema, oldest first, with their differences."""
        name = SchemaRef.parse(schema).name
        async with self._database.connection() as c:
            versions = await store.history(c, key_of(url), name, source=source)
        if not versions:
            raise NotFoundError(
                f"Nothing was extracted from {url!r} as {name!r}.",
                hint=Hint(
                    action("extract", url, schema=schema), " does so once; a source that carries it keeps a history."
                ),
            )
        return versions

    @operation(scope=Scope.READ)
    async def histories(self, urls: ItemUrls, schema: SchemaName) -> dict[str, list[Extraction]]:
        """Return all versions of the facts of several items under a schema, by URL."""
        name = SchemaRef.parse(schema).name
        async with self._database.connection() as c:
            versions = await store.histories(c, [key_of(url) for url in urls], name)
        by_url: dict[str, list[Extraction]] = {url: [] for url in urls}
        for version in versions:
            by_url.setdefault(version.url, []).append(version)
        return by_url

    async def _schema(self, schema: str | Mapping[str, Any] | type[BaseModel]) -> Schema:
        if not isinstance(schema, str):
            return await asyncio.to_thread(schema_of, schema)
        async with self._database.connection() as c:
            return await resolve(c, schema)

    async def _source(self, name: str) -> Source:
        async with self._database.connection() as c:
            return await source_store.get(c, name)

    @operation(scope=Scope.READ)
    async def list(
        self,
        schema: SchemaName | None = None,
        *,
        sources: OnlySources = (),
        where: Conditions = (),
        limit: Limit = 100,
        after: After | None = None,
    ) -> Page[Extraction]:
        """List the current facts by schema, source and URL; `where` filters by conditions."""
        conditions = Condition.parse_all(where)
        name = None if schema is None else SchemaRef.parse(schema).name
        listing = ["extractions", name, sorted(sources), list(where)]
        place = decoded(after, listing, as_text, as_text, as_text)
        start = (place[0], place[1], place[2]) if place else None
        extractions: list[Extraction] = []
        async with self._database.connection() as c:
            for source in sources:
                await source_store.get(c, source)
            while len(extractions) <= limit:
                batch = await store.current(c, name=name, sources=list(sources), after=start, limit=limit + 1)
                extractions += [
                    extraction
                    for extraction in batch
                    if all(condition.holds(extraction.data) for condition in conditions)
                ]
                if len(batch) <= limit:
                    break
                start = _place(batch[-1])
        return page_of(extractions, limit, listing, lambda extraction: list(_place(extraction)))


def _reading(schema: Schema, how: PageOptions) -> PageReading:
    """Return the settings for reading a page, from the caller's options."""
    if (most := how.get("max_chars")) is not None and most < 1:
        raise UsageError("At least one character of a page has to be read.")
    return PageReading(
        schema,
        how.get("grounding", "warn"),
        checked_rules(how.get("rules")),
        how.get("model"),
        how.get("force", False),
        instructions=(how.get("instructions") or "").strip(),
        max_chars=most,
        model_limit_s=how.get("model_limit_s"),
    )


def _access(how: PageOptions) -> PageAccess:
    return PageAccess(how.get("render", False), how.get("proxy"), how.get("fetch_limit_s"))


def _place(extraction: Extraction) -> tuple[str, str, str]:
    return extraction.schema.partition("@")[0], extraction.source, extraction.url
