"""Reads XML: parsed while it is being received into small trees, or cut into records without parsing them.

Document type definitions, and with them entities and external files, are refused, since no catalog needs them. Invalid
bytes and control characters, which many servers send, are replaced. Memory holds one piece and one record.

Records are compared by their bytes, and most equal the stored records, so that no tree is built for them. First a
parser without handlers proves that the document is well-formed. In such a document, `<` starts a tag unless it is in a
comment, a CDATA section or an instruction, and an element ends where as many tags with its name are closed as were
opened. A document that cannot be cut this way is parsed completely.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element as Element  # callers import it from here
from xml.etree.ElementTree import ParseError, TreeBuilder, XMLParser, tostring
from xml.parsers import expat

from rowen.errors import SourceError
from rowen.formats import UnreadableError
from rowen.formats.charset import XmlDecoder

# A larger record is truncated, and fails alone; memory holds one at a time.
MOST_RECORD_CHARS = 16 << 20
# They take 66 MB, at 330 bytes each.
MOST_RECORD_ELEMENTS = 200_000
# They take 330 MB, at 330 bytes each.
MOST_ANSWER_ELEMENTS = 1_000_000
MOST_DEPTH = 100
MOST_TAG_BYTES = 4 << 20
"""A longer tag or comment is refused, since the parser reads its beginning again with each piece."""

LONGEST_NAMESPACE = 500
"""The parser repeats the namespace in each name. Namespaces of catalogs have up to 90 characters."""

# Other tasks may run after each piece; a piece of dense elements took up to 0.3 s on a busy machine.
PIECE_BYTES = 1 << 18
_MOST_WRITTEN_BYTES = 1 << 20
# A document may have any number of names of any length; further names are not cached.
_MOST_NAMES = 10_000
_LONGEST_NAME = 200
_SPACE = re.compile(r"\s+")
_TRUNCATED = frozenset({"no element found", "unclosed token", "unclosed CDATA section", "partial character"})


class XmlNames(dict[str, str]):
    """Maps the parser's names to names for trees; returns the same string each time, which saves memory."""

    def __init__(self, shortened: Callable[[str], str]) -> None:
        super().__init__()
        self._shortened = shortened

    def __missing__(self, name: str) -> str:
        short = self._shortened(name)
        if len(self) < _MOST_NAMES and len(name) < _LONGEST_NAME:
            self[name] = short
        return short


def event_parser(
    start: Callable[[str, dict[str, str]], None],
    end: Callable[[str], None],
    *,
    on_entity: Callable[..., None],
    on_long_namespace: Callable[[], None],
) -> expat.XMLParserType:
    """Return a parser for untrusted documents; names have the form `namespace}name`.

    `on_entity` and `on_long_namespace` must raise an exception, since otherwise a document could define unbounded
    content.
    """

    def check_namespace(_: str | None, name: str | None) -> None:
        if name is not None and len(name) > LONGEST_NAMESPACE:
            on_long_namespace()

    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.EntityDeclHandler = on_entity
    parser.StartNamespaceDeclHandler = check_namespace
    return parser


class XmlElement(NamedTuple):
    """An element with its content; `why` is the reason if it is truncated."""

    tree: Element
    why: str | None = None


