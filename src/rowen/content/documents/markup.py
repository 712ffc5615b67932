"""XML, read piece by piece into small trees without namespaces; entities, depth and number are limited.

All formats here are told apart by their local names. Only references between the parts of an Office file keep a
prefix, `r:id`, since they stand beside plain ids.
"""

from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from rowen.content.documents.problem import UnreadableError

__all__ = ["elements", "whole"]

MOST_ELEMENTS = 3_000_000
DEEPEST = 128
# The parser writes a namespace out with each name in it. Those of office programs have up to 90 characters.
_LONGEST_NAMESPACE = 500
_MOST_NAMES = 5_000
_NOTHING: frozenset[str] = frozenset()


def elements(
    pieces: Iterable[bytes], wanted: frozenset[str] = _NOTHING, *, opened: frozenset[str] = _NOTHING
) -> Iterator[Element]:
    """The outermost elements of the wanted names, the root if none are named.

    Those of the names in `opened` come as they are opened, with their attributes alone.
    """
    reader = _Reader(wanted, opened)
    try:
        fed = False
        for piece in pieces:
            fed = True
            yield from reader.feed(piece)
        if fed:
            reader.end()
    except (expat.ExpatError, LookupError, ValueError) as problem:
        raise UnreadableError(f"is damaged ({problem}).") from problem


def whole(text: str | None, default: int = 0) -> int:
    """A number as it stands in an attribute; what is none, or absurd, is the default."""
    return int(text) if text and len(text) < 10 and text.isascii() and text.removeprefix("-").isdigit() else default


class _Reader:
    def __init__(self, wanted: frozenset[str], opened: frozenset[str]) -> None:
        self._wanted = wanted
        self._opened = opened
        self._builder: TreeBuilder | None = None
        self._depth = 0
        self._outermost = 0
        self._count = 0
        self._done: list[Element] = []
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._data
        self._parser.EntityDeclHandler = self._refuse
        self._parser.StartNamespaceDeclHandler = _check_namespace

    def feed(self, piece: bytes) -> list[Element]:
        self._parser.Parse(piece, False)
        done, self._done = self._done, []
        return done

    def end(self) -> None:
        self._parser.Parse(b"", True)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._count += 1
        if self._depth > DEEPEST or self._count > MOST_ELEMENTS:
            raise UnreadableError("is too large or too deeply nested to be read.")
        local = _LOCAL[name]
        if self._builder is None:
            if local in self._opened:
                self._done.append(Element(local, _named(attributes)))
                return
            if self._wanted and local not in self._wanted:
                return
            self._builder = TreeBuilder()
            self._outermost = self._depth
        self._builder.start(local, _named(attributes) if attributes else {})

    def _data(self, text: str) -> None:
        if self._builder is not None:
            self._builder.data(text)

    def _end(self, name: str) -> None:
        if self._builder is not None:
            self._builder.end(_LOCAL[name])
            if self._depth == self._outermost:
                self._done.append(self._builder.close())
                self._builder = None
        self._depth -= 1

    def _refuse(self, *_: object) -> None:
        raise UnreadableError(
            "declares entities, which no office program does.", hint="It may be a bomb: leave it out."
        )


def _check_namespace(_: str | None, name: str | None) -> None:
    if name is not None and len(name) > _LONGEST_NAMESPACE:
        raise UnreadableError("has a namespace that no office program uses.")


def _named(attributes: dict[str, str]) -> dict[str, str]:
    return {_LOCAL[name]: value for name, value in attributes.items()}


class _Local(dict[str, str]):
    """Names without their namespaces, of which a large file has few; a hostile one's many are not kept."""

    def __missing__(self, name: str) -> str:
        space, _, local = name.rpartition(" ")
        short = "r:" + local if "officeDocument/" in space and space.endswith("/relationships") else local
        if len(self) < _MOST_NAMES:
            self[name] = short
        return short


_LOCAL = _Local()
