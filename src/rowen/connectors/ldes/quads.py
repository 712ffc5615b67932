"""What a page says, by what it is about."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from rowen.formats.rdf.syntax import Said, node_of

__all__ = ["MOST_QUADS", "RDF", "SH", "Quads", "Value"]

Value: TypeAlias = Mapping[str, Any]

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
SH = "http://www.w3.org/ns/shacl#"
MOST_QUADS = 2_000_000
"""At 300 bytes each in dictionaries, 600 MB of the 4 GB that a worker has. A page of 250 members has 2,500."""

_LONGEST_LIST = 1_000  # lists are those of paths and shapes; one that comes back to itself ends there
_NOTHING: Said = {}


class Quads:
    """What is said of nodes in the default graph (`said`), and what stands in named graphs (`named`).

    Nodes are strings: IRIs, and labels of blank nodes after `_:`. Values are those of `formats/rdf/nodes`.
    """

    __slots__ = ("_reverse", "named", "said")

    def __init__(self) -> None:
        self.said: dict[str, Said] = {}
        self.named: dict[str, dict[str, Said]] = {}
        self._reverse: dict[str | None, dict[str, list[tuple[str, str]]]] = {}

    def take(self, nodes: Iterable[dict[str, Any]]) -> None:
        """Take the nodes of a document in."""
        said = self.said
        for node in nodes:
            key = node.pop("@id")
            if "@graph" in node:
                inner = self.named.setdefault(key, {})
                for one in node.pop("@graph"):
                    _join(inner, one.pop("@id"), one)
            if key in said:
                _join(said, key, node)
            elif node:
                said[key] = node

    def values(self, node: str, predicate: str) -> Sequence[Value]:
        """The values of a property in the default graph."""
        return self.said.get(node, _NOTHING).get(predicate, ())

    def nodes(self, node: str, predicate: str) -> list[str]:
        """Those among the values that are nodes."""
        return [key for value in self.values(node, predicate) if (key := node_of(value)) is not None]

    def one(self, node: str, predicate: str) -> str | None:
        """The first node among the values."""
        return next(iter(self.nodes(node, predicate)), None)

    def with_property(self, predicate: str) -> Iterator[tuple[str, Value]]:
        """All pairs of a node and a value of this property."""
        for node, said in self.said.items():
            if predicate in said:
                for value in said[predicate]:
                    yield node, value

    def listed(self, head: str) -> list[str]:
        """The nodes in an RDF list."""
        found: list[str] = []
        following: str | None = head
        for _ in range(_LONGEST_LIST):
            if following is None or following == f"{RDF}nil":
                break
            found += self.nodes(following, f"{RDF}first")[:1]
            following = self.one(following, f"{RDF}rest")
        return found

    def about(self, node: str, graph: str, predicate: str) -> Sequence[Value]:
        """The values of a property in the default graph and in a named one."""
        default, more = self.values(node, predicate), self.named.get(graph)
        return [*default, *more.get(node, _NOTHING).get(predicate, ())] if more else default

    def pointing(self, node: str, graph: str) -> list[tuple[str, str]]:
        """Which nodes of the default graph and of a named one point to this one, and by which property."""
        found = self._pointing(None, self.said).get(node, [])
        more = self.named.get(graph)
        return [*found, *self._pointing(graph, more).get(node, ())] if more else found

    def _pointing(self, graph: str | None, nodes: Mapping[str, Said]) -> dict[str, list[tuple[str, str]]]:
        if graph not in self._reverse:
            reverse: dict[str, list[tuple[str, str]]] = {}
            for subject, said in nodes.items():
                for name, values in said.items():
                    for value in values:
                        if (key := node_of(value)) is not None:
                            reverse.setdefault(key, []).append((name, subject))
            self._reverse[graph] = reverse
        return self._reverse[graph]


def _join(nodes: dict[str, Said], key: str, said: Said) -> None:
    held = nodes.setdefault(key, said)
    if held is not said:
        for predicate, values in said.items():
            held.setdefault(predicate, []).extend(values)
