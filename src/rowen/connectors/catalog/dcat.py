"""What DCAT says of a dataset, a series or a service becomes a dataset, whether it came in a document or in rows."""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import unquote

from rowen.connectors.catalog.dataset import Dataset, Resource, kind_named
from rowen.connectors.catalog.dates import iso, moment
from rowen.connectors.catalog.listing import UnparsedRecord
from rowen.connectors.catalog.options import page_at_europa
from rowen.connectors.catalog.resources import format_named, format_of, media_type_named, size_of
from rowen.connectors.catalog.text import code_of, one_of, plain, wordings
from rowen.formats.rdf.graph import Graph, Iri, Literal, Node, Term
from rowen.model.hashes import body_hash, canonical_json
from rowen.model.items import Failed, Fetched, Validators
from rowen.model.text import attempt
from rowen.model.url import address, canonical, quoted

__all__ = ["ITEMS", "Reading", "dataset_of", "item_url", "unread_node"]

ITEMS = frozenset({"dcat:Dataset", "dcat:DatasetSeries", "dcat:DataService"})
"""The classes whose nodes are items."""

_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_LONGEST_PLACE = 2000  # letters: names, boxes and short polygons pass, outlines of countries (100 kB) do not
_NAMES = (
    "foaf:name",
    "skos:prefLabel",
    "rdfs:label",
    "vcard:fn",
    "schema:name",
    "dct:title",
    "vcard:organization-name",
)
_TITLES = ("dct:title", "dc:title", "schema:name", "rdfs:label", "foaf:name", "skos:prefLabel")
_DESCRIPTIONS = ("dct:description", "dc:description", "dct:abstract", "schema:description", "rdfs:comment")
_MODIFIED = ("dct:modified", "schema:dateModified", "dct:updated")
_ISSUED = ("dct:issued", "schema:datePublished", "dct:created", "dct:date", "dc:date")
_DISTRIBUTIONS = ("dcat:distribution", "dcat:distributions", "schema:distribution")
_PLACES = ("skos:prefLabel", "rdfs:label", "locn:geographicName", "schema:name", "foaf:name", "dct:title")
_SHAPES = ("dcat:bbox", "dcat:centroid", "locn:geometry", "gsp:asWKT")
_STARTS = ("dcat:startDate", "schema:startDate", "time:hasBeginning", "dct:start")
_ENDS = ("dcat:endDate", "schema:endDate", "time:hasEnd", "dct:end")
_INSTANTS = ("time:inXSDDate", "time:inXSDDateTimeStamp", "time:inXSDDateTime", "time:inXSDgYear")
# What leads to other items, of which nothing is read.
_RELATIONS = frozenset(
    {
        "dcat:accessService",
        "dcat:first",
        "dcat:hasVersion",
        "dcat:inSeries",
        "dcat:isVersionOf",
        "dcat:last",
        "dcat:next",
        "dcat:prev",
        "dcat:qualifiedRelation",
        "dcat:seriesMember",
        "dcat:servesDataset",
        "dct:conformsTo",
        "dct:hasPart",
        "dct:hasVersion",
        "dct:isPartOf",
        "dct:isReferencedBy",
        "dct:isReplacedBy",
        "dct:isRequiredBy",
        "dct:isVersionOf",
        "dct:references",
        "dct:relation",
        "dct:replaces",
        "dct:requires",
        "dct:source",
    }
)
_ORGANISATION = re.compile(r"https?://\S*/organizations/([^\s/?#]+)")
_AUTHORITY = re.compile(r"\A.*/authority/[\w-]+/")


class Reading(NamedTuple):
    """A dataset, and when it is said to have been modified."""

    dataset: Dataset
    modified: datetime | None


class UnreadNode(NamedTuple):
    """A node that is mapped only if it changed, and its modification date."""

    seen: UnparsedRecord | Fetched | Failed
    modified: datetime | None


