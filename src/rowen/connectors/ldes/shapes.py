"""The description of a stream, and the SHACL shapes that decide which RDF statements belong to a member.

A topology (TREE, Shape Topologies) is plain JSON, since it is part of the cursor. It contains shapes by name, so that
a shape may refer to itself.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rowen.connectors.ldes.rdf import RDF, SH, Path, Quads, Reached, TrailStep, Value, path_of, reach
from rowen.errors import SourceError
from rowen.formats.rdf.syntax import Said, lexical, node_of

Topology: TypeAlias = dict[str, Any]
"""A graph of shapes: `start` is the name of the shape of a member, `shapes` maps names to shapes."""
NodeShape: TypeAlias = dict[str, Any]
"""The constraints of a shape.

`closed` is a flag; `required` and `optional` are lists of paths. `links` has pairs of a path and a shape or its name.
`one_of` has lists of shapes; at least one shape of each list has to fit.
"""

_MOST_SHAPES = 500  # a whole application profile, such as that of DCAT, has a hundred
_MOST_PARTS = 10_000  # paths, links and alternatives, since one shape may be part of many shapes
_DEEPEST_SHAPE = 20  # nested shapes; each level is a nested call
_MOST_FOCUSED = 2_000  # nodes of one member that shapes link to; a shape that links to itself may reach any node
_MOST_DEPTH = 30  # nested nodes; each level is a nested call


class ShapeReader:
    """Reads shapes and the shapes that they link to; shapes are numbered, since blank node labels are not stable."""

    def __init__(self, quads: Quads) -> None:
        self._quads = quads
        self._names: dict[str, str] = {}
        self._waiting: list[str] = []
        self._parts = 0

    def read(self, nodes: Sequence[str]) -> Topology:
        """Return the topology of a shape; if `nodes` has several shapes, all of them must fit (`sh:and`)."""
        start = _empty()
        for node in nodes:
            self._add_shape(start, node, ())
        shapes = {"": start}
        while self._waiting:
            node = self._waiting.pop()
            shape = shapes[self._names[node]] = _empty()
            self._add_shape(shape, node, ())
        return {"start": "", "shapes": shapes}

    def _add_shape(self, shape: NodeShape, node: str, within: tuple[str, ...]) -> None:
        """Add the constraints of the node shape `node` to `shape`."""
        self._count_part()
        if node in within or len(within) > _DEEPEST_SHAPE or self._is_true(node, "deactivated"):
            return
        quads, within = self._quads, (*within, node)
        if self._is_true(node, "closed"):
            shape["closed"] = True
            for head in quads.nodes(node, f"{SH}ignoredProperties"):
                shape["optional"] += [prop for prop in quads.listed(head) if not prop.startswith("_:")]
        for inner in quads.nodes(node, f"{SH}property"):
            self._add_property(shape, inner, within)
        for inner in quads.nodes(node, f"{SH}node"):
            self._add_shape(shape, inner, within)
        self._add_lists(shape, node, within)

    def _add_lists(self, shape: NodeShape, node: str, within: tuple[str, ...]) -> None:
        """Add the lists `sh:and`, whose shapes must all fit, and `sh:or` and `sh:xone`, of which one must fit."""
        for head in self._quads.nodes(node, f"{SH}and"):
            for inner in self._quads.listed(head):
                self._add_part(shape, inner, within)
        for word in ("or", "xone"):
            for head in self._quads.nodes(node, SH + word):
                alternatives = [_empty() for _ in self._quads.listed(head)]
                for alternative, inner in zip(alternatives, self._quads.listed(head), strict=True):
                    self._add_part(alternative, inner, within)
                # Most such lists only restrict the types of values, and are ignored.
                if any(alternative != _empty() for alternative in alternatives):
                    shape["one_of"].append(alternatives)

    def _add_part(self, shape: NodeShape, node: str, within: tuple[str, ...]) -> None:
        """Add an element of a list, which is a node shape or a property shape."""
        if self._quads.first(node, f"{SH}path") is not None:
            self._add_property(shape, node, within)
        else:
            self._add_shape(shape, node, within)

    def _add_property(self, shape: NodeShape, prop: str, within: tuple[str, ...]) -> None:
        self._count_part()
        quads = self._quads
        path = path_of(quads, quads.first(prop, f"{SH}path"))
        if path is None or self._is_true(prop, "deactivated"):
            return
        is_required = any(lexical(value).lstrip("+0") != "" for value in quads.values(prop, f"{SH}minCount"))
        paths = shape["required" if is_required else "optional"]
        paths += [] if path in paths else [path]
        for node in quads.nodes(prop, f"{SH}node"):
            if self._is_true(node, "deactivated"):
                continue
            if node not in self._names:
                self._names[node] = str(len(self._names) + 1)
                self._waiting.append(node)
            if len(self._names) > _MOST_SHAPES:
                raise SourceError(f"A shape leads to more than {_MOST_SHAPES} others.", hint="Set shape=none.")
            shape["links"].append([path, self._names[node]])
        words = (f"{SH}{word}" for word in ("property", "and", "or", "xone"))
        if any(quads.values(prop, word) for word in words) and len(within) <= _DEEPEST_SHAPE and prop not in within:
            # A property may describe its values itself.
            values, within = _empty(), (*within, prop)
            for inner in quads.nodes(prop, f"{SH}property"):
                self._add_property(values, inner, within)
            self._add_lists(values, prop, within)
            if values != _empty():
                shape["links"].append([path, values])

    def _count_part(self) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise SourceError(f"A shape has more than {_MOST_PARTS:,} parts.", hint="Set shape=none.")

    def _is_true(self, node: str, word: str) -> bool:
        return any(lexical(value) in ("true", "1") for value in self._quads.values(node, SH + word))


def _empty() -> NodeShape:
    return {"closed": False, "required": [], "optional": [], "links": [], "one_of": []}


class MemberParts:
    """The RDF statements of a member: about nodes (`said`) and pointing to nodes (`backwards`).

    `wanted` lists the nodes whose description is incomplete.
    """

    __slots__ = ("_seen", "backwards", "nodes", "said", "wanted")

    def __init__(self) -> None:
        self.said: dict[str, Said] = {}
        self.backwards: dict[str, list[tuple[str, str]]] = {}
        self.nodes: set[str] = set()
        self.wanted: list[str] = []
        self._seen: set[object] = set()

    def add(self, subject: str, predicate: str, value: Value) -> None:
        """Add an RDF statement unless it was added before."""
        statement = subject, predicate, *value.items()
        if statement not in self._seen:
            self._seen.add(statement)
            self.said.setdefault(subject, {}).setdefault(predicate, []).append(dict(value))

    def add_backwards(self, edge: TrailStep) -> None:
        """Add an RDF statement that points to a node, unless it was added before."""
        key = edge.value["@id"]
        if (key, edge.predicate, edge.subject) not in self._seen:
            self._seen.add((key, edge.predicate, edge.subject))
            self.backwards.setdefault(key, []).append((edge.predicate, edge.subject))


def extract(quads: Quads, member: str, topology: Topology) -> MemberParts:
    """Return the RDF statements of the default graph that belong to a member."""
    extraction = _Extraction(quads, member, topology)
    extraction.focus(member, topology["shapes"][topology["start"]], 0)
    return extraction.parts


class _Extraction:
    """The extraction of one member."""

    def __init__(self, quads: Quads, member: str, topology: Topology) -> None:
        self.parts = MemberParts()
        self._quads = quads
        self._member = member
        self._topology = topology
        self._focused: set[tuple[str, int]] = set()
        self._described: set[str] = set()

    def focus(self, node: str, shape: NodeShape, depth: int) -> None:
        """Add the RDF statements that belong to a node by its shape, and the statements of nodes that it links to."""
        if (node, id(shape)) in self._focused or len(self._focused) >= _MOST_FOCUSED or depth > _MOST_DEPTH:
            return
        self._focused.add((node, id(shape)))
        self.parts.nodes.add(node)
        # If the shape is open, add all statements about the node in the default graph, and about linked blank nodes.
        waiting = [] if shape["closed"] else [node]
        while waiting:
            key = waiting.pop()
            for predicate, values in ({} if key in self._described else self._quads.said.get(key, {})).items():
                for value in values:
                    self.parts.add(key, predicate, value)
                    inner = node_of(value)
                    if inner is not None and inner.startswith("_:"):
                        waiting.append(inner)
            self._described.add(key)
        if node.startswith("http") and not self._fits(node, shape):
            self.parts.wanted.append(node)
        self._add_properties(node, shape, depth)

    def _add_properties(self, node: str, shape: NodeShape, depth: int) -> None:
        for path in (*shape["required"], *shape["optional"]):
            self._add_path(node, path)
        for path, link in shape["links"]:
            # A link has the name of a shape, or the shape itself.
            inner = self._topology["shapes"][link] if isinstance(link, str) else link
            for end in self._add_path(node, path):
                if (key := node_of(end.value)) is not None:
                    self.focus(key, inner, depth + 1)
        for alternatives in shape["one_of"]:
            for inner in alternatives:
                if self._fits(node, inner):
                    self._add_properties(node, inner, depth)

    def _add_path(self, node: str, path: Path) -> Sequence[Reached]:
        """Add the RDF statements along a path; skip those in the member's own graph, which belong to it anyway."""
        ends = reach(self._quads, node, self._member, path)
        for end in ends:
            trail = end.trail
            while trail is not None:
                edge, trail = trail
                if edge.value in self._quads.values(edge.subject, edge.predicate):
                    if edge.backwards:
                        self.parts.add_backwards(edge)
                    else:
                        self.parts.add(edge.subject, edge.predicate, edge.value)
        return ends

    def _fits(self, node: str, shape: NodeShape) -> bool:
        """Return whether a node has all properties that the shape requires."""
        return all(reach(self._quads, node, self._member, path) for path in shape["required"]) and all(
            any(self._fits(node, inner) for inner in alternatives) for alternatives in shape["one_of"]
        )


