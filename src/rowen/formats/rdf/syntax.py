"""Parses RDF documents in any syntax, into a graph within memory limits, or into nodes of plain JSON.

The nodes are the flattened and expanded form of JSON-LD. The parser writes it and a JSON decoder reads it, without a
step in Python for each statement; this takes a third of the time of reading quads one by one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from pyoxigraph import BlankNode, NamedNode, Quad, RdfFormat, Triple, parse, serialize
from pyoxigraph import Literal as OxLiteral

from rowen.errors import SourceError
from rowen.formats import UnreadableError
from rowen.formats.charset import XmlDecoder, decode_utf8
from rowen.formats.rdf.contexts import settled
from rowen.formats.rdf.graph import Blank, Graph, Iri, Literal, Node, Term, short
from rowen.formats.rdf.mending import BrokenDocument, BrokenStatement, BrokenXml
from rowen.model.text import Budget, OverspentError

ACCEPT = (
    "text/turtle, application/n-triples;q=0.9, application/rdf+xml;q=0.8, application/ld+json;q=0.7, "
    "application/json;q=0.3, application/xml;q=0.3, */*;q=0.1"
)

_BY_NAME = {
    "turtle": RdfFormat.TURTLE,
    "rdfxml": RdfFormat.RDF_XML,
    "jsonld": RdfFormat.JSON_LD,
    "ntriples": RdfFormat.N_TRIPLES,
    "n3": RdfFormat.N3,
    "trig": RdfFormat.TRIG,
    "nquads": RdfFormat.N_QUADS,
}
_BY_MEDIA_TYPE = {
    "text/turtle": "turtle",
    "application/turtle": "turtle",
    "application/x-turtle": "turtle",
    "application/rdf+xml": "rdfxml",
    "application/ld+json": "jsonld",
    "application/n-triples": "ntriples",
    "text/n3": "n3",
    "text/rdf+n3": "n3",
    "application/trig": "trig",
    "application/n-quads": "nquads",
}
_BY_ENDING = {
    "ttl": "turtle",
    "rdf": "rdfxml",
    "xml": "rdfxml",
    "owl": "rdfxml",
    "jsonld": "jsonld",
    "json": "jsonld",
    "nt": "ntriples",
    "n3": "n3",
    "trig": "trig",
    "nq": "nquads",
}
_MENDED = frozenset({"turtle", "ntriples", "n3", "trig", "nquads"})
_TRIPLE_LINE = re.compile(r"\s*+(?:<[^>\s]++>|_:\S++)\s++<[^>\s]++>\s")
_DECLARATION = re.compile(r"<\?xml[^>]*\?>")
_PROLOG = re.compile(r"(?:\s++|<\?.*?\?>|<!--.*?-->)*+", re.DOTALL)
_HTML = re.compile(r"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
# A document with more errors is rejected as a whole.
_MOST_ERRORS = 100

UNREAD = "urn:rowen:unread"
"""The property under which an unreadable statement is stored with its subject."""


class RdfBody(NamedTuple):
    """The body of a response, with its URL, media type and charset."""

    body: bytes
    url: str
    media_type: str | None = None
    charset: str | None = None


class UnreadStatement(NamedTuple):
    """An unreadable RDF statement as it was received, and its subject, or None if that is unknown."""

    why: str
    payload: bytes
    node: Node | None = None


class Parsed(NamedTuple):
    """The graph of a response, and the unreadable statements."""

    graph: Graph
    broken: tuple[UnreadStatement, ...] = ()


class Packed(NamedTuple):
    """A parsed response in serialised form for another process, and the size of the response."""

    graph: bytes
    broken: tuple[UnreadStatement, ...]
    given_bytes: int


def read_packed(
    body: bytes, url: str, media_type: str | None, charset: str | None, option: str | None, most_triples: int, page: int
) -> Packed:
    """Parse a response in a worker process, and return its graph in serialised form."""
    parsed = read_graph(RdfBody(body, url, media_type, charset), option=option, most_triples=most_triples, page=page)
    return Packed(parsed.graph.packed(), parsed.broken, len(body))


def unpacked(packed: Packed) -> Parsed:
    """Return the graph that `read_packed` serialised."""
    return Parsed(Graph.unpacked(packed.graph, Budget(packed.given_bytes)), packed.broken)


def format_of(body: RdfBody, option: str | None = None) -> str:
    """Return the syntax by the option `format`, the media type, the file ending or the first characters."""
    if option:
        return option
    sniffed = _sniffed(body.body[:4096].decode("utf-8-sig", "replace").lstrip())
    path = body.url.partition("?")[0].partition("#")[0]
    by_ending = _BY_ENDING.get(path.rpartition("/")[2].rpartition(".")[2].lower())
    by_media_type = _BY_MEDIA_TYPE.get(body.media_type or "")
    if by_media_type and _agree(by_media_type, sniffed):
        return by_media_type
    return sniffed or (by_ending if by_ending and _agree(by_ending, sniffed) else None) or "turtle"


def _sniffed(head: str) -> str | None:
    """Return the syntax by the first characters; None if they are neither JSON, XML nor N-Triples."""
    if head.startswith(("{", "[")) and not re.match(r"\[\s*(?:\]|a\s|<|[\w-]*:)", head):
        return "jsonld"
    if re.match(r"<\?xml|<rdf:|<!--|<!|<[\w-]+:RDF\b|<RDF\b|<html", head, re.IGNORECASE):
        return "rdfxml"
    lines = [line for line in head.splitlines()[:-1] or [head] if line.strip() and not line.lstrip().startswith("#")]
    if lines and all(_TRIPLE_LINE.match(line) and line.rstrip().endswith(".") for line in lines[:20]):
        return "ntriples"
    return None


def _agree(declared: str, sniffed: str | None) -> bool:
    families = ("jsonld", "rdfxml")
    return (declared in families) == (sniffed in families) and (declared not in families or declared == sniffed)


def read_graph(body: RdfBody, *, option: str | None = None, most_triples: int, page: int = 0) -> Parsed:
    """Parse a response to a graph; `page` distinguishes its blank nodes from those of other pages."""
    name = format_of(body, option)
    syntax = _BY_NAME[name]
    base = body.url.partition("#")[0].partition("?")[0]
    with unreadable(body, name):
        data, collected = _input(body, name), _Collecting(body, most_triples, page)
        try:
            collected.take(parse(data, syntax, base_iri=base, lenient=True))
        except SyntaxError:
            # Read the rest of a broken document; raise `SyntaxError` again if nothing is readable.
            collected = _Collecting(body, most_triples, page)
            if isinstance(data, str):
                collected.take(BrokenXml(data, base).read())
            elif name in _MENDED:
                collected.take(BrokenDocument(data, syntax, base).read())
            else:
                collected.take(parse(data, syntax, base_iri=base, lenient=True))
        return Parsed(collected.graph, tuple(collected.broken))


def quads_of(body: RdfBody, *, contexts: Mapping[str, Any] | None = None, is_further: bool = False) -> Iterator[Quad]:
    """Return the quads of a document, including named graphs, without repairs.

    The base is the URL with its query, which distinguishes the pages of a feed. With `is_further`, blank nodes get
    labels that no other document has. Use `unreadable` to translate the errors of this function and of the iterator: a
    generator around the parser would add a step for each quad.
    """
    name = format_of(body)
    base = body.url.partition("#")[0]
    data = _input(body, name, contexts)
    return iter(parse(data, _BY_NAME[name], base_iri=base, lenient=True, rename_blank_nodes=is_further))


@contextmanager
def unreadable(body: RdfBody, name: str | None = None) -> Iterator[None]:
    """Convert the errors of a parser of this document to `UnreadableError`."""
    try:
        yield
    except UnreadableError:
        raise
    except OverspentError as problem:
        raise UnreadableError(f"{body.url} {problem}.", hint="It may be malicious.") from None
    except (ValueError, SyntaxError, RecursionError) as problem:
        # The parser raises SyntaxError for broken input.
        name = name or format_of(body)
        raise UnreadableError(f"{body.url} cannot be parsed as {name}: {problem}.", hint=_HINT) from None


_HINT = "The option format names the syntax, where it is not recognised."


def _input(body: RdfBody, name: str, contexts: Mapping[str, Any] | None = None) -> bytes | str:
    if name == "rdfxml":
        return _xml(body)
    text = decode_utf8(body.body, body.charset)
    is_json = name == "jsonld"
    if text.lstrip()[:1] == "<" if is_json else _HTML.match(text.lstrip()[:200]):
        raise _web_page(body)
    data = text.encode("utf-8", "replace")
    return settled(data, body.url, contexts) if is_json else data


def _xml(body: RdfBody) -> str:
    """Return the document as text without its XML declaration; raise `UnreadableError` if it defines entities."""
    decoder = XmlDecoder(body.charset)
    text = decoder.feed(body.body) + decoder.close()
    text = text[match.end() :] if (match := _DECLARATION.match(text)) else text
    prolog = _PROLOG.match(text)
    begin = text[prolog.end() if prolog else 0 :][:200]
    if _HTML.match(begin):
        raise _web_page(body)
    if begin.upper().startswith(("<!DOCTYPE", "<!ENTITY")):
        raise UnreadableError(
            f"{body.url} defines a document type, which may expand without limit.",
            hint="Ask the catalog for another syntax, such as Turtle.",
        )
    return text


def _web_page(body: RdfBody) -> SourceError:
    return UnreadableError(
        f"{body.url} answered with a web page instead of data.",
        hint="It may be down for maintenance, or refuse the request.",
    )


class _Collecting:
    """A graph under construction, and its broken RDF statements."""

    def __init__(self, body: RdfBody, most_triples: int, page: int) -> None:
        self.graph = Graph(Budget(len(body.body)))
        self.broken: list[UnreadStatement] = []
        self._where = body.url
        # A prefix or a base is written once and expanded in each term.
        self._budget = Budget(len(body.body))
        self._most_triples = most_triples
        self._page = page

    def take(self, quads: Iterable[Quad | BrokenStatement]) -> None:
        """Add RDF statements; raise `SourceError` if they exceed the limit."""
        graph, page, spend = self.graph, self._page, self._budget.spend
        for quad in quads:
            if isinstance(quad, BrokenStatement):
                self._note(quad)
                continue
            node, name = _node(quad.subject, page), short(quad.predicate.value)
            value: Term
            if isinstance(quad.object, OxLiteral):
                datatype = short(quad.object.datatype.value)
                value = Literal(quad.object.value, quad.object.language, None if datatype == "xsd:string" else datatype)
                spend(len(node) + len(name) + len(value.text))
            else:
                value = _node(quad.object, page)
                spend(len(node) + len(name) + len(value))
            graph.add(node, name, value)
            if graph.triples > self._most_triples:
                raise SourceError(
                    f"{self._where} has more than {self._most_triples} triples.",
                    hint="The option max_triples sets the limit.",
                )

    def _note(self, broken: BrokenStatement) -> None:
        if broken.is_end or len(self.broken) >= _MOST_ERRORS:
            raise UnreadableError(f"{self._where} cannot be read to the end: {broken.why}.", hint=_HINT)
        node = _node(broken.subject, self._page) if broken.subject is not None else None
        if node is not None:
            self.graph.broken.add(node)
            self.graph.add(node, UNREAD, Literal(broken.payload.decode("utf-8", "replace")))
        self.broken.append(UnreadStatement(broken.why, broken.payload, node))


def _node(node: object, page: int) -> Node:
    match node:
        case NamedNode():
            return Iri(node.value)
        case BlankNode():
            return Blank(f"_:{page}.{node.value}")
        case Triple():
            return Blank(f"_:{page}.{node}")
    return Blank(f"_:{page}.?")


Said = dict[str, list[dict[str, Any]]]
"""The statements about a node: lists of values by property. A value is `{"@id": …}`, or a literal with its `@value`."""


class _Spending:
    """A file that accepts no more bytes than the budget of the document allows."""

    def __init__(self, given_bytes: int) -> None:
        self._budget = Budget(given_bytes)
        self._parts: list[bytes] = []

    def write(self, part: bytes) -> int:
        # A prefix or a base is written once in the document, and expanded in each name here.
        self._budget.spend(len(part))
        self._parts.append(bytes(part))
        return len(part)

    def flush(self) -> None:
        """Do nothing, since nothing is buffered."""

    def nodes(self) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = msgspec.json.decode(b"".join(self._parts))
        return nodes


def read_nodes(
    body: RdfBody, *, most_quads: int, contexts: Mapping[str, Any] | None = None, is_further: bool = False
) -> list[dict[str, Any]]:
    """Return the nodes of a document; nodes of a named graph are in its `@graph`.

    A node is repeated if statements about it also follow later in the document. With `is_further`, blank nodes get
    labels that no other document has.
    """
    with unreadable(body):
        try:
            return _nodes(body, quads_of(body, contexts=contexts, is_further=is_further), most_quads)
        except OSError:
            # JSON-LD cannot express statements about statements (RDF 1.2); as objects they are written as strings.
            quads = quads_of(body, contexts=contexts, is_further=is_further)
            plain = (_plain(quad) for quad in quads if not isinstance(quad.subject, Triple))
            return _nodes(body, plain, most_quads)


def _nodes(body: RdfBody, quads: Iterator[Quad], most_quads: int) -> list[dict[str, Any]]:
    written = _Spending(len(body.body))
    serialize(islice(quads, most_quads), written, format=RdfFormat.JSON_LD)  # type: ignore[arg-type]
    if next(quads, None) is not None:
        raise SourceError(f"{body.url} has more than {most_quads:,} quads.", hint="No page should have so many.")
    nodes = written.nodes()
    if not all(map(_is_node, nodes)):
        # The parser accepts `@id` and `@graph` as property names, which then hide the node.
        raise UnreadableError(f"{body.url} has a property named @id or @graph.", hint="No vocabulary defines one.")
    return nodes


def _is_node(node: Mapping[str, Any]) -> bool:
    return type(node.get("@id")) is str and ("@graph" not in node or all(map(_is_node, node["@graph"])))


def _plain(quad: Quad) -> Quad:
    if not isinstance(quad.object, Triple):
        return quad
    return Quad(quad.subject, quad.predicate, OxLiteral(str(quad.object)), quad.graph_name)


def lexical(value: Mapping[str, Any]) -> str:
    """Return the text of a literal, or the IRI or label of a node."""
    text: str = value["@value"] if "@value" in value else value["@id"]
    return text


def node_of(value: Mapping[str, Any]) -> str | None:
    """Return the IRI or label of a value that is a node; None for a literal."""
    key: str | None = value.get("@id")
    return key
