"""The change log as a Linked Data Event Stream (LDES 1.0 on TREE), which others can copy and then follow.

A tree of three levels: the first page leads to blocks, a block to its pages, a page holds members. The numbers of the
log have no gaps, so that each line has its place for good: a page or block that is full never gains a member, and says
so. A member is a version of an item, or its deletion. Versions that are superseded are not kept, which is what the
retention policy says: who copies the stream gets each item once, as it is, and from then on what changes.
"""

from collections.abc import Iterable, Iterator, Sequence

from pyoxigraph import Literal, NamedNode, Triple

from rowen.model.changes import LogSpan, Publication, PublishedChange
from rowen.model.hashes import canonical_json
from rowen.publish.feeds import PublicAddresses
from rowen.publish.vocabulary import MEDIA_TYPE_TURTLE, TYPE, Thing, iri, moment_of, name, turtle, unnamed

__all__ = ["BLOCK_LINES", "PAGE_LINES", "block", "members", "root"]

PAGE_LINES = 100
"""Lines of the log on a page: with texts some 200 kB at most of real catalogs. Fewer make more requests of a copy."""
BLOCK_LINES = PAGE_LINES * 1_000
"""Lines of the log in a block: the pages of a full one are listed in 300 kB, and ten million lines make 100 blocks."""

# How often it is worth looking: a reader is told of new members within a minute, at the price of one 304.
_POLLING_S = 60

_AT = name("prov:generatedAtTime")
_NUMBER = name("rowen:number")
_VERSION_OF = name("dcterms:isVersionOf")
_KINDS = {"created": "as:Create", "updated": "as:Update", "amended": "as:Update", "moved": "as:Update"}


def root(addresses: PublicAddresses, blocks: Sequence[LogSpan], last: int) -> Publication:
    """Return the first page: what the stream is, and its blocks."""
    stream, node = _stream(addresses), NamedNode(addresses.stream())
    told = [
        *_description(stream, node),
        *_retention(node),
        *_relations(addresses, node, "blocks", blocks, size=BLOCK_LINES, last=last),
    ]
    return Publication(turtle(told), MEDIA_TYPE_TURTLE)


def block(addresses: PublicAddresses, number: int, pages: Sequence[LogSpan], last: int) -> Publication:
    """One block: its pages."""
    node = NamedNode(addresses.stream(f"blocks/{number}"))
    told = [
        *_belongs(addresses, node),
        *_relations(addresses, node, "pages", pages, size=PAGE_LINES, last=last),
    ]
    return _lasting(node, told, full=last >= (number + 1) * BLOCK_LINES)


def members(addresses: PublicAddresses, number: int, changes: Sequence[PublishedChange], last: int) -> Publication:
    """One page: its members."""
    node = NamedNode(addresses.stream(f"pages/{number}"))
    told = [*_belongs(addresses, node)]
    for change in changes:
        told += _member(addresses, change)
    return _lasting(node, told, full=last >= (number + 1) * PAGE_LINES)


def _lasting(node: NamedNode, told: list[Triple], *, full: bool) -> Publication:
    if full:
        told.append(Triple(node, name("ldes:immutable"), Literal(True)))
    return Publication(turtle(told), MEDIA_TYPE_TURTLE, immutable=full)


def _description(stream: NamedNode, node: NamedNode) -> Iterator[Triple]:
    yield Triple(stream, TYPE, name("ldes:EventStream"))
    yield Triple(stream, name("tree:view"), node)
    yield Triple(stream, name("ldes:timestampPath"), _AT)
    yield Triple(stream, name("ldes:sequencePath"), _NUMBER)
    yield Triple(stream, name("ldes:versionOfPath"), _VERSION_OF)
    yield Triple(stream, name("ldes:versionCreateObject"), name("as:Create"))
    yield Triple(stream, name("ldes:versionUpdateObject"), name("as:Update"))
    yield Triple(stream, name("ldes:versionDeleteObject"), name("as:Delete"))
    yield Triple(stream, name("ldes:pollingInterval"), Literal(_POLLING_S))
    yield Triple(node, TYPE, name("tree:Node"))


