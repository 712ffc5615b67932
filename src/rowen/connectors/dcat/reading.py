"""What one answer of a catalog holds: which nodes are its items, how many it names without saying more of them."""

from dataclasses import dataclass, field
from datetime import datetime

from rowen.connectors.catalog.answers import payload_of
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.dcat import ITEMS, dataset_of, item_url
from rowen.connectors.catalog.graph import Blank, Graph, Iri, Literal, Node
from rowen.connectors.catalog.listing import Row
from rowen.connectors.dcat.hydra import Paging
from rowen.connectors.dcat.joining import Part
from rowen.connectors.dcat.syntax import Broken
from rowen.model.hashes import body_hash
from rowen.model.item import Failed, Fetched

__all__ = ["Contents", "row_of", "unread"]

_LISTED = ("dcat:dataset", "dcat:service", "dcat:resource")
_OTHERS = frozenset(
    {"dcat:Catalog", "dcat:CatalogRecord", "hydra:Collection", "hydra:PagedCollection", "hydra:PartialCollectionView"}
)


@dataclass(slots=True)
class Contents:
    """The items of an answer. `missing` is how many the catalog names that are described nowhere in it.

    `borders` are nodes that stand for themselves, and are no part of any other; `modified` is when the records about
    some items were modified.
    """

    graph: Graph
    paging: Paging
    broken: tuple[Broken, ...] = ()
    items: frozenset[Node] = frozenset()
    borders: frozenset[Node] = frozenset()
    missing: int = 0
    is_catalog: bool = False
    modified: dict[Node, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.graph
        types = {node: found for node in graph if (found := graph.types(node))}
        typed = {node for node, found in types.items() if found & ITEMS and "dcat:Catalog" not in found}
        others = {node for node, found in types.items() if found & _OTHERS} - typed
        listed = {value for node in graph for name in _LISTED for value in graph.nodes(node, name)} - others
        named = {value for value in listed if value in graph and _says_something(graph, value)}
        mentions = _mentions(graph, typed | named) - listed
        self.items = frozenset(
            node
            for node in typed | named
            if node in listed
            or (_says_something(graph, node) and not self._is_part(node, types, mentions, listed & typed))
        )
        unlisted = len(self.items - listed)
        self.missing = max(0, len({node for node in listed if node not in self.items}) - unlisted)
        self.borders = self.items | frozenset(others) | frozenset(node for node in typed if isinstance(node, Iri))
        self.is_catalog = bool(self.items or self.paging.told or others or listed)
        self._read_records(types)

    def _is_part(self, node: Node, types: dict[Node, set[str]], mentions: set[Node], listed: set[Node]) -> bool:
        """Whether a node only stands there because another one speaks of it."""
        if node not in mentions:
            return False
        return isinstance(node, Blank) or (bool(listed) and types.get(node, set()) & ITEMS == {"dcat:Dataset"})

    def _read_records(self, types: dict[Node, set[str]]) -> None:
        for node, found in types.items():
            if "dcat:CatalogRecord" in found:
                dates = [at for value in self.graph.values(node, "dct:modified") if (at := _moment(value))]
                for topic in self.graph.nodes(node, "foaf:primaryTopic") if dates else ():
                    self.modified[topic] = max(dates)

    def urls(self, source: str) -> set[str]:
        """Under which URLs the items are known."""
        return {item_url(self.graph, node, source) for node in self.items}


def row_of(part: Part, source: str, *, language: str | None, borders: frozenset[Node]) -> tuple[str, str, Row]:
    """A node as a row, behind what rows are sorted by: the order of an answer means nothing."""
    try:
        reading = dataset_of(part.graph, part.node, source, language=language, borders=borders)
        document = reading.dataset.document(language=language)
    except (ValueError, RecursionError) as problem:
        url = item_url(part.graph, part.node, source)
        said = {name: [str(value) for value in values] for name, values in part.graph.said(part.node).items()}
        failed = Failed(url, f"The record cannot be read: {problem}.", payload=payload_of(said))
        return url, "", Row(failed)
    return document.url, document.record_json, Row(Fetched(document), reading.modified)


def unread(broken: Broken, source: str) -> Row:
    """A statement that could not be read, for the quarantine."""
    mark = body_hash(broken.payload + broken.why.encode("utf-8", "replace")).hex()[:32]
    return Row(Failed(f"{source.partition('#')[0]}#/unread/{mark}", broken.why, payload=broken.payload))


def _mentions(graph: Graph, nodes: set[Node]) -> set[Node]:
    """Nodes that others speak of, other than to list them."""
    return {
        value
        for node in graph
        for name in graph.said(node)
        if name not in _LISTED and name not in ("foaf:primaryTopic", "hydra:member")
        for value in graph.nodes(node, name)
        if value in nodes and value != node
    }


def _says_something(graph: Graph, node: Node) -> bool:
    return any(name != "rdf:type" for name in graph.said(node))


def _moment(value: object) -> datetime | None:
    return moment(value.text) if isinstance(value, Literal) else None
