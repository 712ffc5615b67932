"""SDMX services of statistical offices; each dataflow is one item, and one document lists all of them."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from rowen.connectors.base import Known, unread_url
from rowen.connectors.catalog.connector import CatalogConnector
from rowen.connectors.catalog.dataset import Dataset, Resource
from rowen.connectors.catalog.dates import iso, moment
from rowen.connectors.catalog.listing import Listing, ListingPage, Row, Tokens
from rowen.connectors.catalog.options import DocumentOptions, page_of_dataflow, web_url
from rowen.connectors.catalog.records import unparsed
from rowen.connectors.catalog.text import plain, word, wordings
from rowen.connectors.plain_options import option
from rowen.connectors.probe import Probe
from rowen.errors import SourceError, SourceGoneError
from rowen.formats import UnreadableError
from rowen.formats.json import payload_of, read_json
from rowen.formats.json_records import Splitter
from rowen.formats.xml import Element, Reader, elements, local, plain_tree, said
from rowen.model.hashes import body_hash, canonical_json
from rowen.model.items import Failed
from rowen.model.url import quoted, segment
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Stream

_TELLING = re.compile(r"/dataflow/(?:all|\*|%2A)(?:/[^/]*)*|/structure/dataflow(?:/[^/]*)*", re.IGNORECASE)
_FLOWS = re.compile(r"(?P<root>.*?)(?P<three>/structure)?/dataflow(?:/[^/]*)*", re.IGNORECASE)
_SOME_FILE = re.compile(r"/[^/]+\.(?:xml|json|sdmx)$", re.IGNORECASE)
_ASKED = "detail=full&references=none"
_XML = re.compile(
    rb"(?:\s++|<\?[^>]*+>|<!--(?>.*?-->))*+<(?:[\w.-]++:)?(?:Structure|RegistryInterface)\s"
    rb"[^>]*sdmx\.org/resources/sdmxml/schemas/v\d_\d/message",
    re.DOTALL | re.IGNORECASE,
)
_JSON = re.compile(rb'"dataflows"\s*:')


@dataclass(frozen=True, slots=True)
class SdmxAddress:
    """The address of a service, given as its base URL, as its list of dataflows, or as a document."""

    url: str

    @property
    def documents(self) -> tuple[str, ...]:
        """Return the possible addresses of the list; for a base URL, the SDMX 2.1 and 3.0 addresses come first."""
        if self._is_document:
            return (self.url,)
        bare = self.url.rstrip("/")
        return f"{bare}/dataflow/all/all/latest?{_ASKED}", f"{bare}/structure/dataflow/*/*/~?{_ASKED}", self.url

    @property
    def root(self) -> str | None:
        """Return the base URL of the service; None for a document."""
        path = self.url.partition("?")[0].rstrip("/")
        if match := _FLOWS.fullmatch(path):
            return match["root"]
        return None if self._is_document else path

    @property
    def _is_document(self) -> bool:
        path = self.url.partition("?")[0]
        return bool("?" in self.url or _FLOWS.fullmatch(path) or _SOME_FILE.search(path))

    def item(self, agency: str, identifier: str) -> str:
        """Return the URL of a dataflow's latest version; in a document, the document's URL with a fragment."""
        if self.root is None:
            return f"{self.url.partition('#')[0]}#/{quoted(agency)}:{quoted(identifier)}"
        return f"{self.root}/dataflow/{_segment(agency) or 'all'}/{_segment(identifier)}"

    def data(self, agency: str, identifier: str, document: str) -> str | None:
        """Return the URL of a dataflow's data, for the API version of `document`; None if there is no such API."""
        if self.root is None or "/dataflow" not in document:
            return None
        if "/structure/dataflow" in document:
            return f"{self.root}/data/dataflow/{_segment(agency)}/{_segment(identifier)}"
        return f"{self.root}/data/{_segment(agency)},{_segment(identifier)}"


