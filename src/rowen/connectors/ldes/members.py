"""The members of a page: what each is a version of, when, and what is stored of it."""

from typing import Any, NamedTuple

from rowen.connectors.ldes.described import Describer, tags_of, title_of
from rowen.connectors.ldes.extraction import MemberParts, extract
from rowen.connectors.ldes.paths import Path, follow
from rowen.connectors.ldes.quads import Quads
from rowen.connectors.ldes.stream import EventStream
from rowen.connectors.ldes.times import interval_of, moment_within
from rowen.formats.rdf.syntax import lexical, node_of

__all__ = ["MemberReader", "StreamMember"]

_GREATEST = 2**63
"""Eight bytes hold a sequence where versions are compared; what is longer counts as the greatest."""


class StreamMember(NamedTuple):
    """A member: its name, the object that it is a version of, its times, and what is stored of it."""

    name: str
    version_of: str | None
    time: int | None
    sequence: int
    version_time: int | None
    version_sequence: int
    deletes: bool
    transaction: str | None
    is_final: bool
    title: str
    text: str
    tags: tuple[str, ...]
    tree: dict[str, Any]


class MemberReader:
    """Reads the members of one page; `by_object`, they speak of the objects that they are versions of.

    `wanted` are documents that members, or parts of them which a shape requires, are to be found in.
    """

    def __init__(self, quads: Quads, stream: EventStream, language: str | None, *, by_object: bool) -> None:
        self.wanted: list[str] = []
        self._quads = quads
        self._stream = stream
        self._language = language
        self._by_object = by_object
        self._deletes = frozenset(stream.kinds.deletes)
        self._describer = Describer(quads)
        self._has_graphs = bool(quads.named)

    def read(self, name: str) -> StreamMember:
        """What the page says of a member."""
        stream, language = self._stream, self._language
        version_of = self._node(name, stream.version_of)
        is_version = self._by_object and version_of is not None
        left_out = stream.version_of if is_version and type(stream.version_of) is str else None
        time = None if stream.time is None else self._time(name, stream.time)
        version_time = None if stream.version_time is None else self._time(name, stream.version_time)
        transaction = None if stream.transaction is None else self._text(name, stream.transaction)
        deletes = not self._deletes.isdisjoint(map(node_of, self._values(name, stream.kinds.path)))
        sequence = 0 if stream.sequence is None else self._number(name, stream.sequence)
        version_sequence = 0 if stream.version_sequence is None else self._number(name, stream.version_sequence)
        is_final = transaction is not None and self._text(name, stream.finalised) == stream.finalised_value
        is_plain = stream.shape is None and name in self._quads.said
        extracted = None if is_plain else self._extracted(name)
        tree, text = self._describer.describe(name, extracted, left_out=left_out)
        if is_version:
            tree["@id"] = version_of
        title, tags = title_of(tree, language), tuple(tags_of(tree))
        # In the order of the fields: keywords for so many would cost as much again.
        return StreamMember(
            name, version_of, time, sequence, version_time, version_sequence, deletes, transaction, is_final,
            title, text, tags, tree,
        )  # fmt: skip

    def _extracted(self, name: str) -> MemberParts | None:
        """What belongs to a member by its shape; None without one. A member that is not there is wanted."""
        quads, shape = self._quads, self._stream.shape
        found = None if shape is None else extract(quads, name, shape)
        if name not in quads.said and name not in quads.named and name.startswith("http"):
            self.wanted.append(name)
        if found is not None:
            self.wanted += found.wanted
        return found

    def _values(self, name: str, path: Path) -> Any:
        if type(path) is str and not self._has_graphs:
            said = self._quads.said.get(name)
            return () if said is None else said.get(path, ())
        return follow(self._quads, name, name, path)

    def _node(self, name: str, path: Path) -> str | None:
        found = self._values(name, path) if path is not None else ()
        key = node_of(found[0]) if found else None
        return key if key and not key.startswith("_:") else None

    def _text(self, name: str, path: Path) -> str | None:
        found = self._values(name, path) if path is not None else ()
        return lexical(found[0]) if found else None

    def _time(self, name: str, path: Path) -> int | None:
        """Members have to have one order, also where what they say of their time is not exact."""
        found = self._values(name, path)
        return moment_within(lexical(found[0])) if found else None

    def _number(self, name: str, path: Path) -> int:
        text = self._text(name, path)
        try:
            return min(max(int(text or 0), 0), _GREATEST)
        except ValueError:
            found = interval_of(text or "")
            return max(found.low, 0) if found else 0