def unread_node(
    graph: Graph,
    node: Node,
    source: str,
    *,
    language: str | None,
    borders: Container[Node],
    failed: Callable[[str], Failed],
    landing_page: str | None = None,
) -> UnreadNode:
    """Return a node of a catalog, compared by what is said of it, in an order of its own.

    One that others decide about as well is read at once. Raises `ValueError` where what is said is broken, or too much.
    """
    record, is_all = graph.written_out(node, borders, unfollowed=_RELATIONS)
    digest = body_hash(canonical_json(record)) if is_all else None

    def read() -> Fetched | Failed:
        def document() -> Fetched:
            dataset = dataset_of(graph, node, source, language=language, record=record).dataset
            validators = Validators(body_hash=digest)
            return Fetched(dataset.document(validators=validators, language=language, landing_page=landing_page))

        return attempt(document, failed)

    modified = moment(_modified(graph, node))
    if digest is None:
        return UnreadNode(read(), modified)
    return UnreadNode(UnparsedRecord(address(item_url(graph, node, source)), digest, read), modified)


def dataset_of(
    graph: Graph,
    node: Node,
    source: str,
    *,
    language: str | None = None,
    borders: Container[Node] = (),
    record: Mapping[str, Any] | None = None,
) -> Reading:
    """Return the dataset of a node in the catalog at `source`; missing values stay empty.

    `record` is the node written out, if it was. Raises `ValueError` where what is said is broken, or too much.
    """
    titles, descriptions = (
        _by_language(graph.values(node, *_TITLES), min),
        _by_language(graph.values(node, *_DESCRIPTIONS), _together),
    )
    said = wordings(titles, descriptions, preferred=language)
    main, record = said.language, graph.written(node, borders) if record is None else record
    url, identifier = item_url(graph, node, source), _identifier(graph, node)
    modified = _modified(graph, node)
    dataset = Dataset(
        url=url,
        identifier=identifier or (str(node) if isinstance(node, Iri) else ""),
        title=said.title or identifier or (str(node) if isinstance(node, Iri) else "") or "Untitled",
        description=said.description,
        tags=tuple(_tags(graph, node)),
        publisher=_publisher(graph, node, main),
        licence=_licence(graph, node, main),
        languages=_languages(graph, node, main, said.others),
        issued=min(filter(None, map(iso, _texts(graph.values(node, *_ISSUED)))), default=None),
        modified=iso(modified),
        spatial="; ".join(_places(graph, node, main)),
        temporal=", ".join(_periods(graph, node)),
        landing_page=_first(_addresses(graph.values(node, "dcat:landingPage", "foaf:page", "foaf:homepage"))),
        usual_page=page_at_europa(node) if isinstance(node, Iri) else "",
        name=node.rstrip("/").rpartition("/")[2] if isinstance(node, Iri) else "",
        resources=tuple(_resources(graph, node, main)),
        record_kind=_record_kind(graph, node),
        texts=said.others,
        source=record,
    )
    return Reading(dataset, moment(modified))


def item_url(graph: Graph, node: Node, source: str) -> str:
    """Under which URL a node is known: its IRI if that is an address, else a route of the source.

    It is the same for http and https. A fragment is no part of an address, so that an IRI with one is a route. A node
    without a name is known by its identifier, else by its page or file together with title and publisher.
    """
    name = str(node) if isinstance(node, Iri) else _identifier(graph, node)
    if _SCHEME.match(name) and ("#" not in name or re.search(r"#[/!]", name)):
        with suppress(ValueError):
            return canonical(name)
    base = source.partition("#")[0]
    if name:
        return f"{base}#/{quoted(_SCHEME.sub('', name, count=1))}"
    return f"{base}#/unnamed/{body_hash(canonical_json(_likeness(graph, node))).hex()[:32]}"


def _modified(graph: Graph, node: Node) -> str:
    """Return the latest of the dates on which it is said to have been modified."""
    return max(_texts(graph.values(node, *_MODIFIED)), key=lambda text: iso(text) or "", default="")


