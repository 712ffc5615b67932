"""Map DCAT nodes (datasets, series, services) to datasets, for documents and for rows of query results."""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from rowen.connectors.catalog.dataset import Dataset, Resource, kind_named
from rowen.connectors.catalog.dates import iso, moment
from rowen.connectors.catalog.listing import Row
from rowen.connectors.catalog.options import DocumentOptions, page_at_europa
from rowen.connectors.catalog.records import unparsed
from rowen.connectors.catalog.resources import format_named, format_of, media_type_named, size_of
from rowen.connectors.catalog.text import code_of, one_of, plain, wordings
from rowen.formats.rdf.graph import Graph, Iri, Literal, Node, Term
from rowen.model.hashes import Hash, body_hash, canonical_json
from rowen.model.url import canonical, quoted

# The classes whose nodes are items.
ITEMS = frozenset({"dcat:Dataset", "dcat:DatasetSeries", "dcat:DataService"})
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_LONGEST_PLACE = 2000  # characters: names, boxes and short polygons are kept, outlines of countries (100 kB) are not
_NAMES = (
    *("foaf:name", "skos:prefLabel", "rdfs:label", "vcard:fn", "schema:name", "dct:title"),
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
# Properties that refer to other items, whose RDF statements are no part of this item.
_RELATIONS = frozenset(
    {"dcat:accessService", "dcat:first", "dcat:hasVersion", "dcat:inSeries", "dcat:isVersionOf", "dcat:last"}
    | {"dcat:next", "dcat:prev", "dcat:qualifiedRelation", "dcat:seriesMember", "dcat:servesDataset"}
    | {"dct:conformsTo", "dct:hasPart", "dct:hasVersion", "dct:isPartOf", "dct:isReferencedBy"}
    | {"dct:isReplacedBy", "dct:isRequiredBy", "dct:isVersionOf", "dct:references", "dct:relation"}
    | {"dct:replaces", "dct:requires", "dct:source"}
)
_ORGANISATION = re.compile(r"https?://\S*/organizations/([^\s/?#]+)")
_AUTHORITY = re.compile(r"\A.*/authority/[\w-]+/")


def row_of_node(
    graph: Graph,
    node: Node,
    source: str,
    *,
    options: DocumentOptions,
    borders: Container[Node],
    payload: Callable[[], bytes | None],
    what: str = "record",
) -> Row:
    """Return the row of a node; its digest is the hash of its RDF statements in canonical order.

    A node that shares RDF statements with other nodes has no digest and is mapped at once.
    """
    record: Mapping[str, Any] | None = None

    def digest() -> Hash:
        nonlocal record
        record, is_all = graph.written_out(node, borders, unfollowed=_RELATIONS)
        if not is_all:
            raise ValueError("other nodes decide about it as well")
        return body_hash(canonical_json(record))

    def read() -> Dataset:
        said = record or graph.written_out(node, borders, unfollowed=_RELATIONS)[0]
        return dataset_of(graph, node, source, language=options.language, record=said)

    url = item_url(graph, node, source)
    seen = unparsed(url, digest, read, payload=payload, options=options, what=what)
    return Row(seen, moment(_modified(graph, node)) if record is not None else None)


def dataset_of(
    graph: Graph,
    node: Node,
    source: str,
    *,
    language: str | None = None,
    borders: Container[Node] = (),
    record: Mapping[str, Any] | None = None,
) -> Dataset:
    """Return the dataset of a node in the catalog at `source`; missing values stay empty.

    `record` contains the RDF statements of the node if they were already collected. Raises `ValueError` if they are
    broken or too many.
    """
    titles, descriptions = (
        _by_language(graph.values(node, *_TITLES), min),
        _by_language(graph.values(node, *_DESCRIPTIONS), _together),
    )
    wording = wordings(titles, descriptions, preferred=language)
    main, iri, identifier = wording.language, _name(node), _identifier(graph, node)

    def label(*names: str) -> str:
        return _first(_labels(graph, graph.values(node, *names), main))

    named = _labels(graph, graph.values(node, "dct:language", "dc:language"), None, by_name=False)
    codes = sorted({code_of(name) or name for name in named})
    publisher = label("dct:publisher", "dct:creator", "schema:publisher")
    # GeoNetwork gives only the address of an organisation; the address contains its name.
    organisation = _ORGANISATION.fullmatch(publisher)
    licence = label("dct:license", "dct:rights", "schema:license")
    if not licence:
        files = graph.values(node, *_DISTRIBUTIONS)
        licences = {_first(_labels(graph, graph.values(file, "dct:license", "dct:rights"), main)) for file in files}
        licence = licences.pop() if len(licences) == 1 else ""
    keywords = graph.values(node, "dcat:keyword", "schema:keywords", "dc:subject")
    themes = (*graph.values(node, "dcat:theme"), *graph.values(node, "dct:subject"))
    return Dataset(
        url=item_url(graph, node, source),
        identifier=identifier or iri,
        title=wording.title or identifier or iri or "Untitled",
        description=wording.description,
        tags=tuple(name for value in (*keywords, *themes) for name in _names_of(graph, value)),
        publisher=unquote(organisation[1]) if organisation else publisher,
        licence=licence,
        languages=tuple(dict.fromkeys(codes or ([main, *sorted(wording.others)] if main else []))),
        issued=min(filter(None, map(iso, _texts(graph.values(node, *_ISSUED)))), default=None),
        modified=iso(_modified(graph, node)),
        spatial="; ".join(_places(graph, node, main)),
        temporal=", ".join(_periods(graph, node)),
        landing_page=_first(_addresses(graph.values(node, "dcat:landingPage", "foaf:page", "foaf:homepage"))),
        usual_page=page_at_europa(iri),
        name=iri.rstrip("/").rpartition("/")[2],
        resources=tuple(_resources(graph, node, main)),
        record_kind=_record_kind(graph, node),
        texts=wording.others,
        source=graph.written(node, borders) if record is None else record,
    )


def item_url(graph: Graph, node: Node, source: str) -> str:
    """Return the URL of a node's item: its IRI if that is an address, else the URL of the source with a fragment.

    The URL is the same for http and https. A fragment is no part of an address, so an IRI with a fragment becomes a
    fragment of the source's URL. A blank node is identified by its identifier, else by its page or file together with
    its title and publisher.
    """
    name = str(node) if isinstance(node, Iri) else _identifier(graph, node)
    if _SCHEME.match(name) and ("#" not in name or re.search(r"#[/!]", name)):
        with suppress(ValueError):
            return canonical(name)
    base = source.partition("#")[0]
    if name:
        return f"{base}#/{quoted(_SCHEME.sub('', name, count=1))}"
    files = (
        address
        for file in graph.values(node, *_DISTRIBUTIONS)
        for address in _addresses(graph.values(file, "dcat:downloadURL", "dcat:accessURL"))
    )
    place = _first(_addresses(graph.values(node, "dcat:landingPage", "foaf:page"))) or _first(files)
    title = _first(_texts(graph.values(node, *_TITLES)))
    publisher = _first(_labels(graph, graph.values(node, "dct:publisher"), None))
    likeness = [_SCHEME.sub("", place, count=1), title, publisher]
    return f"{base}#/unnamed/{body_hash(canonical_json(likeness)).hex()[:32]}"


def _modified(graph: Graph, node: Node) -> str:
    """Return the latest modification date of a node; empty if it has none."""
    return max(_texts(graph.values(node, *_MODIFIED)), key=lambda text: iso(text) or "", default="")


def _identifier(graph: Graph, node: Node) -> str:
    own = _first(_texts(graph.values(node, "dct:identifier", "dc:identifier", "schema:identifier")))
    others = (
        text
        for identifier in graph.values(node, "adms:identifier")
        for text in _texts(graph.values(identifier, "skos:notation", "dct:identifier"))
    )
    return own or _first(others)


def _record_kind(graph: Graph, node: Node) -> str | None:
    """Return the record kind of a node, from its class or from the type of the dataset."""
    types = graph.types(node)
    if "dcat:DatasetSeries" in types:
        return "series"
    if "dcat:DataService" in types and "dcat:Dataset" not in types:
        return "service"
    values = graph.values(node, "dct:type", "dc:type")
    return kind_named(sorted(value.text if isinstance(value, Literal) else str(value) for value in values))


def _names_of(graph: Graph, value: Term) -> Iterator[str]:
    """Yield the names of a keyword or theme in all languages; for an address without a name, only its EU code."""
    if isinstance(value, Literal):
        yield value.text
    elif named := list(_texts(graph.values(value, *_NAMES))):
        yield from named
    elif _AUTHORITY.match(value):
        yield _AUTHORITY.sub("", value, count=1)


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
        for instant in graph.values(value, *names)
        for text in _texts([instant] if isinstance(instant, Literal) else graph.values(instant, *_INSTANTS))
    ]
    return min((iso(text) or text for text in texts), default="")


