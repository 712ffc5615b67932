"""What a SHACL shape says of which statements belong to a member: a shape topology, as the TREE community calls it.

A topology is plain JSON, since it is kept in the cursor: shapes by name, so that one may lead back to itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from rowen.connectors.ldes.paths import path_of
from rowen.connectors.ldes.quads import SH, Quads
from rowen.errors import SourceError
from rowen.formats.rdf.syntax import lexical

__all__ = ["NodeShape", "Topology", "shape_in", "topology_of"]

Topology: TypeAlias = dict[str, Any]
"""`start`, the name of a shape, and `shapes` by their names."""
NodeShape: TypeAlias = dict[str, Any]
"""`closed`, paths that are `required` and `optional`, `links` of a path and the name of a shape, and lists of shapes in
`one_of`, of each of which one has to fit."""

_MOST_SHAPES = 500  # a whole application profile, such as that of DCAT, has a hundred
_MOST_PARTS = 10_000  # paths, links and alternatives: one shape may be part of many
_DEEPEST_SHAPE = 20  # of shapes that are parts of shapes: each is a call within a call


def topology_of(quads: Quads, nodes: Sequence[str]) -> Topology:
    """The topology of a shape; of several, which have to fit all together (`sh:and`)."""
    return _Reading(quads).topology(nodes)


class _Reading:
    """Shapes that were read, and those that they lead to; nodes have numbers, since labels mean nothing elsewhere."""

    def __init__(self, quads: Quads) -> None:
        self._quads = quads
        self._names: dict[str, str] = {}
        self._waiting: list[str] = []
        self._parts = 0

    def topology(self, nodes: Sequence[str]) -> Topology:
        start = _empty()
        for node in nodes:
            self._take(start, node, ())
        shapes = {"": start}
        while self._waiting:
            node = self._waiting.pop()
            shape = shapes[self._names[node]] = _empty()
            self._take(shape, node, ())
        return {"start": "", "shapes": shapes}

    def _take(self, shape: NodeShape, node: str, within: tuple[str, ...]) -> None:
        """Take what a node says of its own kind into a shape."""
        self._spend()
        if node in within or len(within) > _DEEPEST_SHAPE or self._is_true(node, "deactivated"):
            return
        quads, within = self._quads, (*within, node)
        if self._is_true(node, "closed"):
            shape["closed"] = True
            ignored = [one for head in quads.nodes(node, f"{SH}ignoredProperties") for one in quads.listed(head)]
            shape["optional"] += [one for one in ignored if not one.startswith("_:")]
        for prop in quads.nodes(node, f"{SH}property"):
            self._property(shape, prop, within)
        for inner in quads.nodes(node, f"{SH}node"):
            self._take(shape, inner, within)
        for head in quads.nodes(node, f"{SH}and"):
            for inner in quads.listed(head):
                self._any(shape, inner, within)
        self._alternatives(shape, node, within)

    def _any(self, shape: NodeShape, node: str, within: tuple[str, ...]) -> None:
        """A part of a list is a shape of nodes, or of one property."""
        if self._quads.one(node, f"{SH}path") is not None:
            self._property(shape, node, within)
        else:
            self._take(shape, node, within)

    def _alternatives(self, shape: NodeShape, node: str, within: tuple[str, ...]) -> None:
        for word in ("or", "xone"):
            for head in self._quads.nodes(node, SH + word):
                several = [_empty() for _ in self._quads.listed(head)]
                for one, inner in zip(several, self._quads.listed(head), strict=True):
                    self._any(one, inner, within)
                # Most such lists choose between types of values, and say nothing of what belongs to a member.
                if any(one != _empty() for one in several):
                    shape["one_of"].append(several)

    def _property(self, shape: NodeShape, prop: str, within: tuple[str, ...]) -> None:
        self._spend()
        path = path_of(self._quads, self._quads.one(prop, f"{SH}path"))
        if path is None or self._is_true(prop, "deactivated"):
            return
        paths = shape["required" if self._is_required(prop) else "optional"]
        paths += [] if path in paths else [path]
        for node in self._quads.nodes(prop, f"{SH}node"):
            if not self._is_true(node, "deactivated"):
                shape["links"].append([path, self._named(node)])
        words = (f"{SH}{word}" for word in ("property", "and", "or", "xone"))
        if (
            any(self._quads.values(prop, word) for word in words)
            and len(within) <= _DEEPEST_SHAPE
            and prop not in within
        ):
            self._of_values(shape, path, prop, (*within, prop))

    def _of_values(self, shape: NodeShape, path: Any, prop: str, within: tuple[str, ...]) -> None:
        """A property may say itself what its values have to be like."""
        values = _empty()
        for inner in self._quads.nodes(prop, f"{SH}property"):
            self._property(values, inner, within)
        for head in self._quads.nodes(prop, f"{SH}and"):
            for inner in self._quads.listed(head):
                self._any(values, inner, within)
        self._alternatives(values, prop, within)
        if values != _empty():
            shape["links"].append([path, values])

    def _named(self, node: str) -> str:
        if node not in self._names:
            self._names[node] = str(len(self._names) + 1)
            self._waiting.append(node)
            if len(self._names) > _MOST_SHAPES:
                raise SourceError(f"A shape leads to more than {_MOST_SHAPES} others.", hint="Set shape=none.")
        return self._names[node]

    def _spend(self) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise SourceError(f"A shape has more than {_MOST_PARTS:,} parts.", hint="Set shape=none.")

    def _is_true(self, node: str, word: str) -> bool:
        return any(lexical(value) in ("true", "1") for value in self._quads.values(node, SH + word))

    def _is_required(self, prop: str) -> bool:
        return any(lexical(value).lstrip("+0") != "" for value in self._quads.values(prop, f"{SH}minCount"))


def _empty() -> NodeShape:
    return {"closed": False, "required": [], "optional": [], "links": [], "one_of": []}


def shape_in(topology: Mapping[str, Any], link: Any) -> NodeShape:
    """The shape that a link leads to: one with a name, or one that stands there."""
    shape: NodeShape = topology["shapes"][link] if isinstance(link, str) else link
    return shape
