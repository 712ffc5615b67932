"""Websites: crawled once, then refreshed by conditional requests, with exactly the result of a new crawl."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from typing import ClassVar

from rowen.concurrency import together
from rowen.connectors.base import Known, Options, StoredState, Tools
from rowen.connectors.web.boilerplate import Boilerplate
from rowen.connectors.web.crawl import DEFAULT_CONCURRENCY, Crawl
from rowen.connectors.web.hints import Dates, gather
from rowen.connectors.web.interstitial import Interstitials, Member, mark_of
from rowen.connectors.web.memory import SiteCursor
from rowen.connectors.web.options import WebOptions
from rowen.connectors.web.render import Renderer
from rowen.connectors.web.scope import SiteScope
from rowen.connectors.web.visit import (
    NOT_FOLLOWED,
    Answer,
    BrokenPage,
    Closed,
    FetchedPage,
    Missing,
    Moved,
    Same,
    Visitor,
    disallowed,
    is_left_out,
    observation_of,
)
from rowen.errors import SourceError, SourceGoneError
from rowen.model.dates import http_date
from rowen.model.items import Checkpoint, Complete, Fetched, Gone, Incomplete, Observation, Skipped, Unchanged
from rowen.model.url import Address, canonical
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.robots import Robots, RobotsRules

# If one page becomes equal to another, that is an edit. If three become equal, one page stands in
# front of them, such as a login. A walk may lose more texts, since it knows the size of the site.
_LOSABLE = 1

_FALSE_DATE = "The sitemap called a page unchanged that has changed; the next run requests every page."
_UNSTUDIED = "not all pages of the site were read alike so far; a full walk comes first"
_ELSEWHERE = "it redirects elsewhere now"
_NO_PAGE = "it is no page of its own any more"


class Web:
    """A connector for a site or a single page; the headers are sent to the origin of `named`, by default of `url`."""

    kind: ClassVar[str] = "web"
    Options: ClassVar[type[Options]] = WebOptions

    def __init__(self, url: str, options: WebOptions, tools: Tools, *, named: str | None = None) -> None:
        self._url = url
        self._named = named or url
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """Return the URL of a web address, which may lack its scheme; None for any other address."""
        place = Address.of(address)
        if not place.scheme and "." in address.partition("/")[0] and not address.startswith((".", "/", "~")):
            place = Address.of(f"https://{address}")
        if not place.is_web or not place.text.startswith(f"{place.scheme}://"):
            return None
        try:
            canonical(place.text)
        except ValueError:
            return None
        return place.text

    @classmethod
    def covers(cls, url: str, options: WebOptions, addresses: Sequence[str]) -> bool:
        """Return whether one of the addresses is within the scope of the site."""
        scope = SiteScope(url, options)
        return any((page := scope.page(address)) is not None and scope.takes(page.url) for address in addresses)

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Crawl the site from its root."""
        async with self._tools.client() as client, AsyncExitStack() as closing:
            robots, rules = await self._begin(client)
            hints = await gather(client, self._url, self._options, rules, self._tools.parse)
            before = await self._cursor(known)
            dates = Dates(hints.modified, as_of=http_date(before.as_of), trust=before.sitemap_trust)
            visitor = await self._visitor(client, robots, closing)
            crawl = Crawl(
                self._url,
                self._options,
                known=known,
                visitor=visitor,
                robots=robots,
                memory=before,
                dates=dates,
            )
            async with aclosing(crawl.walk(hints.seeds)) as observations:
                async for observation in observations:
                    self._tools.meter.known = crawl.known
                    yield observation
            self._tools.meter.known = crawl.known
        crawl.memory.as_of = visitor.site_time
        crawl.memory.sitemap_trust = dates.trust
        if not crawl.refused:
            yield Checkpoint(crawl.memory.to_cursor())
        false_date = _FALSE_DATE if dates.lies and before.sitemap_trust > 0 else None
        why = crawl.unproven or hints.trouble or false_date
        yield Complete(beyond=crawl.beyond, generated=crawl.generated) if why is None else Incomplete(why)

    async def look(self, known: Known, urls: Sequence[str]) -> AsyncGenerator[Observation]:
        """Check the pages with these URLs, and remove the boilerplate that the last walk found."""
        memory = await self._cursor(known)
        if not memory.studied:
            for url in urls:
                yield Skipped(url, _UNSTUDIED)
            return
        async with self._tools.client() as client, AsyncExitStack() as closing:
            robots, _ = await self._begin(client)
            visitor = await self._visitor(client, robots, closing)
            pages = PageLook(self._url, self._options, known, visitor, robots, memory.boilerplate)
            async with aclosing(pages.observations(urls)) as observations:
                async for observation in observations:
                    yield observation

    async def _begin(self, client: Client) -> tuple[Robots | None, RobotsRules | None]:
        client.pace(self._url, delay_s=self._options.delay_s, concurrency=self._options.concurrency)
        if not self._options.robots:
            return None, None
        robots = Robots(client)
        rules = await robots.rules(self._url)
        if rules.refused is not None:
            raise SourceError(rules.refused)
        client.pace(self._url, crawl_delay_s=rules.crawl_delay_s or 0.0)
        return robots, rules

    async def _cursor(self, known: Known) -> SiteCursor:
        """Return the cursor; if stored pages were not read with its boilerplate, mark it as not studied.

        Only pages within the scope are counted, since a package also has other items.
        """
        cursor = SiteCursor.of(known.cursor, reading=self._options.leading)
        if cursor.pages is not None and cursor.pages < known.count:
            scope, stored = SiteScope(self._url, self._options), 0
            async for batch in known.everything():
                stored += sum(scope.takes(item.url) for item in batch)
            cursor.studied = cursor.studied and cursor.pages >= stored
        return cursor

    async def _visitor(self, client: Client, robots: Robots | None, closing: AsyncExitStack) -> Visitor:
        credentials = Credentials.of(self._named, self._options.headers)
        renderer = None
        if self._options.render != "never":
            renderer = Renderer(client, self._options, self._tools, robots=robots, credentials=credentials)
            await closing.enter_async_context(renderer)
        visitor = Visitor(client, self._options, self._tools, credentials=credentials, renderer=renderer)
        closing.push_async_callback(visitor.close)
        return visitor