def accept(address: str) -> str | None:
    """Return the source URL of any web address; None for other text."""
    return web_url(address, "sdmx")


def is_sdmx(body: bytes) -> bool:
    """Return whether a body, or its beginning, looks like a list of dataflows."""
    body = body.lstrip(b"\xef\xbb\xbf \t\r\n")
    if body[:1] == b"<":
        return bool(_XML.match(body)) and (b"Dataflow" in body or b"KeyFamil" in body)
    return body[:1] == b"{" and bool(_JSON.search(body)) and b"sdmx" in body


def _segment(name: str) -> str:
    return segment(name, safe="@:!$&+~")


class SdmxOptions(DocumentOptions):
    """Options of kind `sdmx`; `language` is the preferred language of dataflows in several languages."""

    # The document is read as it arrives and is never in memory as a whole: this limits the time, not the memory.
    max_bytes: int = option(default=1 << 30, gt=0, description="largest document that is read")


_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
# The default of the schema, for texts without a language.
_DEFAULT_LANGUAGE = "en"
_PREFIXES = {
    "http://www.w3.org/XML/1998/namespace": "xml",
    **{
        f"http://www.{host}/schemas/{version}/{part}": ""
        for host in ("sdmx.org/resources/sdmxml", "SDMX.org/resources/SDMXML")
        for version in ("v2_0", "v2_1", "v3_0", "v3_1")
        for part in ("structure", "common", "message")
    },
}
_VOLATILE = frozenset({"OBS_COUNT"})
_UPDATED = frozenset({"UPDATE_DATA", "UPDATE_STRUCTURE", "DISSEMINATION_TIMESTAMP_DATA", "LAST_UPDATE", "LASTUPDATE"})
_LINKED = re.compile(r"(?P<name>[^|]*)\|(?P<url>https?://[^|\s]+)")


@dataclass(frozen=True, slots=True)
class _Note:
    """An annotation of a dataflow."""

    kind: str
    title: str
    url: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flow:
    """A dataflow, parsed from XML or JSON; `source` is the complete record."""

    agency: str
    identifier: str
    version: str
    names: Mapping[str, str]
    descriptions: Mapping[str, str]
    notes: tuple[_Note, ...]
    valid_from: str
    source: Mapping[str, Any]

    @property
    def order(self) -> list[tuple[int, str]]:
        """Return a sort key of the version, in which a draft comes before its release."""
        parts = re.split(r"[.-]", self.version)
        return [*((int(part), "") if part.isdecimal() else (-1, part) for part in parts), (0, "")]

    def letters(self) -> bytes:
        """Return the content of a dataflow as bytes for comparison, without volatile values."""
        if _VOLATILE.isdisjoint(note.kind for note in self.notes):
            return canonical_json(self)
        notes = (replace(note, title="") if note.kind in _VOLATILE and not note.url else note for note in self.notes)
        return canonical_json(replace(self, notes=tuple(notes)))


def dataset_of(flow: Flow, address: SdmxAddress, document: str, *, language: str | None = None) -> Dataset:
    """Return the dataset of a dataflow; `document` is the URL of the list, which determines the URL of the data."""
    wording = wordings(flow.names, flow.descriptions, preferred=language)
    by_kind = {note.kind: note.title for note in flow.notes}
    # The latest date on which data or structure were updated.
    updates = [(at, iso(note.title)) for note in flow.notes if note.kind in _UPDATED and (at := moment(note.title))]
    oldest, latest = by_kind.get("OBS_PERIOD_OVERALL_OLDEST"), by_kind.get("OBS_PERIOD_OVERALL_LATEST")
    return Dataset(
        url=address.item(flow.agency, flow.identifier),
        identifier=f"{flow.agency}:{flow.identifier}" if flow.agency else flow.identifier,
        title=wording.title or flow.identifier,
        description=wording.description,
        publisher=flow.agency,
        languages=tuple(filter(None, [wording.language, *sorted(wording.others)])),
        issued=iso(by_kind.get("CREATED")) or iso(flow.valid_from),
        modified=max(updates, key=lambda update: update[0])[1] if updates else None,
        temporal=f"{oldest or '..'}/{latest or '..'}" if oldest or latest else "",
        usual_page=page_of_dataflow(address.url, flow.identifier),
        name=flow.identifier,
        resources=tuple(_resources(flow, address.data(flow.agency, flow.identifier, document))),
        texts=wording.others,
        source=flow.source,
    )