class Reader:
    """A push parser that returns the elements with the given names as soon as they end.

    Names are local (`record`) or have a namespace (`{http://…}record`). All children of elements in `within` are
    returned as well. Elements in `heads` are returned when they start, with their name and attributes only. Elements
    inside a returned element are part of it, and not returned separately. `root` is the name of the document's root
    element; `elements` counts the returned elements and all elements inside them.
    """

    def __init__(
        self,
        names: frozenset[str] = frozenset(),
        *,
        within: frozenset[str] = frozenset(),
        heads: frozenset[str] = frozenset(),
        charset: str | None = None,
        most_chars: int = MOST_RECORD_CHARS,
    ) -> None:
        self.root: str | None = None
        self.elements = 0
        self._names, self._within, self._heads = names, within, heads
        self._most_chars = most_chars
        self._decoder = XmlDecoder(charset)
        self._ready: list[XmlElement] = []
        self._open: list[str] = []
        self._record: _Record | None = None
        self._fed_bytes = 0
        self._ended = False
        self._clark = XmlNames(_clark)
        self._parser = event_parser(
            self._start, self._end, on_entity=_refuse_definition, on_long_namespace=_refuse_namespace
        )
        self._parser.StartDoctypeDeclHandler = _refuse_definition

    def feed(self, piece: bytes) -> Iterator[XmlElement]:
        """Yield the elements that end in this piece."""
        self._parse(self._decoder.feed(piece))
        yield from self._take()

    def close(self) -> Iterator[XmlElement]:
        """End the document; raise an error if it is incomplete."""
        self._parse(self._decoder.close(), final=True)
        yield from self._take()

    def _take(self) -> list[XmlElement]:
        ready, self._ready = self._ready, []
        return ready

    def _parse(self, text: str, *, final: bool = False) -> None:
        if self._ended or not (text or final):
            # Text after the end of the document, such as a server's warning, is not part of it.
            return
        try:
            self._parser.Parse(text, final)
        except expat.ExpatError as problem:
            if not self._ended:
                what = expat.ErrorString(problem.code)
                if what in _TRUNCATED:
                    raise UnreadableError("The document ends too early.") from None
                raise UnreadableError(f"The document is broken XML: {what} in line {problem.lineno}.") from None
        self._fed_bytes += len(text.encode())
        if self._fed_bytes - self._parser.CurrentByteIndex > MOST_TAG_BYTES + len(text) * 4:
            raise UnreadableError("The document has a tag that is too long.")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = self._clark[name]
        if self._record is not None:
            self._record.start(name, {self._clark[key]: value for key, value in attributes.items()})
            return
        if not self._open:
            self.root = name
            if local(name).lower() == "html":
                raise _web_page()
        if len(self._open) > MOST_DEPTH:
            raise UnreadableError("The document is nested too deeply.")
        inside = self._open[-1] if self._open else ""
        tree_attributes = {self._clark[key]: value for key, value in attributes.items()}
        if _is_in(name, self._names) or _is_in(inside, self._within):
            self._record = _Record(self._most_chars)
            self._parser.CharacterDataHandler = self._record.data
            self._record.start(name, tree_attributes)
            return
        self._open.append(name)
        if _is_in(name, self._heads):
            self._ready.append(XmlElement(Element(name, tree_attributes)))

    def _end(self, name: str) -> None:
        if self._record is None:
            self._open.pop()
        elif element := self._record.end(self._clark[name]):
            self._ready.append(element)
            self.elements += self._record.elements
            self._record = None
            self._parser.CharacterDataHandler = None
        self._ended = self._record is None and not self._open


class _Record:
    """A tree under construction; content beyond the size limit is dropped."""

    def __init__(self, most_chars: int) -> None:
        self._most_chars = most_chars
        self.elements = self._chars = self._depth = self._built = 0
        self._why: str | None = None
        self._builder = TreeBuilder()

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self.elements += 1
        self._chars += len(name) + sum(len(key) + len(value) for key, value in attributes.items())
        self._check()
        if self._why is None or self._depth == 1:
            self._built += 1
            self._builder.start(name, attributes)

    def data(self, text: str) -> None:
        self._chars += len(text)
        self._check()
        if self._why is None:
            self._builder.data(text)

    def end(self, name: str) -> XmlElement | None:
        """End an element; return the tree if this was its root, otherwise None."""
        if self._depth == self._built:
            self._built -= 1
            self._builder.end(name)
        self._depth -= 1
        return None if self._depth else XmlElement(self._builder.close(), self._why)

    def _check(self) -> None:
        if self._depth > MOST_DEPTH:
            self._why = self._why or "The record is nested too deeply."
        elif self.elements > MOST_RECORD_ELEMENTS or self._chars > self._most_chars:
            self._why = self._why or "The record is too large to be read."


async def elements(pieces: AsyncIterable[bytes], reader: Reader) -> AsyncGenerator[XmlElement]:
    """Yield the requested elements of a document received in pieces; raise an error if it is incomplete."""
    async for piece in pieces:
        for element in reader.feed(piece):
            yield element
    for element in reader.close():
        yield element


def read_xml(body: bytes, reader: Reader) -> list[XmlElement]:
    """Return the requested elements of a complete document, within the memory limit."""
    return [element for step in _steps(body, reader) for element in step]


async def read_in_steps(body: bytes, reader: Reader) -> list[XmlElement]:
    """Return the requested elements of a complete document, and let other tasks run between its pieces."""
    ready: list[XmlElement] = []
    for step in _steps(body, reader):
        ready.extend(step)
        await asyncio.sleep(0)
    return ready


