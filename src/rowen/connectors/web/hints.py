"""What a site says about itself besides its pages: sitemaps and llms.txt."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple, TypeVar

from rowen.connectors.base import Parse
from rowen.connectors.web.options import WebOptions
from rowen.connectors.web.scope import SiteScope
from rowen.connectors.web.sitemap import MOST_BYTES, SitemapEntry, read_entries, sitemap_entries
from rowen.errors import CircuitOpenError, FetchError, ItemError
from rowen.model.url import canonical
from rowen.net.client import Client
from rowen.net.response import Response
from rowen.net.robots import RobotsRules
from rowen.net.target import join, parse

__all__ = ["Hints", "gather", "recommended"]

T = TypeVar("T")

_MARKDOWN_LINK = re.compile(r"\]\(\s*+<?([^\s<>()]++)(?=[\s<>()])")


class Hints(NamedTuple):
    """Places to begin with besides the root, and the dates that a sitemap gives, by canonical URL.

    `trouble` tells that something was not to be had now that may name pages which nothing else leads to.
    """

    seeds: list[str]
    modified: dict[str, datetime]
    trouble: str | None = None


async def gather(client: Client, root: str, options: WebOptions, rules: RobotsRules | None, read: Parse) -> Hints:
    """Read what there is; what is not there is no trouble, and a single page needs none of it."""
    seeds: list[str] = []
    modified: dict[str, datetime] = {}
    if options.max_pages == 1:
        return Hints(seeds, modified)
    files = _Files(client, read)
    scope = SiteScope(root, options)
    origin = parse(root).origin
    if options.sitemap:
        addresses = list(rules.sitemaps) if rules and rules.sitemaps else [f"{origin}/sitemap.xml"]
        async for entry in sitemap_entries(files.entries, addresses):
            url = scope.clean(entry.url)
            if url is not None and scope.takes(url):
                seeds.append(url)
                if entry.modified is not None:
                    modified[canonical(url)] = entry.modified
    if options.llms:
        seeds.extend(await files.recommended(f"{origin}/llms.txt"))
    return Hints(seeds, modified, files.trouble)


class _Files:
    """Fetches the files that tell about a site, and notes when one was not to be had for now."""

    def __init__(self, client: Client, read: Parse) -> None:
        self._client = client
        self._read = read
        self.trouble: str | None = None

    async def get(self, address: str) -> Response | None:
        """The file, if it is there."""
        try:
            response = await self._client.get(address, max_bytes=MOST_BYTES)
        except CircuitOpenError:
            raise
        except FetchError as problem:
            self.trouble = str(problem) if problem.retryable else self.trouble
            return None
        if response.status >= 500 or response.status in (408, 425, 429):
            self.trouble = f"{address} answered with status {response.status}; it may name pages that we hold."
        return response if response.ok else None

    async def entries(self, address: str) -> list[SitemapEntry]:
        """What a sitemap lists, nothing if it is not there."""
        response = await self.get(address)
        return await self._within(address, read_entries, response.body) if response else []

    async def recommended(self, address: str) -> list[str]:
        """The pages that an llms.txt recommends; a web page in its place is none."""
        response = await self.get(address)
        if response is None or response.media_type == "text/html":
            return []
        return await self._within(address, recommended, response.body, response.url)

    async def _within(self, address: str, function: Callable[..., list[T]], *facts: object) -> list[T]:
        """What a function makes of a file; one that keeps it busy for too long may name pages that we hold."""
        try:
            return await self._read(function, *facts)
        except ItemError as problem:
            self.trouble = f"{address} cannot be read: {problem}"
            return []


def recommended(body: bytes, url: str) -> list[str]:
    """The links of an llms.txt."""
    base = parse(url)
    found = []
    for link in _MARKDOWN_LINK.findall(body.decode("utf-8", "replace")):
        if _followable(link):
            with suppress(FetchError):
                found.append(join(base, link).url)
    return found


def _followable(link: str) -> bool:
    return not re.match(r"(?!https?:)[a-z][a-z0-9+.-]*:|#", link, re.IGNORECASE)