def flow_of_tree(tree: Element) -> Flow:
    """Return the dataflow in an SDMX-ML element, which may be a key family of SDMX 2.0."""

    def is_volatile(part: Element) -> bool:
        return local(part.tag) == "Annotation" and said(_child(part, "AnnotationType")) in _VOLATILE

    whole = plain_tree(tree, _PREFIXES, leave_out=is_volatile)
    return Flow(
        agency=tree.get("agencyID", "").strip(),
        identifier=tree.get("id", "").strip(),
        version=tree.get("version", ""),
        names=_texts(tree, "Name"),
        descriptions=_texts(tree, "Description"),
        notes=tuple(map(_note_of_tree, _children(_child(tree, "Annotations"), "Annotation"))),
        valid_from=tree.get("validFrom", ""),
        source=whole if isinstance(whole, dict) else {"#text": whole},
    )


def flow_of_json(record: Mapping[str, Any]) -> Flow:
    """Return the dataflow in an SDMX-JSON record."""
    notes = _objects(record.get("annotations"))
    steady_notes = [note for note in notes if word(note.get("type")) not in _VOLATILE]
    return Flow(
        agency=word(record.get("agencyID")),
        identifier=word(record.get("id")),
        version=word(record.get("version")),
        names=_in_languages(record.get("names") or record.get("name")),
        descriptions=_in_languages(record.get("descriptions") or record.get("description")),
        notes=tuple(map(_note_of_json, notes)),
        valid_from=word(record.get("validFrom")),
        source={**record, "annotations": steady_notes} if len(steady_notes) < len(notes) else record,
    )


def _note_of_tree(tree: Element) -> _Note:
    return _Note(
        said(_child(tree, "AnnotationType")),
        said(_child(tree, "AnnotationTitle")) or said(_child(tree, "AnnotationValue")),
        said(_child(tree, "AnnotationURL")),
        tuple(filter(None, map(said, _children(tree, "AnnotationText")))),
    )


def _note_of_json(note: Mapping[str, Any]) -> _Note:
    links = (word(link.get("href")) for link in _objects(note.get("links")))
    texts = _in_languages(note.get("texts") or note.get("text"))
    return _Note(
        word(note.get("type")),
        word(note.get("title")) or word(note.get("value")),
        word(note.get("href")) or next(filter(None, links), ""),
        tuple(dict.fromkeys(texts.values())),
    )


def _resources(flow: Flow, data: str | None) -> Iterator[Resource]:
    if data is not None:
        yield Resource(data, format="SDMX")
    for note in flow.notes:
        if note.url.startswith(("http://", "https://")):
            yield Resource(note.url, name=note.title or note.kind)
        elif note.kind == "EXT_RESOURCE":
            links = (_LINKED.match(text) for text in note.texts)
            yield from (Resource(link["url"], name=link["name"].strip()) for link in links if link)


