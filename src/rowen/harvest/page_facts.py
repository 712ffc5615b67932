"""Return the facts of one page by the cheapest sufficient means: rules, markup, a cached answer or a model."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from rowen.enrich.extract.conversation import ModelTerms, answer_of, expected_tokens
from rowen.enrich.extract.grounding import evidence, without_ungrounded
from rowen.enrich.extract.prompt import PageText, answer_key, cleaned
from rowen.enrich.extract.structured import converted, filled
from rowen.enrich.llm.base import LanguageModel
from rowen.enrich.schemas.validation import violations
from rowen.errors import UngroundedError
from rowen.harvest.language_models import LanguageModels
from rowen.model.datasets import DATASET
from rowen.model.extraction import Extracted, Grounding
from rowen.model.hashes import Hash
from rowen.model.models import TokenUsage
from rowen.model.schemas import Schema
from rowen.settings import Settings
from rowen.store import extraction as extraction_store
from rowen.store.database import Database

_JSON_TYPES = ("application/json", DATASET)


class NotAskedError(Exception):
    """The work ended before a model was queried for this page."""


class PageInput(NamedTuple):
    """The text and record of a page."""

    url: str
    title: str
    text: str
    record: Mapping[str, Any]
    media_type: str | None = None

    @property
    def nodes(self) -> list[Mapping[str, Any]]:
        """The structured data in the page's markup; for a dataset, also its record."""
        facts = self.record.get("facts")
        nodes = facts.get("nodes") if isinstance(facts, Mapping) else None
        objects = [node for node in nodes or () if isinstance(node, Mapping)]
        return [*objects, self.record] if self.media_type in _JSON_TYPES else objects

    def fields(self, schema: str) -> dict[str, Any]:
        """Return the values that rules found for the fields of a schema."""
        facts = self.record.get("facts")
        fields = facts.get("fields") if isinstance(facts, Mapping) else None
        prefix = f"{schema}."
        return {name.removeprefix(prefix): value for name, value in (fields or {}).items() if name.startswith(prefix)}


