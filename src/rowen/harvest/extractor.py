"""One page or file as it is now, to be read for facts: fetched politely, by a proxy or a browser if asked for.

Facts of pages and of whole sources: what jobs and interfaces ask for.

Models compared on pages of one's own: each reads each page as a schema, and what it makes of them is counted.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rowen.concurrency import together
from rowen.connectors.base import Meter
from rowen.connectors.opening import read_regular
from rowen.enrich.extract.structured import wanted_names
from rowen.enrich.ledger import Purse, charged_to, paid_from
from rowen.errors import (
    AnswerInvalidError,
    AnswerMismatchError,
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
from rowen.harvest.extraction import ExtractionOrder, ExtractionPass, Observe, RuleLearning
from rowen.harvest.page_facts import PageFacts, PageInput, PageReading
from rowen.model.extraction import ModelScore, PageScore, wrong_fields
from rowen.model.items import Document, FactsWanted, Raw
from rowen.model.url import Address, file_url
from rowen.net.circuits import CircuitLimits
from rowen.store import source_schemas
from rowen.store.locks import Lock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from rowen.enrich.llm.base import LanguageModel
    from rowen.harvest.engine import Engine, Work
    from rowen.harvest.page_facts import PageReading
    from rowen.model.extraction import Extracted, ExtractionReport
    from rowen.model.sources import Source
    from rowen.net.client import Client
    from rowen.net.response import Response
    from rowen.net.robots import Robots
    from rowen.store.source_schemas import Carried

__all__ = ["EXPECTED", "Extractor", "PageAccess", "PageSource", "evaluate"]

# What a text file may have to be read for facts: a page of this size has more than any model reads.
_MOST_FILE_BYTES = 20_000_000
# A script leads to a sign-in or to a language, and that page to itself. More are a circle.
_MOST_RENDERED_MOVES = 3


class PageAccess(NamedTuple):
    """How a page is got at: drawn by a browser, through a proxy, within some time; all as the settings say if not."""

    render: bool = False
    proxy: str | None = None
    limit_s: float | None = None


class PageSource:
    """Gets pages and files."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def raw(self, place: Address, facts: FactsWanted | None, access: PageAccess | None = None) -> Raw:
        """A page or a file, unread, with the facts that are wanted of it.

        Whoever calls this has judged this very address: a file is opened without another question.
        """
        if place.is_file:
            return await asyncio.to_thread(_file, place, facts)
        if not place.is_web:
            raise UsageError(
                f"{place.text!r} is neither a web page nor a file.",
                hint="Give an address that begins with https://, or the path of a file.",
            )
        async with AsyncExitStack() as stack:
            response = await self._got(stack, place.text, access or PageAccess())
        media_type, charset = response.media_type, response.charset
        return Raw(response.url, response.body, media_type=media_type, charset=charset, facts=facts)

    async def markup(self, url: str) -> str:
        """The markup of a page."""
        from rowen.formats.charset import decode

        async with AsyncExitStack() as stack:
            response = await self._got(stack, url, PageAccess())
        return decode(response.body, charset=response.charset, media_type=response.media_type or "text/html", name=url)

    async def _got(self, stack: AsyncExitStack, url: str, access: PageAccess) -> Response:
        from rowen.net.robots import Robots

        proxy = None if access.proxy is None else checked_proxy(access.proxy)
        settings = self._engine.settings.for_source(url)
        client = await stack.enter_async_context(self._engine.client(Meter(), settings, proxy=proxy))
        robots = Robots(client)
        response = await _allowed(client, robots, url, access)
        return await _rendered(stack, client, robots, response, access) if access.render else response


async def _allowed(client: Client, robots: Robots, url: str, access: PageAccess) -> Response:
    rules = await robots.rules(url)
    if rules.refused is not None:
        raise SourceError(rules.refused)
    if not rules.allows(url):
        raise RefusedError(f"The robots.txt of its host does not let {url} be read.")
    response = await client.get(url, accept="text/html,*/*;q=0.5", limit_s=access.limit_s)
    if response.status in (404, 410):
        raise NotFoundError(f"{url} is not there (status {response.status}).")
    if not response.ok:
        raise SourceError(f"{url} answered with status {response.status}.")
    return response


async def _rendered(
    stack: AsyncExitStack, client: Client, robots: Robots, response: Response, access: PageAccess
) -> Response:
    """The page after its scripts have run; what is no page stays as it is."""
    from dataclasses import replace

    from rowen.net.render import LIMIT_S, Browser

    if (response.media_type or "").lower() not in ("text/html", "application/xhtml+xml"):
        return response

    async def may(url: str) -> bool:
        return (await robots.rules(url)).allows(url)

    browser = await stack.enter_async_context(Browser(client, may=may))
    most = client.settings.body_limit_bytes
    for _ in range(_MOST_RENDERED_MOVES + 1):
        drawn = await browser.render(response.url, response, max_bytes=most, limit_s=access.limit_s or LIMIT_S)
        if drawn.url == response.url:
            body = drawn.html.encode("utf-8", "replace")
            return replace(response, body=body, media_type="text/html", charset="utf-8")
        response = await _allowed(client, robots, drawn.url, access)
    raise SourceError(f"{response.url} leads from page to page, and never comes to rest.")


