"""Catalogs in one document: the data.json of Project Open Data, DCAT-US 1.1 and 3.

The whole document is compared on each run, since its dates prove nothing; a document that its server reports as
unchanged costs a single request. The document is read as it arrives: record by record, and page by page if it has
pages. Records are spooled until all have arrived, because the URL of a record depends on whether another record has
the same identifier.
"""

import asyncio
import pickle
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import IO, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from rowen.connectors.base import Known, unread_url
from rowen.connectors.catalog.connector import CatalogConnector
from rowen.connectors.catalog.listing import Listing, ListingPage, Row, Tokens
from rowen.connectors.catalog.options import DocumentOptions, web_url
from rowen.connectors.catalog.records import MARK_BYTES, HashSet, one_by_one
from rowen.connectors.datajson.record import (
    REMARK,
    SharedNames,
    Traits,
    base_of,
    dataset_of,
    is_record,
    is_variant,
    members_of,
    name_of,
    names_in,
    traits_of,
)
from rowen.connectors.plain_options import option
from rowen.connectors.probe import Probe
from rowen.errors import SourceError, SourceGoneError
from rowen.formats import UnreadableError
from rowen.formats.json import payload_of, read_json
from rowen.formats.json_records import MOST_RECORD_BYTES, Cut, Splitter
from rowen.model.hashes import Hash, body_hash, unmarked
from rowen.model.items import Failed, Fetched, Unchanged, Validators
from rowen.model.text import attempt
from rowen.model.url import address, joined
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Response, Stream, next_link
from rowen.net.target import parse

# Recorded documents have up to 1.4 MB, those of large federal agencies about 30 MB; larger spools are on disk.
IN_MEMORY_BYTES = 32 << 20
MOST_BYTES = 512 << 20
# The maximum number of records in a spool, at 2 kB each. A larger document has several spools, so that an endless
# document does not fill the disk; the largest known data.json has about 60,000 records.
MOST_RECORDS = 250_000


class PutAside(NamedTuple):
    """A spooled record: its original bytes, the URL given by its identifier, and the hash of its bytes."""

    cut: Cut
    url: str
    digest: Hash


class Spool:
    """Records in the order of arrival. They are stored in an unnamed file, which disappears with the process."""

    def __init__(self) -> None:
        self._file: IO[bytes] = SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115 (see `close`)
        self._count = self._size_bytes = 0

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """Return whether the spool has reached its limit."""
        return self._count >= MOST_RECORDS or self._size_bytes >= MOST_BYTES

    def add(self, record: PutAside) -> None:
        """Add a record without its parsed value, which is parsed again from its body."""
        cut, url, digest = record
        pickle.dump((tuple(cut._replace(value=None)), url, digest), self._file)
        self._count += 1
        self._size_bytes += len(cut.body)

    def __iter__(self) -> Iterator[PutAside]:
        """Yield all records; no record may be added during the iteration."""
        self._file.seek(0)
        for _ in range(self._count):
            cut, url, digest = pickle.load(self._file)  # noqa: S301 (nobody else can have written into it)
            yield PutAside(Cut(*cut), url, digest)

    def clear(self) -> None:
        """Discard all records."""
        self._file.seek(0)
        self._file.truncate()
        self._count = self._size_bytes = 0

    def close(self) -> None:
        """Close the file, which discards all records."""
        self._file.close()


# At 300 kB/s the largest document that is read by default (1 GB) arrives within an hour.
LONGEST_S = 3600.0
# A million records with a hundred per page. A judgement: a longer listing counts as a loop.
MOST_PAGES = 10_000
_MEND = "Its publisher has to mend it; the next sync reads it."
_LISTS = frozenset({"dataset", "datasetSeries", "service"})
_CATALOGS = frozenset({"catalog"})
_ROUND = 100  # pages have a round number of records; a whole document with such a number costs one more request
_AT_A_TIME = 100  # a broken record takes up to 0.1 ms: other tasks wait 10 ms at most
_SAME = 20  # a page that begins with this many records of the previous page is the same document again
_PAGE_ROWS, _PAGE_BYTES = 200, 1 << 20  # the size of a page: larger ones take more memory, smaller ones more look-ups
_MOST_PAYLOAD_BYTES = 1 << 20  # the part of a record that quarantine stores


class DataJsonOptions(DocumentOptions):
    """Options of kind `datajson`."""

    # The document is read as it arrives and is never in memory as a whole: this limits the time, not the memory.
    max_bytes: int = option(default=1 << 30, gt=0, description="largest document that is read")


