"""Blocks that are too long for one chunk become pieces, cut where their content says so.

A cut depends on the words beside it, not on its distance from the top: an edit moves the cuts of its own
neighbourhood only.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

from rowen.content import code
from rowen.content.blocks import Block, BlockKind, scan

__all__ = ["FORBIDDEN", "Piece", "checksum", "pieces"]

BLOCK, UNIT, NESTED, INSIDE = 7, 8, 9, 10
FORBIDDEN = 11
"""From this rank on a cut parts a heading from what it is the heading of."""

Span = tuple[int, int]

_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*(?=\s)|[。！？]")
_DELIMITER_ROW = re.compile(r"[\s|:-]+")
_WORD = re.compile(r"\S+")
# Cutting a run without spaces after rare characters keeps the cuts in place when something is inserted before them.
_RARE = "qzQZ79的の"
_DEEPEST_UNITS = 6


class Piece(NamedTuple):
    """A span that is never cut again. `prefix` and `suffix` repeat a fence or a table's head around a part of it."""

    start: int
    end: int
    rank: int
    level: int = 0
    prefix: str = ""
    suffix: str = ""


def checksum(text: str) -> int:
    """A hash that is the same in every process."""
    return crc32(text.encode("utf-8", "surrogatepass"))


def pieces(text: str, max_chars: int) -> list[Piece]:
    """All pieces of a text, in order; none is longer than `max_chars`, repeated heads included."""
    found: list[Piece] = []
    above: Block | None = None
    headings_start = 0
    reserve = max_chars // 8
    cutter = _Cutter(text, max_chars, max_chars - reserve)
    for block in scan(text):
        if above is None or above.kind is not BlockKind.HEADING:
            headings_start = block.start
        # A block below a heading leaves room for it, so that the two need not part.
        taken = block.start - headings_start
        room = max_chars - (taken if taken <= reserve else 0)
        rank = _rank(block, above)
        if block.end - block.start <= room:
            found.append(Piece(block.start, block.end, rank, block.level))
        else:
            found.extend(cutter.cut(block, rank))
        above = block
    return found


def _rank(block: Block, above: Block | None) -> int:
    after_heading = above is not None and above.kind is BlockKind.HEADING
    if block.kind is not BlockKind.HEADING:
        return FORBIDDEN + 1 if after_heading else BLOCK
    return FORBIDDEN if above is not None and after_heading and above.level < block.level else block.level