@dataclass
class PageLook:
    """Checks single pages without a walk: reads their current content, at their stored depths and URLs.

    It skips redirects, canonical addresses, excluded pages and new boilerplate. These need a walk, which reads all
    pages again.
    """

    root: str
    options: WebOptions
    known: Known
    visitor: Visitor
    robots: Robots | None
    boilerplate: Boilerplate

    def __post_init__(self) -> None:
        """Prepare the check."""
        self._scope = SiteScope(self.root, self.options)
        self._root = canonical(self.root)
        self._front = Interstitials(_LOSABLE if self.known.losable < self.known.count else None)

    async def observations(self, urls: Sequence[str]) -> AsyncGenerator[Observation]:
        """Yield the observation of each page; new texts come last, once it is known that they are no interstitials."""
        stored = await self.known.look_up(urls)
        pages = [stored[url] for url in urls if url in stored]

        async def visit(page: StoredState) -> Answer:
            if self.robots is not None and (answer := await disallowed(self.robots, page.url)):
                return answer
            return await self.visitor.visit(page.url, page.depth, page, None)

        at_once = self.options.concurrency or DEFAULT_CONCURRENCY
        for start in range(0, len(pages), at_once):
            some = pages[start : start + at_once]
            for page, answer in zip(some, await together(*map(visit, some)), strict=True):
                for observation in self._take(page, answer):
                    yield observation
        for document in self._front.rest():
            yield Fetched(document)

    def _take(self, stored: StoredState, answer: Answer) -> Iterator[Observation]:
        match answer:
            case Same():
                yield Unchanged(stored.url, answer.validators)
            case FetchedPage():
                yield from self._take_page(stored, answer)
            case Missing(status) if canonical(stored.url) == self._root:
                raise SourceGoneError(f"{stored.url} answered with status {status}.")
            case Missing(status):
                yield Gone(stored.url, f"status {status}")
            case BrokenPage(why, _, hint) if canonical(stored.url) == self._root:
                raise SourceError(why, hint=hint)
            case BrokenPage() | Closed():
                yield observation_of(stored.url, answer, keeps_copy=not is_left_out(stored, answer))
            case Moved():
                yield Skipped(stored.url, _ELSEWHERE)
            case _:
                yield Skipped(stored.url, _NO_PAGE)

    def _take_page(self, stored: StoredState, page: FetchedPage) -> Iterator[Observation]:
        document = page.document
        if document.links and page.robots & NOT_FOLLOWED:
            document = replace(document, links=())
        preferred = document.record.get("canonical")
        is_no_page = (
            page.leads_on
            or (self.options.select and not document.text)
            or (stored.depth and self._scope.is_index(stored.url))
            or (isinstance(preferred, str) and self._scope.is_variant(stored.url, preferred))
        )
        if is_no_page:
            yield Skipped(stored.url, _NO_PAGE)
            return
        new = self.boilerplate.strip(document)
        if new.content_hash == stored.content_hash:
            yield Fetched(new)
            return
        ready, refused = self._front.take(mark_of(document), Member(stored.url, stored.depth, (stored,), new))
        yield from map(Fetched, ready)
        for member in refused:
            yield Skipped(member.url, self._front.why or "")
