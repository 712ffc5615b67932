"""Sends the requests for a stream: pages, JSON-LD contexts and further documents; finds the stream's root page."""

import asyncio
import hashlib
import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field, field_validator

from rowen.connectors.base import Options, Tools
from rowen.connectors.ldes.page import (
    StreamBody,
    StreamEntry,
    contexts_of,
    read_description,
    read_entry,
    read_shape,
)
from rowen.connectors.ldes.shapes import EventStream, Topology
from rowen.connectors.opening import read_regular
from rowen.errors import FetchError, ItemError, SourceError, SourceGoneError
from rowen.formats.json import read_json
from rowen.model.url import Address
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Response
from rowen.net.target import join, parse, redact

ACCEPT = (
    "application/n-quads, application/trig;q=0.95, text/turtle;q=0.9, application/n-triples;q=0.9, "
    "application/ld+json;q=0.7, application/rdf+xml;q=0.5, */*;q=0.1"
)
_CONTEXT_BYTES = 4 << 20  # the largest vocabularies in use have 1 MB
_MOST_CONTEXTS = 50  # for one stream, since contexts may refer to other contexts
_SHAPE_BYTES = 4 << 20  # the shape of a complete application profile has 300 kB
_SHAPE_HINT = "Correct the option shape, or leave it out."
_MOST_STEPS = 3  # from the stream to its view, and from the view to its page; more steps are a cycle

_ABSOLUTE = re.compile(r"file:(?://(?:localhost)?)?/(?!/)")

log = logging.getLogger(__name__)


class LdesOptions(Options):
    """Options of an event stream. Raise `record_version` when the record of a member changes its form."""

    record_version: ClassVar[int] = 2

    secret_neutral: ClassVar[frozenset[str]] = Options.secret_neutral | {"versions", "order", "contexts"}

    versions: Literal["latest", "all"] = Field(
        default="latest", description="one item per object, with its latest version; or one per member"
    )
    order: Literal["fast", "ascending", "descending"] = Field(
        default="fast", description="members in the order of the pages, or of time: oldest or newest first"
    )
    after: datetime | None = Field(default=None, description="only members with later times")
    before: datetime | None = Field(default=None, description="only members with earlier times")
    shape: str | None = Field(
        default=None, description="SHACL shape that decides what belongs to a member: its URL, file:PATH, or none"
    )
    contexts: dict[str, str] = Field(
        default_factory=dict, description="SHA-256 that a JSON-LD context must have, by its URL"
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description="headers to send; env:NAME and file:PATH are references"
    )
    delay_s: float | None = Field(default=None, ge=0, description="pause between requests, instead of the setting's")
    # Pages of real streams have up to 5 MB; a dump of a whole stream is one page of any size.
    max_bytes: int = Field(default=256 << 20, ge=1, description="maximum size of a page")

    @field_validator("shape")
    @classmethod
    def _check_path(cls, shape: str | None) -> str | None:
        # Only the path is checked here; the sync checks that the file exists.
        if shape is not None and Address.of(shape).scheme == "file" and not _ABSOLUTE.match(Address.of(shape).text):
            raise ValueError("the path of a shape has to be absolute, since syncs begin in any folder")
        return shape

    @property
    def shape_file(self) -> Path | None:
        """Return the path of the shape if it is a local file; otherwise None."""
        place = Address.of(self.shape) if self.shape is not None else None
        return Path(place.path) if place is not None and place.scheme == "file" else None

    def reading(self) -> dict[str, Any]:
        """Return the options that decide how a member is read."""
        return {
            "versions": self.versions,
            "shape": self.shape,
            "language": self.language,
            "members": self.record_version,
        }

    def listing(self) -> dict[str, Any]:
        """Return the options whose change requires reading all pages again.

        `after` and `before` are left out, since the connector compares them itself.
        """
        return {**self.reading(), "headers": self.headers, "contexts": self.contexts}


