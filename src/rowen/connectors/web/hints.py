"""What a site says about itself besides its pages: sitemaps and llms.txt."""

import re
from datetime import datetime
from typing import NamedTuple

from rowen.connectors.web.options import WebOptions
from rowen.connectors.web.scope import Scope
from rowen.connectors.web.sitemap import sitemap_entries
from rowen.errors import CircuitOpenError, FetchError
from rowen.fetch.client import Client
from rowen.fetch.robots import Rules
from rowen.fetch.target import join, parse
from rowen.model.url import canonical

__all__ = ["Hints", "gather"]

_MARKDOWN_LINK = re.compile(r"\]\(\s*<?([^\s<>()]+)>?[^)]*\)")


class Hints(NamedTuple):
    """Places to begin with besides the root, and the dates that a sitemap gives, by canonical URL."""

    seeds: list[str]
    modified: dict[str, datetime]


async def gather(client: Client, root: str, options: WebOptions, rules: Rules | None) -> Hints:
    """Read what there is; what is missing is no trouble, and a single page needs none of it."""
    if options.max_pages == 1:
        return Hints([], {})
    seeds: list[str] = []
    modified: dict[str, datetime] = {}
    scope = Scope(root, options)
    origin = parse(root).origin
    if options.sitemap:
        addresses = list(rules.sitemaps) if rules and rules.sitemaps else [f"{origin}/sitemap.xml"]
        async for entry in sitemap_entries(client, addresses):
            url = scope.clean(entry.url)
            if url is not None and scope.takes(url):
                seeds.append(url)
                if entry.modified is not None:
                    modified[canonical(url)] = entry.modified
    if options.llms:
        seeds.extend(await _llms(client, f"{origin}/llms.txt"))
    return Hints(seeds, modified)


async def _llms(client: Client, address: str) -> list[str]:
    """The pages that an llms.txt recommends; a web page in its place is none."""
    try:
        response = await client.get(address, max_bytes=2_000_000)
        if not response.ok or response.media_type == "text/html":
            return []
        base = parse(response.url)
        text = response.body.decode("utf-8", "replace")
        return [join(base, link).url for link in _MARKDOWN_LINK.findall(text) if _followable(link)]
    except CircuitOpenError:
        raise
    except FetchError:
        return []


def _followable(link: str) -> bool:
    return not re.match(r"(?!https?:)[a-z][a-z0-9+.-]*:|#", link, re.IGNORECASE)
