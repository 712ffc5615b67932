"""Renders pages whose content is created by scripts.

The validators of such a page do not cover the data that its scripts request. The page is therefore rendered in every
run, with all its requests, and compared by its content.
"""

import re
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

from rowen.connectors.base import Tools
from rowen.connectors.web.options import WebOptions
from rowen.model.hashes import Hash, body_hash, canonical_json
from rowen.model.items import Document, Raw
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.render import Browser
from rowen.net.response import Response
from rowen.net.robots import Robots

# A page with a framework's root element and less text than a short paragraph needs its scripts. At twice as much, short
# complete pages would be rendered in every run, with all the requests of a browser.
FEWEST_CHARS = 200
# Without a known root element, only a page with almost no text is rendered: a title, or "Loading…".
HARDLY_ANY_CHARS = 40
_PAGES = frozenset({"text/html", "application/xhtml+xml"})
_SCRIPT = re.compile(rb"<script\b(?![^<>]*\btype\s*=\s*[\"']?application/(?:ld\+)?json)", re.IGNORECASE)
# Root elements of frameworks, and notes for users without scripts.
_FRAME = re.compile(
    rb"<[a-z][^<>]*\bid\s*+=\s*+[\"']?(?:app|root|__next|__nuxt|___gatsby|svelte|main-app|app-root|react-root|q-app"
    rb"|mount|docsify)\b|<(?:app-root|[a-z]+-app|ng-app)\b|\bdata-reactroot\b|\bng-(?:app|version)\b"
    rb"|<noscript\b[^<>]*>(?:(?!</noscript)[\s\S]){0,500}?javascript",
    re.IGNORECASE,
)


class Renderer:
    """Renders the pages of one site; an async context manager."""

    def __init__(
        self,
        client: Client,
        options: WebOptions,
        tools: Tools,
        *,
        robots: Robots | None,
        credentials: Credentials | None,
    ) -> None:
        self._options = options
        self._read = tools.read
        self._robots = robots
        self._credentials = credentials
        self._browser = Browser(client, may=self._may)
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(self._browser)
        if self._options.render == "always":
            await self._browser.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    def is_sure(self, url: str) -> bool:
        """Return whether a page is always rendered; a route after `#` exists only in the browser."""
        return self._options.render == "always" or "#" in url

    async def needs_rendering(self, raw: Raw) -> bool:
        """Return whether a page must be rendered before it can be read."""
        if (raw.media_type or "").partition(";")[0].strip().lower() not in _PAGES:
            return False
        if self.is_sure(raw.url):
            return True
        if not _SCRIPT.search(raw.body):
            return False
        page = await self._read(replace(raw, select=None, ignore=None))
        return len(page.text) < (FEWEST_CHARS if _FRAME.search(raw.body) else HARDLY_ANY_CHARS)

    async def render(self, raw: Raw, response: Response) -> Document | str:
        """Return the rendered page; if it redirects, return the URL that it redirects to."""
        rendered = await self._browser.render(
            raw.url, response, max_bytes=int(self._options.max_bytes), credentials=self._credentials
        )
        if rendered.url != raw.url:
            return rendered.url
        body = rendered.html.encode("utf-8", "replace")
        document = await self._read(
            replace(raw, body=body, media_type="text/html", charset="utf-8", etag=None, last_modified=None)
        )
        if "#" not in raw.url:
            return document
        # The document's canonical address does not identify its single routes.
        return replace(document, record={name: value for name, value in document.record.items() if name != "canonical"})

    async def _may(self, url: str) -> bool:
        """Return whether a page may load a URL; the option `exclude` and robots.txt apply as to links."""
        if self._options.excluded and self._options.excluded.search(url):
            return False
        return self._robots is None or (await self._robots.rules(url)).allows(url)


def rendered_hash(document: Document, robots: frozenset[str]) -> Hash:
    """Return a hash of a rendered page, in place of the body's hash.

    Two renderings of one page may differ in parts that are not read, so the bodies cannot be compared.
    """
    facts = [document.record, document.language, document.links, sorted(robots)]
    return body_hash(document.content_hash + canonical_json(facts))
