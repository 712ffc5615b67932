"""The change log as a Linked Data Event Stream (LDES 1.0 on TREE), which clients can copy and then follow.

The stream is a tree of three levels: the first page links to blocks, a block links to its pages, and a page contains
members. The numbers of the log have no gaps, so each line has a permanent place: a full page or block never gets
another member, and is marked as immutable. A member is a version of an item, or its deletion. Superseded versions are
not kept, as the retention policy states: a copy gets each item once, in its current version, and later changes.
"""

from collections.abc import Iterable, Iterator, Sequence

from pyoxigraph import Literal, NamedNode, Triple

from rowen.model.changes import LogSpan, Publication, PublishedChange
from rowen.model.hashes import canonical_json
from rowen.publish.feeds import PublicAddresses
from rowen.publish.vocabulary import MEDIA_TYPE_TURTLE, TYPE, iri, moment_of, name, turtle, unnamed

PAGE_LINES = 100
"""The lines of the log on a page: at most about 200 kB for real catalogs. With fewer lines, a copy needs more requests.
"""
BLOCK_LINES = PAGE_LINES * 1_000
"""The lines of the log in a block: listing the pages of a full block takes 300 kB, and ten million lines are 100
blocks.
"""

# Clients get new members within a minute, at the cost of one response with status 304.
_POLLING_S = 60

_AT = name("prov:generatedAtTime")
_NUMBER = name("rowen:number")
_VERSION_OF = name("dcterms:isVersionOf")
_KINDS = {"created": "as:Create", "updated": "as:Update", "amended": "as:Update", "moved": "as:Update"}


def root(addresses: PublicAddresses, blocks: Sequence[LogSpan], last: int) -> Publication:
    """Return the first page: the description of the stream, and links to its blocks."""
    stream, node, policy = _stream(addresses), NamedNode(addresses.stream()), unnamed("retention")
    triples = [
        Triple(stream, TYPE, name("ldes:EventStream")),
        Triple(stream, name("tree:view"), node),
        Triple(stream, name("ldes:timestampPath"), _AT),
        Triple(stream, name("ldes:sequencePath"), _NUMBER),
        Triple(stream, name("ldes:versionOfPath"), _VERSION_OF),
        Triple(stream, name("ldes:versionCreateObject"), name("as:Create")),
        Triple(stream, name("ldes:versionUpdateObject"), name("as:Update")),
        Triple(stream, name("ldes:versionDeleteObject"), name("as:Delete")),
        Triple(stream, name("ldes:pollingInterval"), Literal(_POLLING_S)),
        Triple(node, TYPE, name("tree:Node")),
        Triple(node, name("ldes:retentionPolicy"), policy),
        Triple(policy, TYPE, name("ldes:RetentionPolicy")),
        Triple(policy, name("ldes:versionAmount"), Literal(1)),
        *_relations(addresses, node, "blocks", blocks, size=BLOCK_LINES, last=last),
    ]
    return Publication(turtle(triples), MEDIA_TYPE_TURTLE)


def block(addresses: PublicAddresses, number: int, pages: Sequence[LogSpan], last: int) -> Publication:
    """Return one block: links to its pages."""
    node = NamedNode(addresses.stream(f"blocks/{number}"))
    relations = _relations(addresses, node, "pages", pages, size=PAGE_LINES, last=last)
    return _node_page(addresses, node, relations, is_full=last >= (number + 1) * BLOCK_LINES)


def members(addresses: PublicAddresses, number: int, changes: Sequence[PublishedChange], last: int) -> Publication:
    """Return one page with its members."""
    node = NamedNode(addresses.stream(f"pages/{number}"))
    triples = (triple for change in changes for triple in _member(addresses, change))
    return _node_page(addresses, node, triples, is_full=last >= (number + 1) * PAGE_LINES)


def _node_page(addresses: PublicAddresses, node: NamedNode, content: Iterable[Triple], *, is_full: bool) -> Publication:
    view = Triple(_stream(addresses), name("tree:view"), NamedNode(addresses.stream()))
    mark = [Triple(node, name("ldes:immutable"), Literal(True))] if is_full else []
    triples = [view, Triple(node, TYPE, name("tree:Node")), *content, *mark]
    return Publication(turtle(triples), MEDIA_TYPE_TURTLE, immutable=is_full)


def _relations(
    addresses: PublicAddresses, node: NamedNode, level: str, spans: Iterable[LogSpan], *, size: int, last: int
) -> Iterator[Triple]:
    """Yield the bounds of the members below each node: the first member, and for a full node also the last."""
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
    """Yield the version in a line of the log; if the item moved, also yield the deletion of its former address."""
    change = published.change
    address = addresses.change(change.number)
    if change.moved_from:
        yield from _event(addresses, f"{address}/before", "as:Delete", change.moved_from, published)
    kind = "as:Delete" if change.kind == "deleted" else _KINDS[change.kind]
    yield from _event(addresses, address, kind, change.url, published)
    if published.text is None:
        return
    values: list[tuple[str, Literal]] = [
        ("dcterms:title", Literal(change.title)),
        ("schema:text", Literal(published.text)),
        ("rowen:source", Literal(change.source)),
        *(("dcat:keyword", Literal(tag)) for tag in published.tags),
    ]
    if published.language:
        values.append(("dcterms:language", Literal(published.language)))
    if published.media_type:
        values.append(("dcterms:format", Literal(published.media_type)))
    if published.record:
        record = canonical_json(published.record).decode("utf-8", "replace")
        values.append(("rowen:record", Literal(record, datatype=name("rdf:JSON"))))
    for property_name, value in values:
        yield Triple(NamedNode(address), name(property_name), value)


def _event(
    addresses: PublicAddresses, address: str, kind: str, url: str, published: PublishedChange
) -> Iterator[Triple]:
    member = NamedNode(address)
    yield Triple(_stream(addresses), name("tree:member"), member)
    yield Triple(member, TYPE, name(kind))
    yield Triple(member, _VERSION_OF, iri(url))
    yield Triple(member, _AT, moment_of(published.change.at))
    yield Triple(member, _NUMBER, Literal(published.change.number))


def _stream(addresses: PublicAddresses) -> NamedNode:
    return NamedNode(addresses.stream() + "#stream")
