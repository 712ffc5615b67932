"""One look at a feed: its document, and the older ones that it leads to."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

from rowen.connectors.base import Held, Known, Tools
from rowen.connectors.feed.cursor import FeedCursor, Stretch
from rowen.connectors.feed.document import FeedDocument
from rowen.connectors.feed.entry import FeedEntry, resolved
from rowen.connectors.feed.json_feed import read_json_feed
from rowen.connectors.feed.options import FeedOptions
from rowen.connectors.feed.pages import LinkedPages
from rowen.connectors.feed.xml_feed import read_xml_feed
from rowen.errors import FetchError, ItemError, SourceError, SourceGoneError
from rowen.model.item import Checkpoint, Complete, Fetched, Gone, Incomplete, Observation, Skipped, Unchanged
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Response
from rowen.net.target import redact

__all__ = ["FeedWalk"]

ACCEPT = (
    "application/atom+xml, application/rss+xml, application/feed+json, application/rdf+xml;q=0.8, "
    "application/xml;q=0.7, text/xml;q=0.7, application/json;q=0.6, */*;q=0.1"
)
MOST_DOCUMENTS = 10_000
"""A day's archive for 27 years. A feed that leads on and on is left there, and the run is partial."""

_GONE = frozenset({404, 410})


class FeedWalk:
    """One run over one feed. What it says of entries that we hold is proved by their digests."""

    def __init__(self, url: str, options: FeedOptions, tools: Tools, *, known: Known, client: Client) -> None:
        client.pace(url, delay_s=options.delay_s)
        self._url = url
        self._options = options
        self._known = known
        self._client = client
        self._credentials = Credentials.of(url, options.headers)
        self._pages = LinkedPages(client, options, tools) if options.content == "page" else None
        self._memory = FeedCursor.of(known.cursor)
        self._met: set[str] = set()
        self._trouble: str | None = None
        self._resumable = True
        self._overlaps = False
        self._tools = tools

    async def observations(self) -> AsyncGenerator[Observation]:
        """What the feed shows that we do not hold, then what its archives hold, if they were never read."""
        top = await self._top()
        if top is not None:
            async for seen in self._told(top, is_top=True):
                yield seen
            self._note(top)
        if self._options.archives:
            older = self._archives() if self._memory.older else self._further(top)
            async for seen in older:
                yield seen
        if top is not None and self._known.failed:
            for seen in await self._released():
                yield seen
        if self._trouble:
            # What was not read would hide behind an unchanged document.
            self._memory.etag = self._memory.last_modified = None
        if self._moved:
            yield Checkpoint(self._memory.to_cursor())
        yield Incomplete(self._trouble) if self._trouble else Complete(keeps_unseen=True)

    @property
    def _moved(self) -> bool:
        return self._memory != FeedCursor.of(self._known.cursor) or self._known.cursor is None

    def _note(self, top: FeedDocument) -> None:
        self._memory.hubs, self._memory.topic = list(top.hubs), top.topic
        self._memory.older = top.older

    async def _top(self) -> FeedDocument | None:
        """The feed's own document; None if it is the one that we hold. What failed is asked for again."""
        memory = self._memory
        is_asked_anew = bool(self._known.failed)
        response = await self._client.get(
            self._url,
            etag=None if is_asked_anew else memory.etag,
            last_modified=None if is_asked_anew else memory.last_modified,
            accept=ACCEPT,
            credentials=self._credentials,
            max_bytes=self._options.max_bytes,
        )
        if response.not_modified:
            return None
        self._check(response)
        document = await self._read(response)
        document.link_headers(response.headers.getall("Link", []), lambda href: resolved(response.url, href))
        holds = document.trouble is None and not response.redirects
        memory.etag = response.etag if holds else None
        memory.last_modified = response.last_modified if holds else None
        return document

    def _check(self, response: Response) -> None:
        if response.ok:
            return
        if response.status in (401, 403):
            raise SourceError(
                f"{redact(self._url)} refused the request (status {response.status}).",
                hint="If it wants a key, name where that is found in the option headers, as env:NAME or file:/path.",
            )
        kind = SourceGoneError if response.status in _GONE else SourceError
        raise kind(f"{redact(self._url)} answered with status {response.status}. What it showed before is kept.")

    async def _read(self, response: Response) -> FeedDocument:
        """The document in a body; XML, which may have to be mended, is read in a worker process."""
        start = response.body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if start in (b"{", b"["):
            return await asyncio.to_thread(read_json_feed, response.body, self._url, response.url)
        body, charset = response.body, response.charset
        try:
            document: FeedDocument = await self._tools.parse(read_xml_feed, body, self._url, response.url, charset)
        except ItemError as problem:
            raise SourceError(f"{redact(response.url)} cannot be read: {problem}", hint=problem.hint) from problem
        return document

    async def _told(self, document: FeedDocument, *, is_top: bool = False) -> AsyncGenerator[Observation]:
        """What a document says of its entries."""
        urls = [*(entry.url for entry in document.entries), *(deletion.url for deletion in document.deleted)]
        held = await self._known.look_up(urls)
        self._overlaps = any(url not in self._met for url in held)
        self._resumable = self._resumable and not document.deleted and all(entry.stamp for entry in document.entries)
        for failed in document.failed:
            self._met.add(failed.url)
            yield failed
        for entry in document.entries:
            if entry.url in self._met:
                continue
            self._met.add(entry.url)
            before = held.get(entry.url)
            if is_top or not _is_later(before, entry.stamp):
                seen = await self._look(entry, before)
                if isinstance(seen, Skipped):
                    self._trouble = seen.why
                yield seen
        for deletion in document.deleted:
            before = held.get(deletion.url)
            if deletion.url not in self._met and before is not None and not _is_later(before, deletion.stamp):
                yield Gone(deletion.url, "The feed says that it was deleted.")
            self._met.add(deletion.url)
        if document.trouble:
            self._trouble = self._trouble or f"{redact(self._url)} is broken: {document.trouble}"

    async def _look(self, entry: FeedEntry, before: Held | None) -> Observation:
        if before is not None and before.etag == entry.digest:
            return Unchanged(entry.url)
        if self._pages is not None and entry.link:
            return await self._pages.look(entry)
        return Fetched(entry.raw(language=self._options.language))

    async def _archives(self) -> AsyncGenerator[Observation]:
        """RFC 5005, section 4: from the newest archive to the oldest, except those that were read before.

        The walk can go on where it was interrupted if all entries tell when they changed, and none was deleted: only
        then is it known which of two versions is the later one.
        """
        memory, before, url = self._memory, list(self._memory.stretches), self._memory.older
        current = Stretch(url or "", url)
        visited: set[str] = set()
        while (url := current.then) is not None and url not in visited:
            if (walked := memory.walked(url)) is not None:
                memory.stretches.remove(walked)
                current.then = walked.then
                continue
            visited.add(url)
            document = await self._older(url, len(visited))
            if document is None:
                memory.stretches = [current, *memory.stretches] if self._resumable else before
                return
            async for seen in self._told(document):
                yield seen
            current.then = document.older
            if self._resumable and current.then is not None:
                yield Checkpoint(replace(memory, stretches=[current, *memory.stretches]).to_cursor())
        memory.stretches = [Stretch(current.newest, None)]

    async def _further(self, top: FeedDocument | None) -> AsyncGenerator[Observation]:
        """RFC 5005, section 3: all pages at first; later those up to one of which we hold something."""
        visited, document = {self._url}, top
        while document is not None and document.following and document.following not in visited:
            if self._memory.paged and self._overlaps:
                return
            visited.add(document.following)
            document = await self._older(document.following, len(visited))
            if document is not None:
                async for seen in self._told(document):
                    yield seen
        self._memory.paged = self._memory.paged or (top is not None and self._trouble is None)

    async def _older(self, url: str, number: int) -> FeedDocument | None:
        if number > MOST_DOCUMENTS:
            self._trouble = f"{redact(self._url)} leads to more than {MOST_DOCUMENTS} older documents."
            return None
        return await self._document(url)

    async def _document(self, url: str) -> FeedDocument | None:
        """An older document; None if it is gone, or not to be had now, which makes the run partial."""
        try:
            response = await self._client.get(
                url, accept=ACCEPT, credentials=self._credentials, max_bytes=self._options.max_bytes
            )
            if response.status in _GONE:
                return FeedDocument()
            self._check(response)
            document = await self._read(response)
        except (FetchError, SourceError) as problem:
            self._trouble = f"An older part of the feed cannot be read: {problem}"
            return None
        return document

    async def _released(self) -> list[Observation]:
        """What failed before and is no longer shown: its last good copy stays, if there is one."""
        urls = [one.url for one in self._known.failed if one.url not in self._met]
        held = await self._known.look_up(urls)
        return [Unchanged(url) if url in held else Gone(url, "The feed no longer shows it.") for url in urls]


def _is_later(before: Held | None, stamp: str | None) -> bool:
    """Whether what we hold was changed after this."""
    at = before.last_modified if before is not None else None
    return at is not None and stamp is not None and at > stamp