@dataclass(slots=True)
class _DocumentPass:
    """One pass over a document of `pages` pages with `unique` records.

    `seen` contains the URLs of records, `bodies` the hashes of their bytes. `repeated` contains URLs that several
    records give, `emitted` the URLs under which records were yielded. `failed` contains the failures of unreadable
    records, `unread` the items that these records describe. `hidden` contains items that broken parts of the document
    may contain.
    """

    unique: int = 0
    pages: int = 0
    seen: HashSet = field(default_factory=HashSet)
    bodies: HashSet = field(default_factory=HashSet)
    emitted: HashSet = field(default_factory=HashSet)
    repeated: set[str] = field(default_factory=set)
    failed: dict[str, Failed] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)

    def add(self, url: str) -> None:
        """Store the URL that a record's identifier gives."""
        if self.seen.add(url):
            self.unique += 1
        else:
            self.repeated.add(url)


class DataJsonListing(Listing):
    """The listing of the records of a document."""

    version = DataJsonOptions.record_version

    def __init__(self, client: Client, url: str, options: DataJsonOptions, known: Known) -> None:
        client.pace(url, delay_s=options.delay_s)
        self._client = client
        self._url = url
        self._options = options
        self._known = known
        self._credentials = Credentials.of(url, options.headers)

    async def read_pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """Yield all records in pages; yield nothing if the document is unchanged since `tokens` were stored."""
        current = _DocumentPass()
        try:
            async with aclosing(self._spools(current, tokens)) as spools:
                async for spool, is_whole in spools:
                    names = await self._name_shared(spool, current, is_whole=is_whole)
                    waiting: list[PutAside] = []
                    waiting_bytes = 0
                    for number, record in enumerate(spool, 1):
                        waiting.append(record)
                        waiting_bytes += len(record.cut.body)
                        if len(waiting) >= _PAGE_ROWS or waiting_bytes > _PAGE_BYTES or number == len(spool):
                            yield ListingPage(await self._rows(waiting, names, current))
                            waiting, waiting_bytes = [], 0
        except UnreadableError as problem:
            yield ListingPage([], doubt=f"{problem} {problem.hint or ''}".strip())
            return
        if current.pages > 1:
            self.tokens = None
        if self.not_modified:
            return
        # Missing items that a broken record names: two consecutive broken records look like one.
        named = current.hidden | current.unread
        missing = {url for url in current.hidden if url not in current.emitted and url not in current.failed}
        hidden = {*(await self._known.look_up(sorted(missing)) if missing else ())}
        variants = await self._stored_variants() if named else ()
        hidden |= {url for url in variants if base_of(url) in named and url not in current.emitted}
        why = "It is missing, but named within a broken record."
        yield ListingPage([Row(Failed(url, why, _MEND)) for url in sorted(hidden)])

    async def _spools(self, current: _DocumentPass, tokens: Tokens | None) -> AsyncGenerator[tuple[Spool, bool]]:
        """Yield spools of records, each with a flag whether it holds all records; large documents have several."""
        spool, members = Spool(), Spool()
        try:
            async with aclosing(self._documents(current, tokens)) as records:
                async for record in records:
                    if spool.is_full:
                        yield spool, False
                        spool.clear()
                    spool.add(record)
                    # Datasets within a series or a service are also records, if the catalog does not list them
                    # separately.
                    if isinstance(record.cut.value, Mapping) and not members.is_full:
                        for member in members_of(record.cut.value):
                            if (body := payload_of(member)) is not None:
                                members.add(self._put_aside(record.cut._replace(body=body, value=None)))
            listed = [aside.url in current.seen for aside in members]
            for aside, is_listed in zip(members, listed, strict=True):
                if not is_listed:
                    current.add(aside.url)
                    spool.add(aside)
                await asyncio.sleep(0)
        except SourceError:
            yield spool, False
            raise
        else:
            yield spool, True
        finally:
            spool.close()
            members.close()

    async def _name_shared(self, spool: Spool, current: _DocumentPass, *, is_whole: bool) -> SharedNames:
        """Return the URLs for records that share their identifier with other records."""
        sound: dict[str, list[Traits]] = {}
        doubtful = {*current.hidden}
        for number, (cut, url, _) in enumerate(spool if current.repeated else ()):
            if url in current.repeated:
                traits = attempt(partial(self._traits, cut), lambda _: None)
                sound.setdefault(url, []).extend([traits] if traits else [])
                doubtful |= set() if traits else {url}
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)
        stored = [] if is_whole and not doubtful else await self._stored_variants()
        return SharedNames(sound, stored, frozenset(doubtful) if is_whole else None)

    async def _stored_variants(self) -> list[str]:
        """Return the URLs of stored items that were read from records with a shared identifier."""
        return [item.url async for batch in self._known.everything() for item in batch if is_variant(item.url)]

    async def _rows(self, records: Sequence[PutAside], names: SharedNames, current: _DocumentPass) -> list[Row]:
        """Return the rows of records; a record with the same bytes or the same content is not parsed.

        A publisher's program may write the same record with its fields in another order. The comparison is done here
        because the URLs of other records depend on which items were yielded or could not be read.
        """

        def name_of_item(record: PutAside) -> str | None:
            if not record.cut.whole or record.cut.problem is not None:
                return None
            read = partial(self._object, record.cut)
            return attempt(lambda: address(names.name(record.url, lambda: traits_of(read()))), lambda _: None)

        items = {record.digest: name for record in records if (name := name_of_item(record))}
        stored = await self._known.look_up([*items.values()]) if items and self._known.count else {}

        def row(record: PutAside) -> Row:
            name = items.get(record.digest, "")
            if name not in stored:
                return self._row(record, names, current)
            before = stored[name].body_hash or b""
            is_same = before.removeprefix(unmarked(before)) == record.digest[:MARK_BYTES]
            if not is_same and attempt(lambda: self._content_hash(record), lambda _: b"") != unmarked(before):
                return self._row(record, names, current)
            current.emitted.add(name)
            return Row(Unchanged(name, by_body=True), shared=name != address(record.url))

        return await one_by_one(row, records)

    def _content_hash(self, record: PutAside) -> Hash:
        """Return the hash of a record's content, which does not depend on the order of its fields."""
        return body_hash(msgspec.json.encode(self._object(record.cut), order="deterministic"))

    async def _documents(self, current: _DocumentPass, tokens: Tokens | None) -> AsyncGenerator[PutAside]:
        """Yield the records of all documents, following the links from one page to the next."""
        following: str | None = tokens.url if tokens else self._url
        requested: set[str] = set()
        while following is not None and following not in requested:
            requested.add(following)
            before = current.unique
            url, following = following, None
            async with AsyncExitStack() as stack:
                try:
                    known = tokens if not current.pages else None
                    opened = self._client.stream(
                        url,
                        etag=known.etag if known else None,
                        last_modified=known.last_modified if known else None,
                        credentials=self._credentials,
                        accept="application/json, */*;q=0.5",
                        max_bytes=self._options.max_bytes,
                        limit_s=LONGEST_S,
                    )
                    stream = await stack.enter_async_context(opened)
                    is_over = self._is_over(stream.head, current.pages)
                except SourceError:
                    if current.pages or url == self._url:
                        raise
                    # The document is no longer at the address of its last redirect.
                    following, tokens = self._url, None
                    continue
                if is_over:
                    return
                link = next_link(stream.head.headers.get("Link", ""))
                following = joined(url, link) if link else None
                async with aclosing(self._records(stream, current)) as records:
                    async for record in records:
                        yield record
            if current.pages and current.unique == before:
                return
            current.pages += 1
            if current.pages >= MOST_PAGES:
                raise SourceError(f"{self._url} does not end: {current.pages} pages were read.")
            # After a round number of records, or after another page, a next page by number is likely.
            if not following and (current.pages > 1 or (current.unique and current.unique % _ROUND == 0)):
                parts = urlsplit(url)
                query = [(name, value) for name, value in parse_qsl(parts.query) if name != "page"]
                numbered = urlencode([*query, ("page", str(current.pages + 1))], errors="surrogatepass")
                following = urlunsplit(parts._replace(query=numbered))

    def _is_over(self, head: Response, pages: int) -> bool:
        """Return whether there is nothing to read: the document is unchanged, or there is no further page."""
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

    async def _records(self, stream: Stream, current: _DocumentPass) -> AsyncGenerator[PutAside]:
        splitter = Splitter(_LISTS, _CATALOGS, most_bytes=MOST_RECORD_BYTES, is_record=is_record)
        before = current.unique
        repeated: list[tuple[PutAside, bool]] = []
        async with aclosing(_cuts(stream, splitter)) as cuts:
            async for cut in cuts:
                if cut.problem is not None:
                    current.hidden |= names_in(cut.body, self._url)
                record = self._put_aside(cut)
                current.add(record.url)
                is_copy = not current.bodies.add(record.digest.hex())
                if current.pages and current.unique == before:
                    repeated.append((record, is_copy))
                    if len(repeated) == _SAME:
                        # The site ignores the page number, so the document has no pages.
                        return
                    continue
                for earlier, _ in repeated:
                    yield earlier
                yield record
                repeated = []
        for record, is_copy in repeated:
            if not is_copy:
                yield record
        splitter.close()
        if not splitter.found:
            raise UnreadableError(f"{self._url} is JSON, but holds no list of datasets.")

    def _put_aside(self, cut: Cut) -> PutAside:
        """Return a record with the URL given by its identifier, or with a URL made from its content."""
        url = name_of(cut.body, self._value(cut), self._url) or self._nowhere(cut)
        return PutAside(cut, url, body_hash(cut.body))

    def _value(self, cut: Cut) -> Any:
        """Return the content of a record; None if it cannot be read."""
        if cut.value is not None or cut.problem is not None or not cut.whole:
            return cut.value
        return read_json(cut.body, self._url)

    def _traits(self, cut: Cut) -> Traits:
        """Return the traits of a record; raise an error if the record cannot be mapped."""
        record = self._object(cut)
        dataset_of(record, self._url).document()
        return traits_of(record)

    def _object(self, cut: Cut) -> Mapping[str, Any]:
        """Return a record as an object; raise `ValueError` with the reason if it cannot be read."""
        if not cut.whole or cut.problem is not None:
            raise ValueError(cut.problem or "it is too large")
        value = self._value(cut)
        if not isinstance(value, Mapping):
            raise ValueError("it is no object")
        return value

    def _row(self, record: PutAside, names: SharedNames, current: _DocumentPass) -> Row:
        """Return the row of a record; a broken record becomes a failed row."""
        cut = record.cut

        def read() -> Row:
            content, language = self._object(cut), self._options.language
            dataset = dataset_of(content, self._url, language=language)
            name = names.name(dataset.url, lambda: traits_of(content))
            is_shared = name != dataset.url
            document = replace(dataset, url=name).document(
                language=language,
                landing_page=self._options.landing_page,
                remarks=(REMARK,) if is_shared else (),
                # The hash of the bytes is stored after the hash of the content: while the bytes are the same, nothing
                # is parsed.
                validators=Validators(body_hash=self._content_hash(record) + record.digest[:MARK_BYTES]),
            )
            return Row(Fetched(document), shared=is_shared)

        def fail(why: str) -> Row:
            value = self._value(cut)
            name = name_of(cut.body, value, self._url)
            error = f"Record {cut.number}, at byte {cut.offset}, cannot be read: {why.rstrip('.')}."
            payload = payload_of(value) if isinstance(value, Mapping) else cut.body[:_MOST_PAYLOAD_BYTES]
            return Row(Failed(name or self._nowhere(cut), error, _MEND, payload), named=name is not None)

        row = attempt(read, fail)
        if not isinstance(row.seen, Failed):
            current.emitted.add(row.url)
            return row
        failed = row.seen
        if row.named:
            current.unread.add(failed.url)
        if row.named and (names.knows(failed.url) or failed.url in current.emitted):
            # The item was read from another record, so this record is no stored item, or a missing one.
            failed = replace(failed, url=self._nowhere(cut))
        if failed.url in current.failed:
            return Row(current.failed[failed.url])
        current.failed[failed.url] = replace(failed, payload=None)
        return row._replace(seen=failed)

    def _nowhere(self, cut: Cut) -> str:
        return unread_url(self._url, cut.body)


