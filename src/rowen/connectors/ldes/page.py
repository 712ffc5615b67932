"""One page of a stream, read in a worker process: its members, where it leads, and what it says of the stream.

What comes back is plain: tuples of texts and numbers, and dictionaries.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from rowen.connectors.ldes.members import MemberReader, StreamMember
from rowen.connectors.ldes.paths import path_of
from rowen.connectors.ldes.quads import MOST_QUADS, RDF, SH, Quads
from rowen.connectors.ldes.shapes import Topology, topology_of
from rowen.connectors.ldes.stream import LDES, TREE, EventStream, stream_of
from rowen.connectors.ldes.times import Interval, interval_of
from rowen.errors import SourceError
from rowen.formats.rdf.contexts import remote
from rowen.formats.rdf.syntax import RdfBody, format_of, lexical, node_of, read_nodes
from rowen.model.url import canonical

__all__ = [
    "PageAnswer",
    "Relation",
    "StreamBody",
    "StreamEntry",
    "contexts_of",
    "read_description",
    "read_entry",
    "read_page",
    "read_shape",
]

_LOWER = frozenset({"GreaterThanRelation", "GreaterThanOrEqualToRelation"})
_UPPER = frozenset({"LessThanRelation", "LessThanOrEqualToRelation"})
_WITHIN = frozenset({"EqualToRelation", "InBetweenRelation"})
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


class StreamBody(NamedTuple):
    """A document as it came."""

    body: bytes
    url: str
    media_type: str | None
    charset: str | None


class Relation(NamedTuple):
    """A page that this one leads to; between these times, as far as they are told. `is_older` by a relation of time."""

    url: str
    low: int | None
    high: int | None
    is_older: bool


@dataclass(slots=True)
class PageAnswer:
    """What a page says. `wanted` are documents that parts of its members are in; `broken` members that have no name.

    It goes from process to process as one string of bytes, made in a third of the time that pickling its
    dictionaries takes.
    """

    members: list[StreamMember]
    relations: list[Relation]
    immutable: bool
    wanted: list[str]
    broken: int

    def __getstate__(self) -> bytes:
        """All of it as MessagePack."""
        return msgspec.msgpack.encode((self.members, self.relations, self.immutable, self.wanted, self.broken))

    def __setstate__(self, state: bytes) -> None:
        """Take it back; raises `ValueError` for anything else."""
        try:
            told = _PACKED.decode(state)
        except msgspec.MsgspecError as problem:
            raise ValueError(f"no answer of a page: {problem}") from None
        self.members, self.relations, self.immutable, self.wanted, self.broken = told


_PACKED = msgspec.msgpack.Decoder(tuple[list[StreamMember], list[Relation], bool, list[str], int])


class StreamEntry(NamedTuple):
    """What the address of a stream turned out to be: its root page (`view` is None), or where that is."""

    stream: EventStream
    view: str | None


def contexts_of(given: StreamBody) -> list[str]:
    """The JSON-LD contexts that a document points to."""
    if format_of(RdfBody(*given)) != "jsonld":
        return []
    return remote(given.body, given.url)


def _quads(given: StreamBody, contexts: Mapping[str, Any], more: Sequence[StreamBody] = ()) -> Quads:
    quads = Quads()
    quads.take(read_nodes(RdfBody(*given), contexts=contexts, most_quads=MOST_QUADS))
    for one in more:
        quads.take(read_nodes(RdfBody(*one), contexts=contexts, most_quads=MOST_QUADS, is_further=True))
    return quads


def read_entry(given: StreamBody, asked: str, contexts: Mapping[str, Any]) -> StreamEntry:
    """LDES, section 4.1: whether this page is the root of a view, and of which stream, or which page is."""
    quads = _quads(given, contexts)
    here = {_same(given.url), _same(asked)}
    views = [(node, key) for node, value in quads.with_property(f"{TREE}view") if (key := node_of(value))]
    streams = sorted({node for node, view in views if _same(view) in here})
    if len(streams) > 1:
        raise SourceError(
            f"{given.url} is a view of several streams: {', '.join(streams[:5])}.",
            hint="Name the address of one of them.",
        )
    if streams:
        return StreamEntry(stream_of(quads, streams[0], given.url), None)
    own = sorted({view for node, view in views if _same(node) in here})
    preferred = [view for view in own if f"{LDES}EventSource" in quads.nodes(view, _TYPE)]
    if len(own) > 1 and len(preferred) != 1:
        raise SourceError(
            f"{asked} has several views: {', '.join(own[:5])}.", hint="Name the address of the view to follow."
        )
    if own:
        [view] = preferred if len(own) > 1 else own
        return StreamEntry(stream_of(quads, next(node for node, seen in views if seen == view), view), view)
    only = {view for _, view in views}
    if len(only) == 1 and not _has_content(quads):
        # It speaks of one stream under another name than it was asked for: an alias, or another scheme or port.
        [(name, view), *_] = views
        return StreamEntry(stream_of(quads, name, view), view)
    return StreamEntry(stream_of(quads, _collection(quads, given.url), given.url), None)


def _has_content(quads: Quads) -> bool:
    return any(True for name in ("member", "relation") for _ in quads.with_property(TREE + name))


def _collection(quads: Quads, url: str) -> str | None:
    """The stream of a page that does not say of what it is a view."""
    named = {node for node, _ in quads.with_property(f"{TREE}member")}
    named |= {node for node, value in quads.with_property(_TYPE) if node_of(value) == f"{LDES}EventStream"}
    if len(named) > 1:
        raise SourceError(f"{url} speaks of several streams: {', '.join(sorted(named)[:5])}.")
    if not named and not any(quads.with_property(f"{TREE}relation")):
        raise SourceError(
            f"{url} is no event stream: it has neither views nor members nor relations.",
            hint="Name the address of a stream, of a view or of its first page.",
        )
    return next(iter(named), None)


def read_description(given: StreamBody, name: str, root: str, contexts: Mapping[str, Any]) -> EventStream:
    """What the document of a stream's own name says of it."""
    return stream_of(_quads(given, contexts), name, root)