def _texts(tree: Element, name: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    for child in _children(tree, name):
        texts.setdefault(child.get(_LANG) or _DEFAULT_LANGUAGE, plain("".join(child.itertext()).strip()))
    return texts


def _children(tree: Element | None, name: str) -> Iterator[Element]:
    yield from (child for child in (tree if tree is not None else ()) if local(child.tag) == name)


def _child(tree: Element, name: str) -> Element | None:
    return next(_children(tree, name), None)


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [member for member in value if isinstance(member, Mapping)] if isinstance(value, list) else []


def _in_languages(value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(code): text for code, value_of in value.items() if (text := word(value_of))}
    return {_DEFAULT_LANGUAGE: text} if (text := word(value)) else {}


# At 300 kB/s the largest document that is read by default (1 GB) arrives within an hour.
LONGEST_S = 3600.0
_ROWS = 200  # the size of a page: larger pages take more memory, smaller pages cost more look-ups
_ELSEWHERE = frozenset({400, 404, 405, 406, 501})
_REFUSED = frozenset({401, 403})
_ACCEPT = (
    "application/vnd.sdmx.structure+xml;version=2.1, application/vnd.sdmx.structure+xml;version=3.0.0;q=0.9, "
    "application/vnd.sdmx.structure+json;version=1.0;q=0.8, application/xml;q=0.7, application/json;q=0.6, */*;q=0.1"
)
_WITHIN = frozenset({"Dataflows", "KeyFamilies"})
_TRAIL = b"\xef\xbb\xbf \t\r\n"


class Dataflows(Listing):
    """The listing of an SDMX service."""

    version = SdmxOptions.record_version

    def __init__(self, client: Client, url: str, options: SdmxOptions) -> None:
        client.pace(url, delay_s=options.delay_s)
        self._client = client
        self._address = SdmxAddress(url)
        self._options = options
        self._credentials = Credentials.of(url, options.headers)

    async def read_pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """Yield all dataflows; yield nothing if the document is unchanged since `tokens` were stored."""
        documents = sorted(self._address.documents, key=lambda url: tokens is None or url != tokens.url)
        for url in documents:
            known = tokens if tokens is not None and tokens.url == url else None
            async with self._client.stream(
                url,
                etag=known.etag if known else None,
                last_modified=known.last_modified if known else None,
                credentials=self._credentials,
                accept=_ACCEPT,
                max_bytes=self._options.max_bytes,
                limit_s=LONGEST_S,
            ) as stream:
                if stream.head.status in _ELSEWHERE and url != documents[-1]:
                    continue
                head = stream.head
                self.not_modified = head.not_modified
                if self.not_modified:
                    return
                if head.status in _REFUSED:
                    raise SourceError(
                        f"{self._address.url} refused the request (status {head.status}).",
                        hint="If it wants a key, name where that is found in the option headers, as env:NAME or "
                        "file:/path.",
                    )
                if not head.ok:
                    kind = SourceGoneError if head.status in (404, 410) else SourceError
                    raise kind(f"{self._address.url} answered with status {head.status}.")
                async with aclosing(self._rows(stream, url)) as pages:
                    async for page in pages:
                        yield page
                if not stream.head.redirects:
                    self.tokens = Tokens(url, stream.head.etag, stream.head.last_modified)
            return

    async def _rows(self, stream: Stream, document: str) -> AsyncGenerator[ListingPage]:
        """Yield the dataflows in pages; among consecutive versions of a dataflow, use the latest."""
        rows: list[Row] = []
        last: Flow | None = None
        async with aclosing(self._flows(stream)) as flows:
            async for flow in flows:
                if isinstance(flow, Failed):
                    rows.append(Row(flow))
                    continue
                if last is not None and (last.agency, last.identifier) == (flow.agency, flow.identifier):
                    last = max(last, flow, key=lambda version: version.order)
                    continue
                if last is not None:
                    rows.append(self._row(last, document))
                last = flow
                if len(rows) >= _ROWS:
                    yield ListingPage(rows)
                    rows = []
        yield ListingPage([*rows, *([self._row(last, document)] if last is not None else [])])

    def _row(self, flow: Flow, document: str) -> Row:
        """Return the row of a dataflow that is mapped only if it changed."""
        options = self._options
        seen = unparsed(
            self._address.item(flow.agency, flow.identifier),
            # The URL of the data depends on the document that answered.
            lambda: body_hash(flow.letters() + document.encode()),
            lambda: dataset_of(flow, self._address, document, language=options.language),
            payload=lambda: payload_of(flow.source),
            options=options,
            what="dataflow",
        )
        return Row(seen)

    async def _flows(self, stream: Stream) -> AsyncGenerator[Flow | Failed]:
        """Yield the dataflows of an XML or JSON document; raise an error if it is truncated."""
        pieces = aiter(stream)
        beginning = b""
        while not beginning and (piece := await anext(pieces, None)) is not None:
            beginning = piece.lstrip(_TRAIL)

        async def document() -> AsyncIterator[bytes]:
            yield beginning
            async for piece in pieces:
                yield piece

        match beginning[:1]:
            case b"<" | b"\xff" | b"\xfe":
                flows = self._parse_xml(document(), stream.head.charset)
            case b"{":
                flows = self._parse_json(document())
            case _:
                raise UnreadableError(f"{self._address.url} is neither XML nor JSON.")
        async with aclosing(flows):
            async for flow in flows:
                yield flow

    async def _parse_xml(self, pieces: AsyncIterator[bytes], charset: str | None) -> AsyncGenerator[Flow | Failed]:
        reader = Reader(frozenset({"ErrorMessage"}), within=_WITHIN, heads=_WITHIN, charset=charset)
        has_list = has_flows = False
        async with aclosing(elements(pieces, reader)) as parsed:
            async for element in parsed:
                name = local(element.tree.tag)
                has_list = has_list or name in _WITHIN
                has_flows = has_flows or name == "Dataflow"
                if name == "ErrorMessage":
                    raise SourceError(f"{self._address.url} reports an error: {said(element.tree)}.")
                # In SDMX 2.0 a dataflow refers to a key family; a service without dataflows lists only key families.
                if name == "Dataflow" or (name == "KeyFamily" and not has_flows):
                    yield self._checked(flow_of_tree(element.tree), element.why)
        if not has_list:
            raise SourceError(f"{self._address.url} holds no list of dataflows.")

    async def _parse_json(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[Flow | Failed]:
        splitter = Splitter(frozenset({"dataflows"}), frozenset({"data"}))
        async for piece in pieces:
            for cut in splitter.feed(piece):
                why = "The dataflow is too large to be read."
                try:
                    if cut.whole:
                        yield self._checked(flow_of_json(read_json(cut.body, self._address.url)))
                        continue
                except UnreadableError as problem:
                    why = str(problem)
                yield Failed(unread_url(self._address.url, cut.body), why, payload=cut.body)
        splitter.close()
        if not splitter.found:
            raise SourceError(f"{self._address.url} holds no list of dataflows.")

    def _checked(self, flow: Flow, why: str | None = None) -> Flow | Failed:
        """Return a dataflow, or a failure if it has no identifier or was not read completely."""
        if why is None and flow.identifier:
            return flow
        payload = payload_of(flow.source)
        if flow.identifier:
            url = self._address.item(flow.agency, flow.identifier)
        else:
            url = unread_url(self._address.url, payload or canonical_json(flow.version))
        return Failed(url, why or "The dataflow has no identifier.", payload=payload)


_LIKELY = re.compile(r"sdmx|/(?:api|rest|service|ws)(?:/|$)", re.IGNORECASE)


class Sdmx(CatalogConnector):
    """Connector for SDMX services."""

    kind = "sdmx"
    Options = SdmxOptions
    accept = staticmethod(accept)

    @staticmethod
    def is_typical(address: str) -> bool:
        """Return whether the address alone identifies a request for all dataflows of an SDMX service."""
        return re.search(f"(?:{_TELLING.pattern})$", address.partition("?")[0], re.IGNORECASE) is not None

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the service at an address: a list of dataflows, or an address that has such a list below it.

        Such a list is expensive for a server, so it is requested only if the address looks like an SDMX service.
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

    def _open_listing(self, client: Client, known: Known) -> Listing:
        return Dataflows(client, self._url, self._options)
