"""A document of RDF as nodes of plain JSON: what is said of each, under whole names.

It is the flattened and expanded form of JSON-LD, which the parser writes and a decoder reads without any step in
Python for single statements: a third of what it costs to take quads one by one.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec
from pyoxigraph import Literal, Quad, RdfFormat, Triple, serialize

from rowen.errors import SourceError
from rowen.formats.errors import UnreadableError
from rowen.formats.rdf.syntax import RdfBody, quads_of, unreadable
from rowen.model.text import Budget

__all__ = ["Said", "lexical", "node_of", "read_nodes"]

Said = dict[str, list[dict[str, Any]]]
"""What is said of a node: lists of values by property. A value is `{"@id": …}`, or a literal with its `@value`."""


class _Spending:
    """Takes what is written, and no more than the document may become."""

    def __init__(self, given_bytes: int) -> None:
        self._budget = Budget(given_bytes)
        self._parts: list[bytes] = []

    def write(self, part: bytes) -> int:
        # A prefix or a base is written once in the document, and stands in each name here.
        self._budget.spend(len(part))
        self._parts.append(bytes(part))
        return len(part)

    def flush(self) -> None:
        """Nothing waits."""

    def nodes(self) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = msgspec.json.decode(b"".join(self._parts))
        return nodes


def read_nodes(
    given: RdfBody, *, most_quads: int, contexts: Mapping[str, Any] | None = None, is_further: bool = False
) -> list[dict[str, Any]]:
    """The nodes of a document, those of named graphs in `@graph`; a node comes again where more is said of it later.

    Blank nodes of a document that `is_further` get labels that no other document has.
    """
    with unreadable(given):
        try:
            return _nodes(given, quads_of(given, contexts=contexts, is_further=is_further), most_quads)
        except OSError:
            # JSON-LD has no words for statements about statements (RDF 1.2): these become texts.
            quads = quads_of(given, contexts=contexts, is_further=is_further)
            return _nodes(given, map(_plain, filter(_is_plain, quads)), most_quads)


def _nodes(given: RdfBody, quads: Iterator[Quad], most_quads: int) -> list[dict[str, Any]]:
    written = _Spending(len(given.body))
    serialize(islice(quads, most_quads), written, format=RdfFormat.JSON_LD)  # type: ignore[arg-type]
    if next(quads, None) is not None:
        raise SourceError(f"{given.url} has more than {most_quads:,} quads.", hint="No page has so many.")
    nodes = written.nodes()
    if not all(map(_is_node, nodes)):
        # A property of such a name, without a scheme, is let through by the parser, and hides the node.
        raise UnreadableError(
            f"{given.url} has a property that is called @id or @graph.", hint="No vocabulary has one."
        )
    return nodes


def _is_node(node: Mapping[str, Any]) -> bool:
    return type(node.get("@id")) is str and ("@graph" not in node or all(map(_is_node, node["@graph"])))


def _is_plain(quad: Quad) -> bool:
    return not isinstance(quad.subject, Triple)


def _plain(quad: Quad) -> Quad:
    if not isinstance(quad.object, Triple):
        return quad
    return Quad(quad.subject, quad.predicate, Literal(str(quad.object)), quad.graph_name)


def lexical(value: Mapping[str, Any]) -> str:
    """The text of a literal, or the name of a node."""
    text: str = value["@value"] if "@value" in value else value["@id"]
    return text


def node_of(value: Mapping[str, Any]) -> str | None:
    """The key of a value that is a node; None for a literal."""
    key: str | None = value.get("@id")
    return key