def _steps(body: bytes, reader: Reader) -> Iterator[list[XmlElement]]:
    for at in range(0, len(body), PIECE_BYTES):
        yield list(reader.feed(body[at : at + PIECE_BYTES]))
        if reader.elements > MOST_ANSWER_ELEMENTS:
            raise UnreadableError("The document is too large to be read at once.")
    yield list(reader.close())


def local(name: str) -> str:
    """Return a name without its namespace."""
    return name.rpartition("}")[2]


def said(tree: Element | None) -> str:
    """Return all text in an element, on one line; empty if there is no element."""
    return "" if tree is None else spaced("".join(tree.itertext()))


def spaced(words: str) -> str:
    """Return a text on one line, with single spaces."""
    return _SPACE.sub(" ", words).strip()


def written(tree: Element) -> bytes:
    """Return an element as XML for the quarantine; prefixes are numbered, since the document's prefixes are unknown."""
    return tostring(tree, encoding="unicode").encode("utf-8", "replace")[:_MOST_WRITTEN_BYTES]


def plain_tree(
    tree: Element, prefixes: Mapping[str, str], *, leave_out: Callable[[Element], bool] | None = None
) -> Any:
    """Return an element as plain JSON: a string, or an object with attributes (`@name`), children and text (`#text`).

    Namespaces become the given prefixes, whatever prefixes the document uses; names in other namespaces are written in
    full. Several children with one name become a list. Children for which `leave_out` returns true are omitted.
    """
    children: dict[str, list[Any]] = {}
    for child in tree:
        if leave_out is None or not leave_out(child):
            name = _prefixed(child.tag, prefixes)
            children.setdefault(name, []).append(plain_tree(child, prefixes, leave_out=leave_out))
    text = " ".join(part.strip() for part in (tree.text, *(child.tail for child in tree)) if part and part.strip())
    if not children and not tree.attrib:
        return text
    attributes = {f"@{_prefixed(name, prefixes)}": value for name, value in tree.attrib.items()}
    rest = {name: values[0] if len(values) == 1 else values for name, values in children.items()}
    return {**attributes, **rest, **({"#text": text} if text else {})}


def _prefixed(name: str, prefixes: Mapping[str, str]) -> str:
    namespace, _, rest = name.removeprefix("{").rpartition("}")
    if not namespace:
        return rest
    prefix = prefixes.get(namespace)
    if prefix is None:
        return name
    return f"{prefix}:{rest}" if prefix else rest


def _clark(name: str) -> str:
    return f"{{{name}" if "}" in name else name


def _refuse_namespace() -> None:
    raise UnreadableError("The document has a namespace that is too long.")


def _refuse_definition(name: str, *_: object) -> None:
    if name.lower() == "html":
        raise _web_page()
    raise SourceError("The document has a type definition, which may expand without limit. It was not read.")


def _is_in(name: str, names: frozenset[str]) -> bool:
    return bool(names) and (name in names or local(name) in names)


def _web_page() -> SourceError:
    return SourceError(
        "The answer is a web page instead of data.",
        hint="The catalog may be down for maintenance, or refuse the request.",
    )


# Maximum number of elements around or before the list; the description of a service has some tens of elements.
_MOST_BEFORE = 1000
# An unclosed construct is skipped to the end of the text, so that nothing is scanned twice.
_PASSED = (
    r"<!--(?:[^-]++|-(?!->))*+(?:-->|\Z)|<!\[CDATA\[(?:[^]]++|](?!]>))*+(?:]]>|\Z)|<\?(?:[^?]++|\?(?!>))*+(?:\?>|\Z)"
)
_ATTRIBUTES = r"""(?P<attributes>(?:[^<>"'/]++|"[^"<]*+"|'[^'<]*+'|/(?!>))*+)(?P<empty>/?)>"""
_TAG = re.compile(rf"(?:{_PASSED})|<(?P<close>/?)(?P<name>[^\s<>/!?\"'=]++){_ATTRIBUTES}")
_ATTRIBUTE = re.compile(r"""(?<!\S)([^\s=]++)\s*+=\s*+("[^"]*+"|'[^']*+')""")
_DECLARATION = re.compile(r"\A<\?xml\s[^<>]*>")
_OTHER_DECLARATION = re.compile(r"<!(?!--|\[CDATA\[)")