def read_shape(given: StreamBody, name: str, contexts: Mapping[str, Any]) -> Topology:
    """A shape in a document; raises where it is not in there."""
    quads = _quads(given, contexts)
    if name in quads.said:
        return topology_of(quads, [name])
    shapes = [node for node, value in quads.with_property(_TYPE) if node_of(value) == f"{SH}NodeShape"]
    if not shapes:
        raise SourceError(f"{given.url} holds no SHACL shape.")
    # Of several, one that is no part of another; those are rather the work of the same hand.
    parts = {node_of(value) for word in (f"{SH}node", f"{RDF}first") for _, value in quads.with_property(word)}
    whole = [node for node in shapes if node not in parts] or shapes
    return topology_of(quads, [next((node for node in whole if not node.startswith("_:")), whole[0])])


def read_page(
    given: StreamBody,
    asked: str,
    stream: EventStream,
    contexts: Mapping[str, Any],
    language: str | None,
    by_object: bool,
    more: Sequence[StreamBody] = (),
) -> PageAnswer:
    """What a page says; `by_object`, members speak of the objects that they are versions of."""
    with _seldom_collecting():
        return _read(given, asked, stream, contexts, language, by_object, more)


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Nothing in a page points in circles: looking for these was a fifth of what reading it costs."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _read(
    given: StreamBody,
    asked: str,
    stream: EventStream,
    contexts: Mapping[str, Any],
    language: str | None,
    by_object: bool,
    more: Sequence[StreamBody],
) -> PageAnswer:
    quads = _quads(given, contexts, more)
    here = {_same(given.url), _same(asked)}
    speaking = {node for name in (f"{TREE}relation", f"{LDES}immutable") for node, _ in quads.with_property(name)}
    pages = [node for node in speaking if not node.startswith("_:") and _same(node) in here]
    names, broken = _names(quads, stream)
    reader = MemberReader(quads, stream, language, by_object=by_object)
    members = [reader.read(name) for name in names]
    immutable = any(
        lexical(value) in ("true", "1") for node in pages for value in quads.values(node, f"{LDES}immutable")
    )
    return PageAnswer(members, _relations(quads, pages, stream), immutable, list(dict.fromkeys(reader.wanted)), broken)


def _names(quads: Quads, stream: EventStream) -> tuple[list[str], int]:
    """The names of the members, once each, and how many have none."""
    told = list(quads.with_property(f"{TREE}member"))
    streams = {node for node in {node for node, _ in told} if stream.name is None or _same(node) == _same(stream.name)}
    own = [value for node, value in told if node in streams]
    keys = [node_of(value) for value in own or [value for _, value in told]]
    names = dict.fromkeys(key for key in keys if key and not key.startswith("_:"))
    return list(names), sum(key is None or key.startswith("_:") for key in keys)


def _relations(quads: Quads, pages: list[str], stream: EventStream) -> list[Relation]:
    """Where the page leads; several relations to one page hold all together."""
    own = [one for page in pages for one in quads.nodes(page, f"{TREE}relation")]
    bounds: dict[str, Relation] = {}
    for relation in own or [key for _, value in quads.with_property(f"{TREE}relation") if (key := node_of(value))]:
        url = quads.one(relation, f"{TREE}node")
        if url is None or url.partition(":")[0].lower() not in ("http", "https", "file"):
            continue
        found = _bound(quads, relation, stream, url)
        before = bounds.get(url)
        bounds[url] = found if before is None else _both(before, found)
    return list(bounds.values())


def _bound(quads: Quads, relation: str, stream: EventStream, url: str) -> Relation:
    kinds = {one.removeprefix(TREE) for one in quads.nodes(relation, _TYPE)}
    path = path_of(quads, quads.one(relation, f"{TREE}path"))
    value = next(iter(quads.values(relation, f"{TREE}value")), None)
    span: Interval | None = interval_of(lexical(value)) if value is not None and stream.time is not None else None
    if span is None or path != stream.time:
        return Relation(url, None, None, False)
    is_upper = bool(kinds & _UPPER)
    # What is later than a time is so by a microsecond at least: no member of that time has to wait for the page.
    low = span.low + ("GreaterThanRelation" in kinds) if kinds & (_LOWER | _WITHIN) else None
    high = span.high - ("LessThanRelation" in kinds) if is_upper or kinds & _WITHIN else None
    return Relation(url, low, high, is_upper)


def _both(one: Relation, other: Relation) -> Relation:
    lows = [low for low in (one.low, other.low) if low is not None]
    highs = [high for high in (one.high, other.high) if high is not None]
    return Relation(one.url, max(lows, default=None), min(highs, default=None), one.is_older or other.is_older)


def _same(url: str) -> str:
    """An address for comparing: streams name their pages with http and https as it comes."""
    try:
        return canonical(url)
    except ValueError:
        return url
