"""Zip archives of XML, the container of office files and e-books: reads members and XML trees within limits."""

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from urllib.parse import unquote
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from rowen.content.documents import DamagedError
from rowen.formats.xml import XmlNames, event_parser

# Limit for all members together: a zip archive may unpack to a thousand times its size.
MOST_UNPACKED_BYTES = 256 << 20
_PIECE_BYTES = 1 << 18
_ENCRYPTED = 0x1
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError)
_NOTHING = Element("nothing")
# One worker reads the whole member, and each element needs memory.
MOST_ELEMENTS = 3_000_000
# Readers of the trees recurse at each level; Python allows 1,000 nested calls.
DEEPEST = 128
_NO_TAGS: frozenset[str] = frozenset()


class ZipPackage:
    """The members of one archive, by path in lower case; nothing is written to disk."""

    def __init__(self, body: bytes) -> None:
        if body.startswith(_OLE):
            raise DamagedError(
                "is encrypted, or in the binary format of Office before 2007.",
                hint="Save it without a password, in a current format.",
            )
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(body))
        except _DAMAGED as problem:
            raise DamagedError(f"is damaged, or not of the type that its ending says ({problem}).") from problem
        self._members = {_plain(member.filename): member for member in self._zip.infolist()}
        self._left_bytes = MOST_UNPACKED_BYTES

    def __contains__(self, path: str) -> bool:
        return _plain(path) in self._members

    def pieces(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of a member in pieces; nothing if there is no such member."""
        member = self._members.get(_plain(path))
        if member is None:
            return
        if member.flag_bits & _ENCRYPTED:
            raise DamagedError("is encrypted.", hint="Save it without a password.")
        if member.compress_type not in _METHODS:
            raise DamagedError("is packed by a method that no office program uses.")
        try:
            with self._zip.open(member) as source:
                while piece := source.read(_PIECE_BYTES):
                    self._left_bytes -= len(piece)
                    if self._left_bytes < 0:
                        raise DamagedError(
                            f"unpacks to more than {MOST_UNPACKED_BYTES >> 20} MB.",
                            hint="It may be a bomb: exclude it.",
                        )
                    yield piece
        except _DAMAGED as problem:
            raise DamagedError(f"is damaged ({problem}).") from problem

    def read(self, path: str) -> bytes:
        """Return the bytes of a member; empty if there is no such member."""
        return b"".join(self.pieces(path))

    def tree(self, path: str) -> Element:
        """Return the root element of a member; an empty element if there is no such member."""
        return next(elements(self.pieces(path)), _NOTHING)

    def main(self, usual: str, *, what: str) -> str:
        """Return the path of an Office file's main part; raise `DamagedError` with `what` if there is none."""
        paths = (path for kind, path in self.targets("").values() if kind == "officeDocument" and path in self)
        main = next(paths, usual)
        if main not in self:
            raise DamagedError(f"is not {what} in the format of 2007 and later.")
        return main

    def targets(self, path: str) -> dict[str, tuple[str, str]]:
        """Return the references of an Office part by id: the last segment of the type, and the target."""
        folder, _, name = path.rpartition("/")
        targets = {}
        for relationship in self.tree(f"{folder}/_rels/{name}.rels").iter("Relationship"):
            target = relationship.get("Target", "")
            if relationship.get("TargetMode") != "External":
                target = joined(folder, target)
            targets[relationship.get("Id", "")] = (relationship.get("Type", "").rpartition("/")[2], target)
        return targets


def joined(folder: str, reference: str) -> str:
    """Return the path of a reference in a folder; a path that leads out of the archive matches no member."""
    path = unquote(reference.partition("#")[0])
    return posixpath.normpath(posixpath.join("/" + folder, path)).lstrip("/")


def _plain(path: str) -> str:
    return path.replace("\\", "/").lstrip("/").lower()


def elements(
    pieces: Iterable[bytes], wanted: frozenset[str] = _NO_TAGS, *, opened: frozenset[str] = _NO_TAGS
) -> Iterator[Element]:
    """Yield the outermost elements with the names in `wanted`; if it is empty, the root element.

    Elements with names in `opened` are yielded at their start tag, with attributes only.
    """
    reader = _MarkupReader(wanted, opened)
    try:
        is_empty = True
        for piece in pieces:
            is_empty = False
            reader.parser.Parse(piece, False)
            done, reader.done = reader.done, []
            yield from done
        if not is_empty:
            reader.parser.Parse(b"", True)
    except (expat.ExpatError, LookupError, ValueError) as problem:
        raise DamagedError(f"is damaged ({problem}).") from problem


def whole(text: str | None, default: int = 0) -> int:
    """Return the number in an attribute; `default` if it is no number or has more than nine digits."""
    return int(text) if text and len(text) < 10 and text.isascii() and text.removeprefix("-").isdigit() else default


class _MarkupReader:
    def __init__(self, wanted: frozenset[str], opened: frozenset[str]) -> None:
        self.done: list[Element] = []
        self._wanted = wanted
        self._opened = opened
        self._builder: TreeBuilder | None = None
        self._depth = self._outermost = self._count = 0
        self.parser = event_parser(
            self._start, self._end, on_entity=_refuse_entity, on_long_namespace=_refuse_namespace
        )
        self.parser.CharacterDataHandler = self._data

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._count += 1
        if self._depth > DEEPEST or self._count > MOST_ELEMENTS:
            raise DamagedError("is too large or too deeply nested to be read.")
        local = _LOCAL[name]
        if self._builder is None:
            if local in self._opened:
                self.done.append(Element(local, {_LOCAL[key]: value for key, value in attributes.items()}))
                return
            if self._wanted and local not in self._wanted:
                return
            self._builder = TreeBuilder()
            self._outermost = self._depth
        self._builder.start(local, {_LOCAL[key]: value for key, value in attributes.items()})

    def _data(self, text: str) -> None:
        if self._builder is not None:
            self._builder.data(text)

    def _end(self, name: str) -> None:
        if self._builder is not None:
            self._builder.end(_LOCAL[name])
            if self._depth == self._outermost:
                self.done.append(self._builder.close())
                self._builder = None
        self._depth -= 1


def _refuse_entity(*_: object) -> None:
    raise DamagedError("declares entities, which no office program does.", hint="It may be a bomb: exclude it.")


def _refuse_namespace() -> None:
    raise DamagedError("has a namespace that no office program uses.")


def _local(name: str) -> str:
    space, _, local = name.rpartition("}")
    return "r:" + local if "officeDocument/" in space and space.endswith("/relationships") else local


_LOCAL = XmlNames(_local)
