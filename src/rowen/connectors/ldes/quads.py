"""What a page says, by what it is about."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from rowen.formats.rdf.nodes import Said, node_of

__all__ = ["MOST_QUADS", "Path", "Quads", "follow", "path_of"]

Path: TypeAlias = Any
"""A SHACL property path as JSON: a predicate, or a list of an operator and paths."""

Value: TypeAlias = Mapping[str, Any]

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
SH = "http://www.w3.org/ns/shacl#"
MOST_QUADS = 2_000_000
"""At 300 bytes each in dictionaries, 600 MB of the 4 GB that a worker has. A page of 250 members has 2,500."""

_OPERATORS = {"inversePath": "inv", "zeroOrMorePath": "star", "oneOrMorePath": "plus", "zeroOrOnePath": "opt"}
_MOST_STEPS = 1_000  # nodes that one path may reach from one member; a time is one or two steps away
_DEEPEST_PATH = 20  # of paths within paths: each is a call within a call
_NOTHING: Said = {}


class Quads:
    """What is said of nodes in the default graph (`said`), and what stands in named graphs (`named`).

    Nodes are strings: IRIs, and labels of blank nodes after `_:`. Values are those of `formats/rdf/nodes`.
    """

    __slots__ = ("_reverse", "named", "said")

    def __init__(self) -> None:
        self.said: dict[str, Said] = {}
        self.named: dict[str, dict[str, Said]] = {}
        self._reverse: dict[str, list[tuple[str, str]]] | None = None

    def take(self, nodes: Iterable[dict[str, Any]]) -> None:
        """Take the nodes of a document in."""
        for node in nodes:
            key = node.pop("@id")
            graph = node.pop("@graph", None)
            if graph is not None:
                inner = self.named.setdefault(key, {})
                for one in graph:
                    _join(inner, one.pop("@id"), one)
            if node:
                _join(self.said, key, node)

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
        while head != f"{RDF}nil" and len(found) < _MOST_STEPS:
            found += self.nodes(head, f"{RDF}first")[:1]
            following = self.one(head, f"{RDF}rest")
            if following is None:
                break
            head = following
        return found

    def about(self, node: str, graph: str, predicate: str) -> Sequence[Value]:
        """The values of a property in the default graph and in a named one."""
        default, more = self.values(node, predicate), self.named.get(graph)
        return [*default, *more.get(node, _NOTHING).get(predicate, ())] if more else default

    def pointing(self, node: str) -> list[tuple[str, str]]:
        """Which nodes of the default graph point to this one, and by which property."""
        if self._reverse is None:
            self._reverse = {}
            for subject, said in self.said.items():
                for name, values in said.items():
                    for value in values:
                        if (key := node_of(value)) is not None:
                            self._reverse.setdefault(key, []).append((name, subject))
        return self._reverse.get(node, [])


def _join(nodes: dict[str, Said], key: str, said: Said) -> None:
    held = nodes.setdefault(key, said)
    if held is not said:
        for predicate, values in said.items():
            held.setdefault(predicate, []).extend(values)


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


def follow(quads: Quads, start: str, graph: str, path: Path) -> Sequence[Value]:
    """The values that a path leads to from a node, in the default graph and in the graph of that name."""
    if type(path) is str and graph not in quads.named:
        return quads.values(start, path)
    return _follow(quads, [start], graph, path, 0)


def _follow(quads: Quads, starts: list[str], graph: str, path: Path, depth: int) -> list[Value]:
    if depth > _DEEPEST_PATH:
        return []
    match path:
        case str():
            return [value for node in starts for value in quads.about(node, graph, path)]
        case ["seq", *steps]:
            values: list[Value] = []
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


def _repeat(quads: Quads, starts: list[str], graph: str, way: Path, depth: int, *, at_least_once: bool) -> list[Value]:
    reached: list[Value] = [] if at_least_once else [*map(_term, starts)]
    visited, waiting = set(starts), list(starts)
    while waiting and len(reached) < _MOST_STEPS:
        values = _follow(quads, waiting, graph, way, depth + 1)
        reached += values
        waiting = [key for key in _keys(values) if key not in visited]
        visited.update(waiting)
    return reached


def _keys(values: Iterable[Value]) -> list[str]:
    return [key for value in values if (key := node_of(value)) is not None]


def _term(node: str) -> Value:
    return {"@id": node}
