"""Cut text into chunks at places that its own content determines.

The cuts are a function of the text alone, never of a distance from its top or of an earlier version: an edit changes
the chunks it stands in, and a refresh gives the chunks that a rebuild would. Nothing overlaps, because a passage that
repeats a part of its neighbour changes with it.
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

__all__ = ["FORBIDDEN", "Piece", "checksum", "pieces", "split"]

_UNDERLINE = re.compile(r"\n[ \t]*(?:={2,}|-{2,})[ \t]*(?:\n|$)")
# Characters behind a cut that decide where it lies: an edit farther down leaves it there. With fewer, more pieces begin
# alike, and the whole of them decides; with more, an edit moves more cuts.
_LOOK_AHEAD = 48
# Below that, spans are halved: text that is made for it would else be cut off piece by piece, in quadratic time.
_DEEPEST = 128
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


def split(text: str, *, max_chars: int = 1500, min_chars: int = 200) -> list[Chunk]:
    """Return the chunks of a Markdown text, none longer than `max_chars`, few shorter than `min_chars`."""
    if len(text) <= max_chars and not _may_begin_with_heading(text):
        return _whole(text)
    parts = pieces(text, max_chars)
    if not parts:
        return []
    spans = _Spans(text, parts, max_chars, min_chars).found()
    return list(_with_headings(text, parts, spans))


def _may_begin_with_heading(text: str) -> bool:
    return text.lstrip()[:1] == "#" or _UNDERLINE.search(text) is not None


def _whole(text: str) -> list[Chunk]:
    """Return a short text as one chunk, without the blank lines around it."""
    text = text.rstrip()
    indent = len(text) - len(text.lstrip())
    return [Chunk(text[text.rfind("\n", 0, indent) + 1 :], (), None)] if text else []


class Piece(NamedTuple):
    """A span that is never cut again. `prefix` and `suffix` repeat a fence or a table's head around a part of it."""

    start: int
    end: int
    rank: int
    level: int = 0
    prefix: str = ""
    suffix: str = ""


class _Spans:
    """Cuts a row of pieces at its best boundary, and both sides again, until each span fits into a chunk."""

    def __init__(self, text: str, parts: list[Piece], max_chars: int, min_chars: int) -> None:
        self.parts = parts
        self.max_chars = max_chars
        self.min_chars = min_chars
        self.starts = [part.start for part in parts]
        self.ends = [part.end for part in parts]
        self.keys = [] if self._fits(0, len(parts)) else _keys(text, parts)

    def found(self) -> list[tuple[int, int]]:
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
        """Neither side too short, then the highest rank; a heading is parted from its text only at last."""
        low = bisect_left(self.ends, self.starts[first] + self.min_chars, first, last) + 1
        high = bisect_right(self.starts, self.ends[last - 1] - self.min_chars, first, last)
        if low < high:
            key = min(self.keys[low:high])
            if key < FORBIDDEN << 64:
                return self._nearest_to_middle(key, low, high)
        key = min(self.keys[first + 1 : last])
        return self._nearest_to_middle(key, first + 1, last)

    def _nearest_to_middle(self, key: int, low: int, high: int) -> int:
        # Equal keys mean equal passages: the middle one keeps a long run of them from being peeled off one by one.
        middle = (low + high) // 2
        if key in self.keys[middle:high]:
            return self.keys.index(key, middle, high)
        return next(before for before in range(middle - 1, low - 1, -1) if self.keys[before] == key)


def _keys(text: str, parts: list[Piece]) -> list[int]:
    """Return the order of boundaries: rank, then the words just after the cut; an edit further down does not move it.

    Where these words are the same, the whole piece decides.
    """
    keys = [
        part.rank << 64 | checksum(text[part.start : min(part.end, part.start + _LOOK_AHEAD)]) << 32 for part in parts
    ]
    counts = Counter(keys)
    if len(counts) == len(keys):
        return keys
    return [
        key | checksum(text[part.start : part.end]) if counts[key] > 1 else key
        for key, part in zip(keys, parts, strict=True)
    ]


def _with_headings(text: str, parts: list[Piece], spans: list[tuple[int, int]]) -> Iterator[Chunk]:
    trail = Trail()
    for first, last in spans:
        entered = _enter_leading(text, parts, first, last, trail)
        yield Chunk(_text(text, parts[first], parts[last - 1]), trail.path, trail.anchor)
        for part in parts[entered:last]:
            if part.level:
                trail.enter(part.level, text[part.start : part.end])


def _enter_leading(text: str, parts: list[Piece], first: int, last: int, trail: Trail) -> int:
    """Pass the headings that a chunk starts with, as long as each one is below the one before."""
    level = 0
    while first < last and parts[first].level > level:
        level = parts[first].level
        trail.enter(level, text[parts[first].start : parts[first].end])
        first += 1
    return first


def _text(text: str, head: Piece, tail: Piece) -> str:
    return head.prefix + text[head.start : tail.end] + tail.suffix


def checksum(text: str) -> int:
    """Return a hash that is the same in every process."""
    return crc32(text.encode("utf-8", "surrogatepass"))


def pieces(text: str, max_chars: int) -> list[Piece]:
    """Return all pieces of a text, in order; none is longer than `max_chars`, repeated heads included."""
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
        """Yield a span that is too long, cut the first way, and what is still too long the next way."""
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