def _likeness(graph: Graph, node: Node) -> list[str]:
    files = (
        address
        for one in graph.values(node, *_DISTRIBUTIONS)
        for address in _addresses(graph.values(one, "dcat:downloadURL", "dcat:accessURL"))
    )
    place = _first(_addresses(graph.values(node, "dcat:landingPage", "foaf:page"))) or _first(files)
    title = _first(_texts(graph.values(node, *_TITLES)))
    return [_SCHEME.sub("", place, count=1), title, _first(_labels(graph, graph.values(node, "dct:publisher"), None))]


def _identifier(graph: Graph, node: Node) -> str:
    own = _first(_texts(graph.values(node, "dct:identifier", "dc:identifier", "schema:identifier")))
    others = (
        text
        for one in graph.values(node, "adms:identifier")
        for text in _texts(graph.values(one, "skos:notation", "dct:identifier"))
    )
    return own or _first(others)


def _record_kind(graph: Graph, node: Node) -> str | None:
    """Return the record kind of a node: its class, or the type of the dataset."""
    types = graph.types(node)
    if "dcat:DatasetSeries" in types:
        return "series"
    if "dcat:DataService" in types and "dcat:Dataset" not in types:
        return "service"
    told = graph.values(node, "dct:type", "dc:type")
    return kind_named(sorted(one.text if isinstance(one, Literal) else str(one) for one in told))


def _tags(graph: Graph, node: Node) -> Iterator[str]:
    for value in graph.values(node, "dcat:keyword", "schema:keywords", "dc:subject"):
        yield from _names_of(graph, value)
    for name in ("dcat:theme", "dct:subject"):
        for value in graph.values(node, name):
            yield from _names_of(graph, value)


def _names_of(graph: Graph, value: Term) -> Iterator[str]:
    """Return the names of a keyword or theme, in all languages; an undescribed address only if it is a code."""
    if isinstance(value, Literal):
        yield value.text
    elif named := list(_texts(graph.values(value, *_NAMES))):
        yield from named
    elif _AUTHORITY.match(value):
        yield _AUTHORITY.sub("", value, count=1)


def _publisher(graph: Graph, node: Node, language: str | None) -> str:
    """Who publishes it; of an organisation that GeoNetwork only gives an address, the name in that."""
    named = _first(_labels(graph, graph.values(node, "dct:publisher", "dct:creator", "schema:publisher"), language))
    match = _ORGANISATION.fullmatch(named)
    return unquote(match[1]) if match else named


def _licence(graph: Graph, node: Node, language: str | None) -> str:
    own = _first(_labels(graph, graph.values(node, "dct:license", "dct:rights", "schema:license"), language))
    if own:
        return own
    files = graph.values(node, *_DISTRIBUTIONS)
    licences = {_first(_labels(graph, graph.values(file, "dct:license", "dct:rights"), language)) for file in files}
    return licences.pop() if len(licences) == 1 else ""


def _languages(graph: Graph, node: Node, main: str | None, others: Iterable[str]) -> tuple[str, ...]:
    said = _labels(graph, graph.values(node, "dct:language", "dc:language"), None, by_name=False)
    codes = sorted({code_of(one) or one for one in said})
    return tuple(dict.fromkeys(codes or ([main, *sorted(others)] if main else [])))


def _places(graph: Graph, node: Node, language: str | None) -> list[str]:
    places: set[str] = set()
    for value in graph.values(node, "dct:spatial", "schema:spatialCoverage"):
        if isinstance(value, Literal):
            places.add(value.text.strip())
            continue
        named = one_of(_by_language(graph.values(value, *_PLACES), min), language)
        shapes = _texts(graph.values(value, *_SHAPES))
        places.add(named or min(shapes, key=lambda text: (len(text), text), default="") or _name(value))
    return sorted(place for place in places if place and len(place) <= _LONGEST_PLACE)


