"""Extract facts for jobs and interfaces, from a page, a file or a source; and evaluate models."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rowen.concurrency import together
from rowen.connectors.base import Meter
from rowen.connectors.opening import read_regular
from rowen.enrich.extract.structured import wanted_names
from rowen.enrich.ledger import Purse, charged_to, paid_from
from rowen.enrich.llm.base import LanguageModel
from rowen.errors import (
    AnswerInvalidError,
    AnswerMismatchError,
    BadUrlError,
    BudgetExceededError,
    BusyError,
    Hint,
    NotFoundError,
    RefusedError,
    RowenError,
    SourceError,
    UsageError,
    action,
)
from rowen.formats.charset import decode
from rowen.harvest.engine import Engine, Work
from rowen.harvest.extraction import ExtractionOrder, ExtractionPass, Observe, RuleLearning
from rowen.harvest.page_facts import PageFacts, PageInput, PageReading
from rowen.model.extraction import Extracted, ExtractionReport, ModelScore, PageScore, wrong_fields
from rowen.model.items import Document, FactsWanted, Raw
from rowen.model.sources import Source
from rowen.model.url import Address, file_url
from rowen.net.circuits import CircuitLimits
from rowen.net.client import Client
from rowen.net.render import LIMIT_S, Browser
from rowen.net.response import Response
from rowen.net.robots import Robots
from rowen.net.target import parse
from rowen.store import schemas as schema_store
from rowen.store.locks import Lock
from rowen.store.schemas import AttachedSchema

# The maximum size of a file: more than any model reads.
_MOST_FILE_BYTES = 20_000_000
# Scripts may redirect to a sign-in or a language, and that page back again. More redirects are a loop.
_MOST_RENDERED_MOVES = 3


class PageAccess(NamedTuple):
    """How to fetch a page: with a browser, through a proxy, within a time limit; the defaults follow the settings."""

    render: bool = False
    proxy: str | None = None
    limit_s: float | None = None


async def _allowed(client: Client, robots: Robots, url: str, access: PageAccess) -> Response:
    rules = await robots.rules(url)
    if rules.refused is not None:
        raise SourceError(rules.refused)
    if not rules.allows(url):
        raise RefusedError(f"The robots.txt of the host forbids reading {url}.")
    response = await client.get(url, accept="text/html,*/*;q=0.5", limit_s=access.limit_s)
    if response.status in (404, 410):
        raise NotFoundError(f"{url} was not found (status {response.status}).")
    if not response.ok:
        raise SourceError(f"{url} answered with status {response.status}.")
    return response


async def _rendered(client: Client, robots: Robots, response: Response, access: PageAccess) -> Response:
    """Return a page after its scripts have run; return other responses unchanged."""
    if (response.media_type or "").lower() not in ("text/html", "application/xhtml+xml"):
        return response

    async def may(url: str) -> bool:
        return (await robots.rules(url)).allows(url)

    most = client.settings.body_limit_bytes
    async with Browser(client, may=may) as browser:
        for _ in range(_MOST_RENDERED_MOVES + 1):
            page = await browser.render(response.url, response, max_bytes=most, limit_s=access.limit_s or LIMIT_S)
            if page.url == response.url:
                body = page.html.encode("utf-8", "replace")
                return replace(response, body=body, media_type="text/html", charset="utf-8")
            response = await _allowed(client, robots, page.url, access)
    raise SourceError(f"The scripts of {response.url} redirect from page to page without end.")


def checked_proxy(proxy: str) -> str:
    """Return a valid proxy address; raise a `UsageError` that does not show its password."""
    try:
        parse(proxy)
    except BadUrlError as problem:
        raise UsageError(
            f"This is not a valid proxy: {problem}", hint="Use http://host:port or http://user:password@host:port."
        ) from None
    return proxy


def _file(place: Address, facts: FactsWanted | None) -> Raw:
    try:
        path = Path(place.path)
        body = read_regular(path, limit_bytes=_MOST_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(f"{place.text!r} is neither a URL nor a file.") from None
    except (OSError, ValueError) as problem:
        why = (problem.strerror if isinstance(problem, OSError) else None) or problem
        raise SourceError(f"{place.text!r} cannot be read: {why}.") from None
    if len(body) > _MOST_FILE_BYTES:
        raise RefusedError(f"{path} is larger than {_MOST_FILE_BYTES:,} bytes.")
    return Raw(file_url(bytes(path.absolute())), body, name=path.name, facts=facts)


# Items in progress for each concurrent question: while some are saved, others wait, so that the provider is never idle.
# With one, a thousand pages took 1.85 times as long as the provider alone; more than two change nothing.
AHEAD = 2


class Extractor:
    """Extracts facts from pages and sources, with the resources of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._database = engine.database
        self._models = engine.language_models
        self._reader = PageFacts(engine.database, engine.language_models, engine.settings)

    async def page(
        self, place: Address, reading: PageReading, *, access: PageAccess | None = None, purse: Purse | None = None
    ) -> Extracted:
        """Return the facts of a page or file, fetched now; store nothing but paid answers."""
        page = await self.read(place, reading, access)
        with charged_to(subject=reading.schema.name), paid_from(purse or Purse()):
            extracted, _ = await self._reader.read(page, reading)
        return extracted

    async def estimate(
        self, place: Address, reading: PageReading, *, access: PageAccess | None = None
    ) -> tuple[int, float | None]:
        """Return the estimated tokens of a page and their cost; the cost is None if the price is unknown."""
        usage = await self._reader.estimate(await self.read(place, reading, access), reading)
        if usage is None:
            return 0, 0.0
        model = self._model(reading.model)
        return sum(usage), None if model is None or model.price is None else model.price.of(usage)

    async def read(self, place: Address, reading: PageReading, access: PageAccess | None = None) -> PageInput:
        """Fetch a page or file, and parse it with the markup of the wanted fields."""
        rules = tuple((f"{reading.schema.name}.{name}", rule["at"]) for name, rule in reading.rules.items())
        document = await self.document(place, FactsWanted(wanted_names([reading.schema]), rules), access)
        return PageInput(document.url, document.title, document.text, document.record, document.media_type)

    async def document(
        self, place: Address, facts: FactsWanted | None = None, access: PageAccess | None = None
    ) -> Document:
        """Fetch and parse a page or file.

        The caller must have authorized the address: a file is opened without further checks.
        """
        if place.is_file:
            raw = await asyncio.to_thread(_file, place, facts)
        elif place.is_web:
            page = await self._fetch(place.text, access or PageAccess())
            raw = Raw(page.url, page.body, media_type=page.media_type, charset=page.charset, facts=facts)
        else:
            raise UsageError(
                f"{place.text!r} is neither a web page nor a file.",
                hint="Give an address that begins with https://, or the path of a file.",
            )
        document: Document = await self._engine.workers.read(raw)
        return document

    async def _fetch(self, url: str, access: PageAccess) -> Response:
        proxy = None if access.proxy is None else checked_proxy(access.proxy)
        async with self._engine.client(Meter(), self._engine.settings.for_source(url), proxy=proxy) as client:
            robots = Robots(client)
            response = await _allowed(client, robots, url, access)
            return await _rendered(client, robots, response, access) if access.render else response

    async def _markup(self, url: str) -> str:
        page = await self._fetch(url, PageAccess())
        return decode(page.body, charset=page.charset, media_type=page.media_type or "text/html", name=url)

    async def source(
        self,
        source: Source,
        *,
        name: str | None = None,
        order: ExtractionOrder | None = None,
        work: Work | None = None,
        observe: Observe | None = None,
        only: AttachedSchema | None = None,
    ) -> list[ExtractionReport]:
        """Extract facts from the changes of a source, with the schema `name`, with `only`, or with all its schemas.

        Errors of single items are not raised. A report tells whether its remaining items wait for a provider or a
        budget.
        """
        order = order or ExtractionOrder()
        async with self._database.connection() as c:
            schemas = await schema_store.attached(c, source.id)
        wanted = [only] if only is not None else [row for row in schemas if name in (None, row.schema.name)]
        if not wanted:
            raise NotFoundError(
                f"Source {source.name!r} has no schema" + (f" {name!r}." if name else "."),
                hint=Hint(action("edit", source.name, schema=name or "product@1"), " adds one."),
            )
        reports = []
        async with AsyncExitStack() as stack:
            if not order.dry_run:
                # Two extractions of a source at a time would both pay.
                is_mine = await stack.enter_async_context(self._database.alone(Lock.EXTRACTION, source.id))
                if not is_mine:
                    raise BusyError(f"Another process is extracting {source.name!r} at the moment.")
            for carried in wanted:
                learns = carried.learns and not order.dry_run
                extraction = ExtractionPass(
                    database=self._database,
                    reader=self._reader,
                    source=source,
                    carried=carried,
                    order=order,
                    places=AHEAD * self._engine.settings.llm_concurrency,
                    recovery_s=CircuitLimits.of(self._engine.settings).first_pause_s,
                    model=lambda: self._model(order.model),
                    learning=RuleLearning(self._database, self._engine.workers, self._markup) if learns else None,
                    is_stopped=lambda: work is not None and work.stopped,
                    observe=observe,
                )
                reports.append(await extraction.run())
        return reports

    def _model(self, name: str | None) -> LanguageModel | None:
        return self._models.of(name) if self._models.has(name) else None


