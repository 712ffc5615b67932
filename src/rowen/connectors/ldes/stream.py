"""What a stream says of itself: its paths, its retention, how often it wants to be asked."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rowen.connectors.ldes.paths import Path, path_of
from rowen.connectors.ldes.quads import Quads
from rowen.connectors.ldes.shapes import Topology, topology_of
from rowen.errors import SourceError
from rowen.formats.rdf.syntax import lexical

__all__ = ["LDES", "TREE", "EventStream", "Kinds", "stream_of"]

TREE = "https://w3id.org/tree#"
LDES = "https://w3id.org/ldes#"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_AS = "https://www.w3.org/ns/activitystreams#"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Kinds:
    """How a member tells that it deletes what it is a version of."""

    path: Path = _TYPE
    deletes: list[str] = field(default_factory=lambda: [f"{_AS}Delete"])


@dataclass(slots=True)
class EventStream:
    """The description of a stream, as it is kept in the cursor.

    `time` and `sequence` order members, `version_of` tells which object one is a version of, and `version_time` and
    `version_sequence` which of these versions is the latest, where members are not published in that order.
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
        """Whether it can be told which version of an object is the latest."""
        ordered = self.time or self.sequence or self.version_time or self.version_sequence
        return bool(self.version_of and ordered)


def stream_of(quads: Quads, name: str | None, root: str) -> EventStream:
    """What a document says of a stream."""
    stream = EventStream(name)
    if name is None:
        return stream

    def path(word: str) -> Path:
        return path_of(quads, quads.one(name, LDES + word))

    stream.time, stream.sequence = path("timestampPath"), path("sequencePath")
    stream.version_of = path("versionOfPath")
    stream.version_time, stream.version_sequence = path("versionTimestampPath"), path("versionSequencePath")
    deletes = quads.nodes(name, f"{LDES}versionDeleteObject")
    stream.kinds = Kinds(path("versionDeletePath") or _TYPE, deletes or Kinds().deletes)
    stream.transaction, stream.finalised = path("transactionPath"), path("transactionFinalizedPath")
    for value in quads.values(name, f"{LDES}transactionFinalizedObject"):
        stream.finalised_value = lexical(value)
    stream.polling_s = _seconds(quads.values(name, f"{LDES}pollingInterval"))
    stream.retention = _retention(quads, name, root)
    shapes = quads.nodes(name, f"{TREE}shape")
    stream.shape = _shape(quads, [shape for shape in shapes if shape in quads.said])
    stream.shape_url = next((shape for shape in shapes if shape not in quads.said and shape.startswith("http")), None)
    return stream


def _shape(quads: Quads, nodes: Sequence[str]) -> Topology | None:
    try:
        return topology_of(quads, nodes) if nodes else None
    except SourceError as problem:
        log.warning("read a stream without its shape: %s", problem)
        return None


def _seconds(values: Iterable[Mapping[str, Any]]) -> float | None:
    for value in values:
        try:
            return max(0.0, float(lexical(value)))
        except ValueError:
            continue
    return None


def _retention(quads: Quads, name: str, root: str) -> list[str]:
    """The policies of the view, by their types: what they drop is kept here all the same."""
    views = [root, *quads.nodes(name, f"{TREE}view")]
    views += [one for view in views for one in quads.nodes(view, f"{TREE}viewDescription")]
    policies = [policy for view in views for policy in quads.nodes(view, f"{LDES}retentionPolicy")]
    types = {kind for policy in policies for kind in quads.nodes(policy, _TYPE) or [policy]}
    return sorted(kind.removeprefix(LDES) for kind in types)
