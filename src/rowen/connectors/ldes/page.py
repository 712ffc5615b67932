"""Reads one page of a stream in a worker process: its members, its relations, and its description of the stream.

The result consists of tuples, strings, numbers and dictionaries.
"""

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from rowen.connectors.ldes.members import MemberReader, StreamMember
from rowen.connectors.ldes.rdf import MOST_QUADS, RDF, SH, Quads, interval_of, path_of
from rowen.connectors.ldes.shapes import LDES, TREE, EventStream, ShapeReader, Topology, stream_of
from rowen.errors import SourceError
from rowen.formats.rdf.contexts import remote
from rowen.formats.rdf.syntax import RdfBody, format_of, lexical, node_of, read_nodes
from rowen.model.url import canonical

_LOWER = frozenset({"GreaterThanRelation", "GreaterThanOrEqualToRelation"})
_UPPER = frozenset({"LessThanRelation", "LessThanOrEqualToRelation"})
_WITHIN = frozenset({"EqualToRelation", "InBetweenRelation"})
_TYPE = f"{RDF}type"


class StreamBody(NamedTuple):
    """The body of a response with its URL, media type and charset."""

    body: bytes
    url: str
    media_type: str | None
    charset: str | None


class Relation(NamedTuple):
    """A linked page, with the time bounds of its members if known; `is_older` if it has only earlier members."""

    url: str
    low: int | None
    high: int | None
    is_older: bool


@dataclass(slots=True)
class PageAnswer:
    """The content of a page. `wanted` lists documents with missing parts; `broken` counts members that are no IRIs.

    It is sent between processes as MessagePack, which takes a third of the time of pickling its dictionaries.
    """

    members: list[StreamMember]
    relations: list[Relation]
    immutable: bool
    wanted: list[str]
    broken: int

    def __getstate__(self) -> bytes:
        """Return all fields as MessagePack."""
        return msgspec.msgpack.encode((self.members, self.relations, self.immutable, self.wanted, self.broken))

    def __setstate__(self, state: bytes) -> None:
        """Restore all fields; raise `ValueError` if `state` is invalid."""
        try:
            values = _PACKED.decode(state)
        except msgspec.MsgspecError as problem:
            raise ValueError(f"no answer of a page: {problem}") from None
        self.members, self.relations, self.immutable, self.wanted, self.broken = values


_PACKED = msgspec.msgpack.Decoder(tuple[list[StreamMember], list[Relation], bool, list[str], int])


class StreamEntry(NamedTuple):
    """A stream and the address of its root page; `view` is None if the page just read is the root."""

    stream: EventStream
    view: str | None


def contexts_of(document: StreamBody) -> list[str]:
    """Return the URLs of the JSON-LD contexts that a document refers to."""
    return remote(document.body, document.url) if format_of(RdfBody(*document)) == "jsonld" else []


def _quads(document: StreamBody, contexts: Mapping[str, Any], more: Sequence[StreamBody] = ()) -> Quads:
    quads = Quads()
    quads.add(read_nodes(RdfBody(*document), contexts=contexts, most_quads=MOST_QUADS))
    for further in more:
        quads.add(read_nodes(RdfBody(*further), contexts=contexts, most_quads=MOST_QUADS, is_further=True))
    return quads


def read_entry(document: StreamBody, requested: str, contexts: Mapping[str, Any]) -> StreamEntry:
    """Return the stream of a page and the URL of its view; `view` is None at the root (LDES, section 4.1)."""
    quads = _quads(document, contexts)
    here = {_same(document.url), _same(requested)}
    views = [(node, key) for node, value in quads.with_property(f"{TREE}view") if (key := node_of(value))]
    streams = sorted({node for node, view in views if _same(view) in here})
    if len(streams) > 1:
        raise SourceError(
            f"{document.url} is a view of several streams: {', '.join(streams[:5])}.",
            hint="Name the address of one of them.",
        )
    if streams:
        return StreamEntry(stream_of(quads, streams[0], document.url), None)
    own = sorted({view for node, view in views if _same(node) in here})
    preferred = [view for view in own if f"{LDES}EventSource" in quads.nodes(view, _TYPE)]
    if len(own) > 1 and len(preferred) != 1:
        raise SourceError(
            f"{requested} has several views: {', '.join(own[:5])}.", hint="Name the address of the view to follow."
        )
    if own:
        [view] = preferred if len(own) > 1 else own
        return StreamEntry(stream_of(quads, next(node for node, seen in views if seen == view), view), view)
    has_content = any(True for name in ("member", "relation") for _ in quads.with_property(TREE + name))
    if len({view for _, view in views}) == 1 and not has_content:
        # The page describes one stream under another URL than the requested one: an alias, or another scheme or port.
        [(name, view), *_] = views
        return StreamEntry(stream_of(quads, name, view), view)
    # Find the stream of a page that does not name its view.
    named = {node for node, _ in quads.with_property(f"{TREE}member")}
    named |= {node for node, value in quads.with_property(_TYPE) if node_of(value) == f"{LDES}EventStream"}
    if len(named) > 1:
        raise SourceError(f"{document.url} describes several streams: {', '.join(sorted(named)[:5])}.")
    if not named and not any(quads.with_property(f"{TREE}relation")):
        raise SourceError(
            f"{document.url} is no event stream: it has neither views nor members nor relations.",
            hint="Name the address of a stream, of a view or of its first page.",
        )
    return StreamEntry(stream_of(quads, next(iter(named), None), document.url), None)


