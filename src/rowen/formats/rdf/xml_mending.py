"""RDF/XML that breaks its grammar: mended where it is clear what was meant, else read node by node.

Some catalogs give one property both an address and a text, which the grammar forbids; both are kept then, as two
statements. What cannot be mended costs the node that it stands in.
"""

from collections.abc import Iterator
from xml.etree.ElementTree import Element, ParseError, XMLParser, tostring

from pyoxigraph import NamedNode, Quad, RdfFormat, parse

from rowen.formats.rdf.mending import BrokenStatement

__all__ = ["BrokenXml"]

_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_ROOT, _ABOUT, _RESOURCE = f"{_RDF}RDF", f"{_RDF}about", f"{_RDF}resource"
_PARSE_TYPE = f"{_RDF}parseType"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_PAYLOAD_BYTES = 1 << 16


class BrokenXml:
    """One document that is known to break the grammar; raises `SyntaxError` where it is no XML at all."""

    def __init__(self, text: str, base: str) -> None:
        parser = XMLParser()  # noqa: S314 (a document that defines entities is refused before)
        try:
            parser.feed(text)
            self._root: Element = parser.close()
        except ParseError as problem:
            raise SyntaxError(str(problem)) from None
        self._base = base

    def read(self) -> Iterator[Quad | BrokenStatement]:
        """All that can be read, and what cannot."""
        _mend(self._root)
        try:
            yield from list(self._parsed(self._root))
        except SyntaxError:
            for node in _apart(self._root):
                yield from self._of_node(node)

    def _of_node(self, node: Element) -> Iterator[Quad | BrokenStatement]:
        """What one node says, or that it cannot be read."""
        alone = Element(_ROOT, {name: value for name, value in self._root.attrib.items() if name.startswith("{")})
        alone.append(node)
        try:
            yield from list(self._parsed(alone))
        except SyntaxError as problem:
            payload = tostring(node, encoding="unicode").encode("utf-8", "replace")[:_PAYLOAD_BYTES]
            about = node.get(_ABOUT)
            yield BrokenStatement(problem.msg, payload, _named(about) if about else None)

    def _parsed(self, root: Element) -> Iterator[Quad]:
        return parse(tostring(root, encoding="unicode"), RdfFormat.RDF_XML, base_iri=self._base, lenient=True)


def _named(iri: str) -> NamedNode | None:
    try:
        return NamedNode(iri)
    except ValueError:
        return None


def _mend(root: Element) -> None:
    """Part what is said of one property in two ways; nodes and properties alternate from the root down."""
    nodes = list(root) if root.tag == _ROOT else [root]
    while nodes:
        node = nodes.pop()
        props = [one for prop in node for one in _parted(prop)]
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
    """A property with an address as that, and as what stands in it: its nodes or, if there are none, its text."""
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
    """The nodes that have names, each by itself; one within another is left there as a link."""
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
