"""Cutting a large JSON document into its records while it comes in.

Only brackets and strings are looked at, by regular expressions that never go back: time is linear, memory holds
one record. What is inside a record is left to the JSON parser, so that a broken one costs only itself.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from rowen.connectors.catalog.answers import UnreadableError

__all__ = ["MOST_RECORD_BYTES", "Cut", "Splitter"]

MOST_RECORD_BYTES = 32 << 20
_KEPT_BYTES = 1 << 16

_TO_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+([{}\[\]])', re.DOTALL)
_TO_TAIL = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_KEY = re.compile(rb'"([^"\\]{0,40})"\s*:\s*\Z')
_PAIRS = {b"}": b"{", b"]": b"["}
_MOST_DEPTH = 10_000


class Cut(NamedTuple):
    """A record as it was sent; one that is too large is not whole."""

    body: bytes
    whole: bool = True


class Splitter:
    """Fed with pieces of a document, it gives the objects in the lists of the given names, or in a list at the top.

    Objects in lists of the names in `within` are catalogs themselves, and looked into.
    """

    def __init__(
        self,
        names: frozenset[str],
        within: frozenset[str] = frozenset(),
        *,
        most_bytes: int = MOST_RECORD_BYTES,
    ) -> None:
        self.found = False
        self._names = names
        self._within = within
        self._most_bytes = most_bytes
        self._buffer = b""
        self._at = 0
        self._in_string = False
        self._open: list[tuple[bytes, str]] = []
        self._inside = 0
        self._begin: int | None = None
        self._head: bytes | None = None
        self._started = self._ended = False

    def feed(self, piece: bytes) -> Iterator[Cut]:
        """The records that end in this piece."""
        self._buffer += piece
        if not self._started:
            self._start()
        while (bracket := self._next_bracket()) is not None:
            if self._inside:
                yield from self._step_inside(bracket)
            else:
                self._step(bracket)
        self._forget()

    def close(self) -> None:
        """Say that nothing more comes; raises if the document did not end."""
        if not self._ended:
            raise UnreadableError("The document ends too early.", hint="Nothing was deleted.")

    def _start(self) -> None:
        self._buffer = self._buffer.removeprefix(b"\xef\xbb\xbf").lstrip()
        self._started = len(self._buffer) > 0
        if self._started and self._buffer[:1] not in (b"{", b"["):
            what = "a web page" if self._buffer[:1] == b"<" else "something else"
            raise UnreadableError(f"The document is {what} instead of JSON.", hint="Nothing was deleted.")

    def _next_bracket(self) -> bytes | None:
        """The next bracket that is not in a string; None if more of the document is needed."""
        buffer = self._buffer
        while True:
            if self._in_string:
                self._at = _end(_IN_STRING, buffer, self._at)
                if buffer[self._at : self._at + 1] != b'"':
                    return None
                self._at += 1
                self._in_string = False
            if found := _TO_BRACKET.match(buffer, self._at):
                self._at = found.end()
                return found[1]
            self._at = _end(_TO_TAIL, buffer, self._at)
            if buffer[self._at : self._at + 1] != b'"':
                return None
            self._at += 1
            self._in_string = True

    def _step(self, bracket: bytes) -> None:
        """Go into or out of what surrounds the records."""
        if self._ended:
            raise UnreadableError("The document goes on after its end.", hint="Nothing was deleted.")
        if bracket in _PAIRS:
            self._leave(bracket)
            return
        role = self._role(bracket)
        if role == "record":
            self._begin, self._head, self._inside = self._at - 1, None, 1
        else:
            self._open.append((bracket, role))
            if len(self._open) > _MOST_DEPTH:
                raise UnreadableError("The document is nested too deeply.")

    def _role(self, bracket: bytes) -> str:
        if not self._open:
            self.found = bracket == b"["
            return "records" if self.found else "catalog"
        around = self._open[-1][1]
        if around in ("records", "catalogs"):
            return {"records": "record", "catalogs": "catalog"}[around] if bracket == b"{" else "other"
        if around != "catalog":
            return "other"
        key = _KEY.search(self._buffer, max(0, self._at - 1 - _KEPT_BYTES), self._at - 1)
        name = key[1].decode("utf-8", "replace") if key else ""
        if name in self._names:
            self.found = True
            return "records" if bracket == b"[" else "record"
        if name in self._within:
            return "catalogs" if bracket == b"[" else "catalog"
        return "other"

    def _leave(self, bracket: bytes) -> None:
        if not self._open or self._open.pop()[0] != _PAIRS[bracket]:
            raise UnreadableError("The brackets of the document do not match.", hint="Nothing was deleted.")
        self._ended = not self._open

    def _step_inside(self, bracket: bytes) -> Iterator[Cut]:
        self._inside += 1 if bracket not in _PAIRS else -1
        if self._inside:
            return
        begin, self._begin = self._begin or 0, None
        if self._head is not None:
            yield Cut(self._head, whole=False)
        else:
            yield Cut(self._buffer[begin : self._at])

    def _forget(self) -> None:
        """Drop what was dealt with, but for the record that has begun, and a key that may precede its list."""
        if self._inside and self._begin is not None and self._at - self._begin > self._most_bytes:
            self._head = self._head or self._buffer[self._begin : self._begin + _KEPT_BYTES]
        if self._inside and self._head is None and self._begin is not None:
            keep = self._begin
        else:
            keep = max(0, self._at - _KEPT_BYTES)
        self._buffer = self._buffer[keep:]
        self._at -= keep
        if self._begin is not None:
            self._begin = max(0, self._begin - keep)


def _end(pattern: re.Pattern[bytes], buffer: bytes, at: int) -> int:
    found = pattern.match(buffer, at)
    return found.end() if found else at
