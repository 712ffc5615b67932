"""Cutting a list of records out of an XML document without reading them.

A record is compared by its letters, and most are those that we hold: no tree is made of them. What is cut is proved to
be well-formed as a whole first, by a parser that reports nothing. In such a document a `<` begins a tag, unless it
stands in a comment, a CDATA section or an instruction, and an element ends where as many tags of its name are closed as
were opened. A document that is anything else is not cut, and read as a whole.
"""

import asyncio
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple
from xml.etree.ElementTree import Element, ParseError, XMLParser
from xml.parsers import expat

from rowen.formats.charset import XmlDecoder
from rowen.formats.errors import UnreadableError
from rowen.formats.xml import (
    LONGEST_NAMESPACE,
    MOST_ANSWER_ELEMENTS,
    PIECE_BYTES,
    FoundElement,
    Reader,
    read_xml,
)

__all__ = ["CutDocument", "CutRecord", "cut_text", "cut_up"]

# Elements around the list, or before it; a service tells of itself in some tens of them.
_MOST_BEFORE = 1000
# One that does not end is passed over to the end of the text, so that nothing is looked at twice.
_PASSED = (
    r"<!--(?:[^-]++|-(?!->))*+(?:-->|\Z)|<!\[CDATA\[(?:[^]]++|](?!]>))*+(?:]]>|\Z)|<\?(?:[^?]++|\?(?!>))*+(?:\?>|\Z)"
)
_ATTRIBUTES = r"""(?P<attributes>(?:[^<>"'/]++|"[^"<]*+"|'[^'<]*+'|/(?!>))*+)(?P<empty>/?)>"""
_TAG = re.compile(rf"(?:{_PASSED})|<(?P<close>/?)(?P<name>[^\s<>/!?\"'=]++){_ATTRIBUTES}")
_ATTRIBUTE = re.compile(r"""(?<!\S)([^\s=]++)\s*+=\s*+("[^"]*+"|'[^']*+')""")
_DECLARATION = re.compile(r"\A<\?xml\s[^<>]*>")
_OTHER_DECLARATION = re.compile(r"<!(?!--|\[CDATA\[)")


class CutRecord(NamedTuple):
    """A record as it was sent, with the namespaces that are declared around it."""

    text: str
    scope: str

    def found(self) -> FoundElement:
        """The record as a reader gives it, within its limits."""
        written = f"<records{self.scope}>{self.text}</records>".encode("utf-8", "replace")
        try:
            [found] = read_xml(written, Reader(within=frozenset({"records"}), charset="utf-8"))
        except UnreadableError as problem:
            return FoundElement(Element("record"), str(problem))
        return found

    def look(self) -> Element:
        """The record as a tree, for a look at what it is called: quickly, and without the limits of a reader.

        Raises `ValueError` where it is none.
        """
        parser = XMLParser()  # noqa: S314 (the document was parsed before, and defines no entities)
        try:
            parser.feed(f"<records{self.scope}>{self.text}</records>")
            return next(iter(parser.close()))
        except (ParseError, StopIteration) as problem:
            raise ValueError(f"it is no XML: {problem}") from None

    def letters(self) -> bytes:
        """All that decides what it says."""
        return f"{self.scope}\n{self.text}".encode("utf-8", "surrogatepass")


class CutDocument(NamedTuple):
    """The records of a document, and the document without them."""

    records: list[CutRecord]
    rest: bytes


async def cut_up(
    body: bytes, around: frozenset[str], *, charset: str | None, named: frozenset[str] | None = None
) -> CutDocument | None:
    """The children of the first element of one of these local names, or those of them that are `named` so.

    None where there is no such element, and where the document is not plain enough to be cut.
    """
    text = _DECLARATION.sub("", await _decoded(body, charset), count=1)
    if text.count("<") > 2 * MOST_ANSWER_ELEMENTS or _OTHER_DECLARATION.search(text) or not await _is_sound(text):
        return None
    return _cut(text, around, named)


