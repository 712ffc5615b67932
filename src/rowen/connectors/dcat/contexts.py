"""JSON-LD without asking third parties what its words mean.

A context that lies elsewhere is never fetched: whoever holds it could see every run, and change what a catalog says.
In its place stands one of our own, which knows the words of DCAT and the usual prefixes; words that it does not know
are kept under names of their own. Contexts inside a document stay as they are.
"""

import json
import re
from typing import Any

import msgspec

from rowen.connectors.catalog.answers import read_json

__all__ = ["settled"]

UNKNOWN = "urn:rowen:word:"
"""Before words that no context explains."""

_REMOTE = re.compile(rb'"@(?:context|import)"\s*:\s*(?:"|\[[^\]{]*")')
_MOST_DEPTH = 200
_DEEPEST = 1_000  # as deep as msgspec reads; the parser of RDF ends the process at some 3,000 levels in a thread
_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+"|(?P<opens>[\[{])|(?P<closes>[\]}])', re.DOTALL)

_PREFIXES = {
    "adms": "http://www.w3.org/ns/adms#",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dcatap": "http://data.europa.eu/r5r/",
    "dct": "http://purl.org/dc/terms/",
    "dcterms": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "gsp": "http://www.opengis.net/ont/geosparql#",
    "hydra": "http://www.w3.org/ns/hydra/core#",
    "locn": "http://www.w3.org/ns/locn#",
    "odrl": "http://www.w3.org/ns/odrl/2/",
    "org": "http://www.w3.org/ns/org#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "prov": "http://www.w3.org/ns/prov#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "schema": "http://schema.org/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "spdx": "http://spdx.org/rdf/terms#",
    "time": "http://www.w3.org/2006/time#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "void": "http://rdfs.org/ns/void#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_WORDS = {
    "dcat": """Catalog CatalogRecord Dataset DatasetSeries DataService Distribution accessService accessURL bbox
        byteSize catalog centroid contactPoint dataset distribution downloadURL endDate endpointDescription endpointURL
        inSeries keyword landingPage mediaType record resource servesDataset service spatialResolutionInMeters
        startDate temporalResolution theme themeTaxonomy version""",
    "dct": """Location PeriodOfTime abstract accessRights accrualPeriodicity alternative conformsTo created creator
        description format hasPart identifier isPartOf isReferencedBy isVersionOf issued language license modified
        provenance publisher references relation rights rightsHolder source spatial subject temporal title type""",
    "foaf": "Agent Organization Person homepage mbox name page primaryTopic",
    "hydra": """Collection PagedCollection PartialCollectionView first firstPage itemsPerPage last lastPage member next
        nextPage previous previousPage totalItems view""",
    "rdfs": "comment label seeAlso",
    "skos": "Concept ConceptScheme inScheme notation prefLabel",
    "vcard": "Contact fn hasEmail hasTelephone hasURL",
    "adms": "sample status versionNotes",
    "spdx": "Checksum algorithm checksum checksumValue",
    "locn": "geometry",
}
_NODES = frozenset(
    {
        "accessService",
        "catalog",
        "contactPoint",
        "dataset",
        "distribution",
        "inSeries",
        "record",
        "resource",
        "servesDataset",
        "service",
        "primaryTopic",
        "view",
        "next",
        "nextPage",
        "first",
        "last",
        "previous",
    }
)


def _own() -> dict[str, Any]:
    words: dict[str, Any] = {"@vocab": UNKNOWN, "id": "@id", "type": "@type", "graph": "@graph", **_PREFIXES}
    for prefix, names in _WORDS.items():
        for name in names.split():
            words[name] = {"@id": f"{prefix}:{name}", "@type": "@id"} if name in _NODES else f"{prefix}:{name}"
    return words


_OWN = _own()


def settled(body: bytes, where: str) -> bytes:
    """The document with our context wherever it points to one that lies elsewhere.

    Raises `RecursionError` for one that is nested so deeply that the parser of RDF would end the process.
    """
    _check_depth(body)
    if not _REMOTE.search(body):
        return body
    return json.dumps(_replaced(read_json(body, where), 0), ensure_ascii=False).encode("utf-8", "replace")


def _check_depth(body: bytes) -> None:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except msgspec.DecodeError:
        # Another parser may read on behind what this one stumbles over.
        depth = 0
        for found in _BRACKET.finditer(body):
            depth += found.lastgroup == "opens"
            depth -= found.lastgroup == "closes"
            if depth > _DEEPEST:
                raise RecursionError("it is nested too deeply") from None


def _replaced(value: Any, depth: int) -> Any:
    if depth > _MOST_DEPTH:
        raise ValueError("it is nested too deeply")
    match value:
        case dict():
            return {
                name: _context(inner, depth) if name == "@context" else _replaced(inner, depth + 1)
                for name, inner in value.items()
                if name != "@import"
            }
        case list():
            return [_replaced(inner, depth + 1) for inner in value]
    return value


def _context(value: Any, depth: int) -> Any:
    match value:
        case str():
            return _OWN
        case list():
            return [_context(one, depth + 1) for one in value]
    return _replaced(value, depth + 1)