class _Cutter:
    """Cuts blocks that are too long into pieces of at most `room`, whatever stands around them."""

    def __init__(self, text: str, max_chars: int, room: int) -> None:
        self.text = text
        self.max_chars = max_chars
        self.room = room

    def cut(self, block: Block, rank: int) -> list[Piece]:
        match block.kind:
            case BlockKind.FENCE:
                found = self._fence(block)
            case BlockKind.TABLE:
                found = self._table(block)
            case _:
                found = self._prose(block.start, block.end)
        found[0] = found[0]._replace(rank=rank, level=block.level)
        return found

    def _prose(self, start: int, end: int) -> list[Piece]:
        spans = _rows(self.text, start, end)
        if len(spans) == 1:
            spans = _sentences(self.text, start, end)
        return [Piece(a, b, INSIDE) for a, b in self._grouped(spans, self.room, self.room)]

    def _fence(self, block: Block) -> list[Piece]:
        rows = _rows(self.text, block.start, block.end)
        opening = self.text[slice(*rows[0])].lstrip()
        info = opening.lstrip(opening[0])
        marker = opening[: len(opening) - len(info)]
        prefix, suffix = opening + "\n", "\n" + marker
        limit = self.room - len(prefix) - len(suffix)
        if self._closes(rows[-1], marker):
            rows.pop()
        if len(rows) < 2 or limit < self.max_chars // 2:
            return self._prose(block.start, block.end)
        body = code.lines(self.text, rows[1][0], rows[-1][1], info.strip().partition(" ")[0].lower())
        return [Piece(a, b, rank, 0, prefix, suffix) for a, b, rank in self._code(body, limit, INSIDE, UNIT)]

    def _closes(self, row: Span, marker: str) -> bool:
        line = self.text[slice(*row)].strip()
        return line.startswith(marker) and not line.strip(marker[0])

    def _code(self, body: list[code.CodeLine], limit: int, lead: int, rank: int) -> Iterator[tuple[int, int, int]]:
        """Units that fit are pieces; larger ones are cut further in, at last between lines. `lead` ranks the first."""
        units = list(code.units(body)) if rank < UNIT + _DEEPEST_UNITS else [body]
        if len(units) == 1:
            for a, b in self._grouped([(line.start, line.end) for line in body], limit, limit // 2):
                yield a, b, lead
                lead = INSIDE
            return
        for unit in units:
            if unit[-1].end - unit[0].start <= limit:
                yield unit[0].start, unit[-1].end, lead
            else:
                yield from self._code(unit, limit, lead, rank + 1)
            lead = min(rank, NESTED)

    def _table(self, block: Block) -> list[Piece]:
        rows = _rows(self.text, block.start, block.end)
        head = self.text[rows[0][0] : rows[1][1]] + "\n" if len(rows) > 2 else ""
        limit = self.room - len(head)
        if not head or limit < self.max_chars // 2 or not _DELIMITER_ROW.fullmatch(self.text, *rows[1]):
            return self._prose(block.start, block.end)
        return [Piece(a, b, INSIDE, 0, head) for a, b in self._grouped(rows[2:], limit, limit // 2)]

    def _grouped(self, spans: Iterable[Span], limit: int, longest: int) -> Iterator[Span]:
        """Close a group after a span that says so once it holds a third of a chunk; at the limit in any case."""
        return _group(self.text, self._bounded(spans, longest), limit, self.max_chars // 3, 4)

    def _bounded(self, spans: Iterable[Span], longest: int) -> Iterator[Span]:
        for start, end in spans:
            if end - start <= longest:
                yield start, end
            else:
                yield from self._broken(start, end, longest, (_sentences, _words, self._rarely))

    def _broken(self, start: int, end: int, longest: int, ways: tuple["Way", ...]) -> Iterator[Span]:
        """A span that is too long, cut the first way, and what is still too long the next way."""
        finer: list[Span] = []
        for a, b in ways[0](self.text, start, end):
            if b - a <= longest:
                finer.append((a, b))
            else:
                finer.extend(self._broken(a, b, longest, ways[1:]))
        yield from _group(self.text, finer, longest, min(longest, self.max_chars // 2), 16)

    def _rarely(self, text: str, start: int, end: int) -> Iterable[Span]:
        most = max(1, self.max_chars // 4)
        pattern = re.compile(f"[^{_RARE}]{{0,{most - 1}}}[{_RARE}]|[^{_RARE}]{{1,{most}}}")
        return (match.span() for match in pattern.finditer(text, start, end))


Way = Callable[[str, int, int], Iterable[Span]]


def _group(text: str, spans: Iterable[Span], limit: int, least: int, divisor: int) -> Iterator[Span]:
    first = last = -1
    for start, end in spans:
        if first >= 0 and end - first > limit:
            yield first, last
            first = -1
        if first < 0:
            first = start
        last = end
        if end - first >= least and checksum(text[start:end]) % divisor == 0:
            yield first, last
            first = -1
    if first >= 0:
        yield first, last


def _rows(text: str, start: int, end: int) -> list[Span]:
    spans = []
    for line in text[start:end].split("\n"):
        if length := len(line.rstrip()):
            spans.append((start, start + length))
        start += len(line) + 1
    return spans


def _sentences(text: str, start: int, end: int) -> list[Span]:
    spans = []
    for match in _SENTENCE_END.finditer(text, start, end):
        spans.append(_trimmed(text, start, match.end()))
        start = match.end()
    if text[start:end].strip():
        spans.append(_trimmed(text, start, end))
    return spans


def _words(text: str, start: int, end: int) -> Iterable[Span]:
    return (match.span() for match in _WORD.finditer(text, start, end))


def _trimmed(text: str, start: int, end: int) -> Span:
    source = text[start:end]
    return start + len(source) - len(source.lstrip()), start + len(source.rstrip())
