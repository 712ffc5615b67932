"""Reading a data.json as it comes in: record by record, page by page where it has pages."""

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from rowen.connectors.catalog.answers import UnreadableError, payload_of, read_json
from rowen.connectors.catalog.splitter import MOST_RECORD_BYTES, Cut, Splitter
from rowen.connectors.datajson.options import DataJsonOptions
from rowen.connectors.datajson.record import dataset_of
from rowen.errors import SourceError, SourceGoneError
from rowen.fetch.client import Client
from rowen.fetch.credentials import Credentials
from rowen.fetch.response import Response, Stream
from rowen.model.hashes import body_hash
from rowen.model.item import Failed, Fetched
from rowen.model.url import key

__all__ = ["Document", "Validators"]

LONGEST_S = 3600.0
MOST_PAGES = 10_000
_LISTS = frozenset({"dataset", "datasetSeries", "service"})
_CATALOGS = frozenset({"catalog"})
_NEXT = re.compile(r'<([^>]+)>\s*;[^,]*\brel="?next"?', re.IGNORECASE)
_ROUND = 100
_SAME = 20


@dataclass(frozen=True, slots=True)
class Validators:
    """The tokens of a document, and the address that they came from."""

    url: str
    etag: str | None
    last_modified: str | None


class Document:
    """One reading of a document. `unique` counts its records, `failed` those that could not be read."""

    def __init__(self, client: Client, url: str, options: DataJsonOptions) -> None:
        self.unique = 0
        self.failed = 0
        self.pages = 0
        self.not_modified = False
        self.validators: Validators | None = None
        self._client = client
        self._url = url
        self._options = options
        self._credentials = Credentials.of(url, options.headers) if options.headers else None
        self._seen: set[int] = set()

    async def records(self, held: Validators | None) -> AsyncGenerator[Fetched | Failed]:
        """What the document says, all of it, or nothing if it is the one that we hold."""
        following: str | None = held.url if held else self._url
        asked: set[str] = set()
        while following is not None and following not in asked:
            asked.add(following)
            before = self.unique
            url, following = following, None
            async with self._open(url, held if not self.pages else None) as stream:
                if self._is_over(stream.head):
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

    async def _read(self, stream: Stream) -> AsyncGenerator[Fetched | Failed]:
        splitter = Splitter(_LISTS, _CATALOGS, most_bytes=MOST_RECORD_BYTES)
        before = self.unique
        repeated = 0
        async for piece in stream:
            for cut in splitter.feed(piece):
                for record in self._observe(cut):
                    yield record
                repeated += self.unique == before
                if self.pages and repeated == _SAME:
                    # A page that begins with what we have is the document again: the site knows no pages.
                    return
        splitter.close()
        if not splitter.found:
            raise UnreadableError(f"{self._url} is JSON, but holds no list of datasets.", hint="Nothing was deleted.")

    def _observe(self, cut: Cut) -> Iterator[Fetched | Failed]:
        """What a record amounts to; the second of two with one identifier is nothing."""
        record = self._judge(cut)
        url = record.item.url if isinstance(record, Fetched) else record.url
        mark = int.from_bytes(key(url)[:8], "big")
        if mark not in self._seen:
            self._seen.add(mark)
            self.unique += 1
            self.failed += isinstance(record, Failed)
            yield record

    def _judge(self, cut: Cut) -> Fetched | Failed:
        if not cut.whole:
            return Failed(self._nowhere(cut.body), "The record is too large to be read.", payload=cut.body)
        try:
            record = read_json(cut.body, self._url)
        except UnreadableError as problem:
            return Failed(self._nowhere(cut.body), str(problem), payload=cut.body[: 1 << 20])
        try:
            dataset = dataset_of(record, self._url, language=self._options.language)
            return Fetched(dataset.document(language=self._options.language))
        except (ValueError, RecursionError) as problem:
            return Failed(self._nowhere(cut.body), f"The record cannot be read: {problem}.", payload=payload_of(record))

    def _nowhere(self, body: bytes) -> str:
        return f"{self._url}#/unread/{body_hash(body).hex()[:32]}"

    def _after(self, url: str, head: Response) -> str | None:
        found = _NEXT.search(head.headers.get("Link", ""))
        return urljoin(url, found[1]) if found else None

    def _guess(self, url: str) -> str | None:
        """The next page by number, where pages are likely: after a round number of records, or after another page."""
        if self.pages == 1 and (self.unique % _ROUND or not self.unique):
            return None
        parts = urlsplit(url)
        query = [(name, value) for name, value in parse_qsl(parts.query) if name != "page"]
        return urlunsplit(parts._replace(query=urlencode([*query, ("page", str(self.pages + 1))])))