class StreamClient:
    """Sends the requests for one stream. `contexts` holds all known contexts, `fresh` the contexts not stored yet."""

    def __init__(self, client: Client, url: str, options: LdesOptions, tools: Tools) -> None:
        client.pace(url, delay_s=options.delay_s)
        self._url = url
        self.contexts: dict[str, Any] = {}
        self.fresh: dict[str, Any] = {}
        self._client = client
        self._options = options
        self._tools = tools
        self._credentials = Credentials.of(url, options.headers)

    async def get(self, url: str, *, etag: str | None = None, last_modified: str | None = None) -> Response:
        """Request a page, and return the response with any status."""
        return await self._client.get(
            url,
            etag=etag,
            last_modified=last_modified,
            accept=ACCEPT,
            credentials=self._credentials,
            max_bytes=self._options.max_bytes,
        )

    async def document(self, url: str) -> StreamBody:
        """Request a document; raise `SourceError` unless the status is 2xx."""
        response = await self.get(url)
        if not response.ok:
            raise SourceError(f"{redact(url)} answered with status {response.status}.")
        return body_of(response)

    async def with_contexts(self, document: StreamBody) -> Mapping[str, Any]:
        """Return the JSON-LD contexts of a document, by name; each context is fetched once, then stored."""
        if b'"@context"' not in document.body:
            return {}
        names = await self._tools.parse(contexts_of, document)
        return {name: await self._context(name, document.url) for name in names}

    async def _context(self, name: str, base: str, depth: int = 0) -> Any:
        url = join(parse(base), name).url
        if url in self.contexts:
            return self.contexts[url]["context"]
        if len(self.contexts) >= _MOST_CONTEXTS or depth > _MOST_CONTEXTS:
            raise SourceError(f"{redact(base)} needs more than {_MOST_CONTEXTS} JSON-LD contexts.")
        try:
            response = await self._client.get(
                url, accept="application/ld+json, application/json;q=0.9", max_bytes=_CONTEXT_BYTES
            )
        except FetchError as problem:
            raise SourceError(f"The JSON-LD context {redact(url)} is not available: {problem}") from problem
        if not response.ok:
            raise SourceError(f"The JSON-LD context {redact(url)} answered with status {response.status}.")
        # A context decides the meaning of every term, so a context that differs from the pinned one is an error.
        digest = hashlib.sha256(response.body).hexdigest()
        pin = self._options.contexts.get(url)
        if pin is not None and pin.lower() != digest:
            raise SourceError(
                f"The JSON-LD context {redact(url)} has changed: it should have the SHA-256 {pin}, and has {digest}. "
                "Nothing was read under it.",
                hint="If the change is intended, set the option contexts to the new one, and sync in full.",
            )
        content = read_json(response.body, url)
        context = content.get("@context", {}) if isinstance(content, dict) else {}
        several = context if isinstance(context, list) else [context]
        flat: list[Any] = []
        for part in several:
            inner = await self._context(part, response.url, depth + 1) if isinstance(part, str) else part
            flat += inner if isinstance(inner, list) else [inner]
        self.contexts[url] = self.fresh[url] = {"context": flat, "sha256": digest}
        return flat

    async def enter(self, *, shape: Topology | None) -> "Root":
        """Find the root page (LDES, section 4.1); `shape` replaces any shape that the stream declares."""
        page, stream = self._url, EventStream()
        for _ in range(_MOST_STEPS):
            response = await self.get(page)
            if not response.ok:
                kind = SourceGoneError if response.status in (404, 410) else SourceError
                hint = None
                if response.status in (401, 403):
                    hint = "If it needs a key, set a reference to it in the option headers."
                raise kind(f"{redact(page)} answered with status {response.status}.", hint=hint)
            document = body_of(response)
            contexts = await self.with_contexts(document)
            entry: StreamEntry = await self._tools.parse(read_entry, document, page, contexts)
            stream = _merge(stream, entry.stream)
            if entry.view is None:
                stream = await self._describe(stream, response.url)
                return Root(page, replace(stream, shape=shape or await self._shape(stream)), response)
            page = entry.view
        raise SourceError(f"{redact(self._url)} leads from view to view, and to no page.")

    async def _describe(self, stream: EventStream, root: str) -> EventStream:
        """Return the stream; if its page has no description, take it from the document at the stream's own URL."""
        if stream.name is None or stream.time or stream.version_of or not stream.name.startswith("http"):
            return stream
        own = stream.name.partition("#")[0]
        if own == root.partition("#")[0]:
            return stream
        try:
            document = await self.document(own)
            contexts = await self.with_contexts(document)
            return _merge(stream, await self._tools.parse(read_description, document, stream.name, root, contexts))
        except (FetchError, SourceError) as problem:
            log.warning("read %s without the description of its stream: %s", redact(root), problem)
            return stream

    async def _shape(self, stream: EventStream) -> Topology | None:
        """Return the shape of a stream; None if there is none.

        A shape in the options must be readable. A shape that only the stream declares may be missing.
        """
        if self._options.shape == "none":
            return None
        url = self._options.shape or stream.shape_url
        if url is None:
            return stream.shape
        try:
            document = await self.document(url.partition("#")[0])
            shape: Topology = await self._tools.parse(read_shape, document, url, await self.with_contexts(document))
        except (FetchError, SourceError) as problem:
            if self._options.shape:
                raise SourceError(
                    f"The shape {redact(url)} cannot be read: {problem} Nothing was harvested.", hint=_SHAPE_HINT
                ) from problem
            log.warning("read a stream without its shape: %s", problem)
            return stream.shape
        return shape

    async def shape_in_file(self) -> Topology | None:
        """Return the shape in the local file that the options name; None if they name no file."""
        path = self._options.shape_file
        if path is None:
            return None
        try:
            body = await asyncio.to_thread(read_regular, path, limit_bytes=_SHAPE_BYTES + 1)
            if len(body) > _SHAPE_BYTES:
                raise ValueError(f"it has more than {_SHAPE_BYTES:,} bytes")
        except (OSError, ValueError) as problem:
            why = (problem.strerror if isinstance(problem, OSError) else None) or problem
            raise _unreadable(path, f"{why}.") from None
        document = StreamBody(body, path.as_uri(), None, None)
        try:
            contexts = await self.with_contexts(document)
            shape: Topology = await self._tools.parse(read_shape, document, document.url, contexts)
        except FetchError as problem:
            raise _unreadable(path, str(problem)) from None
        except (SourceError, ItemError, ValueError):
            # The parser's message may quote the file, and all users can read the error of a run.
            raise _unreadable(path, "it holds no SHACL shape that can be read.") from None
        return shape


def _unreadable(path: Path, why: str) -> SourceError:
    return SourceError(f"The shape in {path} cannot be read: {why} Nothing was requested.", hint=_SHAPE_HINT)


def body_of(response: Response) -> StreamBody:
    """Return the body of a response, with its URL, media type and charset."""
    return StreamBody(response.body, response.url, response.media_type, response.charset)


class Root(NamedTuple):
    """The root page of a stream, with its response, so that the page need not be requested again."""

    page: str
    stream: EventStream
    response: Response


def _merge(stream: EventStream, other: EventStream) -> EventStream:
    """Return the description of a stream, with missing fields taken from `other`."""
    default = EventStream()
    names = [name for name in EventStream.__slots__ if getattr(stream, name) == getattr(default, name)]
    return replace(stream, **{name: getattr(other, name) for name in names})
