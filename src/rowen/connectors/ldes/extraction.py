"""What of a page belongs to a member that has a shape (TREE, Shape Topologies)."""

from collections.abc import Sequence

from rowen.connectors.ldes.paths import Path, Reached, Trail, TrailStep, reached
from rowen.connectors.ldes.quads import Quads, Value
from rowen.connectors.ldes.shapes import NodeShape, Topology, shape_in
from rowen.formats.rdf.syntax import Said, node_of

__all__ = ["MemberParts", "extract"]

_MOST_FOCUSED = 2_000  # nodes of one member that shapes lead to; a shape that leads to itself may lead anywhere
_MOST_DEPTH = 30  # each is a call within a call


class MemberParts:
    """The statements of a member: what is `said` of nodes, and `backwards` who points to them.

    `nodes` are those that shapes lead to, `wanted` those of them that lack something which their shape requires.
    """

    __slots__ = ("_seen", "backwards", "nodes", "said", "wanted")

    def __init__(self) -> None:
        self.said: dict[str, Said] = {}
        self.backwards: dict[str, list[tuple[str, str]]] = {}
        self.nodes: set[str] = set()
        self.wanted: list[str] = []
        self._seen: set[object] = set()

    def add(self, subject: str, predicate: str, value: Value) -> None:
        """Add one statement, unless it is there."""
        statement = subject, predicate, *value.items()
        if statement not in self._seen:
            self._seen.add(statement)
            self.said.setdefault(subject, {}).setdefault(predicate, []).append(dict(value))

    def add_backwards(self, edge: TrailStep) -> None:
        """Add one that leads to a node instead of away from it, unless it is there."""
        key = edge.value["@id"]
        if (key, edge.predicate, edge.subject) not in self._seen:
            self._seen.add((key, edge.predicate, edge.subject))
            self.backwards.setdefault(key, []).append((edge.predicate, edge.subject))


def extract(quads: Quads, member: str, topology: Topology) -> MemberParts:
    """The statements that belong to a member; graphs that have names are not among them."""
    extraction = _Extraction(quads, member, topology)
    extraction.focus(member, topology["shapes"][topology["start"]], 0)
    return extraction.found


class _Extraction:
    """One member on its way."""

    def __init__(self, quads: Quads, member: str, topology: Topology) -> None:
        self.found = MemberParts()
        self._quads = quads
        self._member = member
        self._topology = topology
        self._focused: set[tuple[str, int]] = set()
        self._described: set[str] = set()

    def focus(self, node: str, shape: NodeShape, depth: int) -> None:
        """Take what a shape says belongs to a node, and to those that it links to."""
        if (node, id(shape)) in self._focused or len(self._focused) >= _MOST_FOCUSED or depth > _MOST_DEPTH:
            return
        self._focused.add((node, id(shape)))
        self.found.nodes.add(node)
        if not shape["closed"]:
            self._describe(node)
        if node.startswith("http") and not self._fits(node, shape):
            self.found.wanted.append(node)
        self._along(node, shape, depth)

    def _along(self, node: str, shape: NodeShape, depth: int) -> None:
        for path in (*shape["required"], *shape["optional"]):
            for one in self._reached(node, path):
                self._add(one.trail)
        for path, link in shape["links"]:
            inner = shape_in(self._topology, link)
            for one in self._reached(node, path):
                self._add(one.trail)
                if (key := node_of(one.value)) is not None:
                    self.focus(key, inner, depth + 1)
        for several in shape["one_of"]:
            for inner in several:
                if self._fits(node, inner):
                    self._along(node, inner, depth)

    def _add(self, trail: Trail) -> None:
        """Add the statements that led somewhere, but for those of the member's own graph, which is its own anyway."""
        while trail is not None:
            edge, trail = trail
            if edge.value not in self._quads.values(edge.subject, edge.predicate):
                continue
            if edge.backwards:
                self.found.add_backwards(edge)
            else:
                self.found.add(edge.subject, edge.predicate, edge.value)

    def _fits(self, node: str, shape: NodeShape) -> bool:
        """Whether all that a shape requires is there."""
        return all(self._reached(node, path) for path in shape["required"]) and all(
            any(self._fits(node, inner) for inner in several) for several in shape["one_of"]
        )

    def _reached(self, node: str, path: Path) -> Sequence[Reached]:
        return reached(self._quads, node, self._member, path)

    def _describe(self, node: str) -> None:
        """Its statements in the default graph, and those of the blank nodes that they lead to."""
        waiting = [node]
        while waiting:
            key = waiting.pop()
            if key in self._described:
                continue
            self._described.add(key)
            for predicate, values in self._quads.said.get(key, {}).items():
                for value in values:
                    self.found.add(key, predicate, value)
                    inner = node_of(value)
                    if inner is not None and inner.startswith("_:"):
                        waiting.append(inner)
