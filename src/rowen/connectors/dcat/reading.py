"""What one answer of a catalog holds: which nodes are its items, how many it names without saying more of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rowen.connectors.base import unread_url
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.dcat import ITEMS, item_url, unread_node
from rowen.connectors.catalog.listing import Row
from rowen.connectors.dcat.hydra import Paging
from rowen.connectors.dcat.joining import RecordPart
from rowen.formats.json import payload_of
from rowen.formats.rdf.graph import Blank, Graph, Iri, Literal, Node
from rowen.formats.rdf.syntax import UNREAD, UnreadStatement
from rowen.model.item import Failed
from rowen.model.outside import attempt

__all__ = ["Contents", "row_of", "unread"]

_LISTED = ("dcat:dataset", "dcat:service", "dcat:resource")
_OTHERS = frozenset(
    {"dcat:Catalog", "dcat:CatalogRecord", "hydra:Collection", "hydra:PagedCollection", "hydra:PartialCollectionView"}
)


@dataclass(slots=True)
class Contents:
    """The items of an answer. `missing` is how many the catalog names that are described nowhere in it.

    `borders` are nodes that stand for themselves, and are no part of any other; `modified` is when the records about
    some items were modified. `broken` are statements that could not be read and that belong to no item: any other may
    be hidden in them. What an item lacks is told by the graph.
    """

    graph: Graph
    paging: Paging
    broken: tuple[UnreadStatement, ...] = ()
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
        if self.broken:
            above = _above(graph)
            self.broken = tuple(one for one in self.broken if one.node is None or not self._has(one.node, above))

    def _has(self, node: Node, above: Mapping[Node, set[Node]]) -> bool:
        """Whether a node is an item, or is part of one."""
        waiting, seen = [node], set[Node]()
        while waiting:
            node = waiting.pop()
            if node in self.items:
                return True
            if node not in seen and node not in self.borders:
                seen.add(node)
                waiting += above.get(node, ())
        return False

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


def row_of(
    part: RecordPart,
    source: str,
    *,
    language: str | None,
    borders: frozenset[Node],
    landing_page: str | None = None,
) -> Row:
    """A node as a row."""
    how = {"language": language, "landing_page": landing_page}

    def read() -> Row:
        return Row(*unread_node(part.graph, part.node, source, borders=borders, failed=failed, **how))

    def failed(why: str) -> Failed:
        url = item_url(part.graph, part.node, source)
        return Failed(url, f"The record cannot be read: {why}.", payload=_payload(part, borders))

    return attempt(read, lambda why: Row(failed(why)))


def _payload(part: RecordPart, borders: frozenset[Node]) -> bytes | None:
    """What is kept of an item that cannot be read: the broken statements, else what is said of it."""
    whole = part.graph.part(part.node, borders)
    broken = [value.text for node in whole.broken for value in whole.values(node, UNREAD) if isinstance(value, Literal)]
    said = {name: [str(value) for value in values] for name, values in part.graph.said(part.node).items()}
    return "\n".join(sorted(broken)).encode("utf-8", "replace") if broken else payload_of(said)


def unread(broken: UnreadStatement, source: str) -> Row:
    """A statement of which nobody knows what it is about, for the quarantine: the same one each time."""
    why = f"A statement cannot be read: {broken.why}."
    return Row(Failed(unread_url(source, broken.payload.strip()), why, payload=broken.payload), named=False)


def _above(graph: Graph) -> dict[Node, set[Node]]:
    """Which nodes speak of a node."""
    above: dict[Node, set[Node]] = {}
    for node in graph:
        for name in graph.said(node):
            for value in graph.nodes(node, name) if name != "rdf:type" else ():
                above.setdefault(value, set()).add(node)
    return above


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
