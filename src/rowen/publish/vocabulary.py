"""Terms for all published RDF: names, arbitrary addresses, times, and Turtle."""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from itertools import takewhile
from urllib.parse import quote

from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, Triple, serialize

from rowen.model.url import runs_script

MEDIA_TYPE_TURTLE = "text/turtle; charset=utf-8"

_PREFIXES = {
    "as": "https://www.w3.org/ns/activitystreams#",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dcterms": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "hydra": "http://www.w3.org/ns/hydra/core#",
    "ldes": "https://w3id.org/ldes#",
    "prov": "http://www.w3.org/ns/prov#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "rowen": "urn:rowen:vocabulary:",
    "schema": "http://schema.org/",
    "tree": "https://w3id.org/tree#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}

Thing = NamedNode | BlankNode | Literal


@cache
def name(compact: str) -> NamedNode:
    """Return the full form of a name such as `dcterms:title`."""
    prefix, _, local = compact.partition(":")
    return NamedNode(_PREFIXES[prefix] + local)


TYPE = name("rdf:type")


def iri(address: str) -> NamedNode:
    """Return an address as an IRI; an invalid address, or one that would run a script, is percent-encoded."""
    try:
        if not runs_script(address):
            return NamedNode(address)
    except ValueError:
        pass
    return NamedNode("urn:rowen:address:" + quote(address, safe=""))


def moment_of(at: datetime) -> Literal:
    """Return a point in time."""
    text = at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return Literal(text, datatype=name("xsd:dateTime"))


def unnamed(*parts: str) -> BlankNode:
    """Return a blank node with a label derived from `parts`, so that an unchanged document keeps its bytes."""
    return BlankNode("b" + sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:16])


def turtle(triples: Iterable[Triple]) -> bytes:
    """Return triples as Turtle with sorted prefixes; the order of the RDF library is not stable."""
    lines = (serialize(triples, format=RdfFormat.TURTLE, prefixes=_PREFIXES) or b"").split(b"\n")
    prefixes = sum(1 for _ in takewhile(lambda line: line.startswith(b"@prefix"), lines))
    return b"\n".join([*sorted(lines[:prefixes]), *lines[prefixes:]])
