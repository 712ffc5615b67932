"""Reading a data.json as it comes in: record by record, page by page where it has pages."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from rowen.connectors.catalog.bounds import Bounds
from rowen.connectors.catalog.strangers import Strangers
from rowen.connectors.datajson.naming import is_record, name_of, names_in
from rowen.connectors.datajson.options import DataJsonOptions
from rowen.connectors.datajson.record import dataset_of
from rowen.errors import SourceError, SourceGoneError
from rowen.fetch.client import Client
from rowen.fetch.credentials import Credentials
from rowen.fetch.links import next_link
from rowen.fetch.response import Response, Stream
from rowen.formats.errors import UnreadableError
from rowen.formats.json import payload_of
from rowen.formats.json_records import MOST_RECORD_BYTES, Cut, Splitter
from rowen.model.hashes import body_hash
from rowen.model.item import Failed, Fetched
from rowen.model.outside import attempt
from rowen.model.url import key

__all__ = ["MEND", "Document", "Validators"]

MEND = "Its publisher has to mend it; the next sync reads it."

LONGEST_S = 3600.0
MOST_PAGES = 10_000
_LISTS = frozenset({"dataset", "datasetSeries", "service"})
_CATALOGS = frozenset({"catalog"})
_ROUND = 100
# A broken record takes up to 0.1 ms.
_AT_A_TIME = 100
_SAME = 20
_MOST_PAYLOAD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Validators:
    """The tokens of a document, and the address that they came from."""

    url: str
    etag: str | None
    last_modified: str | None


class Document:
    """One reading of a document. `unique` counts its records, those left out that are there twice.

    `failed` holds those that could not be read; `strangers` are those among them that may be any item. Broken
    pieces speak of items that they may have `swallowed`.
    """

    def __init__(self, client: Client, url: str, options: DataJsonOptions, *, before: int | None = None) -> None:
        self.unique = 0
        self.failed: dict[int, Failed] = {}
        self.strangers = Strangers()
        self.swallowed: set[str] = set()
        self.pages = 0
        self.not_modified = False
        self.validators: Validators | None = None
        self._client = client
        self._url = url
        self._options = options
        self._credentials = Credentials.of(url, options.headers)
        self._seen: set[int] = set()
        self._bounds = Bounds(options, before)

    async def records(self, held: Validators | None) -> AsyncGenerator[Fetched | Failed]:
        """What the document says, all of it, or nothing if it is the one that we hold."""
        following: str | None = held.url if held else self._url
        asked: set[str] = set()
        while following is not None and following not in asked:
            asked.add(following)
            before = self.unique
            url, following = following, None
            async with AsyncExitStack() as stack:
                try:
                    stream = await stack.enter_async_context(self._open(url, held if not self.pages else None))
                    is_over = self._is_over(stream.head)
                except SourceError:
                    if self.pages or url == self._url:
                        raise
                    # The document is no longer where it had moved to.
                    following, held = self._url, None
                    continue
                if is_over:
                    return
                following = self._after(url, stream.head)
                async with aclosing(self._read(stream)) as records:
                    async for record in records:
                        yield record
            if self.pages and self.unique == before:
                return
            self.pages += 1
            if self.pages >= MOST_PAGES:
                raise SourceError(f"{self._url} does not end: {self.pages} pages were read.")
            following = following or self._guess(url)

    def _open(self, url: str, held: Validators | None) -> Any:
        return self._client.stream(
            url,
            etag=held.etag if held else None,
            last_modified=held.last_modified if held else None,
            credentials=self._credentials,
            accept="application/json, */*;q=0.5",
            max_bytes=self._options.max_bytes,
            limit_s=LONGEST_S,
        )

    def _is_over(self, head: Response) -> bool:
        """Whether there is nothing to read: no news, or no further page."""
        self.not_modified = head.not_modified
        if head.not_modified:
            return True
        if not head.ok and not self.pages:
            kind = SourceGoneError if head.status in (404, 410) else SourceError
            raise kind(f"{self._url} answered with status {head.status}.", hint="Nothing was deleted.")
        if not head.ok and head.status not in (400, 404, 410):
            raise SourceError(f"Page {self.pages + 1} of {self._url} answered with status {head.status}.")
        if not self.pages and (not head.redirects or head.moved_to == head.url):
            self.validators = Validators(head.url, head.etag, head.last_modified)
        return not head.ok

    def shows(self, url: str) -> bool:
        """Whether an item was among the records."""
        return _mark(url) in self._seen

    def fail(self, failed: Failed) -> Failed:
        """Note an item that is there, but cannot be read."""
        mark = _mark(failed.url)
        self.failed[mark] = replace(failed, payload=None)
        self._note(mark)
        return failed

    def _note(self, mark: int) -> None:
        self.unique += mark not in self._seen
        self._seen.add(mark)

    async def _read(self, stream: Stream) -> AsyncGenerator[Fetched | Failed]:
        splitter = Splitter(_LISTS, _CATALOGS, most_bytes=MOST_RECORD_BYTES, is_record=is_record)
        before = self.unique
        repeated: list[Fetched | Failed] = []
        async with aclosing(_cuts(stream, splitter)) as cuts:
            async for cut in cuts:
                record = self._observe(cut)
                if why := self._bounds.exceeded(self.unique, None):
                    raise UnreadableError(why)
                if self.pages and self.unique == before:
                    repeated.append(record)
                    if len(repeated) == _SAME:
                        # A page that begins with what we have is the document again: the site knows no pages.
                        return
                    continue
                for one in [*repeated, record]:
                    yield one
                repeated = []
        splitter.close()
        if not splitter.found:
            raise UnreadableError(f"{self._url} is JSON, but holds no list of datasets.", hint="Nothing was deleted.")

    def _observe(self, cut: Cut) -> Fetched | Failed:
        """What a record amounts to. The first of two with one identifier counts; the flow counts the second."""
        record = self._judge(cut)
        mark = _mark(record.item.url if isinstance(record, Fetched) else record.url)
        if mark in self.failed:
            return self.failed[mark]
        if isinstance(record, Failed):
            # Where the item was read already, this is about none of ours.
            return self.fail(replace(record, url=self._nowhere(cut.body)) if mark in self._seen else record)
        self._note(mark)
        return record

    def _judge(self, cut: Cut) -> Fetched | Failed:
        if not cut.whole:
            return self._unread(cut, "it is too large")
        if cut.problem is not None:
            return self._unread(cut, cut.problem)
        if not isinstance(cut.value, Mapping):
            return self._unread(cut, "it is no object")
        record, language = cut.value, self._options.language
        return attempt(
            lambda: Fetched(dataset_of(record, self._url, language=language).document(language=language)),
            lambda why: self._unread(cut, why),
        )

    def _unread(self, cut: Cut, why: str) -> Failed:
        name = name_of(cut.body, cut.value, self._url)
        if name is None:
            self.strangers.add(self._nowhere(cut.body))
        if cut.problem is not None:
            self.swallowed |= names_in(cut.body, self._url)
        error = f"Record {cut.number}, at byte {cut.offset}, cannot be read: {why.rstrip('.')}."
        payload = payload_of(cut.value) if isinstance(cut.value, Mapping) else cut.body[:_MOST_PAYLOAD_BYTES]
        return Failed(name or self._nowhere(cut.body), error, MEND, payload)

    def _nowhere(self, body: bytes) -> str:
        return f"{self._url}#/unread/{body_hash(body).hex()[:32]}"

    def _after(self, url: str, head: Response) -> str | None:
        found = next_link(head.headers.get("Link", ""))
        return urljoin(url, found) if found else None

    def _guess(self, url: str) -> str | None:
        """The next page by number, where pages are likely: after a round number of records, or after another page."""
        if self.pages == 1 and (self.unique % _ROUND or not self.unique):
            return None
        parts = urlsplit(url)
        query = [(name, value) for name, value in parse_qsl(parts.query) if name != "page"]
        return urlunsplit(
            parts._replace(query=urlencode([*query, ("page", str(self.pages + 1))], errors="surrogatepass"))
        )


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


def _mark(url: str) -> int:
    return int.from_bytes(key(url)[:8], "big")
