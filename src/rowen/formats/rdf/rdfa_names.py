"""Names in RDFa: prefixes, terms and CURIEs become IRIs (RDFa Core 1.1, sections 7.4 and 9)."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urljoin

from rowen.formats.rdf.graph import Blank, Iri, Node

__all__ = ["INITIAL_PREFIXES", "absolute", "name_of", "names_of", "prefixes_in", "resource_of"]

_W3 = "http://www.w3.org/"
_XHV = f"{_W3}1999/xhtml/vocab#"

INITIAL_PREFIXES: Mapping[str, str] = {
    "as": "https://www.w3.org/ns/activitystreams#",
    "cat": f"{_W3}ns/dcat#",
    "cc": "http://creativecommons.org/ns#",
    "cnt": f"{_W3}2008/content#",
    "csvw": f"{_W3}ns/csvw#",
    "ctag": "http://commontag.org/ns#",
    "dc": "http://purl.org/dc/terms/",
    "dc11": "http://purl.org/dc/elements/1.1/",
    "dcat": f"{_W3}ns/dcat#",
    "dcterms": "http://purl.org/dc/terms/",
    "dqv": f"{_W3}ns/dqv#",
    "duv": f"{_W3}ns/duv#",
    "earl": f"{_W3}ns/earl#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "geo": f"{_W3}2003/01/geo/wgs84_pos#",
    "gldp": f"{_W3}ns/people#",
    "gr": "http://purl.org/goodrelations/v1#",
    "grddl": f"{_W3}2003/g/data-view#",
    "ht": f"{_W3}2006/http#",
    "ical": f"{_W3}2002/12/cal/icaltzd#",
    "jsonld": f"{_W3}ns/json-ld#",
    "ldp": f"{_W3}ns/ldp#",
    "ma": f"{_W3}ns/ma-ont#",
    "oa": f"{_W3}ns/oa#",
    "odrl": f"{_W3}ns/odrl/2/",
    "og": "http://ogp.me/ns#",
    "org": f"{_W3}ns/org#",
    "owl": f"{_W3}2002/07/owl#",
    "prov": f"{_W3}ns/prov#",
    "ptr": f"{_W3}2009/pointers#",
    "qb": "http://purl.org/linked-data/cube#",
    "rdf": f"{_W3}1999/02/22-rdf-syntax-ns#",
    "rdfa": f"{_W3}ns/rdfa#",
    "rdfs": f"{_W3}2000/01/rdf-schema#",
    "rev": "http://purl.org/stuff/rev#",
    "rif": f"{_W3}2007/rif#",
    "rr": f"{_W3}ns/r2rml#",
    "schema": "http://schema.org/",
    "sd": f"{_W3}ns/sparql-service-description#",
    "sioc": "http://rdfs.org/sioc/ns#",
    "skos": f"{_W3}2004/02/skos/core#",
    "skosxl": f"{_W3}2008/05/skos-xl#",
    "sosa": f"{_W3}ns/sosa/",
    "ssn": f"{_W3}ns/ssn/",
    "time": f"{_W3}2006/time#",
    "v": "http://rdf.data-vocabulary.org/#",
    "vcard": f"{_W3}2006/vcard/ns#",
    "void": "http://rdfs.org/ns/void#",
    "wdr": f"{_W3}2007/05/powder#",
    "wdrs": f"{_W3}2007/05/powder-s#",
    "xhv": _XHV,
    "xml": f"{_W3}XML/1998/namespace",
    "xsd": f"{_W3}2001/XMLSchema#",
}
"""The prefixes that every page has without declaring them (the initial context of RDFa 1.1)."""

_INITIAL_TERMS = {
    "describedby": f"{_W3}2007/05/powder-s#describedby",
    "license": f"{_XHV}license",
    "role": f"{_XHV}role",
}
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def prefixes_in(declared: str) -> Iterator[tuple[str, str]]:
    """The pairs of a `prefix` attribute; what is no pair is passed over."""
    words = declared.split()
    at = 0
    while at < len(words) - 1:
        if words[at].endswith(":"):
            if words[at] != "_:":
                yield words[at][:-1].lower(), words[at + 1]
            at += 1
        at += 1


def absolute(base: str, reference: str) -> Iri:
    """A reference as an IRI; one that is absolute stays letter by letter as it is."""
    reference = reference.strip()
    if _ABSOLUTE.match(reference):
        return Iri(reference)
    if not reference:
        return Iri(base)
    try:
        joined = urljoin(base, reference)
    except ValueError:
        return Iri(reference)
    # urljoin drops a fragment that is empty, which RFC 3986 keeps.
    return Iri(f"{joined}#" if reference.endswith("#") and not joined.endswith("#") else joined)


def resource_of(written: str, base: str, prefixes: Mapping[str, str]) -> Node | None:
    """`about` and `resource`: a safe CURIE, a CURIE or an IRI; None for a safe CURIE that is none."""
    written = written.strip()
    if written.startswith("[") and written.endswith("]"):
        return _curie(written[1:-1].strip(), prefixes)
    return _curie(written, prefixes) or absolute(base, written)


def name_of(word: str, prefixes: Mapping[str, str], vocabulary: str | None) -> Node | None:
    """`property`, `rel`, `rev`, `typeof` and `datatype`: a term, a CURIE or an absolute IRI; None for all else."""
    if ":" not in word:
        return _term(word, vocabulary)
    if (found := _curie(word, prefixes)) is not None:
        return found
    return Iri(word) if _ABSOLUTE.match(word) else None


def names_of(words: str, prefixes: Mapping[str, str], vocabulary: str | None) -> Iterator[Node]:
    """The names in a list of words, in their order, one after the other."""
    found = (name_of(word, prefixes, vocabulary) for word in words.split())
    return (name for name in found if name is not None)


def _curie(written: str, prefixes: Mapping[str, str]) -> Node | None:
    prefix, colon, reference = written.partition(":")
    if not colon:
        return None
    if prefix == "_":
        return Blank(f"_:n.{reference}")
    if not prefix:
        return Iri(_XHV + reference)
    start = prefixes.get(prefix.lower())
    return Iri(start + reference) if start is not None else None


def _term(word: str, vocabulary: str | None) -> Iri | None:
    if "/" in word:
        return None
    if vocabulary is not None:
        return Iri(vocabulary + word)
    known = _INITIAL_TERMS.get(word.lower())
    return Iri(known) if known else None
