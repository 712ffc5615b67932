"""Text becomes chunks, cut where its own content says so.

The cuts are a function of the text alone, never of a distance from its top or of an earlier version: an edit changes
the chunks it stands in, and a refresh gives the chunks that a rebuild would. Nothing overlaps, because a passage that
repeats a part of its neighbour changes with it.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator

from rowen.content.headings import Trail
from rowen.content.pieces import FORBIDDEN, Piece, checksum, pieces
from rowen.model.passages import Chunk

__all__ = ["split"]

_UNDERLINE = re.compile(r"\n[ \t]*(?:={2,}|-{2,})[ \t]*(?:\n|$)")
# Characters behind a cut that decide where it lies: an edit farther down leaves it there. With fewer, more pieces begin
# alike, and the whole of them decides; with more, an edit moves more cuts.
_LOOK_AHEAD = 48
# Below that, spans are halved: text that is made for it would else be cut off piece by piece, in quadratic time.
_DEEPEST = 128


def split(text: str, *, max_chars: int = 1500, min_chars: int = 200) -> list[Chunk]:
    """The chunks of a Markdown text, none longer than `max_chars`, few shorter than `min_chars`."""
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
    """A short text as its own chunk, without the blank lines around it."""
    text = text.rstrip()
    indent = len(text) - len(text.lstrip())
    return [Chunk(text[text.rfind("\n", 0, indent) + 1 :], (), None)] if text else []


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
    """The order of boundaries: rank, then the words just after the cut; an edit further down does not move it.

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