def checked_proxy(proxy: str) -> str:
    """A proxy that can be asked; its password is never repeated."""
    from rowen.errors import BadUrlError
    from rowen.net.target import parse

    try:
        parse(proxy)
    except BadUrlError as problem:
        raise UsageError(
            f"This is no proxy: {problem}", hint="An HTTP proxy is named as http://host:port, or http://user:password@…"
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
        raise RefusedError(f"{path} has more than {_MOST_FILE_BYTES:,} bytes.")
    return Raw(file_url(bytes(path.absolute())), body, name=path.name, facts=facts)


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


EXPECTED = ".expected.json"
"""Beside `lamp.html`, what it should yield: `lamp.expected.json`."""


class _Fixture(NamedTuple):
    """A page that is to be read, or why it cannot be, and what is expected of it."""

    name: str
    page: PageInput | RowenError
    expected: Mapping[str, Any] | None


async def evaluate(
    engine: Engine, extractor: Extractor, folder: Path, reading: PageReading, *, models: Sequence[str], purse: Purse
) -> list[ModelScore]:
    """What each model makes of each page of a folder; their markup is left out, since models are what is compared."""
    reading = reading._replace(markup=False)
    fixtures = [await _read(extractor, folder, path, reading) for path in await asyncio.to_thread(_pages, folder)]
    reader = PageFacts(engine.database, engine.language_models, engine.settings)
    scores = []
    for name in models:
        model = str(engine.language_models.of(name or None).spec)
        asked = reading._replace(model=name or None)
        with charged_to(subject=reading.schema.name):
            pages = await together(*(_score(reader, one, asked, Purse(within=purse)) for one in fixtures))
        priced = engine.language_models.of(name or None).price is not None
        scores.append(ModelScore(model, tuple(page if priced else _unpriced(page) for page in pages)))
    return scores


def _pages(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise NotFoundError(f"{str(folder)!r} is no folder.")
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    pages = [path for path in found if not path.name.endswith(EXPECTED)]
    if not pages:
        raise NotFoundError(f"{str(folder)!r} has no pages.", hint="Put some there, such as lamp.html.")
    return pages


async def _read(extractor: Extractor, folder: Path, path: Path, reading: PageReading) -> _Fixture:
    expected = await asyncio.to_thread(_expected, path)
    name = str(path.relative_to(folder))
    try:
        return _Fixture(
            name, await extractor.read(Address(f"./{path}" if not path.is_absolute() else str(path)), reading), expected
        )
    except RowenError as problem:
        return _Fixture(name, problem, expected)


def _expected(path: Path) -> dict[str, Any] | None:
    """What should come out, from the file beside a page; its name may have the page's ending or not."""
    for beside in (path.with_name(path.name + EXPECTED), path.with_name(path.stem + EXPECTED)):
        if beside.is_file():
            try:
                found = json.loads(beside.read_text("utf-8"))
            except (ValueError, RecursionError, OSError) as problem:
                raise UsageError(f"{beside} cannot be read: {problem}.") from None
            if not isinstance(found, dict):
                raise UsageError(f"{beside} is no JSON object, as an answer is.")
            return found
    return None


async def _score(reader: PageFacts, fixture: _Fixture, reading: PageReading, purse: Purse) -> PageScore:
    expected = fixture.expected or {}
    missed = wrong_fields(expected, None)
    if isinstance(fixture.page, RowenError):
        return _failed(fixture, fixture.page, purse, missed)
    with paid_from(purse):
        try:
            found, _ = await reader.read(fixture.page, reading)
        except RowenError as problem:
            return _failed(fixture, problem, purse, missed)
    total, wrong = wrong_fields(expected, found.data)
    asked = None if found.reused else round(purse.seconds, 3)
    return PageScore(
        fixture.name,
        "valid",
        found.data,
        reused=found.reused,
        calls=found.calls,
        tokens=found.tokens,
        usd=found.usd,
        seconds=asked,
        ungrounded=found.ungrounded,
        expected=total,
        wrong=wrong,
    )


def _failed(fixture: _Fixture, problem: RowenError, purse: Purse, missed: tuple[int, tuple[str, ...]]) -> PageScore:
    """A page without an answer; what was paid for it counts all the same."""
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
    told = {"code": problem.code, "error": str(problem), "expected": total, "wrong": wrong}
    return PageScore(fixture.name, verdict, **spent, **times, **told)  # type: ignore[arg-type]


def _unpriced(page: PageScore) -> PageScore:
    from dataclasses import replace

    return replace(page, usd=None) if page.calls or page.reused else page