TREE = "https://w3id.org/tree#"
LDES = "https://w3id.org/ldes#"
_TYPE = f"{RDF}type"
_AS = "https://www.w3.org/ns/activitystreams#"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Kinds:
    """The path and the values that identify a member as the deletion of its object."""

    path: Path = _TYPE
    deletes: list[str] = field(default_factory=lambda: [f"{_AS}Delete"])


@dataclass(slots=True)
class EventStream:
    """The description of a stream, which is part of the cursor.

    `time` and `sequence` order members; `version_time` and `version_sequence` order versions if their order differs.
    """

    name: str | None = None
    time: Path = None
    sequence: Path = None
    version_of: Path = None
    version_time: Path = None
    version_sequence: Path = None
    kinds: Kinds = field(default_factory=Kinds)
    transaction: Path = None
    finalised: Path = None
    finalised_value: str = "true"
    polling_s: float | None = None
    retention: list[str] = field(default_factory=list)
    shape: Topology | None = None
    shape_url: str | None = None

    @property
    def is_versioned(self) -> bool:
        """Return whether the latest version of an object can be determined."""
        ordered = self.time or self.sequence or self.version_time or self.version_sequence
        return bool(self.version_of and ordered)


def stream_of(quads: Quads, name: str | None, root: str) -> EventStream:
    """Return the description of the stream `name` in a document; an empty description if `name` is None."""
    stream = EventStream(name)
    if name is None:
        return stream

    def path(word: str) -> Path:
        return path_of(quads, quads.first(name, LDES + word))

    stream.time, stream.sequence = path("timestampPath"), path("sequencePath")
    stream.version_of = path("versionOfPath")
    stream.version_time, stream.version_sequence = path("versionTimestampPath"), path("versionSequencePath")
    deletes = quads.nodes(name, f"{LDES}versionDeleteObject")
    stream.kinds = Kinds(path("versionDeletePath") or _TYPE, deletes or Kinds().deletes)
    stream.transaction, stream.finalised = path("transactionPath"), path("transactionFinalizedPath")
    for value in quads.values(name, f"{LDES}transactionFinalizedObject"):
        stream.finalised_value = lexical(value)
    for value in quads.values(name, f"{LDES}pollingInterval"):
        if stream.polling_s is None:
            with suppress(ValueError):
                stream.polling_s = max(0.0, float(lexical(value)))
    # The types of the view's retention policies; members that the publisher drops are kept here.
    views = [root, *quads.nodes(name, f"{TREE}view")]
    views += [node for view in views for node in quads.nodes(view, f"{TREE}viewDescription")]
    policies = [policy for view in views for policy in quads.nodes(view, f"{LDES}retentionPolicy")]
    types = {kind for policy in policies for kind in quads.nodes(policy, _TYPE) or [policy]}
    stream.retention = sorted(kind.removeprefix(LDES) for kind in types)
    shapes = quads.nodes(name, f"{TREE}shape")
    try:
        described = [shape for shape in shapes if shape in quads.said]
        stream.shape = ShapeReader(quads).read(described) if described else None
    except SourceError as problem:
        log.warning("read a stream without its shape: %s", problem)
    stream.shape_url = next((shape for shape in shapes if shape not in quads.said and shape.startswith("http")), None)
    return stream
