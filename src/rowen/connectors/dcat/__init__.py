"""RDF catalogs by DCAT, as one document or in pages, in any syntax; catalogs of CKAN and udata also by date."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple
from urllib.parse import parse_qs, urlsplit

from rowen.connectors.base import Known, Parse, call_here, unread_url
from rowen.connectors.catalog.connector import CatalogConnector
from rowen.connectors.catalog.cursor import CatalogCursor, stamp
from rowen.connectors.catalog.dcat import row_of_node
from rowen.connectors.catalog.listing import FAR_FUTURE, Listing, ListingPage, Row, Tokens
from rowen.connectors.catalog.options import CatalogOptions, web_url
from rowen.connectors.catalog.portal_client import LONGEST_LIMIT_S, MOST_UNREAD, UNRECEIVED, PortalClient
from rowen.connectors.catalog.records import unreceived
from rowen.connectors.dcat.reading import (
    Contents,
    Joining,
    RecordPart,
    paging_of,
    payload_of_part,
    unread,
    with_parameters,
)
from rowen.connectors.plain_options import option
from rowen.connectors.probe import Probe
from rowen.errors import ItemError, SourceError, SourceGoneError
from rowen.formats import UnreadableError
from rowen.formats.rdf.syntax import ACCEPT, Packed, read_packed, unpacked
from rowen.model.items import Document, Fetched
from rowen.model.url import joined
from rowen.net.client import Client
from rowen.net.response import Response

_TELLING = re.compile(
    r"/catalog\.(?:ttl|rdf|jsonld|nt|n3)|/api/1/site/catalog(?:\.\w+)?|/catalogue/dcat/\w+/\w+|/dcat-ap/[\d.]+\.json",
    re.IGNORECASE,
)
_RDF = re.compile(rb"www\.w3\.org/ns/dcat#|\"(?:@type|type)\"\s*:\s*(?:\[\s*)?\"dcat:Catalog\"")
_DATASET = re.compile(
    rb"\b(?:dcat:)?(?:Dataset|DatasetSeries|DataService|Catalog|dataset)\b"
    rb"|ns/dcat#(?:Dataset|DatasetSeries|DataService|Catalog|dataset)\b"
)
_OTHER = re.compile(rb"w3id\.org/(?:tree|ldes)#|project-open-data|w3\.org/ns/sparql-service-description#|OAI-PMH|<csw:")
_ALTERNATE = re.compile(rb"<link\b[^<>]*>", re.IGNORECASE)
_TYPE = re.compile(rb"text/turtle|application/rdf\+xml|application/ld\+json|text/n3", re.IGNORECASE)
_HREF = re.compile(rb"""\bhref\s*=\s*["']?([^"'\s>]+)""", re.IGNORECASE)


def accept(address: str) -> str | None:
    """Return the source URL of any web address; None for other text."""
    return web_url(address, "dcat")


def is_catalog(response: Response) -> bool:
    """Return whether a response, or its beginning, looks like a DCAT catalog and like no other protocol."""
    body = response.body
    begin = body[:2000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if begin.startswith((b"<!doctype html", b"<html")) or b"<html" in begin:
        return False
    return bool(_RDF.search(body) and _DATASET.search(body)) and not _OTHER.search(body)


def linked(page: Response) -> str | None:
    """Return the catalog that a web page links as an alternate form; None if there is none."""
    for tag in _ALTERNATE.findall(page.body):
        href = _HREF.search(tag)
        if href and b"alternate" in tag.lower() and _TYPE.search(tag) and b"catalog" in href[1].lower():
            return joined(page.url, href[1].decode("utf-8", "replace").replace("&amp;", "&"))
    return None


class DcatOptions(CatalogOptions):
    """Options of kind `dcat`; `language` is the preferred language of records in several languages."""

    secret_neutral: ClassVar[frozenset[str]] = CatalogOptions.secret_neutral | {"format", "whole"}

    format: Literal["turtle", "rdfxml", "jsonld", "ntriples", "n3", "trig", "nquads"] | None = option(
        default=None, description="the syntax, where neither the server nor the document tells it"
    )
    max_triples: int = option(default=2_000_000, gt=0, description="most triples that are read from one answer")
    whole: bool = option(default=False, description="the document has no further pages, whatever its size")

    def reading(self) -> dict[str, Any]:
        """Return the options that affect the mapping of a record."""
        return {**super().reading(), "format": self.format}

    def listing(self) -> dict[str, Any]:
        """Return the options that select the listed records."""
        return {**super().listing(), "max_triples": None, "whole": None}


_ROUND = 50  # divides pages of 50, 100, 250 or 1,000; with 10, every tenth document would cost one more request
_PAGES_DOWN = 3  # a hundred new records move a record by one page, and a walk costs more than three requests
_UDATA = "/api/1/site/catalog"


class _RdfPage(NamedTuple):
    """One received page; `number` is set if its address was guessed from a page number."""

    asked: str
    number: int | None
    response: Response
    contents: Contents

    @property
    def tokens(self) -> Tokens | None:
        head = self.response
        stays = not head.redirects or head.moved_to == head.url
        if not stays or self.contents.broken or not (head.etag or head.last_modified):
            return None
        return Tokens(head.url, head.etag, head.last_modified)


class _Next(NamedTuple):
    url: str
    number: int | None = None


class _Slice(NamedTuple):
    """A page whose size can be chosen: `size` records, beginning with the record `start`."""

    url: str
    start: int
    size: int

    @classmethod
    def of(cls, url: str) -> "_Slice | None":
        parameters = parse_qs(urlsplit(url).query)
        try:
            number, size = int(parameters["page"][0]), int(parameters["page_size"][0])
        except (KeyError, ValueError):
            return None
        return cls(url, (number - 1) * size, size) if _UDATA in url and number > 0 and size > 0 else None

    def sized(self, most: int) -> str:
        """Return the address of a page of about `most` records, which may begin before the position."""
        if most == self.size:
            return self.url
        size = next((size for size in range(most, most // 2, -1) if self.start % size == 0), most)
        return with_parameters(self.url, page=self.start // size + 1, page_size=size)

    def single(self, start: int) -> "_Slice":
        """Return the page of one record."""
        return _Slice(with_parameters(self.url, page=start + 1, page_size=1), start, 1)


class RdfListing(Listing):
    """The listing of a catalog; `dated` is set if the catalog declares a count, and so may support the filter."""

    version = DcatOptions.record_version
    resolution = timedelta(days=1)

    def __init__(
        self, portal: PortalClient, url: str, options: DcatOptions, *, dated: bool = False, parse: Parse = call_here
    ) -> None:
        self.dated = dated
        self._portal = portal
        self._url = url
        self._options = options
        self._parse = parse
        self._asked = 0
        self._unread: list[Row] = []
        # A resumed walk is followed by a walk over the first part, which ends where the resumed walk began.
        self._left: list[RecordPart] = []
        self._resumed: Any = None

    async def read_pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """Yield the pages from `place` on, by default from the first one; with `since`, only modified records."""
        try:
            async with aclosing(self._walk(since, place, tokens)) as pages:
                async for page in pages:
                    yield page
        except SourceError as problem:
            if since is None:
                raise
            yield ListingPage((), doubt=f"The catalog cannot be queried by date: {problem}")

    async def _walk(self, since: datetime | None, place: Any, tokens: Tokens | None) -> AsyncGenerator[ListingPage]:
        joining, until = (Joining(self._left), self._resumed) if since is None else (Joining(), None)
        self._left, self._resumed = [], place
        before: _RdfPage | None = None
        requested: set[str] = set()
        resumed = (place.get("from") or place.get("url")) if isinstance(place, dict) else None
        following: _Next | None = _Next(resumed or (tokens.url if tokens else self._first_url(since)))
        while following is not None and (answer := await self._answer(following, tokens)):
            requested.add(following.url)
            tokens, following = None, self._next(answer, before, since)
            repeated = following is not None and following.url in requested
            following = None if repeated else following
            single = following is None and before is None and place is None
            if single and since is None:
                self.tokens = answer.tokens
            parts = await asyncio.to_thread(self._parts, answer, joining)
            resume_at: dict[str, str] | None = None
            if following is not None and following.number is None:
                # Resume at the next page, or at an earlier page if a part is still waiting for its files.
                begin = joining.begin
                resume_at = {"url": following.url, "from": begin} if begin else {"url": following.url}
            if following is None and place is not None:
                self._left = joining.finish()
            elif following is None or (until and resume_at == until):
                parts += joining.finish()
            contents = answer.contents
            rows = await asyncio.to_thread(self._rows, contents, parts)
            if rows or following is None or not joining.is_waiting:
                declared = contents.paging.total
                if declared is None and single and contents.missing:
                    declared = len(contents.items) + contents.missing
                # The reason why reading to the end does not prove that all records were read.
                doubt = None
                if contents.broken:
                    doubt = f"{len(contents.broken)} statements of {answer.asked} cannot be read."
                elif repeated:
                    doubt = "The listing does not end: pages came again."
                elif answer.number == 2 and before and contents.items and not self._is_other(answer, before):
                    doubt = (
                        f"{self._url} holds exactly {len(before.contents.items)} records, as a page would, and does "
                        "not tell whether these are all. If it has no further pages, set the option whole."
                    )
                yield ListingPage(rows, resume_at, declared, self._portal.clock(answer.response), doubt)
            before = answer

    async def count(self, since: datetime | None = None) -> int | None:
        """Return the declared number of records from the first page; None if the catalog cannot be filtered by date."""
        url = self._first_url(since)
        try:
            answer = await self._page(_Next(with_parameters(url, page_size=1) if _UDATA in url else url), None)
        except SourceError:
            if since is None:
                raise
            return None
        return answer.contents.paging.total if answer else None

    async def read_record(self, url: str, handle: str | None = None) -> Row | None:
        """Return one record from its last known page or the following pages, since new records move it down.

        Return None if the record is not found there, or if its files are described on other pages.
        """
        following = handle
        for _ in range(_PAGES_DOWN if handle else 0):
            page = await self._page(_Next(following), None, once=True) if following else None
            if page is None:
                return None
            parts = await asyncio.to_thread(self._parts, page, Joining())
            rows = await asyncio.to_thread(self._rows, page.contents, parts)
            if shown := next((row for row in rows if row.url == url), None):
                return shown
            following = page.contents.paging.following
        return None

    async def retry(self, place: Any) -> Any | None:
        """Request the record at a place individually; return the place if the record is still broken."""
        if not isinstance(place, str):
            raise ValueError("the place of a record is an address")
        page = await self._page(_Next(place), None, once=True)
        return place if page is not None and page.contents.broken else None

    def _first_url(self, since: datetime | None) -> str:
        url = self._url
        if _UDATA in url:
            url = with_parameters(url, page=1, page_size=self._options.page_size)
        return with_parameters(url, modified_since=stamp(since)) if since else url

    async def _answer(self, wanted: _Next, tokens: Tokens | None) -> _RdfPage | None:
        """Return the answer for a page; request a smaller page if the catalog fails and the size can be chosen.

        Single records on which the catalog fails are skipped.
        """
        self._unread = []
        part = _Slice.of(wanted.url)
        while part is not None:
            try:
                return await self._portal.request_page(partial(self._sized, part, tokens), alive=self._is_there)
            except UNRECEIVED as problem:
                if self._portal.unread >= MOST_UNREAD:
                    raise
                listed = ("modified",) if "modified_since=" in part.url else ()
                url = unread_url(self._url, *listed, part.start)
                self._unread.append(unreceived(url, problem, part.single(part.start).url))
                part = part.single(part.start + 1)
        return await self._page(wanted, tokens)

    async def _is_there(self) -> None:
        """Send a request that no record can cause to fail: a page of future changes, else a count."""
        nothing = with_parameters(self._url, page=1, page_size=1, modified_since=stamp(FAR_FUTURE))
        try:
            await self._portal.request(nothing, accept=ACCEPT)
        except SourceError:
            await self.count()

    async def _sized(self, part: _Slice, tokens: Tokens | None, rows: int) -> _RdfPage | None:
        url = part.sized(rows)
        return await self._page(_Next(url), tokens if url == part.url else None, could_be_less=rows > 1)

    async def _page(
        self, wanted: _Next, tokens: Tokens | None, *, could_be_less: bool = False, once: bool = False
    ) -> _RdfPage | None:
        """Return the answer for a page; None if it is unchanged, or if a guessed page number does not exist."""
        try:
            response = await self._portal.request(
                wanted.url, accept=ACCEPT, tokens=tokens, could_be_less=could_be_less, once=once
            )
        except SourceGoneError:
            if wanted.number is None:
                raise
            return None
        self.not_modified = response.not_modified
        if response.not_modified:
            return None
        self._asked += 1
        contents = await self._read(response, self._asked)
        if not contents.is_catalog and wanted.number is None:
            raise SourceError(f"{wanted.url} is RDF, but holds no catalog of datasets.")
        self.dated = self.dated or contents.paging.total is not None
        return _RdfPage(wanted.url, wanted.number, response, contents)

    async def _read(self, response: Response, page: int) -> Contents:
        options = self._options
        facts = (response.body, response.url, response.media_type, response.charset)
        try:
            packed = await self._parse(read_packed, *facts, options.format, options.max_triples, page)
        except ItemError as problem:
            raise UnreadableError(f"{response.url} cannot be read: {problem}") from None
        return await asyncio.to_thread(self._contents, packed, response)

    def _contents(self, packed: Packed, response: Response) -> Contents:
        parsed = unpacked(packed)
        return Contents(parsed.graph, paging_of(parsed.graph, response, self._url), parsed.broken)

    def _next(self, answer: _RdfPage, before: _RdfPage | None, since: datetime | None) -> _Next | None:
        """Return the next page; repeat the date filter if the link to the next page lacks it.

        If the catalog has no links between pages, the next page number is requested after a full page.
        """
        if url := answer.contents.paging.following:
            forgotten = since is not None and "modified_since=" not in url
            return _Next(with_parameters(url, modified_since=stamp(since)) if since and forgotten else url)
        if before is None:
            count, is_paged = len(answer.contents.items), answer.contents.paging.is_paged
            is_full = count > 0 and count % _ROUND == 0 and not is_paged and not self._options.whole
            return _Next(with_parameters(answer.asked, page=2), 2) if is_full else None
        if answer.number is not None and self._is_other(answer, before):
            return _Next(with_parameters(answer.asked, page=answer.number + 1), answer.number + 1)
        return None

    def _is_other(self, answer: _RdfPage, before: _RdfPage) -> bool:
        return not answer.contents.urls(self._url) <= before.contents.urls(self._url)

    def _parts(self, answer: _RdfPage, joining: Joining) -> list[RecordPart]:
        contents = answer.contents
        return [*joining.feed(contents.graph, contents.items, answer.asked, contents.borders)]

    def _rows(self, contents: Contents, parts: list[RecordPart]) -> list[Row]:
        """Return the rows of the page's records and of earlier records completed by it, in canonical order.

        If several records describe one item, they are parsed and ordered by their content, because the order of an RDF
        answer has no meaning.
        """

        def rank(row: Row) -> tuple[str, str]:
            match row.seen:
                case Fetched(Document() as document):
                    return row.url, document.record_json
            return row.url, ""

        rows = [self._row(part, contents) for part in parts]
        counts = Counter(row.url for row in rows)
        rows = [row._replace(seen=row.observed) if counts[row.url] > 1 else row for row in rows]
        broken = [*self._unread, *(unread(statement, self._url) for statement in contents.broken)]
        return [*broken, *sorted(rows, key=rank)]

    def _row(self, part: RecordPart, contents: Contents) -> Row:
        borders = contents.borders
        row = row_of_node(
            part.graph,
            part.node,
            self._url,
            options=self._options,
            borders=borders,
            payload=lambda: payload_of_part(part, borders),
        )
        recorded = contents.modified.get(part.node)
        newer = recorded is not None and row.modified is not None and recorded > row.modified
        return row._replace(modified=recorded if newer else row.modified, handle=part.address)


class Dcat(CatalogConnector):
    """Connector for RDF catalogs."""

    kind = "dcat"
    Options = DcatOptions
    accept = staticmethod(accept)

    @staticmethod
    def is_typical(address: str) -> bool:
        """Return whether the address alone is a known catalog address of CKAN, udata, Eurostat and others."""
        path = address.partition("?")[0].partition("#")[0]
        return re.search(f"(?:{_TELLING.pattern})/?$", path, re.IGNORECASE) is not None

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the catalog at an address: the address itself, a catalog linked by its page, or udata's catalog."""
        if probe.page is not None and is_catalog(probe.page):
            return accept(probe.url)
        link = linked(probe.page) if probe.page is not None else None
        url = link or f"{probe.base}/api/1/site/catalog.jsonld"
        answer = await probe.get(url, accept=ACCEPT)
        return accept(url) if answer is not None and is_catalog(answer) else None

    def _open_listing(self, client: Client, known: Known) -> Listing:
        portal = PortalClient(client, self._url, self._options, now=self._tools.now)
        portal.size.limit_s = LONGEST_LIMIT_S
        cursor = CatalogCursor.of(known.cursor, DcatOptions.record_version)
        # Most catalogs have no filter, so only a filter that worked before is tried again.
        dated = cursor.filters is True or cursor.refused is not None
        return RdfListing(portal, self._url, self._options, dated=dated, parse=self._tools.parse)
