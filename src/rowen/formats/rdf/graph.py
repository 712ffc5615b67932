"""An RDF graph for catalogs: nodes and the RDF statements about them, under short names.

Labels of blank nodes are valid only in one response. A node is therefore written with the RDF statements about its
blank nodes in place of their labels, and with sorted values, so that the same record is equal when it is read again.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec

from rowen.model.hashes import canonical_json
from rowen.model.text import Budget, OverspentError

MOST_NODES = 50_000
"""Maximum number of nodes in one record; a node counts each time that it is mentioned."""

_LONGEST_KEPT_IRI = 500
"""Maximum length of a cached IRI; longer IRIs are no property names."""

# Each level is a nested call; a record that is nested more deeply is broken, and fails alone.
MOST_DEPTH = 30
# A named node is written in full up to this depth, then only as its IRI, since it may link to any other node.
MOST_IRI_DEPTH = 4

_NAMESPACES = {
    "adms": ("www.w3.org/ns/adms#",),
    "dc": ("purl.org/dc/elements/1.1/",),
    "dcat": ("www.w3.org/ns/dcat#", "vocab.deri.ie/dcat#"),
    "dcatap": ("data.europa.eu/r5r/",),
    "dct": ("purl.org/dc/terms/",),
    "dctype": ("purl.org/dc/dcmitype/",),
    "foaf": ("xmlns.com/foaf/0.1/",),
    "gsp": ("www.opengis.net/ont/geosparql#",),
    "hydra": ("www.w3.org/ns/hydra/core#",),
    "locn": ("www.w3.org/ns/locn#",),
    "odrl": ("www.w3.org/ns/odrl/2/",),
    "org": ("www.w3.org/ns/org#",),
    "owl": ("www.w3.org/2002/07/owl#",),
    "prov": ("www.w3.org/ns/prov#",),
    "rdf": ("www.w3.org/1999/02/22-rdf-syntax-ns#",),
    "rdfs": ("www.w3.org/2000/01/rdf-schema#",),
    "schema": ("schema.org/",),
    "skos": ("www.w3.org/2004/02/skos/core#",),
    "spdx": ("spdx.org/rdf/terms#",),
    "time": ("www.w3.org/2006/time#",),
    "vcard": ("www.w3.org/2006/vcard/ns#",),
    "void": ("rdfs.org/ns/void#",),
    "xsd": ("www.w3.org/2001/XMLSchema#",),
}
_PREFIXES = {address: prefix for prefix, addresses in _NAMESPACES.items() for address in addresses}


class Iri(str):
    """A node with an IRI."""

    __slots__ = ()


class Blank(str):
    """A blank node; its label begins with `_:`."""

    __slots__ = ()


class Literal(NamedTuple):
    """A literal: a text with an optional language or datatype."""

    text: str
    language: str | None = None
    datatype: str | None = None


Node: TypeAlias = Iri | Blank
Term: TypeAlias = Iri | Blank | Literal


def short(iri: str) -> str:
    """Return a property or class IRI with its usual prefix, for http and https alike; other IRIs stay unchanged."""
    return _short(iri) if len(iri) <= _LONGEST_KEPT_IRI else iri


@lru_cache(maxsize=8192)
def _short(iri: str) -> str:
    cut = max(iri.rfind("#"), iri.rfind("/")) + 1
    prefix = _PREFIXES.get(iri[:cut].partition("://")[2])
    return f"{prefix}:{iri[cut:]}" if prefix else iri


class Graph:
    """The RDF statements about nodes; `broken` has the nodes with unreadable statements.

    A node that many nodes link to is written with each of them; all output is counted in `budget`.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget
        self.triples = 0
        self.broken: set[Node] = set()
        # Most properties have one value; a collection for each property would need most of the graph's memory.
        self._properties: dict[Node, dict[str, Term | dict[Term, None]]] = {}

    def add(self, node: Node, name: str, value: Term) -> None:
        """Add one triple; `name` is the short name of its property."""
        self.triples += 1
        properties = self._properties.setdefault(node, {})
        values = properties.get(name)
        if values is None:
            properties[name] = value
        elif isinstance(values, dict):
            values[value] = None
        elif values != value:
            properties[name] = {values: None, value: None}

    def packed(self) -> bytes:
        """Return the graph as bytes for another process, without its budget."""
        statements = [
            (
                _plain(node),
                [(name, [_plain(value) for value in values]) for name, values in self.said(node).items()],
            )
            for node in self
        ]
        return msgspec.msgpack.encode((self.triples, [*map(_plain, self.broken)], statements))

    @classmethod
    def unpacked(cls, data: bytes, budget: Budget | None = None) -> "Graph":
        """Return the graph in bytes that `packed` returned."""
        graph = cls(budget)
        graph.triples, broken, statements = msgspec.msgpack.decode(data)
        graph.broken = {_node(node) for node in broken}
        graph._properties = {
            _node(node): {
                name: _term(values[0]) if len(values) == 1 else {_term(value): None for value in values}
                for name, values in properties
            }
            for node, properties in statements
        }
        return graph

    def __contains__(self, node: object) -> bool:
        return node in self._properties

    def __iter__(self) -> Iterator[Node]:
        return iter(self._properties)

    def said(self, node: Term) -> Mapping[str, Iterable[Term]]:
        """Return the values of a node, by property."""
        properties = self._properties.get(node, {}) if not isinstance(node, Literal) else {}
        return {name: values if isinstance(values, dict) else (values,) for name, values in properties.items()}

    def says(self, node: Node, *names: str) -> bool:
        """Return whether a node has any of these properties."""
        properties = self._properties.get(node, {})
        return any(name in properties for name in names)

    def values(self, node: Term, *names: str) -> list[Term]:
        """Return the values of the first of these properties that the node has; the order is arbitrary."""
        properties = self._properties.get(node) if not isinstance(node, Literal) else None
        for name in names if properties else ():
            if properties and (terms := properties.get(name)) is not None:
                return list(terms) if isinstance(terms, dict) else [terms]
        return []

    def nodes(self, node: Term, *names: str) -> list[Node]:
        """Return the values that are nodes, of the first of these properties that the node has."""
        return [value for value in self.values(node, *names) if not isinstance(value, Literal)]

    def types(self, node: Node) -> set[str]:
        """Return the short names of the node's classes."""
        return {short(value) for value in self.values(node, "rdf:type") if isinstance(value, Iri)}

    def part(self, root: Node, borders: Container[Node]) -> "Graph":
        """Return a graph of the statements about a node and all nodes reachable from it, but not beyond `borders`."""
        part = Graph(self.budget)
        part.adopt(self, root, borders)
        return part

    def adopt(self, other: "Graph", root: Node, borders: Container[Node] = ()) -> None:
        """Copy the RDF statements about a node and all nodes reachable from it, but not beyond `borders`."""
        waiting, taken = [root], set[Node]()
        while waiting and len(taken) < MOST_NODES:
            node = waiting.pop()
            if node in taken or node not in other or (node in borders and node != root):
                continue
            taken.add(node)
            for name, values in other.said(node).items():
                for value in values:
                    self.add(node, name, value)
                    if not isinstance(value, Literal) and name != "rdf:type":
                        waiting.append(value)
        self.broken |= taken & other.broken
        if waiting:
            self.broken.add(root)

    def written(self, root: Node, borders: Container[Node] = ()) -> dict[str, Any]:
        """Return a node and all nodes reachable from it as JSON; nodes in `borders` are only named.

        Raise `ValueError` if the node is too large or has unreadable statements.
        """
        return self.written_out(root, borders)[0]

    def written_out(
        self, root: Node, borders: Container[Node] = (), *, unfollowed: Container[str] = ()
    ) -> tuple[dict[str, Any], bool]:
        """Return a node as JSON, and whether it contains all RDF statements about the node.

        The second value is false if the JSON names a node in `borders` that has statements, or if a property that is
        not in `unfollowed` has a list as its value. Readers do not follow the properties in `unfollowed`.
        """
        writing = _Writing(self, borders, unfollowed)
        try:
            return writing.node(root, ()), writing.is_all
        except OverspentError:
            raise ValueError("together with shared statements, it is far larger than the document") from None


