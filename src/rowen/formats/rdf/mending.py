"""Repairs broken RDF, so that a broken statement or node affects no other and can be reported.

The parser continues after an error, but does not report the text that it skipped. Lines of N-Triples and paragraphs of
Turtle are therefore parsed in groups, and a broken group is halved until the broken part is isolated.

Some catalogs give a property in RDF/XML both a resource and a text, which the grammar forbids; both are kept, as two
RDF statements. A node that cannot be repaired is lost completely.
"""

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple
from xml.etree.ElementTree import Element, ParseError, XMLParser, tostring

from pyoxigraph import BlankNode, NamedNode, Quad, QuadParser, RdfFormat, parse

# Lines or paragraphs that are parsed together; ten halvings find a broken one.
_GROUP = 1000
_PAYLOAD_BYTES = 1 << 16
_LINE_FORMATS = (RdfFormat.N_TRIPLES, RdfFormat.N_QUADS)
_PARAGRAPH_FORMATS = (RdfFormat.TURTLE, RdfFormat.N3)
_DIRECTIVE = re.compile(rb"(?<![\w:@])(?:@?prefix\s+([\w-]*):|@base)\s*<([^<>\n]*)>\s*\.?", re.IGNORECASE)
_BEGIN = re.compile(
    rb"\.[ \t\r]*+\n(?:[ \t\r]*+\n|#[^\n]*+\n)*+"
    # This group is optional: if the expression failed here, each position within the comments would be tried as well.
    rb"(?:(?=@?(?:prefix|base)\s|\[|_:\w|<(?=[^\s<>:#]*+[:#])[^\s<>]*+>\s|([\w-]*+):[\w.%-]++\s)(?P<begins>))?"
)
_SUBJECT = re.compile(rb"\s*(<[^\s<>]*>|_:[^\s<>]+|[\w-]*:[\w.%-]+)\s")
# An unclosed string ends at the end of its line, an unclosed long string at the end of the text.
_STRING = re.compile(rb'"""(?:[^"\\]++|\\.|"(?!""))*+(?:""")?|"(?:[^"\\\n]++|\\.)*+"?|<[^\s<>]*>|#[^\n]*', re.DOTALL)
_GOES_ON = re.compile(rb"\.\s+\S")
_STATEMENT_LINE = re.compile(rb"^[ \t]*[^\s#]", re.MULTILINE)
_PLACE = re.compile(r"^Parser error .*?\d: ")


class BrokenStatement(NamedTuple):
    """An unreadable RDF statement as it was received, and its subject, or None if that is unknown.

    `is_end` is true if the document ends within the statement.
    """

    why: str
    payload: bytes
    subject: NamedNode | BlankNode | None = None
    is_end: bool = False


class BrokenDocument:
    """A document in a line-based or Turtle-like syntax that is known to be broken."""

    def __init__(self, data: bytes, syntax: RdfFormat, base: str) -> None:
        self._data = data
        self._syntax = syntax
        self._base = base
        directives = list(_DIRECTIVE.finditer(data)) if syntax in _PARAGRAPH_FORMATS else []
        self._prefixes = {directive[1] for directive in directives}
        # A redefined prefix has different meanings in different parts of the document.
        self._is_plain = len({directive.group(1, 2) for directive in directives}) == len(self._prefixes)
        self._head = b"\n".join(dict.fromkeys(directive[0] for directive in directives)) + b"\n" if directives else b""

    def read(self) -> Iterator[Quad | BrokenStatement]:
        """Yield the readable quads and the broken RDF statements."""
        borders = self._borders()
        last = len(borders) - 1
        waiting = [(at, min(at + _GROUP, last)) for at in range(0, last, _GROUP)][::-1]
        while waiting:
            begin, end = waiting.pop()
            text = self._data[borders[begin] : borders[end]]
            try:
                quads = list(self._parser(text))
                # An unclosed string may be closed by a quotation mark in a later line.
                is_sound = (
                    end - begin == 1
                    or self._syntax not in _LINE_FORMATS
                    or len(quads) == len(_STATEMENT_LINE.findall(text))
                )
            except SyntaxError:
                is_sound = False
            if is_sound:
                yield from quads
            elif end - begin > 1:
                middle = (begin + end) // 2
                waiting += [(middle, end), (begin, middle)]
            else:
                yield from self._broken(text, is_last=end == last)

    def _borders(self) -> Sequence[int]:
        """Return the positions where recognised lines or paragraphs start, and the end of the document."""
        begins: Iterable[int] = ()
        if self._syntax in _LINE_FORMATS:
            begins = (match.end() for match in re.finditer(rb"\n", self._data))
        elif self._syntax in _PARAGRAPH_FORMATS and self._is_plain:
            prefixes = {None, *self._prefixes}
            matches = (match for match in _BEGIN.finditer(self._data) if match["begins"] is not None)
            begins = (match.end() for match in matches if match[1] in prefixes)
        # An array needs little memory for millions of positions.
        borders = array("Q", [0])
        borders.extend(at for at in begins if at < len(self._data))
        borders.append(len(self._data))
        return borders

    def _parser(self, text: bytes) -> QuadParser:
        return parse(self._head + text, self._syntax, base_iri=self._base, lenient=True)

    def _broken(self, piece: bytes, *, is_last: bool) -> Iterator[Quad | BrokenStatement]:
        """Yield the statements of a broken piece; parse beyond the error only if other statements may follow."""
        is_single = len(piece) <= _PAYLOAD_BYTES and not _GOES_ON.search(_STRING.sub(b"''", piece))
        parser = self._parser(piece)
        while True:
            try:
                yield next(parser)
            except StopIteration:
                return
            except SyntaxError as problem:
                is_open = self._syntax in (*_LINE_FORMATS, *_PARAGRAPH_FORMATS) and not piece.rstrip().endswith(b".")
                is_end = is_last and (is_open or "Unexpected end" in problem.msg)
                reason = _PLACE.sub("", problem.msg)
                if is_single:
                    yield BrokenStatement(reason, piece[:_PAYLOAD_BYTES], self._subject(piece), is_end)
                    return
                number = problem.lineno or 1
                lines = (self._head + piece).split(b"\n", number)
                line = lines[number - 1] if number <= len(lines) else piece
                yield BrokenStatement(reason, line[:_PAYLOAD_BYTES], None, is_end)

    def _subject(self, piece: bytes) -> NamedNode | BlankNode | None:
        """Return the subject of a statement with prefixes and escapes resolved; None if it is unreadable."""
        match = _SUBJECT.match(piece)
        try:
            subject = next(self._parser(match[1] + b" <urn:x> <urn:x> .")).subject if match else None
        except (SyntaxError, StopIteration):
            return None
        return subject if isinstance(subject, NamedNode | BlankNode) else None


