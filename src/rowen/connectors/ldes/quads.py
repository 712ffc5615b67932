"""The quads of one page, by what they are about."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad

from rowen.errors import SourceError
from rowen.model.budget import Budget

__all__ = ["Path", "Quads", "follow", "path_of"]

Path: TypeAlias = Any
"""A SHACL property path as JSON: a predicate, or a list of an operator and paths."""

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
SH = "http://www.w3.org/ns/shacl#"
MOST_QUADS = 2_000_000
"""At 300 bytes each in dictionaries, 600 MB of the 4 GB that a worker has. A page of 250 members has 2,500."""

_OPERATORS = {"inversePath": "inv", "zeroOrMorePath": "star", "oneOrMorePath": "plus", "zeroOrOnePath": "opt"}
_CHECKED_EACH = 1_000  # quads between two looks at what they take: some 100 kB
_MOST_STEPS = 1_000  # nodes that one path may reach from one member; a time is one or two steps away
_DEEPEST_PATH = 20  # of paths within paths: each is a call within a call


class Quads:
    """What is said of nodes in the default graph (`said`), and what stands in named graphs (`named`).

    Nodes are strings: IRIs, and labels of blank nodes after `_:`. Values are terms of the parser.
    """

    __slots__ = ("_reverse", "count", "named", "said")

    def __init__(self) -> None:
        self.said: dict[str, list[tuple[str, Any]]] = {}
        self.named: dict[str, dict[str, list[tuple[str, Any]]]] = {}
        self.count = 0
        self._reverse: dict[str, list[tuple[str, str]]] | None = None

    def take(self, quads: Iterable[Quad], where: str, given_bytes: int, label: str = "") -> None:
        """Take quads in; `label` keeps the blank nodes of several documents apart."""
        said, named, budget = self.said, self.named, Budget(given_bytes)
        blank = f"_:{label}"
        written = count = 0
        for quad in quads:
            subject, graph, value = quad.subject, quad.graph_name, quad.object
            node = subject.value if type(subject) is NamedNode else blank + getattr(subject, "value", str(subject))
            predicate = quad.predicate.value
            if label and type(value) is BlankNode:
                value = BlankNode(f"{label}{value.value}")
            pairs = said if type(graph) is DefaultGraph else named.setdefault(_name(graph, blank), {})
            if node in pairs:
                pairs[node].append((predicate, value))
            else:
                pairs[node] = [(predicate, value)]
            # A prefix or a base is written once and stands in each term.
            written += len(node) + len(predicate)
            count += 1
            if not count % _CHECKED_EACH:
                budget.spend(written)
                written = 0
                if self.count + count > MOST_QUADS:
                    raise SourceError(f"{where} has more than {MOST_QUADS:,} quads.", hint="No page has so many.")
        budget.spend(written)
        self.count += count

    def values(self, node: str, predicate: str) -> list[Any]:
        """The values of a property in the default graph."""
        return [value for name, value in self.said.get(node, ()) if name == predicate]

    def nodes(self, node: str, predicate: str) -> list[str]:
        """Those among the values that are nodes."""
        return [key for value in self.values(node, predicate) if (key := node_of(value)) is not None]

    def one(self, node: str, predicate: str) -> str | None:
        """The first node among the values."""
        return next(iter(self.nodes(node, predicate)), None)

    def with_property(self, predicate: str) -> Iterator[tuple[str, Any]]:
        """All pairs of a node and a value of this property."""
        for node, pairs in self.said.items():
            for name, value in pairs:
                if name == predicate:
                    yield node, value

    def listed(self, head: str) -> list[str]:
        """The nodes in an RDF list."""
        found: list[str] = []
        while head != f"{RDF}nil" and len(found) < _MOST_STEPS:
            found += self.nodes(head, f"{RDF}first")[:1]
            following = self.one(head, f"{RDF}rest")
            if following is None:
                break
            head = following
        return found

    def about(self, node: str, graph: str) -> list[tuple[str, Any]]:
        """What is said of a node in the default graph and in a named one."""
        default, more = self.said.get(node, []), self.named.get(graph)
        return [*default, *more.get(node, [])] if more else default

    def pointing(self, node: str) -> list[tuple[str, str]]:
        """Which nodes of the default graph point to this one, and by which property."""
        if self._reverse is None:
            self._reverse = {}
            for subject, pairs in self.said.items():
                for name, value in pairs:
                    if (key := node_of(value)) is not None:
                        self._reverse.setdefault(key, []).append((name, subject))
        return self._reverse.get(node, [])


def _name(graph: Any, blank: str) -> str:
    return str(graph.value) if type(graph) is NamedNode else blank + getattr(graph, "value", str(graph))


def node_of(value: Any) -> str | None:
    """The key of a term that is a node; None for a literal."""
    if type(value) is NamedNode:
        return str(value.value)
    return f"_:{value.value}" if type(value) is BlankNode else None


def path_of(quads: Quads, node: str | None, depth: int = 0) -> Path:
    """SHACL, section 2.3.1: the path that a node describes."""
    if node is None or depth > _DEEPEST_PATH:
        return None
    if not node.startswith("_:"):
        return node
    for name, operator in _OPERATORS.items():
        if inner := quads.one(node, SH + name):
            return [operator, path_of(quads, inner, depth + 1)]
    if several := quads.one(node, f"{SH}alternativePath"):
        return ["alt", *(path_of(quads, one, depth + 1) for one in quads.listed(several))]
    return ["seq", *(path_of(quads, one, depth + 1) for one in quads.listed(node))]


def follow(quads: Quads, start: str, graph: str, path: Path) -> list[Any]:
    """The values that a path leads to from a node, in the default graph and in the graph of that name."""
    if type(path) is str and graph not in quads.named:
        return [value for name, value in quads.said.get(start, ()) if name == path]
    return _follow(quads, [start], graph, path, 0)


def _follow(quads: Quads, starts: list[str], graph: str, path: Path, depth: int) -> list[Any]:
    if depth > _DEEPEST_PATH:
        return []
    match path:
        case str():
            return [value for node in starts for name, value in quads.about(node, graph) if name == path]
        case ["seq", *steps]:
            values: list[Any] = []
            for at, step in enumerate(steps):
                values = _follow(quads, starts, graph, step, depth + 1)
                starts = _keys(values) if at + 1 < len(steps) else starts
            return values
        case ["alt", *ways]:
            return [value for way in ways for value in _follow(quads, starts, graph, way, depth + 1)]
        case ["inv", str() as predicate]:
            return [_term(by) for node in starts for name, by in quads.pointing(node) if name == predicate]
        case ["opt", way]:
            return [*map(_term, starts), *_follow(quads, starts, graph, way, depth + 1)]
        case ["star" | "plus" as how, way]:
            return _repeat(quads, starts, graph, way, depth, at_least_once=how == "plus")
    return []


def _repeat(quads: Quads, starts: list[str], graph: str, way: Path, depth: int, *, at_least_once: bool) -> list[Any]:
    reached: list[Any] = [] if at_least_once else [*map(_term, starts)]
    visited, waiting = set(starts), list(starts)
    while waiting and len(reached) < _MOST_STEPS:
        values = _follow(quads, waiting, graph, way, depth + 1)
        reached += values
        waiting = [key for key in _keys(values) if key not in visited]
        visited.update(waiting)
    return reached


def _keys(values: list[Any]) -> list[str]:
    return [key for value in values if (key := node_of(value)) is not None]


def _term(node: str) -> Any:
    return BlankNode(node[2:]) if node.startswith("_:") else NamedNode(node)
