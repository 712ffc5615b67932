"""Resolves JSON-LD contexts without requests to third parties.

A remote context is never fetched, since its owner could see every run, and change the meaning of a catalog. It is
replaced by a built-in context, which defines the terms of DCAT and the usual prefixes. A term that it does not define
is stored under the prefix `UNKNOWN`. Contexts inside a document are not changed. A caller that has fetched and pinned
the contexts that `remote` returns passes them to `settled`.
"""

import json
import re
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

import msgspec

from rowen.formats.json import read_json
from rowen.model.text import Budget

UNKNOWN = "urn:rowen:word:"
"""The prefix of terms that no context defines."""

LONGEST_MEANING = 500
"""Maximum length of a term's IRI, which the parser repeats at each use. Real IRIs have up to 100 characters."""

# Each level is a nested call, of which Python allows 1,000.
_MOST_DEPTH = 200
# About the limit of msgspec; in a thread the RDF parser read 1,000 levels, and 5,000 levels ended the process.
_DEEPEST = 1_000
_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|(?P<opens>[\[{])|(?P<closes>[\]}])', re.DOTALL)

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
    [
        *("accessService", "catalog", "contactPoint", "dataset", "distribution", "inSeries", "record", "resource"),
        *("servesDataset", "service", "primaryTopic", "view", "next", "nextPage", "first", "last", "previous"),
    ]
)
_OWN: dict[str, Any] = {"@vocab": UNKNOWN, "id": "@id", "type": "@type", "graph": "@graph", **_PREFIXES}
_OWN |= {
    word: {"@id": f"{prefix}:{word}", "@type": "@id"} if word in _NODES else f"{prefix}:{word}"
    for prefix, words in _WORDS.items()
    for word in words.split()
}
_OWN_CHARS = len(json.dumps(_OWN))


def remote(body: bytes, where: str) -> list[str]:
    """Return the URLs of remote contexts in a document, unchanged and in order."""
    _check_depth(body)
    addresses: dict[str, None] = {}
    waiting = [read_json(body, where)] if b'"@context"' in body else []
    while waiting:
        match waiting.pop():
            case dict() as value:
                context = value.get("@context")
                several = context if isinstance(context, list) else [context]
                addresses.update((address, None) for address in several if isinstance(address, str))
                waiting += value.values()
            case list() as values:
                waiting += values
    return list(addresses)


def settled(body: bytes, where: str, contexts: Mapping[str, Any] | None = None) -> bytes:
    """Return the document with each reference to a remote context replaced by a known context.

    Raise `RecursionError` if the document is nested so deeply that the RDF parser would end the process. Raise
    `OverspentError` if it has so many references that it would grow disproportionately.
    """
    _check_depth(body)
    if b'"@context"' not in body and b'"@import"' not in body:
        return body
    settling = _Settling(Budget(len(body) + len(json.dumps(contexts or {}))), contexts or {})
    return json.dumps(settling.value(read_json(body, where), 0), ensure_ascii=False).encode("utf-8", "replace")


def _check_depth(body: bytes) -> None:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except msgspec.DecodeError:
        # The RDF parser may continue after this error, so count the depth.
        depth = 0
        for match in _BRACKET.finditer(body):
            depth += match.lastgroup == "opens"
            depth -= match.lastgroup == "closes"
            if depth > _DEEPEST:
                raise RecursionError("it is nested too deeply") from None


class _Definitions(Enum):
    """The kind of definitions that apply at a position in a document."""

    NONE = auto()
    OURS = auto()
    OTHERS = auto()


class _Settling:
    """Replaces the contexts of a document; where the built-in context already applies, it is not repeated."""

    def __init__(self, budget: Budget, contexts: Mapping[str, Any]) -> None:
        self._budget = budget
        self._known = contexts

    def value(self, value: Any, depth: int, active: _Definitions = _Definitions.NONE) -> Any:
        if depth > _MOST_DEPTH:
            raise ValueError("it is nested too deeply")
        match value:
            case dict():
                settled: dict[str, Any] = {}
                if "@context" in value:
                    contexts, active = self._contexts(value["@context"], depth, active)
                    settled = {"@context": contexts} if contexts else {}
                for name, inner in value.items():
                    if name not in ("@context", "@import"):
                        settled[name] = self.value(inner, depth + 1, active)
                return settled
            case list():
                return [self.value(inner, depth + 1, active) for inner in value]
        return value

    def _contexts(self, context: Any, depth: int, active: _Definitions) -> tuple[list[Any], _Definitions]:
        contexts: list[Any] = []
        if depth > _MOST_DEPTH:
            raise ValueError("it is nested too deeply")
        for member in context if isinstance(context, list) else [context]:
            if isinstance(member, str) and member in self._known:
                known = self._known[member]
                self._budget.spend(len(json.dumps(known)))
                _check_meanings(known)
                inner, active = self._contexts(known, depth + 1, _Definitions.OTHERS)
                contexts += inner
            elif isinstance(member, str):
                if active is not _Definitions.OURS:
                    self._budget.spend(_OWN_CHARS)
                    contexts.append(_OWN)
                active = _Definitions.OURS if active is _Definitions.NONE else active
            else:
                # This context may define terms for nested contexts, where the built-in context may not apply.
                _check_meanings(member)
                contexts.append(self.value(member, depth + 1, _Definitions.OTHERS))
                active = _Definitions.NONE if member is None else _Definitions.OTHERS
        return contexts, active


def _check_meanings(context: Any) -> None:
    waiting = [context]
    while waiting:
        match waiting.pop():
            case str() as meaning if len(meaning) > LONGEST_MEANING:
                raise ValueError("its context defines a word with too long a meaning")
            case dict() as words:
                waiting += words.values()
            case list() as several:
                waiting += several
