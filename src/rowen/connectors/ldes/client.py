"""Asking a stream: pages, and the contexts and documents that belong to them."""

import hashlib
from collections.abc import Mapping
from typing import Any

from rowen.connectors.base import Tools
from rowen.connectors.ldes.options import LdesOptions
from rowen.connectors.ldes.page import StreamBody, contexts_of
from rowen.errors import FetchError, SourceError
from rowen.formats.json import read_json
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Response
from rowen.net.target import join, parse, redact

__all__ = ["StreamClient", "body_of"]

ACCEPT = (
    "application/n-quads, application/trig;q=0.95, text/turtle;q=0.9, application/n-triples;q=0.9, "
    "application/ld+json;q=0.7, application/rdf+xml;q=0.5, */*;q=0.1"
)
_CONTEXT_BYTES = 4 << 20  # the largest vocabularies in use have 1 MB
_MOST_CONTEXTS = 50  # of one stream: contexts lead to contexts


class StreamClient:
    """Requests of one stream. `contexts` are those at hand, `fresh` those that were fetched and not stored yet."""

    def __init__(self, client: Client, url: str, options: LdesOptions, tools: Tools) -> None:
        client.pace(url, delay_s=options.delay_s)
        self.contexts: dict[str, Any] = {}
        self.pins: dict[str, str] = {}
        self.fresh: dict[str, Any] = {}
        self._client = client
        self._options = options
        self._tools = tools
        self._credentials = Credentials.of(url, options.headers)

    async def get(self, url: str, *, etag: str | None = None, last_modified: str | None = None) -> Response:
        """The answer of a page, whatever its status; retried as the client does."""
        return await self._client.get(
            url,
            etag=etag,
            last_modified=last_modified,
            accept=ACCEPT,
            credentials=self._credentials,
            max_bytes=self._options.max_bytes,
        )

    async def document(self, url: str) -> StreamBody:
        """A document that has to be there."""
        response = await self.get(url)
        if not response.ok:
            raise SourceError(f"{redact(url)} answered with status {response.status}.")
        return body_of(response)

    def remember(self, contexts: Mapping[str, Mapping[str, Any]]) -> None:
        """Take over contexts as they were stored."""
        for url, note in contexts.items():
            self.contexts[url], self.pins[url] = note["context"], note["sha256"]

    async def with_contexts(self, given: StreamBody) -> Mapping[str, Any]:
        """The contexts of a document, by the names that it has for them; each is fetched once, and pinned."""
        if b'"@context"' not in given.body:
            return {}
        names = await self._tools.parse(contexts_of, given)
        return {name: await self._context(name, given.url) for name in names}

    async def _context(self, name: str, base: str, depth: int = 0) -> Any:
        url = join(parse(base), name).url
        if url in self.contexts:
            return self.contexts[url]
        if len(self.contexts) >= _MOST_CONTEXTS or depth > _MOST_CONTEXTS:
            raise SourceError(f"{redact(base)} needs more than {_MOST_CONTEXTS} JSON-LD contexts.")
        try:
            response = await self._client.get(
                url, accept="application/ld+json, application/json;q=0.9", max_bytes=_CONTEXT_BYTES
            )
        except FetchError as problem:
            raise SourceError(f"The JSON-LD context {redact(url)} is not to be had: {problem}") from problem
        if not response.ok:
            raise SourceError(f"The JSON-LD context {redact(url)} answered with status {response.status}.")
        self._check(url, hashlib.sha256(response.body).hexdigest())
        told = read_json(response.body, url)
        context = told.get("@context", {}) if isinstance(told, dict) else {}
        several = context if isinstance(context, list) else [context]
        inner = [await self._context(one, response.url, depth + 1) if isinstance(one, str) else one for one in several]
        flat = [part for one in inner for part in (one if isinstance(one, list) else [one])]
        self.contexts[url] = flat
        self.fresh[url] = {"context": flat, "sha256": self.pins[url]}
        return flat

    def _check(self, url: str, found: str) -> None:
        """A context decides what every word means: another one than the pinned is an error, not another meaning."""
        wanted = self._options.contexts.get(url, self.pins.get(url))
        if wanted is not None and wanted.lower() != found:
            raise SourceError(
                f"The JSON-LD context {redact(url)} has changed: it should have the SHA-256 {wanted}, and has {found}. "
                "Nothing was read under it.",
                hint="If the change is meant, set the option contexts to the new one, and sync in full.",
            )
        self.pins[url] = found


def body_of(response: Response) -> StreamBody:
    """The document that an answer holds."""
    return StreamBody(response.body, response.url, response.media_type, response.charset)
