"""One run over a feed: read its document, its older documents and, if selected, the pages of its entries."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from rowen.connectors.base import Known, Options, StoredState, Tools, parse_stored
from rowen.connectors.feed.document import FeedDocument, FeedEntry, read_json_feed, resolved
from rowen.connectors.feed.xml_feed import read_xml_feed
from rowen.errors import BodyTooLargeError, CircuitOpenError, FetchError, ItemError, SourceError, SourceGoneError
from rowen.model.items import (
    Checkpoint,
    Complete,
    Failed,
    Fetched,
    Gone,
    Incomplete,
    Observation,
    Raw,
    Skipped,
    Unchanged,
    Validators,
)
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Response
from rowen.net.robots import Robots
from rowen.net.target import redact

ACCEPT = (
    "application/atom+xml, application/rss+xml, application/feed+json, application/rdf+xml;q=0.8, "
    "application/xml;q=0.7, text/xml;q=0.7, application/json;q=0.6, */*;q=0.1"
)
_ACCEPT_PAGES = "text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.8,*/*;q=0.5"
# Daily archives for 27 years. If a feed has more older documents, the run stops there and is partial.
MOST_DOCUMENTS = 10_000


class FeedOptions(Options):
    """Options of a feed. Raise `record_version` when the record of an entry changes its form."""

    record_version: ClassVar[int] = 1

    secret_neutral: ClassVar[frozenset[str]] = Options.secret_neutral | {"content", "archives", "robots"}

    content: Literal["entry", "page"] = Field(
        default="entry", description="store the content of an entry itself, or the page that it links to"
    )
    archives: bool = Field(default=True, description="walk the older documents of a paged or archived feed, once")
    robots: bool = Field(default=True, description="obey robots.txt for linked pages")
    headers: dict[str, str] = Field(
        default_factory=dict, description="headers to send; env:NAME and file:PATH are references"
    )
    delay_s: float | None = Field(default=None, ge=0, description="pause between requests, instead of the setting's")
    # The largest known feeds have 10 MB, with complete articles; a feed of four times that size is an error.
    max_bytes: int = Field(default=40 << 20, ge=1, description="maximum size of a document")

    def reading(self) -> dict[str, Any]:
        """Return the options that decide how an entry is read, and whether the linked page is read instead."""
        pages = self.chosen("max_bytes", "robots") if self.content == "page" else {}
        return {"content": self.content, "language": self.language, "entries": self.record_version, **pages}

    def listing(self) -> dict[str, Any]:
        """Return the options whose change requires reading the archives again."""
        return {**self.reading(), "archives": self.archives, "headers": self.headers}


@dataclass(slots=True)
class Stretch:
    """A range of archives that were read, from `newest` to before `then`; `then` is None if no archive remains."""

    newest: str
    then: str | None


@dataclass(slots=True)
class FeedCursor:
    """The cursor. `older` is the newest archive that the feed links to; `paged` is true once all pages were read."""

    etag: str | None = None
    last_modified: str | None = None
    hubs: list[str] = field(default_factory=list)
    topic: str | None = None
    older: str | None = None
    stretches: list[Stretch] = field(default_factory=list)
    paged: bool = False

    @classmethod
    def of(cls, cursor: Any) -> "FeedCursor":
        """Return the stored cursor; an empty cursor if none is stored or it cannot be read."""
        return parse_stored(cursor, cls) or cls()

    def checkpoint(self) -> Checkpoint:
        """Return a checkpoint with this cursor."""
        return Checkpoint(asdict(self))


class FeedWalk:
    """One run over one feed. An entry is unchanged if its digest equals the stored digest."""

    def __init__(self, url: str, options: FeedOptions, tools: Tools, *, known: Known, client: Client) -> None:
        client.pace(url, delay_s=options.delay_s)
        self._url = url
        self._options = options
        self._known = known
        self._client = client
        self._credentials = Credentials.of(url, options.headers)
        self._robots = Robots(client) if options.robots else None
        self._memory = FeedCursor.of(known.cursor)
        self._met: set[str] = set()
        self._trouble: str | None = None
        self._resumable = True
        self._overlaps = False
        self._tools = tools

    async def observations(self) -> AsyncGenerator[Observation]:
        """Yield the observations of the feed, then of its archives or pages that were not read before."""
        memory = self._memory
        top = await self._top()
        if top is not None:
            async for observation in self._entries(top, is_top=True):
                yield observation
            memory.hubs, memory.topic, memory.older = list(top.hubs), top.topic, top.older
        if self._options.archives:
            async for observation in self._archives() if memory.older else self._pages(top):
                yield observation
        if top is not None and self._known.failed:
            # A failed entry that the feed no longer shows keeps its last good copy, if there is one.
            urls = [item.url for item in self._known.failed if item.url not in self._met]
            stored = await self._known.look_up(urls)
            for url in urls:
                yield Unchanged(url) if url in stored else Gone(url, "The feed no longer shows it.")
        if self._trouble:
            # Otherwise a 304 would hide the entries that were not read.
            memory.etag = memory.last_modified = None
        if self._known.cursor is None or memory != FeedCursor.of(self._known.cursor):
            yield memory.checkpoint()
        yield Incomplete(self._trouble) if self._trouble else Complete(keeps_unseen=True)

    async def _top(self) -> FeedDocument | None:
        """Return the feed's own document; None if it is unchanged. A run with failed items always requests the body."""
        memory = self._memory
        etag, last_modified = (None, None) if self._known.failed else (memory.etag, memory.last_modified)
        response = await self._get(self._url, etag=etag, last_modified=last_modified)
        if response.not_modified:
            return None
        self._check(response)
        document = await self._read(response)
        document.link_headers(response.headers.getall("Link", []), lambda href: resolved(response.url, href))
        memory.etag = memory.last_modified = None
        if document.trouble is None and not response.redirects:
            memory.etag, memory.last_modified = response.etag, response.last_modified
        return document

    async def _get(self, url: str, *, etag: str | None = None, last_modified: str | None = None) -> Response:
        return await self._client.get(
            url,
            etag=etag,
            last_modified=last_modified,
            accept=ACCEPT,
            credentials=self._credentials,
            max_bytes=self._options.max_bytes,
        )

    def _check(self, response: Response) -> None:
        if response.ok:
            return
        if response.status in (401, 403):
            raise SourceError(
                f"{redact(self._url)} refused the request (status {response.status}).",
                hint="If it needs a key, set a reference to it in the option headers: env:NAME or file:/path.",
            )
        kind = SourceGoneError if response.status in (404, 410) else SourceError
        raise kind(f"{redact(self._url)} answered with status {response.status}. Its stored entries are kept.")

    async def _read(self, response: Response) -> FeedDocument:
        """Parse the document in a response; XML is parsed in a worker process, since it may need repair."""
        start = response.body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if start in (b"{", b"["):
            return await asyncio.to_thread(read_json_feed, response.body, self._url, response.url)
        body, charset = response.body, response.charset
        try:
            document: FeedDocument = await self._tools.parse(read_xml_feed, body, self._url, response.url, charset)
        except ItemError as problem:
            raise SourceError(f"{redact(response.url)} cannot be read: {problem}", hint=problem.hint) from problem
        return document

    async def _entries(self, document: FeedDocument, *, is_top: bool = False) -> AsyncGenerator[Observation]:
        """Yield the observations of a document's entries."""
        urls = [*(entry.url for entry in document.entries), *(deletion.url for deletion in document.deleted)]
        stored = await self._known.look_up(urls)
        self._overlaps = any(url not in self._met for url in stored)
        self._resumable = self._resumable and not document.deleted and all(entry.stamp for entry in document.entries)
        for failed in document.failed:
            self._met.add(failed.url)
            yield failed
        for entry in document.entries:
            if entry.url in self._met:
                continue
            self._met.add(entry.url)
            before = stored.get(entry.url)
            if is_top or not _is_later(before, entry.stamp):
                if before is not None and before.etag == entry.digest:
                    yield Unchanged(entry.url)
                elif self._options.content == "page" and entry.link:
                    observation = await self._page(entry, entry.link)
                    if isinstance(observation, Skipped):
                        self._trouble = observation.why
                    yield observation
                else:
                    yield Fetched(entry.raw(language=self._options.language))
        for deletion in document.deleted:
            before = stored.get(deletion.url)
            if deletion.url not in self._met and before is not None and not _is_later(before, deletion.stamp):
                yield Gone(deletion.url, "The feed lists it as deleted.")
            self._met.add(deletion.url)
        if document.trouble:
            self._trouble = self._trouble or f"{redact(self._url)} is broken: {document.trouble}"

    async def _page(self, entry: FeedEntry, link: str) -> Fetched | Failed | Skipped:
        """Read the page that an entry links to, and combine it with the entry's record and validators."""
        try:
            if self._robots is not None and not await self._robots.allows(link):
                why = f"robots.txt does not allow us to request {redact(link)}."
                return Failed(entry.url, why, hint="Set the option content=entry.", keeps_copy=False)
            response = await self._client.get(link, accept=_ACCEPT_PAGES, max_bytes=self._options.max_bytes)
            if not response.ok:
                return Failed(entry.url, f"{redact(link)} answered with status {response.status}.")
            page = await self._tools.read(
                Raw(
                    response.url,
                    response.body,
                    media_type=response.media_type,
                    charset=response.charset,
                    title=entry.heading,
                    language=self._options.language,
                )
            )
        except CircuitOpenError as problem:
            return Skipped(entry.url, str(problem))
        except (FetchError, ItemError) as problem:
            keeps_copy = not isinstance(problem, BodyTooLargeError)
            return Failed(entry.url, str(problem), problem.hint, keeps_copy=keeps_copy)
        return Fetched(
            replace(
                page,
                url=entry.url,
                title=entry.title or page.title,
                tags=(*entry.tags, *page.tags),
                language=page.language or entry.language,
                record={**page.record, **entry.record, "page": response.url},
                validators=Validators(entry.digest, entry.stamp),
            )
        )

    async def _archives(self) -> AsyncGenerator[Observation]:
        """Read the archives that were not read before, from the newest to the oldest (RFC 5005, section 4).

        An interrupted walk is resumed only if all entries have a time of change and the document lists no deletion.
        Otherwise it is unknown which of two versions of an entry is later.
        """
        memory, before, url = self._memory, list(self._memory.stretches), self._memory.older
        current = Stretch(url or "", url)
        visited: set[str] = set()
        # The stretches before the first broken archive; the next run reads from there again.
        readable: list[Stretch] | None = None
        while (url := current.then) is not None and url not in visited:
            if (walked := next((stretch for stretch in memory.stretches if stretch.newest == url), None)) is not None:
                memory.stretches.remove(walked)
                current.then = walked.then
                continue
            visited.add(url)
            document = await self._older(url, len(visited))
            if document is None:
                read = [current, *memory.stretches] if self._resumable else before
                memory.stretches = read if readable is None else readable
                return
            async for observation in self._entries(document):
                yield observation
            if document.trouble and readable is None:
                readable = [replace(current), *memory.stretches] if self._resumable else before
            current.then = document.older
            if self._resumable and current.then is not None and readable is None:
                yield replace(memory, stretches=[current, *memory.stretches]).checkpoint()
        memory.stretches = [Stretch(current.newest, None)] if readable is None else readable

    async def _pages(self, top: FeedDocument | None) -> AsyncGenerator[Observation]:
        """Read all pages in the first run; later stop at a page with a stored entry (RFC 5005, section 3)."""
        visited, document = {self._url}, top
        while document is not None and document.following and document.following not in visited:
            if self._memory.paged and self._overlaps:
                return
            visited.add(document.following)
            document = await self._older(document.following, len(visited))
            if document is not None:
                async for observation in self._entries(document):
                    yield observation
        self._memory.paged = self._memory.paged or (top is not None and self._trouble is None)

    async def _older(self, url: str, number: int) -> FeedDocument | None:
        """Return an older document; None if it cannot be read now, which makes the run partial."""
        if number > MOST_DOCUMENTS:
            self._trouble = f"{redact(self._url)} links to more than {MOST_DOCUMENTS} older documents."
            return None
        try:
            response = await self._get(url)
            if response.status in (404, 410):
                return FeedDocument()
            self._check(response)
            return await self._read(response)
        except (FetchError, SourceError) as problem:
            self._trouble = f"An older part of the feed cannot be read: {problem}"
            return None


def _is_later(before: StoredState | None, stamp: str | None) -> bool:
    """Return whether the stored version of an entry was changed after `stamp`."""
    at = before.last_modified if before is not None else None
    return at is not None and stamp is not None and at > stamp
