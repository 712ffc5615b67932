"""A dataflow of SDMX, in XML or JSON, becomes a dataset."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rowen.connectors.catalog.dataset import Dataset, Resource
from rowen.connectors.catalog.dates import iso, moment
from rowen.connectors.catalog.options import DocumentOptions, page_of_dataflow, web_url
from rowen.connectors.catalog.text import plain, word, wordings
from rowen.connectors.plain_options import option
from rowen.formats.xml import Element, local, plain_tree, said
from rowen.model.hashes import canonical_json
from rowen.model.url import quoted, segment

__all__ = [
    "Flow",
    "SdmxAddress",
    "SdmxOptions",
    "accept",
    "dataset_of",
    "flow_of_json",
    "flow_of_tree",
    "is_sdmx",
    "recognise",
]

_PREFIX = "sdmx:"
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
    """A service by its base, by its list of dataflows, or a document that lies anywhere."""

    url: str

    @property
    def documents(self) -> tuple[str, ...]:
        """Return where the list may be: the address itself, or before that, what SDMX 2.1 and 3.0 have below a base."""
        if self._is_document:
            return (self.url,)
        bare = self.url.rstrip("/")
        return f"{bare}/dataflow/all/all/latest?{_ASKED}", f"{bare}/structure/dataflow/*/*/~?{_ASKED}", self.url

    @property
    def root(self) -> str | None:
        """Return the base of the service; None for a document."""
        path = self.url.partition("?")[0].rstrip("/")
        if match := _FLOWS.fullmatch(path):
            return match["root"]
        return None if self._is_document else path

    @property
    def _is_document(self) -> bool:
        path = self.url.partition("?")[0]
        return bool("?" in self.url or _FLOWS.fullmatch(path) or _SOME_FILE.search(path))

    def item(self, agency: str, identifier: str) -> str:
        """Return the URL of a dataflow, which answers with its latest version; in a document, a route of it."""
        if self.root is None:
            return f"{self.url.partition('#')[0]}#/{quoted(agency)}:{quoted(identifier)}"
        return f"{self.root}/dataflow/{_segment(agency) or 'all'}/{_segment(identifier)}"

    def data(self, agency: str, identifier: str, document: str) -> str | None:
        """Return where the data of a dataflow is, by the version of the API that answered."""
        if self.root is None or "/dataflow" not in document:
            return None
        if "/structure/dataflow" in document:
            return f"{self.root}/data/dataflow/{_segment(agency)}/{_segment(identifier)}"
        return f"{self.root}/data/{_segment(agency)},{_segment(identifier)}"


def recognise(address: str) -> str | None:
    """Return the source URL of `sdmx:https://…`, or of an address that asks an SDMX service for all dataflows."""
    path = address.partition("?")[0]
    telling = address.startswith(_PREFIX) or re.search(f"(?:{_TELLING.pattern})$", path, re.IGNORECASE)
    return accept(address) if telling else None


def accept(address: str) -> str | None:
    """Return the source URL of an address that is said to be an SDMX service's."""
    return web_url(address, "sdmx")


def is_sdmx(body: bytes) -> bool:
    """Return whether what may be only the beginning of a document is a list of dataflows."""
    body = body.lstrip(b"\xef\xbb\xbf \t\r\n")
    if body[:1] == b"<":
        return bool(_XML.match(body)) and (b"Dataflow" in body or b"KeyFamil" in body)
    return body[:1] == b"{" and bool(_JSON.search(body)) and b"sdmx" in body


def _segment(name: str) -> str:
    return segment(name, safe="@:!$&+~")


class SdmxOptions(DocumentOptions):
    """Options of kind `sdmx`; `language` is the one to prefer where a dataflow has names in several."""

    # It is read while it comes in and never held whole: this is a limit on patience, not on memory.
    max_bytes: int = option(default=1 << 30, gt=0, description="largest document that is read")


_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_DEFAULT_LANGUAGE = "en"
"""The schema's own, for texts that do not name theirs."""

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
    """An annotation: what kind it is, and what it says."""

    kind: str
    title: str
    url: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flow:
    """A dataflow, whichever way it was written; `source` is all of it."""

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
        """Return a sort key of the version; a draft comes before its release."""
        parts = re.split(r"[.-]", self.version)
        return [*((int(part), "") if part.isdecimal() else (-1, part) for part in parts), (0, "")]

    def letters(self) -> bytes:
        """Return all that decides what becomes of it, without what moves by itself."""
        if _VOLATILE.isdisjoint(note.kind for note in self.notes):
            return canonical_json(self)
        notes = (replace(note, title="") if note.kind in _VOLATILE and not note.url else note for note in self.notes)
        return canonical_json(replace(self, notes=tuple(notes)))


