"""The facts of one page, by the cheapest way that gives them: rules, markup, an answer that was paid for, a model."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from rowen.enrich.extract.conversation import ModelTerms, answer_of, expected_tokens
from rowen.enrich.extract.grounding import evidence, without_ungrounded
from rowen.enrich.extract.identity import answer_key
from rowen.enrich.extract.prompt import PageText, cleaned
from rowen.enrich.extract.structured import converted, filled
from rowen.enrich.llm.base import LanguageModel
from rowen.enrich.schemas.validation import violations
from rowen.errors import UngroundedError
from rowen.harvest.models import LanguageModels
from rowen.model.datasets import DATASET
from rowen.model.extraction import Evidence, Extracted, Grounding
from rowen.model.hashes import Hash
from rowen.model.models import TokenUsage
from rowen.model.schemas import Schema
from rowen.settings import Settings
from rowen.store import extractions
from rowen.store.database import Database

__all__ = ["NotAskedError", "PageFacts", "PageInput", "PageReading"]

_JSON_TYPES = ("application/json", DATASET)


class NotAskedError(Exception):
    """A model was not asked, since the work was to end before it was this page's turn."""


class PageInput(NamedTuple):
    """What is held of a page: its text, and what its record says."""

    url: str
    title: str
    text: str
    record: Mapping[str, Any]
    media_type: str | None = None

    @property
    def nodes(self) -> list[Mapping[str, Any]]:
        """What its markup says; of a dataset its record."""
        facts = self.record.get("facts")
        nodes = facts.get("nodes") if isinstance(facts, Mapping) else None
        found = [one for one in nodes or () if isinstance(one, Mapping)]
        return [*found, self.record] if self.media_type in _JSON_TYPES else found

    def fields(self, schema: str) -> dict[str, Any]:
        """What rules found for the fields of a schema."""
        facts = self.record.get("facts")
        fields = facts.get("fields") if isinstance(facts, Mapping) else None
        prefix = f"{schema}."
        return {name.removeprefix(prefix): one for name, one in (fields or {}).items() if name.startswith(prefix)}


class PageReading(NamedTuple):
    """How a page is to be read: as what, by which rules, held to its text how strictly, and whether anew.

    A model is told the `instructions` beside what every model is told, reads at most `max_chars` of the page, and may
    take `model_limit_s` for it.
    """

    schema: Schema
    grounding: Grounding = "warn"
    rules: Mapping[str, Mapping[str, Any]] = {}
    model: str | None = None
    force: bool = False
    markup: bool = True
    instructions: str = ""
    max_chars: int | None = None
    model_limit_s: float | None = None


class _Free(NamedTuple):
    """Facts that cost nothing, or hints for a model."""

    data: dict[str, Any]
    is_enough: bool
    by_rules: bool