def cut_text(text: str, around: frozenset[str], *, named: frozenset[str] | None = None) -> CutDocument | None:
    """The same of a document that is no longer than a record is."""
    if _OTHER_DECLARATION.search(text) or not all(_soundness(text)):
        return None
    return _cut(text, around, named)


async def _decoded(body: bytes, charset: str | None) -> str:
    decoder, parts = XmlDecoder(charset), []
    for at in range(0, len(body), PIECE_BYTES):
        parts.append(decoder.feed(body[at : at + PIECE_BYTES]))
        await asyncio.sleep(0)
    return "".join([*parts, decoder.close()])


async def _is_sound(text: str) -> bool:
    for is_sound in _soundness(text):
        if not is_sound:
            return False
        await asyncio.sleep(0)
    return True


def _soundness(text: str) -> Iterator[bool]:
    """Whether a document is well-formed so far, and has no namespace too long to be written out with each name."""
    parser = expat.ParserCreate(namespace_separator="}")
    parser.StartNamespaceDeclHandler = _check_namespace
    try:
        for at in range(0, len(text), PIECE_BYTES):
            parser.Parse(text[at : at + PIECE_BYTES], False)
            yield True
        parser.Parse("", True)
        yield True
    except (expat.ExpatError, UnreadableError):
        yield False


def _check_namespace(_: str | None, name: str | None) -> None:
    if name is not None and len(name) > LONGEST_NAMESPACE:
        raise UnreadableError("The document has a namespace that is too long.")


def _cut(text: str, around: frozenset[str], named: frozenset[str] | None) -> CutDocument | None:
    opened: list[tuple[str, str]] = []
    for number, tag in enumerate(_TAG.finditer(text)):
        name = tag["name"]
        if number > _MOST_BEFORE:
            return None
        if name is None or tag["empty"]:
            continue
        if tag["close"]:
            opened.pop()
            continue
        opened.append((name, tag["attributes"]))
        if _is_called(name, around):
            return _collected(text, tag.end(), _scope(opened), named)
    return None


def _collected(text: str, begin: int, scope: str, named: frozenset[str] | None) -> CutDocument:
    records: list[CutRecord] = []
    rest, at = [], 0
    for start, end, name in _children(text, begin):
        if named is None or _is_called(name, named):
            records.append(CutRecord(text[start:end], scope))
            rest.append(text[at:start])
            at = end
    return CutDocument(records, "".join([*rest, text[at:]]).encode("utf-8", "replace"))


def _children(text: str, at: int) -> Iterator[tuple[int, int, str]]:
    """Where the elements begin and end that stand side by side from here on, and their names."""
    while (tag := _TAG.search(text, at)) and not tag["close"]:
        at = tag.end()
        if tag["name"] is not None:
            at = at if tag["empty"] else _end(text, at, tag["name"])
            yield tag.start(), at, tag["name"]


def _end(text: str, at: int, name: str) -> int:
    """Where an element ends that was opened before this place."""
    depth = 1
    for tag in _tags_of(name).finditer(text, at):
        if tag["found"]:
            depth += 0 if tag["empty"] else -1 if tag["close"] else 1
        if not depth:
            return tag.end()
    raise ValueError(f"{name} does not end")  # a well-formed document has no such element


@lru_cache(64)
def _tags_of(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{_PASSED})|<(?P<close>/?)(?P<found>{re.escape(name)})(?=[\s/>]){_ATTRIBUTES}")


def _scope(opened: list[tuple[str, str]]) -> str:
    """The namespaces that are declared by these elements, in an order of their own."""
    told = (pair for _, attributes in opened for pair in _ATTRIBUTE.findall(attributes))
    declared = {name: value for name, value in told if name == "xmlns" or name.startswith("xmlns:")}
    return "".join(f" {name}={value}" for name, value in sorted(declared.items()))


def _is_called(written: str, names: frozenset[str]) -> bool:
    return written.rpartition(":")[2] in names