def dataset_of(flow: Flow, address: SdmxAddress, document: str, *, language: str | None = None) -> Dataset:
    """Return the dataset of a dataflow; its data is at the service that answered with `document`."""
    wording = wordings(flow.names, flow.descriptions, preferred=language)
    by_kind = {note.kind: note.title for note in flow.notes}
    return Dataset(
        url=address.item(flow.agency, flow.identifier),
        identifier=f"{flow.agency}:{flow.identifier}" if flow.agency else flow.identifier,
        title=wording.title or flow.identifier,
        description=wording.description,
        publisher=flow.agency,
        languages=tuple(filter(None, [wording.language, *sorted(wording.others)])),
        issued=iso(by_kind.get("CREATED")) or iso(flow.valid_from),
        modified=_modified(flow.notes),
        temporal=_period(by_kind),
        usual_page=page_of_dataflow(address.url, flow.identifier),
        name=flow.identifier,
        resources=tuple(_resources(flow, address.data(flow.agency, flow.identifier, document))),
        texts=wording.others,
        source=flow.source,
    )


def flow_of_tree(tree: Element) -> Flow:
    """Return a dataflow of SDMX-ML, or a key family of 2.0."""
    return Flow(
        agency=tree.get("agencyID", "").strip(),
        identifier=tree.get("id", "").strip(),
        version=tree.get("version", ""),
        names=_texts(tree, "Name"),
        descriptions=_texts(tree, "Description"),
        notes=tuple(map(_note_of_tree, _children(_child(tree, "Annotations"), "Annotation"))),
        valid_from=tree.get("validFrom", ""),
        source=_object(plain_tree(tree, _PREFIXES, leave_out=_moves)),
    )


def flow_of_json(record: Mapping[str, Any]) -> Flow:
    """Return a dataflow of SDMX-JSON."""
    notes = [one for one in _list(record.get("annotations")) if isinstance(one, Mapping)]
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
    links = (word(one.get("href")) for one in _list(note.get("links")) if isinstance(one, Mapping))
    texts = _in_languages(note.get("texts") or note.get("text"))
    return _Note(
        word(note.get("type")),
        word(note.get("title")) or word(note.get("value")),
        word(note.get("href")) or next(filter(None, links), ""),
        tuple(dict.fromkeys(texts.values())),
    )


def _modified(notes: Iterable[_Note]) -> str | None:
    """Return the latest of the dates on which data or structure were updated."""
    dated = [(at, iso(note.title)) for note in notes if note.kind in _UPDATED and (at := moment(note.title))]
    return max(dated, key=lambda pair: pair[0])[1] if dated else None


def _period(by_kind: Mapping[str, str]) -> str:
    oldest, latest = by_kind.get("OBS_PERIOD_OVERALL_OLDEST"), by_kind.get("OBS_PERIOD_OVERALL_LATEST")
    return f"{oldest or '..'}/{latest or '..'}" if oldest or latest else ""


def _resources(flow: Flow, data: str | None) -> Iterator[Resource]:
    if data is not None:
        yield Resource(data, format="SDMX")
    for note in flow.notes:
        if note.url.startswith(("http://", "https://")):
            yield Resource(note.url, name=note.title or note.kind)
        elif note.kind == "EXT_RESOURCE":
            links = (_LINKED.match(text) for text in note.texts)
            yield from (Resource(link["url"], name=link["name"].strip()) for link in links if link)


def _moves(tree: Element) -> bool:
    return local(tree.tag) == "Annotation" and said(_child(tree, "AnnotationType")) in _VOLATILE


def _texts(tree: Element, name: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    for child in _children(tree, name):
        texts.setdefault(child.get(_LANG) or _DEFAULT_LANGUAGE, plain("".join(child.itertext()).strip()))
    return texts


def _children(tree: Element | None, name: str) -> Iterator[Element]:
    yield from (child for child in (tree if tree is not None else ()) if local(child.tag) == name)


def _child(tree: Element, name: str) -> Element | None:
    return next(_children(tree, name), None)


def _in_languages(value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(code): text for code, value_of in value.items() if (text := word(value_of))}
    return {_DEFAULT_LANGUAGE: text} if (text := word(value)) else {}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"#text": value}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