def read_description(document: StreamBody, name: str, root: str, contexts: Mapping[str, Any]) -> EventStream:
    """Return the description of the stream `name` in a document."""
    return stream_of(_quads(document, contexts), name, root)


def read_shape(document: StreamBody, name: str, contexts: Mapping[str, Any]) -> Topology:
    """Return the shape `name` in a document, or else any shape in it; raise `SourceError` if there is none."""
    quads = _quads(document, contexts)
    if name in quads.said:
        return ShapeReader(quads).read([name])
    shapes = [node for node, value in quads.with_property(_TYPE) if node_of(value) == f"{SH}NodeShape"]
    if not shapes:
        raise SourceError(f"{document.url} holds no SHACL shape.")
    # Of several shapes, prefer one that is no part of another, then one with an IRI.
    parts = {node_of(value) for word in (f"{SH}node", f"{RDF}first") for _, value in quads.with_property(word)}
    whole = [node for node in shapes if node not in parts] or shapes
    return ShapeReader(quads).read([next((node for node in whole if not node.startswith("_:")), whole[0])])


def read_page(
    document: StreamBody,
    requested: str,
    stream: EventStream,
    contexts: Mapping[str, Any],
    language: str | None,
    by_object: bool,
    more: Sequence[StreamBody] = (),
) -> PageAnswer:
    """Return the content of a page; if `by_object`, its members are read as versions of objects.

    The garbage collector is disabled while a page is read: a page has no circular references, and looking for them
    took a fifth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        quads = _quads(document, contexts, more)
        here = {_same(document.url), _same(requested)}
        subjects = {node for name in (f"{TREE}relation", f"{LDES}immutable") for node, _ in quads.with_property(name)}
        pages = [node for node in subjects if not node.startswith("_:") and _same(node) in here]
        listed = list(quads.with_property(f"{TREE}member"))
        nodes = {node for node, _ in listed}
        streams = {node for node in nodes if stream.name is None or _same(node) == _same(stream.name)}
        values = [value for node, value in listed if node in streams] or [value for _, value in listed]
        keys = [node_of(value) for value in values]
        names = dict.fromkeys(key for key in keys if key and not key.startswith("_:"))
        broken = sum(key is None or key.startswith("_:") for key in keys)
        reader = MemberReader(quads, stream, language, by_object=by_object)
        members = [reader.read(name) for name in names]
        immutable = any(
            lexical(value) in ("true", "1") for node in pages for value in quads.values(node, f"{LDES}immutable")
        )
        relations = _relations(quads, pages, stream)
        return PageAnswer(members, relations, immutable, list(dict.fromkeys(reader.wanted)), broken)
    finally:
        if was_enabled:
            gc.enable()


def _relations(quads: Quads, pages: list[str], stream: EventStream) -> list[Relation]:
    """Return the pages that this page links to; if several relations link to one page, all their bounds apply."""
    own = [node for page in pages for node in quads.nodes(page, f"{TREE}relation")]
    relations: dict[str, Relation] = {}
    for node in own or [key for _, value in quads.with_property(f"{TREE}relation") if (key := node_of(value))]:
        url = quads.first(node, f"{TREE}node")
        if url is None or url.partition(":")[0].lower() not in ("http", "https", "file"):
            continue
        before = relations.get(url, Relation(url, None, None, False))
        kinds = {kind.removeprefix(TREE) for kind in quads.nodes(node, _TYPE)}
        path = path_of(quads, quads.first(node, f"{TREE}path"))
        value = next(iter(quads.values(node, f"{TREE}value")), None)
        span = interval_of(lexical(value)) if value is not None and stream.time is not None else None
        if span is None or path != stream.time:
            relations[url] = before
            continue
        # "Greater than" is at least a microsecond later: a member with exactly this time need not wait for the page.
        lows = [span.low + ("GreaterThanRelation" in kinds)] if kinds & (_LOWER | _WITHIN) else []
        highs = [span.high - ("LessThanRelation" in kinds)] if kinds & (_UPPER | _WITHIN) else []
        lows += [] if before.low is None else [before.low]
        highs += [] if before.high is None else [before.high]
        is_older = before.is_older or bool(kinds & _UPPER)
        relations[url] = Relation(url, max(lows, default=None), min(highs, default=None), is_older)
    return list(relations.values())


def _same(url: str) -> str:
    """Return the form of a URL for comparisons; streams mix http and https in the names of their pages."""
    try:
        return canonical(url)
    except ValueError:
        return url
