"""Sites: crawled once, refreshed by conditional requests, to exactly what a new crawl would find."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.web.crawl import Crawl
from rowen.connectors.web.memory import Memory
from rowen.connectors.web.options import WebOptions
from rowen.connectors.web.visit import Visitor
from rowen.errors import SourceError
from rowen.fetch.client import Client
from rowen.fetch.robots import Robots
from rowen.model.item import Checkpoint, Complete, Incomplete, Observation
from rowen.model.url import canonical

__all__ = ["Web"]

DEFAULT_CONCURRENCY = 3


class Web:
    """Reads a site, or watches a single page."""

    kind: ClassVar[str] = "web"
    Options: ClassVar[type[Options]] = WebOptions

    def __init__(self, url: str, options: WebOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """A web address, also without its scheme."""
        if "://" not in address and "." in address.partition("/")[0] and not address.startswith((".", "/", "~")):
            address = f"https://{address}"
        if not address.startswith(("http://", "https://")):
            return None
        try:
            canonical(address)
        except ValueError:
            return None
        return address

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Walk the site from its root."""
        async with self._tools.client() as client:
            client.pace(self._url, delay_s=self._options.delay_s, concurrency=self._options.concurrency)
            crawl = await self._crawl(client, known)
            async with aclosing(crawl.walk()) as observations:
                async for observation in observations:
                    yield observation
        yield Checkpoint(crawl.memory.to_cursor())
        yield Complete() if crawl.unproven is None else Incomplete(crawl.unproven)

    async def _crawl(self, client: Client, known: Known) -> Crawl:
        robots = Robots(client) if self._options.robots else None
        if robots is not None:
            rules = await robots.rules(self._url)
            if rules.refused is not None:
                raise SourceError(rules.refused, hint="Nothing was deleted.")
            client.pace(self._url, crawl_delay_s=rules.crawl_delay_s)
        return Crawl(
            self._url,
            self._options,
            known=known,
            visitor=Visitor(client, self._url, self._options, self._tools),
            robots=robots,
            memory=Memory.of(known.cursor),
            concurrency=self._options.concurrency or DEFAULT_CONCURRENCY,
        )
