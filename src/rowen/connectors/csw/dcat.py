"""Records that a catalogue service writes in DCAT or GeoDCAT-AP: RDF/XML, read as in any other catalog."""

from dataclasses import replace
from functools import lru_cache
from xml.etree.ElementTree import Element, tostring

from rowen.connectors.catalog.dataset import Dataset
from rowen.connectors.catalog.dcat import ITEMS, Reading, dataset_of
from rowen.errors import SourceError
from rowen.formats.rdf.graph import Graph, Iri, Node
from rowen.formats.rdf.syntax import RdfBody, read_graph
from rowen.formats.xml import local

__all__ = ["SCHEMAS", "dataset", "identifier", "is_dcat", "stamp"]

SCHEMAS = (
    "http://data.europa.eu/930/",
    "http://data.europa.eu/r5r/",
    "http://www.w3.org/ns/dcat#",
)
"""What services call GeoDCAT-AP, DCAT-AP and DCAT, the richest first."""

_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_DCAT = "{http://www.w3.org/ns/dcat#}"
_NOWHERE = "urn:record"  # what a record is about does not depend on where it was found
_MOST_TRIPLES = 100_000  # one record has some hundreds; a keyword list of a whole thesaurus some thousands


def is_dcat(record: Element) -> bool:
    """Whether a record is RDF, or a node of DCAT."""
    return record.tag == f"{_RDF}RDF" or (record.tag.startswith(_DCAT) and local(record.tag) != "Record")


def identifier(record: Element) -> str:
    """The identifier of what the record is about, by which its service knows it."""
    found = _reading(record, _NOWHERE, None)
    return found.dataset.identifier if found else ""


def stamp(record: Element) -> str:
    """When it was modified, as far as it tells."""
    found = _reading(record, _NOWHERE, None)
    return (found.dataset.modified or "") if found else ""


def dataset(bare: Dataset, record: Element, base: str, language: str | None) -> Dataset:
    """What the record says of its dataset, under the URL and with the source that it has already."""
    found = _reading(record, base, language)
    if found is None:
        return bare
    return replace(found.dataset, url=bare.url, identifier=bare.identifier, source=bare.source)


def _reading(record: Element, base: str, language: str | None) -> Reading | None:
    return _read(_written(record), base, language)


# One record is looked at for its identifier, its date and what it says.
@lru_cache(4)
def _read(body: bytes, base: str, language: str | None) -> Reading | None:
    try:
        parsed = read_graph(RdfBody(body, base), told="rdfxml", most_triples=_MOST_TRIPLES)
    except SourceError as problem:
        raise ValueError(f"it is no RDF: {problem}") from None
    if parsed.broken:
        raise ValueError(f"it is no RDF: {parsed.broken[0].why}")
    graph = parsed.graph
    nodes = sorted((node for node in graph if ITEMS & graph.types(node)), key=lambda node: _rank(graph, node))
    return dataset_of(graph, nodes[0], base, language=language) if nodes else None


def _rank(graph: Graph, node: Node) -> tuple[bool, bool, str]:
    """The one with a title, which is a dataset before it is a service or a series."""
    is_titled = graph.says(node, "dct:title")
    return not is_titled, "dcat:Dataset" not in graph.types(node), str(node) if isinstance(node, Iri) else "~"


def _written(record: Element) -> bytes:
    root = record
    if record.tag != f"{_RDF}RDF":
        root = Element(f"{_RDF}RDF")
        root.append(record)
    return tostring(root, encoding="unicode").encode("utf-8", "replace")