class CutRecord(NamedTuple):
    """A record as it was received, with the namespaces that are declared around it."""

    text: str
    scope: str

    def found(self) -> XmlElement:
        """Parse the record within the limits of a `Reader`; if it is unreadable, return an empty element with `why`."""
        written = f"<records{self.scope}>{self.text}</records>".encode("utf-8", "replace")
        try:
            [element] = read_xml(written, Reader(within=frozenset({"records"}), charset="utf-8"))
        except UnreadableError as problem:
            return XmlElement(Element("record"), str(problem))
        return element

    def look(self) -> Element:
        """Parse the record to a tree without the limits of a reader, which is faster; used to find its identifier.

        Raise `ValueError` if the record is not well-formed.
        """
        parser = XMLParser()  # noqa: S314 (the document was parsed before, and defines no entities)
        try:
            parser.feed(f"<records{self.scope}>{self.text}</records>")
            return next(iter(parser.close()))
        except (ParseError, StopIteration) as problem:
            raise ValueError(f"it is not valid XML: {problem}") from None

    def letters(self) -> bytes:
        """Return all bytes that affect the record's content."""
        return f"{self.scope}\n{self.text}".encode("utf-8", "surrogatepass")


class CutDocument(NamedTuple):
    """The records of a document, and the rest of the document without them."""

    records: list[CutRecord]
    rest: bytes


async def cut_up(
    body: bytes, around: frozenset[str], *, charset: str | None, named: frozenset[str] | None = None
) -> CutDocument | None:
    """Cut out the children of the first element with a local name in `around`, or only its children in `named`.

    Return None if there is no such element, or if the document is too complex to be cut.
    """
    decoder, parts = XmlDecoder(charset), []
    for at in range(0, len(body), PIECE_BYTES):
        parts.append(decoder.feed(body[at : at + PIECE_BYTES]))
        await asyncio.sleep(0)
    text = _DECLARATION.sub("", "".join([*parts, decoder.close()]), count=1)
    if text.count("<") > 2 * MOST_ANSWER_ELEMENTS or _OTHER_DECLARATION.search(text):
        return None
    for is_sound in _soundness(text):
        if not is_sound:
            return None
        await asyncio.sleep(0)
    return _cut(text, around, named)


def cut_text(text: str, around: frozenset[str], *, named: frozenset[str] | None = None) -> CutDocument | None:
    """Cut a document that is no longer than a record, as `cut_up` does."""
    if _OTHER_DECLARATION.search(text) or not all(_soundness(text)):
        return None
    return _cut(text, around, named)


def _soundness(text: str) -> Iterator[bool]:
    """Yield for each piece whether the document is well-formed so far, without a namespace that is too long."""

    def check_namespace(_: str | None, name: str | None) -> None:
        if name is not None and len(name) > LONGEST_NAMESPACE:
            _refuse_namespace()

    parser = expat.ParserCreate(namespace_separator="}")
    parser.StartNamespaceDeclHandler = check_namespace
    try:
        for at in range(0, len(text), PIECE_BYTES):
            parser.Parse(text[at : at + PIECE_BYTES], False)
            yield True
        parser.Parse("", True)
        yield True
    except (expat.ExpatError, UnreadableError):
        yield False


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
        if name.rpartition(":")[2] in around:
            break
    else:
        return None
    # The namespaces that these elements declare, sorted by prefix.
    declarations = (pair for _, attributes in opened for pair in _ATTRIBUTE.findall(attributes))
    declared = {prefix: value for prefix, value in declarations if prefix == "xmlns" or prefix.startswith("xmlns:")}
    scope = "".join(f" {prefix}={value}" for prefix, value in sorted(declared.items()))
    records: list[CutRecord] = []
    rest, kept_from, at = [], 0, tag.end()
    while (child := _TAG.search(text, at)) and not child["close"]:
        at = child.end()
        if (name := child["name"]) is None:
            continue
        at = at if child["empty"] else _end(text, at, name)
        if named is None or name.rpartition(":")[2] in named:
            records.append(CutRecord(text[child.start() : at], scope))
            rest.append(text[kept_from : child.start()])
            kept_from = at
    return CutDocument(records, "".join([*rest, text[kept_from:]]).encode("utf-8", "replace"))


def _end(text: str, at: int, name: str) -> int:
    """Return the end of the element `name` that was opened before `at`."""
    depth = 1
    for tag in _tags_of(name).finditer(text, at):
        if tag["found"]:
            depth += 0 if tag["empty"] else -1 if tag["close"] else 1
        if not depth:
            return tag.end()
    raise ValueError(f"{name} is not closed")  # a well-formed document has no such element


@lru_cache(64)
def _tags_of(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{_PASSED})|<(?P<close>/?)(?P<found>{re.escape(name)})(?=[\s/>]){_ATTRIBUTES}")