class _Writing:
    """Writes one node as JSON."""

    def __init__(self, graph: Graph, borders: Container[Node], unfollowed: Container[str]) -> None:
        self._graph = graph
        self._borders = borders
        self._unfollowed = unfollowed
        self._nodes = 0
        self.is_all = True

    def node(self, node: Node, above: tuple[Node, ...]) -> dict[str, Any]:
        self._nodes += 1
        if self._nodes > MOST_NODES or len(above) > MOST_DEPTH:
            raise ValueError("it has too many or too deeply nested statements")
        if node in self._graph.broken:
            raise ValueError("a statement about it is broken")
        written: dict[str, Any] = {} if isinstance(node, Blank) else {"@id": str(node)}
        for name, values in sorted(self._graph.said(node).items()):
            if self._graph.budget is not None:
                chars = sum(len(value.text) if isinstance(value, Literal) else len(value) for value in values)
                self._graph.budget.spend(len(name) + chars)
            if name == "rdf:type":
                written["@type"] = sorted(short(value) if isinstance(value, Iri) else str(value) for value in values)
            else:
                was_all = self.is_all
                several = sorted((self._term(value, (*above, node)) for value in values), key=canonical_json)
                written[name] = several[0] if len(several) == 1 else several
                self.is_all = was_all if name in self._unfollowed else self.is_all
        return written

    def _term(self, value: Term, above: tuple[Node, ...]) -> Any:
        if isinstance(value, Literal):
            if value.language:
                return {"@value": value.text, "@language": value.language}
            is_text = not value.datatype or value.datatype in ("xsd:string", "rdf:langString")
            return value.text if is_text else {"@value": value.text, "@type": value.datatype}
        if value in above:
            return {"@id": str(value)} if isinstance(value, Iri) else {"@up": len(above) - above.index(value)}
        if value not in self._graph or value in self._borders:
            self.is_all = self.is_all and value not in self._graph
            return {"@id": str(value)} if isinstance(value, Iri) else {}
        if isinstance(value, Iri) and len(above) > MOST_IRI_DEPTH:
            return {"@id": str(value)}
        if self._graph.values(value, "rdf:first"):
            self.is_all = False
            members = []
            node: Term = value
            seen = set[Term]()
            while node not in seen and (first := self._graph.values(node, "rdf:first")):
                seen.add(node)
                members.append(self._term(first[0], above))
                node = next(iter(self._graph.values(node, "rdf:rest")), node)
            return {"@list": members}
        return self.node(value, above)


def _plain(term: Term) -> Any:
    """Return a term for serialisation: a literal as a tuple, a node as a string, or as bytes if that is ambiguous."""
    if isinstance(term, Literal):
        return tuple(term)
    return str(term).encode() if isinstance(term, Iri) == term.startswith("_:") else str(term)


def _node(plain: Any) -> Node:
    text = plain.decode() if isinstance(plain, bytes) else plain
    return Iri(text) if isinstance(plain, bytes) == text.startswith("_:") else Blank(text)


def _term(plain: Any) -> Term:
    return Literal(*plain) if isinstance(plain, list) else _node(plain)