def _resources(graph: Graph, node: Node, language: str | None) -> list[Resource]:
    """Return the files and endpoints of a dataset, sorted because RDF has no order."""
    resources: set[Resource] = set()
    for file in graph.values(node, *_DISTRIBUTIONS):
        media_type = media_type_named(_first(_labels(graph, graph.values(file, "dcat:mediaType"), language)))
        formats = graph.values(file, "dct:format", "dc:format", "schema:encodingFormat")
        url = _first(_addresses(graph.values(file, "dcat:downloadURL"))) or _first(
            _addresses(graph.values(file, "dcat:accessURL", "schema:contentUrl"))
        )
        sizes = map(size_of, _texts(graph.values(file, "dcat:byteSize", "schema:contentSize")))
        resource = Resource(
            url=url or _name(file),
            name=one_of(_by_language(graph.values(file, *_TITLES), min), language),
            description=plain(one_of(_by_language(graph.values(file, *_DESCRIPTIONS), _together), language)),
            format=format_named(_first(_labels(graph, formats, language))) or format_of(media_type, url),
            media_type=media_type,
            size_bytes=next(filter(None, sizes), None),
        )
        resources.add(resource)
    for field, name in (("dcat:endpointURL", "Endpoint"), ("dcat:endpointDescription", "Description of the endpoint")):
        resources |= {Resource(url=url, name=name) for url in _addresses(graph.values(node, field))}
    return sorted(
        resources, key=lambda file: (file.name, file.url, file.format, file.description, file.size_bytes or 0)
    )


def _labels(graph: Graph, values: Iterable[Term], language: str | None, *, by_name: bool = True) -> Iterator[str]:
    """Yield a label for each value: its text, the name of the node, or the address of the node."""
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
    """Yield the addresses among values, which may be nodes or texts."""
    for value in values:
        text = value.text.strip() if isinstance(value, Literal) else _name(value)
        if text:
            yield text


def _texts(values: Iterable[Term]) -> Iterator[str]:
    for value in values:
        if isinstance(value, Literal) and (text := value.text.strip()):
            yield text


def _first(texts: Iterable[str]) -> str:
    """Return the first text in alphabetical order, so that the choice is always the same; empty without texts."""
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