def _periods(graph: Graph, node: Node) -> list[str]:
    periods: set[str] = set()
    for value in graph.values(node, "dct:temporal", "schema:temporalCoverage"):
        start, end = _instant(graph, value, _STARTS), _instant(graph, value, _ENDS)
        periods.add(f"{start}/{end}" if start or end else _first(_labels(graph, [value], None)))
    return sorted(filter(None, periods))


def _instant(graph: Graph, value: Term, names: tuple[str, ...]) -> str:
    texts = [
        text
        for one in graph.values(value, *names)
        for text in _texts([one] if isinstance(one, Literal) else graph.values(one, *_INSTANTS))
    ]
    return min((iso(text) or text for text in texts), default="")


def _resources(graph: Graph, node: Node, language: str | None) -> list[Resource]:
    """Return files and endpoints, sorted, since RDF has no order."""
    resources = [_resource(graph, one, language) for one in graph.values(node, *_DISTRIBUTIONS)]
    endpoints = {*_addresses(graph.values(node, "dcat:endpointURL"))}
    resources += [Resource(url=url, name="Endpoint") for url in endpoints]
    resources += [
        Resource(url=url, name="Description of the endpoint")
        for url in {*_addresses(graph.values(node, "dcat:endpointDescription"))}
    ]
    return sorted(set(resources), key=lambda one: (one.name, one.url, one.format, one.description, one.size_bytes or 0))


def _resource(graph: Graph, one: Term, language: str | None) -> Resource:
    def label(*names: str) -> str:
        return _first(_labels(graph, graph.values(one, *names), language))

    sizes = map(size_of, _texts(graph.values(one, "dcat:byteSize", "schema:contentSize")))
    media_type = media_type_named(label("dcat:mediaType"))
    url = _first(_addresses(graph.values(one, "dcat:downloadURL"))) or _first(
        _addresses(graph.values(one, "dcat:accessURL", "schema:contentUrl"))
    )
    said = _by_language(graph.values(one, *_DESCRIPTIONS), _together)
    return Resource(
        url=url or _name(one),
        name=one_of(_by_language(graph.values(one, *_TITLES), min), language),
        description=plain(one_of(said, language)),
        format=format_named(label("dct:format", "dc:format", "schema:encodingFormat")) or format_of(media_type, url),
        media_type=media_type,
        size_bytes=next(filter(None, sizes), None),
    )


def _labels(graph: Graph, values: Iterable[Term], language: str | None, *, by_name: bool = True) -> Iterator[str]:
    """Return the name of each value: its own text, the name of the node, or the node's address."""
    for value in values:
        if isinstance(value, Literal):
            yield plain(value.text)
        elif by_name and (named := one_of(_by_language(graph.values(value, *_NAMES), min), language)):
            yield named
        else:
            yield _name(value) or _first(_texts(graph.values(value, "rdf:value", *_NAMES)))


def _name(value: Term) -> str:
    return str(value) if isinstance(value, Iri) else ""


def _addresses(values: Iterable[Term]) -> Iterator[str]:
    """Return addresses, given as nodes or as texts."""
    for value in values:
        text = value.text.strip() if isinstance(value, Literal) else _name(value)
        if text:
            yield text


def _texts(values: Iterable[Term]) -> Iterator[str]:
    for value in values:
        if isinstance(value, Literal) and (text := value.text.strip()):
            yield text


def _first(texts: Iterable[str]) -> str:
    """Return one of several texts, always the same: the first in alphabetical order."""
    return min((text for text in texts if text), default="")


def _together(texts: Iterable[str]) -> str:
    return "\n\n".join(sorted(texts))


def _by_language(values: Iterable[Term], choose: Callable[[list[str]], str]) -> dict[str, str]:
    texts_of: dict[str, list[str]] = {}
    for value in values:
        if isinstance(value, Literal) and (text := value.text.strip()):
            code = (code_of(value.language) or value.language.lower()) if value.language else ""
            texts_of.setdefault(code, []).append(text)
    return {code: choose(texts) for code, texts in texts_of.items()}