async def _cuts(stream: Stream, splitter: Splitter) -> AsyncGenerator[Cut]:
    """Yield the records as they arrive; let other tasks run in between."""
    async for piece in stream:
        for number, cut in enumerate(splitter.feed(piece)):
            yield cut
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
    for cut in splitter.finish():
        yield cut


_TELLING = re.compile(r"/data\.json/?$|/dcat-us/[\d.]+\.json$", re.IGNORECASE)
_DATASETS = re.compile(rb'"(?:dataset|datasetSeries|service)"\s*:\s*\[')
_PROJECT = re.compile(rb'project-open-data|dcat-us|"accessLevel"|"conformsTo"|"@type"\s*:\s*"(?:dcat:)?Catalog"')
_SOME_FILE = re.compile(r"/[^/]+\.[a-z0-9]+$|\?", re.IGNORECASE)


class DataJson(CatalogConnector):
    """Connector for catalogs in one data.json document."""

    kind = "datajson"
    Options = DataJsonOptions

    @staticmethod
    def is_typical(address: str) -> bool:
        """Return whether an address ends in `/data.json`."""
        return _TELLING.search(address.partition("?")[0]) is not None

    @staticmethod
    def accept(address: str) -> str | None:
        """Return the document URL of any web address; None for other text."""
        url = web_url(address, "datajson")
        if url is None:
            return None
        path = url.partition("://")[2].partition("/")[2]
        return url if _SOME_FILE.search(f"/{path}") else f"{url.rstrip('/')}/data.json"

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the document at an address, or the data.json below it; None if neither is a catalog."""
        if probe.page is not None and _is_catalog(probe.page.body):
            return parse(probe.url).url
        url = cls.accept(probe.base)
        answer = await probe.get(url) if url and url != probe.url else None
        return url if answer is not None and _is_catalog(answer.body) else None

    def _open_listing(self, client: Client, known: Known) -> Listing:
        return DataJsonListing(client, self._url, self._options, known)


def _is_catalog(body: bytes) -> bool:
    """Return whether a body, or its beginning, looks like a data.json."""
    return body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and bool(_DATASETS.search(body) and _PROJECT.search(body))
