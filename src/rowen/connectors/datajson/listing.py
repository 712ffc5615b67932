"""Reading a data.json as it comes in: record by record, page by page where it has pages."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from pydantic import Field

from rowen.connectors.base import Known
from rowen.connectors.catalog.hash_sets import HashSet
from rowen.connectors.catalog.listing import Listing, ListingPage, Row, Tokens
from rowen.connectors.catalog.options import DocumentOptions
from rowen.connectors.datajson.naming import is_record, name_of, names_in
from rowen.connectors.datajson.record import dataset_of
from rowen.connectors.unread import unread_url
from rowen.errors import SourceError, SourceGoneError
from rowen.fetch.client import Client
from rowen.fetch.credentials import Credentials
from rowen.fetch.response import Response, Stream, next_link
from rowen.formats.errors import UnreadableError
from rowen.formats.json import payload_of
from rowen.formats.json_records import MOST_RECORD_BYTES, Cut, Splitter
from rowen.model.item import Failed, Fetched
from rowen.model.outside import attempt

__all__ = ["DataJsonListing", "DataJsonOptions"]

LONGEST_S = 3600.0
"""In an hour, the largest document that is read by default (1 GB) comes in at 300 kB/s."""

MOST_PAGES = 10_000
"""A million records at a hundred a page. A choice: what goes on for longer is taken for a loop."""

_MEND = "Its publisher has to mend it; the next sync reads it."
_LISTS = frozenset({"dataset", "datasetSeries", "service"})
_CATALOGS = frozenset({"catalog"})
_ROUND = 100  # pages have a round number of records; one more request is the price of a document that has so as well
_AT_A_TIME = 100  # a broken record takes up to 0.1 ms: others wait 10 ms at most
_SAME = 20  # a page that begins with so many records of the one before is the same document again
_PAGE_ROWS, _PAGE_BYTES = 200, 1 << 20  # handed on together: more would wait in memory, fewer cost a look-up each
_MOST_PAYLOAD_BYTES = 1 << 20  # what quarantine keeps of a record


class DataJsonOptions(DocumentOptions):
    """Options of kind `datajson`."""

    # It is read while it comes in and never held whole: this is a limit on patience, not on memory.
    max_bytes: int = Field(default=1 << 30, gt=0, description="largest document that is read")


@dataclass(slots=True)
class _DocumentPass:
    """One pass over a document: `unique` records on `pages`; broken pieces may hide the items `hidden`."""

    unique: int = 0
    pages: int = 0
    seen: HashSet = field(default_factory=HashSet)
    failed: dict[str, Failed] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)

    def add(self, url: str) -> bool:
        """Whether the item is new here."""
        is_new = self.seen.add(url)
        self.unique += is_new
        return is_new


class DataJsonListing(Listing):
    """The records of a document."""

    version = 2

    def __init__(self, client: Client, url: str, options: DataJsonOptions, known: Known) -> None:
        client.pace(url, delay_s=options.delay_s)
        self._client = client
        self._url = url
        self._options = options
        self._known = known
        self._credentials = Credentials.of(url, options.headers)

    async def pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """All records, some at a time, or none if the document is the one that the tokens are of."""
        current = _DocumentPass()
        rows: list[Row] = []
        waiting_bytes = 0
        try:
            async with aclosing(self._documents(current, tokens)) as records:
                async for row, size_bytes in records:
                    rows.append(row)
                    waiting_bytes += size_bytes
                    if len(rows) >= _PAGE_ROWS or waiting_bytes > _PAGE_BYTES:
                        yield ListingPage(rows)
                        rows, waiting_bytes = [], 0
        except UnreadableError as problem:
            yield ListingPage(rows, doubt=f"{problem} {problem.hint or ''}".strip())
            return
        if current.pages > 1:
            self.tokens = None
        if not self.not_modified:
            yield ListingPage([*rows, *await self._hidden(current)])

    async def count(self, since: datetime | None = None) -> int | None:
        """Nothing that could be asked."""
        return None

    async def _hidden(self, current: _DocumentPass) -> list[Row]:
        """The items that are missing, and named in a broken record: two that are broken in a row look like one."""
        missing = [url for url in sorted(current.hidden) if url not in current.seen]
        held = await self._known.look_up(missing) if missing else {}
        return [Row(Failed(url, "It is missing, but named within a broken record.", _MEND)) for url in held]

    async def _documents(self, current: _DocumentPass, tokens: Tokens | None) -> AsyncGenerator[tuple[Row, int]]:
        """The records of one document after the other, each with its size."""
        following: str | None = tokens.url if tokens else self._url
        asked: set[str] = set()
        while following is not None and following not in asked:
            asked.add(following)
            before = current.unique
            url, following = following, None
            async with AsyncExitStack() as stack:
                try:
                    stream = await stack.enter_async_context(self._open(url, tokens if not current.pages else None))
                    is_over = self._is_over(stream.head, current.pages)
                except SourceError:
                    if current.pages or url == self._url:
                        raise
                    # The document is no longer where it had moved to.
                    following, tokens = self._url, None
                    continue
                if is_over:
                    return
                following = _after(url, stream.head)
                async with aclosing(self._records(stream, current)) as records:
                    async for record in records:
                        yield record
            if current.pages and current.unique == before:
                return
            current.pages += 1
            if current.pages >= MOST_PAGES:
                raise SourceError(f"{self._url} does not end: {current.pages} pages were read.")
            following = following or _guess(url, current)

    def _open(self, url: str, tokens: Tokens | None) -> AbstractAsyncContextManager[Stream]:
        return self._client.stream(
            url,
            etag=tokens.etag if tokens else None,
            last_modified=tokens.last_modified if tokens else None,
            credentials=self._credentials,
            accept="application/json, */*;q=0.5",
            max_bytes=self._options.max_bytes,
            limit_s=LONGEST_S,
        )

    def _is_over(self, head: Response, pages: int) -> bool:
        """Whether there is nothing to read: no news, or no further page."""
        self.not_modified = head.not_modified
        if head.not_modified:
            return True
        if not head.ok and not pages:
            kind = SourceGoneError if head.status in (404, 410) else SourceError
            raise kind(f"{self._url} answered with status {head.status}.")
        if not head.ok and head.status not in (400, 404, 410):
            raise SourceError(f"Page {pages + 1} of {self._url} answered with status {head.status}.")
        is_lasting = not head.redirects or head.moved_to == head.url
        if not pages and is_lasting and (head.etag or head.last_modified):
            self.tokens = Tokens(head.url, head.etag, head.last_modified)
        return not head.ok

    async def _records(self, stream: Stream, current: _DocumentPass) -> AsyncGenerator[tuple[Row, int]]:
        splitter = Splitter(_LISTS, _CATALOGS, most_bytes=MOST_RECORD_BYTES, is_record=is_record)
        before = current.unique
        repeated: list[tuple[Row, int]] = []
        async with aclosing(_cuts(stream, splitter)) as cuts:
            async for cut in cuts:
                record = self._row(cut, current), len(cut.body)
                if current.pages and current.unique == before:
                    repeated.append(record)
                    if len(repeated) == _SAME:
                        # The site knows no pages.
                        return
                    continue
                for one in [*repeated, record]:
                    yield one
                repeated = []
        splitter.close()
        if not splitter.found:
            raise UnreadableError(f"{self._url} is JSON, but holds no list of datasets.")

    def _row(self, cut: Cut, current: _DocumentPass) -> Row:
        """What a record amounts to. The first of two with one identifier counts; the flow counts the second."""
        row = self._read(cut, current)
        if row.url in current.failed:
            return Row(current.failed[row.url])
        if isinstance(row.seen, Failed):
            # Where the item was read already, this is about none of ours.
            failed = replace(row.seen, url=self._nowhere(cut)) if row.url in current.seen else row.seen
            current.failed[failed.url] = replace(failed, payload=None)
            row = row._replace(seen=failed)
        current.add(row.url)
        return row

    def _read(self, cut: Cut, current: _DocumentPass) -> Row:
        if not cut.whole:
            return self._unread(cut, "it is too large", current)
        if cut.problem is not None:
            return self._unread(cut, cut.problem, current)
        if not isinstance(cut.value, Mapping):
            return self._unread(cut, "it is no object", current)
        record, language = cut.value, self._options.language
        return attempt(
            lambda: Row(Fetched(dataset_of(record, self._url, language=language).document(language=language))),
            lambda why: self._unread(cut, why, current),
        )

    def _unread(self, cut: Cut, why: str, current: _DocumentPass) -> Row:
        name = name_of(cut.body, cut.value, self._url)
        if cut.problem is not None:
            current.hidden |= names_in(cut.body, self._url)
        error = f"Record {cut.number}, at byte {cut.offset}, cannot be read: {why.rstrip('.')}."
        payload = payload_of(cut.value) if isinstance(cut.value, Mapping) else cut.body[:_MOST_PAYLOAD_BYTES]
        return Row(Failed(name or self._nowhere(cut), error, _MEND, payload), named=name is not None)

    def _nowhere(self, cut: Cut) -> str:
        return unread_url(self._url, cut.body)


def _after(url: str, head: Response) -> str | None:
    found = next_link(head.headers.get("Link", ""))
    return urljoin(url, found) if found else None


def _guess(url: str, current: _DocumentPass) -> str | None:
    """The next page by number, where pages are likely: after a round number of records, or after another page."""
    if current.pages == 1 and (current.unique % _ROUND or not current.unique):
        return None
    parts = urlsplit(url)
    query = [(name, value) for name, value in parse_qsl(parts.query) if name != "page"]
    numbered = urlencode([*query, ("page", str(current.pages + 1))], errors="surrogatepass")
    return urlunsplit(parts._replace(query=numbered))


async def _cuts(stream: Stream, splitter: Splitter) -> AsyncGenerator[Cut]:
    """The records as they come in; others have their turn in between."""
    async for piece in stream:
        for number, cut in enumerate(splitter.feed(piece)):
            yield cut
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
    for cut in splitter.finish():
        yield cut