class PageFacts:
    """Reads pages for facts; every answer is kept before anything else is done with it."""

    def __init__(self, database: Database, models: LanguageModels, settings: Settings) -> None:
        self._database = database
        self._models = models
        self._settings = settings
        # A place is kept until the answer is stored: a crash loses no more answers than questions may be out.
        self._asking = asyncio.Semaphore(settings.llm_concurrency)

    async def read(
        self, page: PageInput, reading: PageReading, *, is_over: Callable[[], bool] = lambda: False
    ) -> tuple[Extracted, Hash | None]:
        """The facts, and the key of the answer behind them; raises an `ExtractionError` or a `ProviderError`.

        Once it `is_over`, no question is begun: `NotAskedError`.
        """
        began = time.monotonic()
        free = _without_model(page, reading)
        if free.is_enough:
            origin = "rules" if free.by_rules else "structured"
            seconds = round(time.monotonic() - began, 3)
            return Extracted(page.url, reading.schema.ref, free.data, origin, seconds=seconds), None  # type: ignore[arg-type]
        told = _told(page, reading, free)
        found, key = await self._by_model(told, reading, is_over)
        try:
            found = _grounded(_with_cut(found, page, reading), reading, told)
        except UngroundedError as problem:
            problem.answer_key = key
            raise
        return replace(found, seconds=round(time.monotonic() - began, 3)), key

    async def estimate(self, page: PageInput, reading: PageReading) -> TokenUsage | None:
        """About what a page will take; None if it will take nothing."""
        free = _without_model(page, reading)
        if free.is_enough:
            return None
        told = _told(page, reading, free)
        if self._models.has(reading.model) and not reading.force:
            key = self._key(told, reading, self._models.of(reading.model))
            async with self._database.connection() as c:
                if await extractions.find_answer(c, key) is not None:
                    return None
        return expected_tokens(reading.schema, told, context_tokens=self._settings.llm_context_tokens)

    async def _by_model(
        self, page: PageText, reading: PageReading, is_over: Callable[[], bool]
    ) -> tuple[Extracted, Hash]:
        model = self._models.of(reading.model)
        key = self._key(page, reading, model)
        if not reading.force:
            async with self._database.connection() as c:
                held = await extractions.find_answer(c, key)
            if held is not None:
                told = Extracted(page.url, reading.schema.ref, held.data, "model", held.model, reused=True)
                return replace(told, tokens=held.tokens, usd=held.usd), key
        settings = self._settings
        sizes = settings.llm_context_tokens, settings.llm_answer_tokens
        terms = ModelTerms(*sizes, reading.instructions, reading.model_limit_s)
        async with self._asking:
            if is_over():
                raise NotAskedError
            answer = await answer_of(model, reading.schema, page, terms)
            usd = None if model.price is None else model.price.of(answer.usage)
            await self._keep(key, answer.data, model, answer.calls, answer.usage, usd, anew=reading.force)
        told = Extracted(page.url, reading.schema.ref, answer.data, "model", str(model.spec), calls=answer.calls)
        return replace(told, tokens=sum(answer.usage), usd=usd), key

    async def _keep(
        self,
        key: Hash,
        data: Any,
        model: LanguageModel,
        calls: int,
        usage: TokenUsage,
        usd: float | None,
        *,
        anew: bool,
    ) -> None:
        async with self._database.transaction() as c:
            if anew:
                await extractions.forget_answer(c, key)
            name = str(model.spec)
            await extractions.keep_answer(c, key, data, model=name, calls=calls, tokens=usage, usd=usd)

    def _key(self, page: PageText, reading: PageReading, model: LanguageModel) -> Hash:
        how = {"context_tokens": self._settings.llm_context_tokens, "instructions": reading.instructions}
        return answer_key(page, reading.schema, model.spec, **how)  # type: ignore[arg-type]


def _without_model(page: PageInput, reading: PageReading) -> _Free:
    """What rules and markup say. Fields that a rule stands for are the rule's alone: if it fails, a model is asked."""
    schema = reading.schema
    found = page.fields(schema.name)
    given: dict[str, Any] = {}
    broken = False
    for name, rule in reading.rules.items():
        value = rule["keep"] if "keep" in rule else converted(found.get(name), schema.properties.get(name))
        if value in (None, [], "") or any(one.path.startswith(f"/{name}") for one in violations(schema, {name: value})):
            broken = broken or name in schema.required
        else:
            given[name] = value
    nodes = page.nodes if reading.markup else []
    known = filled(schema, nodes, given=given)
    return _Free(known.data, known.is_enough and not broken, bool(given))


def _told(page: PageInput, reading: PageReading, free: _Free) -> PageText:
    """What a model is told of a page."""
    return PageText(page.url, page.title, cleaned(page.text)[: reading.max_chars], free.data)


def _with_cut(found: Extracted, page: PageInput, reading: PageReading) -> Extracted:
    """Tell if only the beginning of a page was read."""
    size = len(cleaned(page.text))
    if reading.max_chars is None or size <= reading.max_chars:
        return found
    remark = f"Only the first {reading.max_chars:,} of {size:,} characters were read."
    return replace(found, remarks=(*found.remarks, remark))


def _grounded(found: Extracted, reading: PageReading, page: PageText) -> Extracted:
    """The facts with where they stand; what does not is told, made null, or refused."""
    if reading.grounding == "off":
        return found
    definition = reading.schema.definition
    places = evidence(definition, found.data, page.told)
    missing = tuple(one.path for one in places if one.found == "none")
    told = replace(found, evidence=_in_text(places, page))
    if not missing or reading.grounding == "warn":
        remark = f"Not in the text of the page: {', '.join(missing)}." if missing else ""
        return replace(told, remarks=(*told.remarks, remark)) if remark else told
    if reading.grounding == "fail":
        raise UngroundedError(f"The answer says what the page does not: {', '.join(missing)}.")
    data = without_ungrounded(found.data, places)
    if wrong := violations(reading.schema, data):
        raise UngroundedError(f"The answer says what the page does not, and null is not allowed there: {wrong[0]}.")
    remark = f"Not in the text of the page, and left out: {', '.join(missing)}."
    return replace(told, data=data, remarks=(*told.remarks, remark))


def _in_text(places: tuple[Evidence, ...], page: PageText) -> tuple[Evidence, ...]:
    """Positions in the text itself, which has a head before it when it is told."""
    head = len(page.told) - len(page.text)
    return tuple(one._replace(at=one.at - head if one.at >= head else -1) for one in places)
