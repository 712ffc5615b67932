"""The description of a stream: its paths, its retention, its polling interval."""

import logging
from contextlib import suppress
from dataclasses import dataclass, field

from rowen.connectors.ldes.rdf import RDF, Path, Quads, path_of
from rowen.connectors.ldes.shapes import ShapeReader, Topology
from rowen.errors import SourceError
from rowen.formats.rdf.syntax import lexical

TREE = "https://w3id.org/tree#"
LDES = "https://w3id.org/ldes#"
_TYPE = f"{RDF}type"
_AS = "https://www.w3.org/ns/activitystreams#"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Kinds:
    """The path and the values by which a member says that it deletes its object."""

    path: Path = _TYPE
    deletes: list[str] = field(default_factory=lambda: [f"{_AS}Delete"])


@dataclass(slots=True)
class EventStream:
    """The description of a stream, which is part of the cursor.

    `time` and `sequence` order members, `version_of` leads to the object that a member is a version of, and
    `version_time` and `version_sequence` order these versions if members are published in another order.
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
    """Return the description of a stream in a document."""
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
    # The retention policies of the view, by their types: members that they drop are kept here all the same.
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