class PageReading(NamedTuple):
    """How to read a page: its schema, rules, grounding and model, and whether to ignore cached answers.

    A model gets the `instructions` in addition to the prompt, reads at most `max_chars` of the page and may take
    `model_limit_s`.
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
    """Facts found without a model; if they are not sufficient, they are hints for a model."""

    data: dict[str, Any]
    is_enough: bool
    by_rules: bool


class PageFacts:
    """Extracts facts from pages; every answer of a model is stored before it is used."""

    def __init__(self, database: Database, models: LanguageModels, settings: Settings) -> None:
        self._database = database
        self._models = models
        self._settings = settings
        # The semaphore is held until the answer is stored: a crash loses at most one answer per concurrent request.
        self._asking = asyncio.Semaphore(settings.llm_concurrency)

    async def read(
        self, page: PageInput, reading: PageReading, *, is_over: Callable[[], bool] = lambda: False
    ) -> tuple[Extracted, Hash | None]:
        """Return the facts of a page, and the key of the model's answer, which is None if no model was needed.

        Raises an `ExtractionError` or a `ProviderError`; raises `NotAskedError` instead of querying a model once
        `is_over` returns true.
        """
        began = time.monotonic()
        free = _without_model(page, reading)
        if free.is_enough:
            origin = "rules" if free.by_rules else "structured"
            seconds = round(time.monotonic() - began, 3)
            return Extracted(page.url, reading.schema.ref, free.data, origin, seconds=seconds), None  # type: ignore[arg-type]
        page_text = _page_text(page, reading, free)
        extracted, key = await self._by_model(page_text, reading, is_over)
        size = len(cleaned(page.text))
        if reading.max_chars is not None and size > reading.max_chars:
            remark = f"Only the first {reading.max_chars:,} of {size:,} characters were read."
            extracted = replace(extracted, remarks=(*extracted.remarks, remark))
        try:
            extracted = _grounded(extracted, reading, page_text)
        except UngroundedError as problem:
            problem.answer_key = key
            raise
        return replace(extracted, seconds=round(time.monotonic() - began, 3)), key

    async def estimate(self, page: PageInput, reading: PageReading) -> TokenUsage | None:
        """Return an estimate of the tokens of a page; None if it needs no model."""
        free = _without_model(page, reading)
        if free.is_enough:
            return None
        page_text = _page_text(page, reading, free)
        if self._models.has(reading.model) and not reading.force:
            key = self._key(page_text, reading, self._models.of(reading.model))
            async with self._database.connection() as c:
                if await extraction_store.find_answer(c, key) is not None:
                    return None
        return expected_tokens(reading.schema, page_text, context_tokens=self._settings.llm_context_tokens)

    async def _by_model(
        self, page: PageText, reading: PageReading, is_over: Callable[[], bool]
    ) -> tuple[Extracted, Hash]:
        model = self._models.of(reading.model)
        key = self._key(page, reading, model)
        if not reading.force:
            async with self._database.connection() as c:
                cached = await extraction_store.find_answer(c, key)
            if cached is not None:
                reused = Extracted(page.url, reading.schema.ref, cached.data, "model", cached.model, reused=True)
                return replace(reused, tokens=cached.tokens, usd=cached.usd), key
        settings = self._settings
        sizes = settings.llm_context_tokens, settings.llm_answer_tokens
        terms = ModelTerms(*sizes, reading.instructions, reading.model_limit_s)
        async with self._asking:
            if is_over():
                raise NotAskedError
            answer = await answer_of(model, reading.schema, page, terms)
            usd = None if model.price is None else model.price.of(answer.usage)
            async with self._database.transaction() as c:
                if reading.force:
                    await extraction_store.forget_answer(c, key)
                name, calls = str(model.spec), answer.calls
                await extraction_store.keep_answer(
                    c, key, answer.data, model=name, calls=calls, tokens=answer.usage, usd=usd
                )
        extracted = Extracted(page.url, reading.schema.ref, answer.data, "model", name, calls=calls)
        return replace(extracted, tokens=sum(answer.usage), usd=usd), key

    def _key(self, page: PageText, reading: PageReading, model: LanguageModel) -> Hash:
        context = {"context_tokens": self._settings.llm_context_tokens, "instructions": reading.instructions}
        return answer_key(page, reading.schema, model.spec, **context)  # type: ignore[arg-type]


def _without_model(page: PageInput, reading: PageReading) -> _Free:
    """Return the facts from rules and markup; they are insufficient if the rule of a required field fails."""
    schema = reading.schema
    by_rule = page.fields(schema.name)
    values: dict[str, Any] = {}
    broken = False
    for name, rule in reading.rules.items():
        value = rule["keep"] if "keep" in rule else converted(by_rule.get(name), schema.properties.get(name))
        if value in (None, [], "") or any(
            wrong.path.startswith(f"/{name}") for wrong in violations(schema, {name: value})
        ):
            broken = broken or name in schema.required
        else:
            values[name] = value
    nodes = page.nodes if reading.markup else []
    known = filled(schema, nodes, given=values)
    return _Free(known.data, known.is_enough and not broken, bool(values))


def _page_text(page: PageInput, reading: PageReading, free: _Free) -> PageText:
    """Return the text of a page in the form that a model reads."""
    return PageText(page.url, page.title, cleaned(page.text)[: reading.max_chars], free.data)


def _grounded(extracted: Extracted, reading: PageReading, page: PageText) -> Extracted:
    """Return the facts with their evidence; report, remove or refuse ungrounded values as `reading` requires."""
    if reading.grounding == "off":
        return extracted
    definition = reading.schema.definition
    places = evidence(definition, extracted.data, page.prompt)
    missing = tuple(place.path for place in places if place.found == "none")
    # Positions of evidence are relative to the text of the page, without the head that precedes it in the prompt.
    head = len(page.prompt) - len(page.text)
    in_text = tuple(place._replace(at=place.at - head if place.at >= head else -1) for place in places)
    grounded = replace(extracted, evidence=in_text)
    if not missing or reading.grounding == "warn":
        remark = f"Not in the text of the page: {', '.join(missing)}." if missing else ""
        return replace(grounded, remarks=(*grounded.remarks, remark)) if remark else grounded
    if reading.grounding == "fail":
        raise UngroundedError(f"The answer contains values that are not in the page: {', '.join(missing)}.")
    data = without_ungrounded(extracted.data, places)
    if wrong := violations(reading.schema, data):
        raise UngroundedError(
            f"The answer contains values that are not in the page, and null is not allowed there: {wrong[0]}."
        )
    remark = f"Not in the text of the page, and removed: {', '.join(missing)}."
    return replace(grounded, data=data, remarks=(*grounded.remarks, remark))
