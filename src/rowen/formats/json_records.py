"""Splits a large JSON document into records while it is being received.

Only brackets and strings are parsed, by regular expressions without backtracking: time is linear, and memory holds one
record. The content of a record is parsed by the JSON parser, so that a broken record does not affect others.

The end of a broken record may be unknown. For example, a stray quotation mark exchanges strings with the text between
them from there on. If the caller knows the form of a record, such a piece ends where the next record starts.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from rowen.formats import UnreadableError
from rowen.formats.json import read_json

# Most objects are shorter; for longer objects the window grows fourfold each time.
_FIRST_WINDOW_BYTES = 1 << 12
# An incomplete number, word or escape at the end of the text.
_CUT_WORD = re.compile(r"[-+.\\\w]{0,12}")
_DECODER = json.JSONDecoder()


class Value(NamedTuple):
    """A decoded value, and the position of its end."""

    value: Any
    end: int


class JsonError(NamedTuple):
    """The reason why a text is not JSON, and the position of the error, or None if it is unknown."""

    reason: str
    at: int | None


def read_at(body: bytes, at: int, *, before: str = "") -> Value | JsonError | None:
    """Decode the value at position `at` in a body, and read only as much as needed.

    `before` is put in front of the value; positions in the result refer to the body.
    """
    size_bytes = _FIRST_WINDOW_BYTES
    while True:
        read = decoded(before + body[at : at + size_bytes].decode("latin-1"), 0)
        if read is None and at + size_bytes < len(body):
            size_bytes *= 4
            continue
        shift = at - len(before)
        if isinstance(read, Value):
            return Value(read.value, read.end + shift)
        return JsonError(read.reason, read.at + shift) if read and read.at is not None else read


def scanned_bytes(read: Value | JsonError | None, at: int, end: int) -> int:
    """Return the approximate number of bytes that were read to decode a value."""
    match read:
        case Value(_, stop):
            return stop - at
        case JsonError(_, int(stop)):
            return max(_FIRST_WINDOW_BYTES, stop - at)
    return end - at


def decoded(text: str, at: int) -> Value | JsonError | None:
    """Decode the value at position `at` in a text; None if the text ends too early."""
    try:
        return Value(*_DECODER.raw_decode(text, at))
    except json.JSONDecodeError as problem:
        if problem.msg.startswith("Unterminated string") or _CUT_WORD.fullmatch(text, problem.pos):
            return None
        return JsonError(problem.msg, problem.pos)
    except (ValueError, RecursionError):
        return JsonError("it cannot be read", None)


MOST_RECORD_BYTES = 32 << 20
_KEPT_BYTES = 1 << 16
# The buffer is copied for each broken record in it: this bounds the size.
_PIECE_BYTES = 1 << 16

_TO_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+([{}\[\]])', re.DOTALL)
_TO_TAIL = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_KEY = re.compile(rb'"([^"\\]{0,40})"\s*:\s*\Z')
_BETWEEN = re.compile(rb"[\s,]*+")
_SCALAR = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[^\s,\[\]{}"]++', re.DOTALL)
_AFTER = re.compile(rb"\s*+([^\s]?)")
# After `[` and `:` an object is inside another value, so it is no following record.
_NEXT_OBJECT = re.compile(rb'[^\s:\[]\s*+(\{)\s*+"')
_NEXT_FIELD = re.compile(rb',\s*+("[^"\\]*+"\s*+:)')
_PAIRS = {b"}": b"{", b"]": b"["}
_MOST_DEPTH = 10_000
# In such nesting, Python's decoder fails at each bracket only after reading a thousand further brackets.
_MOST_DEEP = 10
# Maximum white space between a bracket and the name after or before it.
_MOST_BLANK = 1 << 8
# After one broken record, records of this length are checked too. If that applied from the start, valid records
# of 16 kB would be read twice.
_DOUBTED_BYTES = 1 << 11
# The allowed work per received byte. A record with an unknown end costs a scan of the whole buffer; a catalog in which
# each of 1,000 records is broken needs 20 bytes for each byte, and a malicious one thousands.
_WORK_FACTOR = 50
_WORK_BYTES = 64 << 20
# Copying is 100 times cheaper than scanning.
_COPIED_AT_ONCE = 100
# A broken record costs at least 30 µs: as much as scanning this many bytes.
_LOSS_BYTES = 1 << 12


class Cut(NamedTuple):
    """A record as it was received; `whole` is false if it was truncated because of its size.

    If records are repaired, `value` is its value, `problem` its error, and `number` and `offset` are its position.
    """

    body: bytes
    whole: bool = True
    value: Any = None
    number: int = 0
    offset: int = 0
    problem: str | None = None


@dataclass(slots=True)
class _Lost:
    """A broken record at the start of the buffer: its possible end, and the position up to which it was searched.

    The search continues when the buffer has `wanted_bytes`. `excluded` has the positions of brackets that are open at
    an error, where no record can start. `deep` counts brackets that are nested too deeply.
    """

    problem: str
    error_at: int | None
    end: int | None
    torn: bool
    searched: int = 0
    wanted_bytes: int = 0
    excluded: frozenset[int] = frozenset()
    deep: int = 0


class Splitter:
    """A push parser that returns the objects in lists with the given names, or in a list at the top level.

    Objects in lists named in `within` are catalogs themselves, and are searched. With `is_record`, every value in the
    lists is returned, and parsing continues after a broken record.
    """

    def __init__(
        self,
        names: frozenset[str],
        within: frozenset[str] = frozenset(),
        *,
        most_bytes: int = MOST_RECORD_BYTES,
        is_record: Callable[[Any], bool] | None = None,
    ) -> None:
        self.found = False
        self._names = names
        self._within = within
        self._most_bytes = most_bytes
        self._is_record = is_record
        self._buffer = b""
        self._passed_bytes = 0
        self._at = 0
        self._in_string = False
        self._open: list[tuple[bytes, str]] = []
        self._inside = 0
        self._begin: int | None = None
        self._head: bytes | None = None
        self._number = 0
        self._offset = 0
        self._doubted_bytes = 0
        self._first_doubt_bytes = _KEPT_BYTES
        self._work_bytes = _WORK_BYTES
        self._lost: _Lost | None = None
        self._started = self._ended = self._starved = False

    def feed(self, piece: bytes) -> Iterator[Cut]:
        """Yield the records that end in this piece."""
        for at in range(0, len(piece), _PIECE_BYTES):
            self._buffer += piece[at : at + _PIECE_BYTES]
            self._work_bytes += _WORK_FACTOR * min(_PIECE_BYTES, len(piece) - at)
            if not self._started:
                head = self._buffer.removeprefix(b"\xef\xbb\xbf").lstrip()
                self._passed_bytes += len(self._buffer) - len(head)
                self._buffer = head
                self._started = len(head) > 0
                if self._started and head[:1] not in (b"{", b"["):
                    what = "a web page" if head[:1] == b"<" else "something else"
                    raise UnreadableError(f"The document is {what} instead of JSON.")
            yield from self._go_on(final=False)
            if self._lost is not None:
                continue
            # Drop processed bytes, except the current record and a key that may precede its list.
            if self._inside and self._begin is not None and self._at - self._begin > self._most_bytes:
                self._head = self._head or self._buffer[self._begin : self._begin + _KEPT_BYTES]
            is_open = self._inside and self._head is None
            self._drop(self._begin if is_open and self._begin is not None else max(0, self._at - _KEPT_BYTES))

    def finish(self) -> Iterator[Cut]:
        """Yield the records that can still be separated at the end of the document."""
        yield from self._go_on(final=True)

    def close(self) -> None:
        """End the document; raise an error if it is incomplete."""
        if self._lost is not None:
            what = f"is broken, and its end was not found before that of the document at byte {self._size_bytes}"
            raise self._unreadable(what)
        if self._inside:
            raise self._unreadable(f"is cut off: the document ends too early, at byte {self._size_bytes}")
        if not self._ended:
            raise UnreadableError(f"The document ends too early, at byte {self._size_bytes}.")

    def _go_on(self, *, final: bool) -> Iterator[Cut]:
        self._starved = False
        while not self._starved:
            if self._lost is not None:
                if not final and len(self._buffer) < self._lost.wanted_bytes:
                    return
                yield from self._find_end(self._lost, final=final)
            elif not self._inside and self._is_record and self._open and self._open[-1][1] == "records":
                yield from self._step_in_list(final=final)
            elif (bracket := self._next_bracket()) is None:
                self._starved = True
                self._doubt(final=final)
            elif self._inside and self._at - (self._begin or 0) > self._doubted_bytes and self._doubt(final=False):
                continue
            elif self._inside:
                yield from self._step_inside(bracket)
            else:
                self._step(bracket)

    @property
    def _size_bytes(self) -> int:
        return self._passed_bytes + len(self._buffer)

    def _unreadable(self, what: str) -> UnreadableError:
        return UnreadableError(f"Record {self._number}, which begins at byte {self._offset}, {what}.")

    def _next_bracket(self) -> bytes | None:
        """Return the next bracket outside of strings; None if more input is needed."""
        buffer = self._buffer
        while True:
            if self._in_string:
                self._at = _end(_IN_STRING.match(buffer, self._at), self._at)
                if buffer[self._at : self._at + 1] != b'"':
                    return None
                self._at += 1
                self._in_string = False
            if match := _TO_BRACKET.match(buffer, self._at):
                self._at = match.end()
                return match[1]
            self._at = _end(_TO_TAIL.match(buffer, self._at), self._at)
            if buffer[self._at : self._at + 1] != b'"':
                return None
            self._at += 1
            self._in_string = True

    def _step(self, bracket: bytes) -> None:
        """Enter or leave a structure that contains the records."""
        if self._ended:
            at = self._passed_bytes + self._at - 1
            raise UnreadableError(f"The document continues after its end, at byte {at}.")
        if bracket in _PAIRS:
            self._leave(bracket)
            return
        role = self._role(bracket)
        if role == "record":
            self._enter(self._at - 1)
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
        key = _KEY.search(self._buffer, max(0, self._at - 1 - 2 * _MOST_BLANK), self._at - 1)
        name = key[1].decode("utf-8", "replace") if key else ""
        if name in self._names:
            self.found = True
            return "records" if bracket == b"[" else "record"
        if name in self._within:
            return "catalogs" if bracket == b"[" else "catalog"
        return "other"

    def _leave(self, bracket: bytes) -> None:
        if not self._open or self._open.pop()[0] != _PAIRS[bracket]:
            at = self._passed_bytes + self._at - 1
            raise UnreadableError(f"The brackets of the document do not match, at byte {at}.")
        self._ended = not self._open

    def _enter(self, begin: int) -> None:
        self._begin, self._head, self._inside = begin, None, 1
        self._number += 1
        self._offset = self._passed_bytes + begin
        self._doubted_bytes = self._first_doubt_bytes

    def _step_inside(self, bracket: bytes) -> Iterator[Cut]:
        self._inside += 1 if bracket not in _PAIRS else -1
        if self._inside:
            return
        if self._head is not None or self._is_record is None:
            begin, self._begin = self._begin or 0, None
            body = self._buffer[begin : self._at] if self._head is None else self._head
            yield Cut(body, whole=self._head is None, number=self._number, offset=self._offset)
        else:
            yield from self._settle(bracket)

    def _settle(self, last: bytes) -> Iterator[Cut]:
        """Yield the list element that has ended; if it is broken, search for its true end."""
        begin = self._begin or 0
        body = self._buffer[begin : self._at]
        try:
            value = read_json(body, "It")
        except UnreadableError as problem:
            # A record that lacks its own closing bracket ends at the bracket of the list.
            torn = last == b"]" and body[:1] == b"{"
            self._lose(str(problem).partition(": ")[2], self._at - torn, torn=torn)
        else:
            self._begin = None
            yield Cut(body, value=value, number=self._number, offset=self._offset)

    def _step_in_list(self, *, final: bool) -> Iterator[Cut]:
        """Parse the next part of a list of records: a record, the end of the list, or an unexpected value."""
        self._at = _end(_BETWEEN.match(self._buffer, self._at), self._at)
        first = self._buffer[self._at : self._at + 1]
        if first == b"]":
            self._at += 1
            self._leave(first)
        elif first in (b"{", b"["):
            self._enter(self._at)
            self._at += 1
        elif first:
            yield from self._step_scalar(final=final)
        else:
            self._starved = True

    def _step_scalar(self, *, final: bool) -> Iterator[Cut]:
        match = _SCALAR.match(self._buffer, self._at)
        after = _after(self._buffer, match.end()) if match else b""
        # An extra bracket is complete; any other unexpected value may continue.
        is_bracket = self._buffer[self._at : self._at + 1] == b"}"
        if not after and not is_bracket and not final and len(self._buffer) - self._at < _KEPT_BYTES:
            self._starved = True
            return
        self._enter(self._at)
        self._inside = 0
        if match and after in (b",", b"]"):
            self._at = match.end()
            yield from self._settle(b"")
        else:
            self._lose("nothing that belongs into a list", self._at + 1 if is_bracket else None)

    def _doubt(self, *, final: bool) -> bool:
        """Check whether the current record is already broken, whenever its size has doubled; return whether it is."""
        if not self._inside or self._is_record is None or self._head is not None:
            return False
        begin = self._begin or 0
        size_bytes = len(self._buffer) - begin
        if not final and size_bytes < self._doubted_bytes:
            return False
        body = self._buffer[begin : begin + (size_bytes if final else max(self._doubted_bytes, self._at - begin))]
        self._doubted_bytes = 2 * len(body)
        self._work(len(body))
        read = decoded(body.decode("latin-1"), 0)
        if not isinstance(read, JsonError) or read.at is None:
            return False
        self._lose(read.reason, None)
        self._starved = False
        return True

    def _work(self, size_bytes: int) -> None:
        """Count the work done; raise an error if it exceeds what a catalog with broken records may need."""
        self._work_bytes -= size_bytes
        if self._work_bytes < 0:
            raise self._unreadable("is broken, and finding its end would take too long")

    def _lose(self, problem: str, end: int | None, *, torn: bool = False) -> None:
        begin, self._begin = self._begin or 0, None
        self._work(_LOSS_BYTES + self._at - begin + len(self._buffer) // _COPIED_AT_ONCE)
        self._first_doubt_bytes = _DOUBTED_BYTES
        self._drop(begin)
        self._inside, self._in_string = 0, False
        read = read_at(self._buffer, 0)
        error_at = read.at if isinstance(read, JsonError) else None
        reason = read.reason if isinstance(read, JsonError) and error_at is not None else problem
        place = f" (byte {self._offset + error_at})" if error_at is not None else ""
        self._lost = _Lost(f"{reason.rstrip('.')}{place}", error_at, None if end is None else end - begin, torn)

    def _find_end(self, lost: _Lost, *, final: bool) -> Iterator[Cut]:
        """Find the end of the broken record: where the next record starts, or by its brackets or its other fields."""
        ways = [partial(self._next_record, lost), partial(self._end_of_fields, lost)]
        if lost.end is not None and lost.torn:
            # An apparent end of the list inside the record is more likely an extra bracket.
            ways = [*ways, partial(self._proved, lost.end)]
        elif lost.end is not None:
            ways = [partial(self._next_record, lost, limit=lost.end), partial(self._proved, lost.end), *ways]
        place = next((end for way in ways if (end := way(final=final)) is not None or self._starved), None)
        if place is not None:
            self._lost, self._at = None, place
            yield Cut(self._buffer[:place], number=self._number, offset=self._offset, problem=lost.problem)
            return
        self._starved = True
        lost.wanted_bytes = min(2 * len(self._buffer), self._most_bytes + 1)
        if len(self._buffer) > self._most_bytes:
            raise self._unreadable(f"is broken, and no other begins in {self._most_bytes} bytes")

    def _next_record(self, lost: _Lost, *, final: bool, limit: int | None = None) -> int | None:
        if self._is_record is None or self._open[-1][1] != "records":
            return None
        stop = len(self._buffer) if limit is None else limit + _MOST_BLANK
        while match := _NEXT_OBJECT.search(self._buffer, lost.searched, stop):
            at = match.start(1)
            self._work(at - lost.searched)
            if limit is not None and at >= limit:
                return None
            if at in lost.excluded:
                lost.searched = at
                continue
            read = read_at(self._buffer, at)
            self._work(scanned_bytes(read, at, len(self._buffer)))
            if read is None and not final and len(self._buffer) - at < self._most_bytes:
                self._starved = True
                return None
            if isinstance(read, Value) and self._is_record(read.value):
                return at
            # Keep the last bracket in the searched part, since a record may follow it.
            lost.searched = read.end - 1 if isinstance(read, Value) else at
            if isinstance(read, JsonError) and read.at is None:
                lost.deep += 1
            elif not isinstance(read, Value):
                # The error affects all brackets that are open there, so no record starts at any of them.
                error_at = read.at if read is not None and read.at is not None else len(self._buffer)
                lost.excluded = frozenset(_open_brackets(self._buffer, at, error_at))
            if lost.deep > _MOST_DEEP:
                return None
        self._work(max(0, stop - lost.searched))
        lost.searched = max(lost.searched, len(self._buffer.rstrip(b" \t\r\n{")) - 1)
        return None

    def _proved(self, end: int, *, final: bool) -> int | None:
        """Return `end` if the bytes after it may follow a record; otherwise None."""
        after = _after(self._buffer, end)
        self._starved = not after and not final
        closing = b"]" if self._open[-1][1] == "records" else b"}"
        return end if after in (b",", closing) else None

    def _end_of_fields(self, lost: _Lost, *, final: bool) -> int | None:
        """Return the end of a record with one broken field, if the remaining fields are valid JSON; otherwise None."""
        if lost.error_at is None or next(depths_at(self._buffer, [lost.error_at])) != 1:
            return None
        match = _NEXT_FIELD.search(self._buffer, lost.error_at)
        if match is None:
            self._starved = not final and len(self._buffer) - lost.error_at < _KEPT_BYTES
            return None
        read = read_at(self._buffer, match.start(1), before="{")
        if isinstance(read, Value):
            return self._proved(read.end, final=final)
        self._starved = read is None and not final
        return None

    def _drop(self, count: int) -> None:
        self._buffer = self._buffer[count:]
        self._passed_bytes += count
        self._at -= count
        if self._begin is not None:
            self._begin = max(0, self._begin - count)


def depths_at(body: bytes, places: Sequence[int]) -> Iterator[int]:
    """Return the number of open brackets at each position in `places`, which are sorted and outside of strings."""
    depth = at = 0
    for place in places:
        while match := _TO_BRACKET.match(body, at, place):
            depth += 1 if match[1] not in _PAIRS else -1
            at = match.end()
        yield depth


def _open_brackets(body: bytes, begin: int, end: int) -> list[int]:
    """Return the positions of the brackets that are open at `end`, in a piece that is valid JSON up to there."""
    opened: list[int] = []
    while match := _TO_BRACKET.match(body, begin, end):
        begin = match.end()
        if match[1] not in _PAIRS:
            opened.append(begin - 1)
        elif opened:
            opened.pop()
    return opened


def _after(buffer: bytes, at: int) -> bytes:
    match = _AFTER.match(buffer, at)
    return match[1] if match else b""


def _end(match: re.Match[bytes] | None, at: int) -> int:
    return match.end() if match else at