EXPECTED = ".expected.json"
"""The ending of expected results: `lamp.expected.json` beside `lamp.html`."""


class _Fixture(NamedTuple):
    """A page with its expected data, or the error that prevented reading the page."""

    name: str
    page: PageInput | RowenError
    expected: Mapping[str, Any] | None


async def evaluate(
    engine: Engine, extractor: Extractor, folder: Path, reading: PageReading, *, models: Sequence[str], purse: Purse
) -> list[ModelScore]:
    """Return the score of each model on the pages of a folder, without using their markup."""
    reading = reading._replace(markup=False)
    fixtures = []
    for path in await asyncio.to_thread(_pages, folder):
        expected = await asyncio.to_thread(_expected, path)
        page: PageInput | RowenError
        try:
            page = await extractor.read(Address(str(path) if path.is_absolute() else f"./{path}"), reading)
        except RowenError as problem:
            page = problem
        fixtures.append(_Fixture(str(path.relative_to(folder)), page, expected))
    reader = PageFacts(engine.database, engine.language_models, engine.settings)
    scores = []
    for name in models:
        model = str(engine.language_models.of(name or None).spec)
        with_model = reading._replace(model=name or None)
        with charged_to(subject=reading.schema.name):
            pages = await together(*(_score(reader, fixture, with_model, Purse(within=purse)) for fixture in fixtures))
        if engine.language_models.of(name or None).price is None:
            pages = [replace(page, usd=None) if page.calls or page.reused else page for page in pages]
        scores.append(ModelScore(model, tuple(pages)))
    return scores