_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_ROOT, _ABOUT, _RESOURCE = f"{_RDF}RDF", f"{_RDF}about", f"{_RDF}resource"
_PARSE_TYPE = f"{_RDF}parseType"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class BrokenXml:
    """An RDF/XML document that violates the grammar of RDF/XML; raise `SyntaxError` if it is not XML at all."""

    def __init__(self, text: str, base: str) -> None:
        parser = XMLParser()  # noqa: S314 (a document that defines entities is refused before)
        try:
            parser.feed(text)
            self._root: Element = parser.close()
        except ParseError as problem:
            raise SyntaxError(str(problem)) from None
        self._base = base

    def read(self) -> Iterator[Quad | BrokenStatement]:
        """Yield the readable quads and the broken RDF statements."""
        _mend(self._root)
        try:
            yield from list(self._parsed(self._root))
        except SyntaxError:
            for node in _apart(self._root):
                yield from self._of_node(node)

    def _of_node(self, node: Element) -> Iterator[Quad | BrokenStatement]:
        """Yield the quads of one node; if the node is broken, one broken statement."""
        alone = Element(_ROOT, {name: value for name, value in self._root.attrib.items() if name.startswith("{")})
        alone.append(node)
        try:
            yield from list(self._parsed(alone))
        except SyntaxError as problem:
            subject = None
            with suppress(ValueError):
                subject = NamedNode(node.attrib[_ABOUT]) if node.get(_ABOUT) else None
            payload = tostring(node, encoding="unicode").encode("utf-8", "replace")[:_PAYLOAD_BYTES]
            yield BrokenStatement(problem.msg, payload, subject)

    def _parsed(self, root: Element) -> Iterator[Quad]:
        return parse(tostring(root, encoding="unicode"), RdfFormat.RDF_XML, base_iri=self._base, lenient=True)


def _mend(root: Element) -> None:
    """Separate contradictory values of one property; levels of nodes and of properties alternate from the root down."""
    nodes = list(root) if root.tag == _ROOT else [root]
    while nodes:
        node = nodes.pop()
        props = [part for prop in node for part in _parted(prop)]
        node[:] = props
        for prop in props:
            match prop.get(_PARSE_TYPE):
                case "Literal":
                    pass
                case "Resource":
                    nodes.append(prop)
                case _:
                    prop.text = None if len(prop) else prop.text
                    nodes.extend(prop)


def _parted(prop: Element) -> Iterator[Element]:
    """Yield a property with its resource, then a copy with its content: its nodes or, without nodes, its text."""
    text = (prop.text or "").strip()
    if _RESOURCE not in prop.attrib or not (text or len(prop)):
        yield prop
        return
    yield Element(prop.tag, {name: value for name, value in prop.attrib.items() if name.startswith(_RDF)})
    other = Element(prop.tag, {name: value for name, value in prop.attrib.items() if name == _LANGUAGE})
    other.extend(list(prop))
    other.text = text
    yield other


def _apart(root: Element) -> Iterator[Element]:
    """Yield each named node separately; a nested named node is replaced by a reference."""
    waiting = list(root) if root.tag == _ROOT else [root]
    while waiting:
        top = waiting.pop()
        inner = [top]
        while inner:
            node = inner.pop()
            for prop in node:
                if prop.get(_PARSE_TYPE) == "Literal":
                    continue
                for child in list(prop):
                    if _ABOUT in child.attrib and len(prop) == 1 and not prop.get(_PARSE_TYPE):
                        prop.remove(child)
                        prop.set(_RESOURCE, child.attrib[_ABOUT])
                        waiting.append(child)
                    else:
                        inner.append(child)
        yield top
