"""SDMX services of statistical offices: one item a dataflow, all of them in one document."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from rowen.connectors.base import Known, unread_url
from rowen.connectors.catalog.connector import CatalogConnector
from rowen.connectors.catalog.listing import Listing, ListingPage, Row, Tokens
from rowen.connectors.catalog.records import unparsed
from rowen.connectors.probe import Probe
from rowen.connectors.sdmx.record import (
    Flow,
    SdmxAddress,
    SdmxOptions,
    accept,
    dataset_of,
    flow_of_json,
    flow_of_tree,
    is_sdmx,
    recognise,
)
from rowen.errors import SourceError, SourceGoneError
from rowen.formats import UnreadableError
from rowen.formats.json import payload_of, read_json
from rowen.formats.json_records import Cut, Splitter
from rowen.formats.xml import Reader, XmlElement, elements, local, said
from rowen.model.hashes import body_hash, canonical_json
from rowen.model.items import Failed
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Response, Stream

if TYPE_CHECKING:
    from rowen.connectors.base import Options

__all__ = ["Sdmx"]

LONGEST_S = 3600.0
"""In an hour, the largest document that is read by default (1 GB) comes in at 300 kB/s."""

_ROWS = 200  # handed on together: more would wait in memory, fewer cost a look-up each
_ELSEWHERE = frozenset({400, 404, 405, 406, 501})
_REFUSED = frozenset({401, 403})
_ACCEPT = (
    "application/vnd.sdmx.structure+xml;version=2.1, application/vnd.sdmx.structure+xml;version=3.0.0;q=0.9, "
    "application/vnd.sdmx.structure+json;version=1.0;q=0.8, application/xml;q=0.7, application/json;q=0.6, */*;q=0.1"
)
_WITHIN = frozenset({"Dataflows", "KeyFamilies"})
_TRAIL = b"\xef\xbb\xbf \t\r\n"


class Dataflows(Listing):
    """The listing of a service."""

    version = SdmxOptions.record_version

    def __init__(self, client: Client, url: str, options: SdmxOptions) -> None:
        client.pace(url, delay_s=options.delay_s)
        self._client = client
        self._address = SdmxAddress(url)
        self._options = options
        self._credentials = Credentials.of(url, options.headers)

    async def pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """Yield all dataflows, or none if the document is the one that the tokens are of."""
        documents = sorted(self._address.documents, key=lambda url: tokens is None or url != tokens.url)
        for url in documents:
            async with self._open(url, tokens if tokens is not None and tokens.url == url else None) as stream:
                if stream.head.status in _ELSEWHERE and url != documents[-1]:
                    continue
                self.not_modified = self._check(stream.head)
                if self.not_modified:
                    return
                async with aclosing(self._rows(stream, url)) as pages:
                    async for page in pages:
                        yield page
                if not stream.head.redirects:
                    self.tokens = Tokens(url, stream.head.etag, stream.head.last_modified)
            return

    async def count(self, since: datetime | None = None) -> int | None:
        """Return None: the protocol has no such request."""
        return None

    def _open(self, url: str, tokens: Tokens | None) -> Any:
        return self._client.stream(
            url,
            etag=tokens.etag if tokens else None,
            last_modified=tokens.last_modified if tokens else None,
            credentials=self._credentials,
            accept=_ACCEPT,
            max_bytes=self._options.max_bytes,
            limit_s=LONGEST_S,
        )

    def _check(self, head: Response) -> bool:
        """Return whether there is no news; raises where there is no document."""
        if head.not_modified or head.ok:
            return head.not_modified
        if head.status in _REFUSED:
            raise SourceError(
                f"{self._address.url} refused the request (status {head.status}).",
                hint="If it wants a key, name where that is found in the option headers, as env:NAME or file:/path.",
            )
        kind = SourceGoneError if head.status in (404, 410) else SourceError
        raise kind(f"{self._address.url} answered with status {head.status}.")

    async def _rows(self, stream: Stream, document: str) -> AsyncGenerator[ListingPage]:
        """Yield the dataflows in pages. Of several versions in a row the latest one counts."""
        rows: list[Row] = []
        last: Flow | None = None
        async with aclosing(self._flows(stream)) as flows:
            async for flow in flows:
                if isinstance(flow, Failed):
                    rows.append(Row(flow))
                    continue
                if last is not None and (last.agency, last.identifier) == (flow.agency, flow.identifier):
                    last = max(last, flow, key=lambda one: one.order)
                    continue
                if last is not None:
                    rows.append(self._row(last, document))
                last = flow
                if len(rows) >= _ROWS:
                    yield ListingPage(rows)
                    rows = []
        yield ListingPage([*rows, *([self._row(last, document)] if last is not None else [])])

    def _row(self, flow: Flow, document: str) -> Row:
        """Return a dataflow that is mapped only if it changed."""
        url = self._address.item(flow.agency, flow.identifier)
        language = self._options.language
        seen = unparsed(
            url,
            # Where its data is depends on the document that answered.
            lambda: body_hash(flow.letters() + document.encode()),
            lambda: dataset_of(flow, self._address, document, language=language),
            payload=lambda: payload_of(flow.source),
            language=language,
            landing_page=self._options.landing_page,
            what="dataflow",
        )
        return Row(seen)

    async def _flows(self, stream: Stream) -> AsyncGenerator[Flow | Failed]:
        """Yield the dataflows of the document, in XML or JSON; raise an error if it is cut off."""
        pieces = _with_beginning(stream)
        beginning = (await anext(pieces, b"")).lstrip(_TRAIL)
        everything = _all(beginning, pieces)
        match beginning[:1]:
            case b"<" | b"\xff" | b"\xfe":
                flows = self._of_xml(everything, stream.head.charset)
            case b"{":
                flows = self._of_json(everything)
            case _:
                raise UnreadableError(f"{self._address.url} is neither XML nor JSON.")
        async with aclosing(flows):
            async for flow in flows:
                yield flow

    async def _of_xml(self, pieces: AsyncIterator[bytes], charset: str | None) -> AsyncGenerator[Flow | Failed]:
        reader = Reader(frozenset({"ErrorMessage"}), within=_WITHIN, heads=_WITHIN, charset=charset)
        has_list = has_flows = False
        async with aclosing(elements(pieces, reader)) as found:
            async for one in found:
                name = local(one.tree.tag)
                has_list = has_list or name in _WITHIN
                has_flows = has_flows or name == "Dataflow"
                if name == "ErrorMessage":
                    raise SourceError(f"{self._address.url} reports an error: {said(one.tree)}.")
                # A dataflow of SDMX 2.0 has a key family as its structure; where there are none, it is what is there.
                if name == "Dataflow" or (name == "KeyFamily" and not has_flows):
                    yield self._of_tree(one)
        if not has_list:
            raise self._no_list()

    def _of_tree(self, found: XmlElement) -> Flow | Failed:
        flow = flow_of_tree(found.tree)
        if found.why is not None:
            return self._unread(flow, found.why)
        return flow if flow.identifier else self._unread(flow, "The dataflow has no identifier.")

    async def _of_json(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[Flow | Failed]:
        splitter = Splitter(frozenset({"dataflows"}), frozenset({"data"}))
        async for piece in pieces:
            for cut in splitter.feed(piece):
                yield self._of_cut(cut)
        splitter.close()
        if not splitter.found:
            raise self._no_list()

    def _of_cut(self, cut: Cut) -> Flow | Failed:
        if not cut.whole:
            return Failed(self._nowhere(cut.body), "The dataflow is too large to be read.", payload=cut.body)
        try:
            flow = flow_of_json(read_json(cut.body, self._address.url))
        except UnreadableError as problem:
            return Failed(self._nowhere(cut.body), str(problem), payload=cut.body)
        return flow if flow.identifier else self._unread(flow, "The dataflow has no identifier.")

    def _unread(self, flow: Flow, why: str) -> Failed:
        url = self._address.item(flow.agency, flow.identifier) if flow.identifier else None
        payload = payload_of(flow.source)
        return Failed(url or self._nowhere(payload or canonical_json(flow.version)), why, payload=payload)

    def _nowhere(self, body: bytes) -> str:
        return unread_url(self._address.url, body)

    def _no_list(self) -> SourceError:
        return SourceError(f"{self._address.url} holds no list of dataflows.")


async def _with_beginning(stream: Stream) -> AsyncIterator[bytes]:
    """Yield the pieces of a document, the first one not of blanks alone."""
    begun = False
    async for piece in stream:
        begun = begun or bool(piece.strip(_TRAIL))
        if begun:
            yield piece


async def _all(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


_LIKELY = re.compile(r"sdmx|/(?:api|rest|service|ws)(?:/|$)", re.IGNORECASE)


class Sdmx(CatalogConnector):
    """Connector for SDMX services."""

    kind: ClassVar[str] = "sdmx"
    Options: "ClassVar[type[Options]]" = SdmxOptions
    recognise = staticmethod(recognise)
    accept = staticmethod(accept)

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the service at an address: a list of dataflows itself, or what has one below it.

        Such a list costs a server much: it is requested only if the address looks like that of a service.
        """
        if probe.page is not None and is_sdmx(probe.page.body):
            return accept(probe.url)
        if not _LIKELY.search(probe.base):
            return None
        for document in SdmxAddress(probe.base).documents[:2]:
            listed = await probe.get(document, accept="*/*")
            if listed is not None and is_sdmx(listed.body):
                return accept(probe.base)
        return None

    def _listing(self, client: Client, known: Known) -> Listing:
        return Dataflows(client, self._url, self._options)
