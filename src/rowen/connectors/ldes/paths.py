"""Property paths of SHACL: which they are, and where they lead from a node."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from rowen.connectors.ldes.quads import SH, Quads, Value
from rowen.formats.rdf.syntax import node_of

__all__ = ["Path", "Reached", "Trail", "TrailStep", "follow", "path_of", "reached"]

Path: TypeAlias = Any
"""A SHACL property path as JSON: a predicate, or a list of an operator and paths; only predicates are inverted."""

_OPERATORS = {"inversePath": "inv", "zeroOrMorePath": "star", "oneOrMorePath": "plus", "zeroOrOnePath": "opt"}
_MOST_REACHED = 1_000  # nodes that one path may reach from one member; a time is one or two steps away
_MOST_STEPS = 20_000  # on the way there: paths that repeat paths would multiply; a member has a few hundred statements
_DEEPEST_PATH = 20  # of paths within paths: each is a call within a call


class TrailStep(NamedTuple):
    """One statement that a path went along, forwards or `backwards`."""

    subject: str
    predicate: str
    value: Value
    backwards: bool


Trail: TypeAlias = tuple[TrailStep, "Trail"] | None
"""The statements from a node to where a path leads, the last one first."""


class Reached(NamedTuple):
    """A value that a path leads to, and the way there."""

    value: Value
    trail: Trail


def path_of(quads: Quads, node: str | None, depth: int = 0) -> Path:
    """SHACL, section 2.3.1: the path that a node describes."""
    if node is None or depth > _DEEPEST_PATH:
        return None
    if not node.startswith("_:"):
        return node
    for name, operator in _OPERATORS.items():
        if inner := quads.one(node, SH + name):
            way = path_of(quads, inner, depth + 1)
            return _inverted(way) if operator == "inv" else [operator, way]
    if several := quads.one(node, f"{SH}alternativePath"):
        return ["alt", *(path_of(quads, one, depth + 1) for one in quads.listed(several))]
    return ["seq", *(path_of(quads, one, depth + 1) for one in quads.listed(node))]


def _inverted(path: Path) -> Path:
    match path:
        case ["inv", inner]:
            return inner
        case ["seq", *steps]:
            return ["seq", *map(_inverted, reversed(steps))]
        case [operator, *ways]:
            return [operator, *map(_inverted, ways)]
    return None if path is None else ["inv", path]


def follow(quads: Quads, start: str, graph: str, path: Path) -> Sequence[Value]:
    """The values that a path leads to from a node, in the default graph and in the graph of that name."""
    if type(path) is str and graph not in quads.named:
        return quads.values(start, path)
    return [one.value for one in reached(quads, start, graph, path)]


def reached(quads: Quads, start: str, graph: str, path: Path) -> list[Reached]:
    """The same, each with the statements that lead there."""
    return _Walker(quads, graph).go([Reached(_term(start), None)], path, 0)


class _Walker:
    """Goes along paths in the default graph and in one that has a name."""

    def __init__(self, quads: Quads, graph: str) -> None:
        self._quads = quads
        self._graph = graph
        self._steps_left = _MOST_STEPS

    def go(self, starts: Sequence[Reached], path: Path, depth: int) -> list[Reached]:
        self._steps_left -= 1 + len(starts)
        if depth > _DEEPEST_PATH or self._steps_left < 0:
            return []
        match path:
            case str():
                return self._forwards(starts, path)
            case ["inv", str() as predicate]:
                return self._backwards(starts, predicate)
            case ["seq", first, *others]:
                found = self.go(starts, first, depth + 1)
                for step in others:
                    found = self.go(found, step, depth + 1)
                return found
            case ["alt", *ways]:
                return [one for way in ways for one in self.go(starts, way, depth + 1)][:_MOST_REACHED]
            case ["opt", way]:
                return [*starts, *self.go(starts, way, depth + 1)]
            case ["star", way]:
                return [*starts, *self._again(starts, way, depth)]
            case ["plus", way]:
                return self._again(starts, way, depth)
        return []

    def _forwards(self, starts: Sequence[Reached], predicate: str) -> list[Reached]:
        found = [
            Reached(value, (TrailStep(node, predicate, value, False), trail))
            for node, trail in _nodes(starts)
            for value in self._quads.about(node, self._graph, predicate)
        ]
        return found[:_MOST_REACHED]

    def _backwards(self, starts: Sequence[Reached], predicate: str) -> list[Reached]:
        found = [
            Reached(_term(by), (TrailStep(by, predicate, _term(node), True), trail))
            for node, trail in _nodes(starts)
            for name, by in self._quads.pointing(node, self._graph)
            if name == predicate
        ]
        return found[:_MOST_REACHED]

    def _again(self, starts: Sequence[Reached], way: Path, depth: int) -> list[Reached]:
        found: list[Reached] = []
        visited = {node for node, _ in _nodes(starts)}
        waiting = list(starts)
        while waiting and len(found) < _MOST_REACHED:
            further = self.go(waiting, way, depth + 1)
            found += further
            waiting = []
            for one in further:
                if (key := node_of(one.value)) is not None and key not in visited:
                    visited.add(key)
                    waiting.append(one)
        return found


def _nodes(starts: Iterable[Reached]) -> list[tuple[str, Trail]]:
    return [(key, one.trail) for one in starts if (key := node_of(one.value)) is not None]


def _term(node: str) -> Mapping[str, Any]:
    return {"@id": node}
