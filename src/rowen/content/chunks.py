"""Split text into chunks at positions that depend only on its content.

A cut depends neither on the distance from the start nor on an earlier version of the text. So an edit changes only the
chunks around it, and a refresh returns the same chunks as a rebuild. Chunks do not overlap, because a passage that
repeats part of its neighbour would change with it.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

from rowen.content import code
from rowen.content.markdown import Block, BlockKind, Trail, scan
from rowen.model.passages import Chunk

_UNDERLINE = re.compile(r"\n[ \t]*(?:={2,}|-{2,})[ \t]*(?:\n|$)")
# Characters after a cut that decide its position: an edit further down does not move it. With fewer, more pieces begin
# alike and are compared as a whole; with more, an edit moves more cuts.
_LOOK_AHEAD = 48
# Deeper spans are halved, since malicious text could otherwise be cut piece by piece, in quadratic time.
_DEEPEST = 128
BLOCK, UNIT, NESTED, INSIDE = 7, 8, 9, 10
FORBIDDEN = 11
"""A cut with this rank or a higher one separates a heading from its text."""
Span = tuple[int, int]
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*(?=\s)|[。！？]")
_DELIMITER_ROW = re.compile(r"[\s|:-]+")
_WORD = re.compile(r"\S+")
# Cutting a run without spaces after rare characters keeps the cuts in place when something is inserted before them.
_RARE = "qzQZ79的の"
_DEEPEST_UNITS = 6


def split(text: str, *, max_chars: int = 1500, min_chars: int = 200) -> list[Chunk]:
    """Return the chunks of a Markdown text; none is longer than `max_chars`, and few are shorter than `min_chars`."""
    if len(text) <= max_chars and not _may_begin_with_heading(text):
        text = text.rstrip()
        indent = len(text) - len(text.lstrip())
        return [Chunk(text[text.rfind("\n", 0, indent) + 1 :], (), None)] if text else []
    parts = pieces(text, max_chars)
    chunks: list[Chunk] = []
    trail = Trail()
    for first, last in _Spans(text, parts, max_chars, min_chars).cut() if parts else ():
        head, tail = parts[first], parts[last - 1]
        # A chunk belongs to the headings that it starts with, as long as each is lower than the one before.
        level = 0
        while first < last and parts[first].level > level:
            level = parts[first].level
            trail.enter(level, text[parts[first].start : parts[first].end])
            first += 1
        chunks.append(Chunk(head.prefix + text[head.start : tail.end] + tail.suffix, trail.path, trail.anchor))
        for part in parts[first:last]:
            if part.level:
                trail.enter(part.level, text[part.start : part.end])
    return chunks


def _may_begin_with_heading(text: str) -> bool:
    return text.lstrip()[:1] == "#" or _UNDERLINE.search(text) is not None


class Piece(NamedTuple):
    """A span that is not cut further. `prefix` and `suffix` repeat a fence or a table head around part of a block."""

    start: int
    end: int
    rank: int
    level: int = 0
    prefix: str = ""
    suffix: str = ""


class _Spans:
    """Cuts a row of pieces at its best boundary, then both sides again, until each span fits into a chunk."""

    def __init__(self, text: str, parts: list[Piece], max_chars: int, min_chars: int) -> None:
        self.parts = parts
        self.max_chars = max_chars
        self.min_chars = min_chars
        self.starts = [part.start for part in parts]
        self.ends = [part.end for part in parts]
        self.keys: list[int] = []
        if self._fits(0, len(parts)):
            return
        # Boundaries are ordered by rank, then by the text just after the cut, so that an edit further down does not
        # move it. If this text is equal, the whole piece decides.
        self.keys = [
            part.rank << 64 | checksum(text[part.start : min(part.end, part.start + _LOOK_AHEAD)]) << 32
            for part in parts
        ]
        counts = Counter(self.keys)
        if len(counts) < len(self.keys):
            self.keys = [
                key | checksum(text[part.start : part.end]) if counts[key] > 1 else key
                for key, part in zip(self.keys, parts, strict=True)
            ]

    def cut(self) -> list[tuple[int, int]]:
        done = []
        stack = [(0, len(self.parts), 0)]
        while stack:
            first, last, depth = stack.pop()
            if last - first == 1 or self._fits(first, last):
                done.append((first, last))
                continue
            cut = self._best(first, last) if depth < _DEEPEST else (first + last) // 2
            stack.append((cut, last, depth + 1))
            stack.append((first, cut, depth + 1))
        return done

    def _fits(self, first: int, last: int) -> bool:
        head, tail = self.parts[first], self.parts[last - 1]
        return tail.end - head.start + len(head.prefix) + len(tail.suffix) <= self.max_chars

    def _best(self, first: int, last: int) -> int:
        """Return the best boundary that leaves neither side too short; cut after a heading only if necessary."""
        low = bisect_left(self.ends, self.starts[first] + self.min_chars, first, last) + 1
        high = bisect_right(self.starts, self.ends[last - 1] - self.min_chars, first, last)
        key = min(self.keys[low:high], default=FORBIDDEN << 64)
        if key >= FORBIDDEN << 64:
            low, high = first + 1, last
            key = min(self.keys[low:high])
        # Equal keys mean equal pieces: the middle cut prevents a long run of them from being cut one by one.
        middle = (low + high) // 2
        if key in self.keys[middle:high]:
            return self.keys.index(key, middle, high)
        return next(before for before in range(middle - 1, low - 1, -1) if self.keys[before] == key)


def checksum(text: str) -> int:
    """Return a hash that is the same in every process."""
    return crc32(text.encode("utf-8", "surrogatepass"))


def pieces(text: str, max_chars: int) -> list[Piece]:
    """Return all pieces of a text, in order; none is longer than `max_chars`, including prefix and suffix."""
    parts: list[Piece] = []
    above: Block | None = None
    headings_start = 0
    reserve = max_chars // 8
    cutter = _Cutter(text, max_chars, max_chars - reserve)
    for block in scan(text):
        after_heading = above is not None and above.kind is BlockKind.HEADING
        if not after_heading:
            headings_start = block.start
        # A block below headings leaves room for them, so that they need not be separated.
        taken = block.start - headings_start
        room = max_chars - (taken if taken <= reserve else 0)
        if block.kind is not BlockKind.HEADING:
            rank = FORBIDDEN + 1 if after_heading else BLOCK
        else:
            rank = FORBIDDEN if above is not None and after_heading and above.level < block.level else block.level
        if block.end - block.start <= room:
            parts.append(Piece(block.start, block.end, rank, block.level))
        else:
            first, *others = cutter.cut(block)
            parts += [first._replace(rank=rank, level=block.level), *others]
        above = block
    return parts


class _Cutter:
    """Cuts blocks that are too long into pieces of at most `room` characters."""

    def __init__(self, text: str, max_chars: int, room: int) -> None:
        self.text = text
        self.max_chars = max_chars
        self.room = room

    def cut(self, block: Block) -> list[Piece]:
        rows = _rows(self.text, block.start, block.end)
        match block.kind:
            case BlockKind.FENCE if parts := self._fence(rows):
                return parts
            case BlockKind.TABLE if len(rows) > 2 and _DELIMITER_ROW.fullmatch(self.text, *rows[1]):
                head = self.text[rows[0][0] : rows[1][1]] + "\n"
                limit = self.room - len(head)
                if limit >= self.max_chars // 2:
                    return [Piece(a, b, INSIDE, 0, head) for a, b in self._grouped(rows[2:], limit, limit // 2)]
        if len(rows) == 1:
            rows = _sentences(self.text, block.start, block.end)
        return [Piece(a, b, INSIDE) for a, b in self._grouped(rows, self.room, self.room)]

    def _fence(self, rows: list[Span]) -> list[Piece]:
        """Return the pieces of a fenced block; none if its fence leaves too little room for code."""
        opening = self.text[slice(*rows[0])].lstrip()
        info = opening.lstrip(opening[0])
        marker = opening[: len(opening) - len(info)]
        prefix, suffix = opening + "\n", "\n" + marker
        limit = self.room - len(prefix) - len(suffix)
        closing = self.text[slice(*rows[-1])].strip()
        if closing.startswith(marker) and not closing.strip(marker[0]):
            rows = rows[:-1]
        if len(rows) < 2 or limit < self.max_chars // 2:
            return []
        body = code.lines(self.text, rows[1][0], rows[-1][1], info.strip().partition(" ")[0].lower())
        return [Piece(a, b, rank, 0, prefix, suffix) for a, b, rank in self._code(body, limit, INSIDE, UNIT)]

    def _code(self, body: list[code.CodeLine], limit: int, lead: int, rank: int) -> Iterator[tuple[int, int, int]]:
        """Yield code units that fit `limit`; cut larger units into inner units, or else between lines.

        `lead` is the rank of the first piece.
        """
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

    def _grouped(self, spans: Iterable[Span], limit: int, longest: int) -> Iterator[Span]:
        """Group spans up to `limit`; a span's checksum may end a group that has a third of a chunk or more."""
        ways = (_sentences, _words, self._rarely)
        bounded = (part for span in spans for part in self._bounded(span, longest, ways))
        return _group(self.text, bounded, limit, self.max_chars // 3, 4)

    def _bounded(self, span: Span, longest: int, ways: tuple["Way", ...]) -> Iterator[Span]:
        """Yield a span; if it is too long, cut it by the first function in `ways`, and parts too long by the next."""
        start, end = span
        if end - start <= longest:
            yield span
            return
        finer = [part for inner in ways[0](self.text, start, end) for part in self._bounded(inner, longest, ways[1:])]
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