def _pages(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise NotFoundError(f"{str(folder)!r} is not a folder.")
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    pages = [path for path in files if not path.name.endswith(EXPECTED)]
    if not pages:
        raise NotFoundError(f"{str(folder)!r} has no pages.", hint="Add pages to it, such as lamp.html.")
    return pages


def _expected(path: Path) -> dict[str, Any] | None:
    """Return the expected data from the file beside a page, named with or without the page's file extension."""
    for beside in (path.with_name(path.name + EXPECTED), path.with_name(path.stem + EXPECTED)):
        if beside.is_file():
            try:
                data = json.loads(beside.read_text("utf-8"))
            except (ValueError, RecursionError, OSError) as problem:
                raise UsageError(f"{beside} cannot be read: {problem}.") from None
            if not isinstance(data, dict):
                raise UsageError(f"{beside} does not contain a JSON object.")
            return data
    return None


async def _score(reader: PageFacts, fixture: _Fixture, reading: PageReading, purse: Purse) -> PageScore:
    expected = fixture.expected or {}
    missed = wrong_fields(expected, None)
    if isinstance(fixture.page, RowenError):
        return _failed(fixture, fixture.page, purse, missed)
    with paid_from(purse):
        try:
            extracted, _ = await reader.read(fixture.page, reading)
        except RowenError as problem:
            return _failed(fixture, problem, purse, missed)
    total, wrong = wrong_fields(expected, extracted.data)
    return PageScore(
        fixture.name,
        "valid",
        extracted.data,
        reused=extracted.reused,
        calls=extracted.calls,
        tokens=extracted.tokens,
        usd=extracted.usd,
        seconds=None if extracted.reused else round(purse.seconds, 3),
        ungrounded=extracted.ungrounded,
        expected=total,
        wrong=wrong,
    )


def _failed(fixture: _Fixture, problem: RowenError, purse: Purse, missed: tuple[int, tuple[str, ...]]) -> PageScore:
    """Return the score of a page for which there is no valid answer; its costs count."""
    match problem:
        case AnswerInvalidError() | AnswerMismatchError():
            verdict = "invalid"
        case BudgetExceededError():
            verdict = "skipped"
        case _:
            verdict = "error"
    spent = {"calls": purse.calls, "tokens": purse.spent_tokens, "usd": purse.spent_usd}
    times = {"seconds": round(purse.seconds, 3) if purse.calls else None}
    total, wrong = missed if verdict != "skipped" else (0, ())
    details = {"code": problem.code, "error": str(problem), "expected": total, "wrong": wrong}
    return PageScore(fixture.name, verdict, **spent, **times, **details)  # type: ignore[arg-type]
