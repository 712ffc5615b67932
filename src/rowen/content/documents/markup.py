"""XML, read piece by piece into small trees without namespaces; entities, depth and number are limited.

All formats here are told apart by their local names. Only references between the parts of an Office file keep a
prefix, `r:id`, since they stand beside plain ids.
"""

from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from rowen.content.documents import DamagedError
from rowen.formats.xml import XmlNames, event_parser

__all__ = ["elements", "whole"]

# The whole part is read by one worker, and each element costs it memory.
MOST_ELEMENTS = 3_000_000
# What reads the trees calls itself for each level; Python ends at 1,000 calls.
DEEPEST = 128
_NOTHING: frozenset[str] = frozenset()


def elements(
    pieces: Iterable[bytes], wanted: frozenset[str] = _NOTHING, *, opened: frozenset[str] = _NOTHING
) -> Iterator[Element]:
    """The outermost elements of the wanted names, the root if none are named.

    Those of the names in `opened` come as they are opened, with their attributes alone.
    """
    reader = _MarkupReader(wanted, opened)
    try:
        fed = False
        for piece in pieces:
            fed = True
            yield from reader.feed(piece)
        if fed:
            reader.end()
    except (expat.ExpatError, LookupError, ValueError) as problem:
        raise DamagedError(f"is damaged ({problem}).") from problem


def whole(text: str | None, default: int = 0) -> int:
    """A number as it stands in an attribute; what is none, or absurd, is the default."""
    return int(text) if text and len(text) < 10 and text.isascii() and text.removeprefix("-").isdigit() else default


class _MarkupReader:
    def __init__(self, wanted: frozenset[str], opened: frozenset[str]) -> None:
        self._wanted = wanted
        self._opened = opened
        self._builder: TreeBuilder | None = None
        self._depth = 0
        self._outermost = 0
        self._count = 0
        self._done: list[Element] = []
        self._parser = event_parser(
            self._start, self._end, on_entity=_refuse_entity, on_long_namespace=_refuse_namespace
        )
        self._parser.CharacterDataHandler = self._data

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
            raise DamagedError("is too large or too deeply nested to be read.")
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


def _refuse_entity(*_: object) -> None:
    raise DamagedError("declares entities, which no office program does.", hint="It may be a bomb: leave it out.")


def _refuse_namespace() -> None:
    raise DamagedError("has a namespace that no office program uses.")


def _named(attributes: dict[str, str]) -> dict[str, str]:
    return {_LOCAL[name]: value for name, value in attributes.items()}


def _local(name: str) -> str:
    space, _, local = name.rpartition("}")
    return "r:" + local if "officeDocument/" in space and space.endswith("/relationships") else local


_LOCAL = XmlNames(_local)
