"""Sites: crawled once, refreshed by conditional requests, to exactly what a new crawl would find."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import ClassVar

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.web.crawl import Crawl
from rowen.connectors.web.dates import Dates
from rowen.connectors.web.hints import gather
from rowen.connectors.web.memory import SiteCursor
from rowen.connectors.web.options import WebOptions
from rowen.connectors.web.page_look import PageLook
from rowen.connectors.web.render import Renderer
from rowen.connectors.web.scope import SiteScope
from rowen.connectors.web.visit import Visitor
from rowen.errors import SourceError
from rowen.model.dates import http_date
from rowen.model.items import Checkpoint, Complete, Incomplete, Observation, Skipped
from rowen.model.url import Address, canonical
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.robots import Robots, RobotsRules

__all__ = ["Web"]

# So that a page that is slow to come does not stop the walk; the pace per host is set elsewhere.
DEFAULT_CONCURRENCY = 3
_LIE = "The sitemap called a page unchanged that has changed; the next run asks for every page."
_UNSTUDIED = "not all pages of the site were read alike so far, which a walk over it puts right first"


class Web:
    """Reads a site, or watches a single page. `named` is the address whose origin may see the headers, if not `url`."""

    kind: ClassVar[str] = "web"
    Options: ClassVar[type[Options]] = WebOptions

    def __init__(self, url: str, options: WebOptions, tools: Tools, *, named: str | None = None) -> None:
        self._url = url
        self._named = named or url
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """A web address, also without its scheme."""
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
        """Whether one of some addresses is within the borders of a site."""
        scope = SiteScope(url, options)
        return any((page := scope.page(address)) is not None and scope.takes(page.url) for address in addresses)

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Walk the site from its root."""
        async with self._tools.client() as client, AsyncExitStack() as closing:
            client.pace(self._url, delay_s=self._options.delay_s, concurrency=self._options.concurrency)
            robots = Robots(client) if self._options.robots else None
            rules = await self._rules(client, robots) if robots else None
            hints = await gather(client, self._url, self._options, rules, self._tools.parse)
            before = await self._memory(known)
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
                concurrency=self._options.concurrency or DEFAULT_CONCURRENCY,
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
        why = crawl.unproven or hints.trouble or (_LIE if dates.lies and before.sitemap_trust > 0 else None)
        yield Complete(beyond=crawl.beyond, generated=crawl.generated) if why is None else Incomplete(why)

    async def look(self, known: Known, urls: Sequence[str]) -> AsyncGenerator[Observation]:
        """Look at some pages again, with the boilerplate that all others were read with."""
        memory = await self._memory(known)
        if not memory.studied:
            for url in urls:
                yield Skipped(url, _UNSTUDIED)
            return
        async with self._tools.client() as client, AsyncExitStack() as closing:
            client.pace(self._url, delay_s=self._options.delay_s, concurrency=self._options.concurrency)
            robots = Robots(client) if self._options.robots else None
            if robots:
                await self._rules(client, robots)
            visitor = await self._visitor(client, robots, closing)
            pages = PageLook(
                self._url,
                self._options,
                known=known,
                visitor=visitor,
                robots=robots,
                boilerplate=memory.boilerplate,
                concurrency=self._options.concurrency or DEFAULT_CONCURRENCY,
            )
            async with aclosing(pages.observations(urls)) as observations:
                async for observation in observations:
                    yield observation

    async def _memory(self, known: Known) -> SiteCursor:
        """What is remembered; a package holds items besides the pages of its site, which count only."""
        memory = SiteCursor.of(known.cursor, reading=self._options.leading)
        if memory.pages is not None and memory.pages < known.count:
            scope, held = SiteScope(self._url, self._options), 0
            async for batch in known.everything():
                held += sum(scope.takes(one.url) for one in batch)
            memory.studied = memory.studied and memory.pages >= held
        return memory

    async def _visitor(self, client: Client, robots: Robots | None, closing: AsyncExitStack) -> Visitor:
        credentials = Credentials.of(self._named, self._options.headers)
        renderer = None
        if self._options.render != "never":
            renderer = Renderer(client, self._options, self._tools, robots=robots, credentials=credentials)
            await closing.enter_async_context(renderer)
        visitor = Visitor(client, self._options, self._tools, credentials=credentials, renderer=renderer)
        closing.push_async_callback(visitor.close)
        return visitor

    async def _rules(self, client: Client, robots: Robots) -> RobotsRules:
        rules = await robots.rules(self._url)
        if rules.refused is not None:
            raise SourceError(rules.refused)
        client.pace(self._url, crawl_delay_s=rules.crawl_delay_s or 0.0)
        return rules