def _retention(node: NamedNode) -> Iterator[Triple]:
    policy = unnamed("retention")
    yield Triple(node, name("ldes:retentionPolicy"), policy)
    yield Triple(policy, TYPE, name("ldes:RetentionPolicy"))
    yield Triple(policy, name("ldes:versionAmount"), Literal(1))


def _belongs(addresses: PublicAddresses, node: NamedNode) -> Iterator[Triple]:
    yield Triple(_stream(addresses), name("tree:view"), NamedNode(addresses.stream()))
    yield Triple(node, TYPE, name("tree:Node"))


def _relations(
    addresses: PublicAddresses, node: NamedNode, level: str, spans: Iterable[LogSpan], *, size: int, last: int
) -> Iterator[Triple]:
    """From when on, and of what is full up to when, members stand below a page."""
    for span in spans:
        below = NamedNode(addresses.stream(f"{level}/{span.number}"))
        yield from _relation(node, below, "tree:GreaterThanOrEqualToRelation", _AT, moment_of(span.first_at))
        yield from _relation(node, below, "tree:GreaterThanOrEqualToRelation", _NUMBER, Literal(span.number * size + 1))
        if last >= (span.number + 1) * size:
            yield from _relation(node, below, "tree:LessThanOrEqualToRelation", _AT, moment_of(span.last_at))
            end = Literal((span.number + 1) * size)
            yield from _relation(node, below, "tree:LessThanOrEqualToRelation", _NUMBER, end)


def _relation(node: NamedNode, below: NamedNode, kind: str, path: NamedNode, value: Literal) -> Iterator[Triple]:
    relation = unnamed(below.value, kind, path.value)
    yield Triple(node, name("tree:relation"), relation)
    yield Triple(relation, TYPE, name(kind))
    yield Triple(relation, name("tree:node"), below)
    yield Triple(relation, name("tree:path"), path)
    yield Triple(relation, name("tree:value"), value)


def _member(addresses: PublicAddresses, published: PublishedChange) -> Iterator[Triple]:
    """Yield the version that a line tells of; of an item that moved, the end of what it was called before as well."""
    change = published.change
    address = addresses.change(change.number)
    if change.moved_from:
        yield from _event(addresses, f"{address}/before", "as:Delete", change.moved_from, published)
    kind = "as:Delete" if change.kind == "deleted" else _KINDS[change.kind]
    yield from _event(addresses, address, kind, change.url, published)
    if published.text is not None:
        yield from _says(NamedNode(address), published)


def _event(
    addresses: PublicAddresses, address: str, kind: str, url: str, published: PublishedChange
) -> Iterator[Triple]:
    member = NamedNode(address)
    yield Triple(_stream(addresses), name("tree:member"), member)
    yield Triple(member, TYPE, name(kind))
    yield Triple(member, _VERSION_OF, iri(url))
    yield Triple(member, _AT, moment_of(published.change.at))
    yield Triple(member, _NUMBER, Literal(published.change.number))


def _says(member: NamedNode, published: PublishedChange) -> Iterator[Triple]:
    def told(property_name: str, value: Thing) -> Triple:
        return Triple(member, name(property_name), value)

    yield told("dcterms:title", Literal(published.change.title))
    yield told("schema:text", Literal(published.text or ""))
    yield told("rowen:source", Literal(published.change.source))
    for tag in published.tags:
        yield told("dcat:keyword", Literal(tag))
    if published.language:
        yield told("dcterms:language", Literal(published.language))
    if published.media_type:
        yield told("dcterms:format", Literal(published.media_type))
    if published.record:
        record = canonical_json(published.record).decode("utf-8", "replace")
        yield told("rowen:record", Literal(record, datatype=name("rdf:JSON")))


def _stream(addresses: PublicAddresses) -> NamedNode:
    return NamedNode(addresses.stream() + "#stream")
