"""Answers cut to a budget: the best first, and of a long passage the part that has the words."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from rowen.model.query import Hit, Passage

__all__ = ["excerpt", "within"]

SHARE = 0.4
"""No hit takes more than this share of the budget while others wait."""

LEAST_CHARS = 160
"""Two lines of a screen: less tells nothing."""
_BLOCK = re.compile(r"\n\s*\n|(?<=[.!?])\s+(?=[A-Z\d\"'(])|\n")


def within(hits: Sequence[Hit], budget: int) -> tuple[Hit, ...]:
    """Hits whose passages have together at most so many characters; what finds no room is left out."""
    left = budget
    kept: list[Hit] = []
    for hit in hits:
        room = min(left, max(int(budget * SHARE), LEAST_CHARS))
        text = excerpt(hit.text, hit.words, room)
        if kept and (not text or room < LEAST_CHARS):
            break
        left -= len(text)
        kept.append(replace(hit, text=text, further=()))
    return tuple(_with_further(hits, kept, left))


def _with_further(hits: Sequence[Hit], kept: Sequence[Hit], left: int) -> list[Hit]:
    """Give what is left to further passages, hit by hit, whole ones only."""
    filled = []
    for hit, shown in zip(hits, kept, strict=False):
        further: list[Passage] = []
        for passage in hit.further:
            if len(passage.text) <= left:
                left -= len(passage.text)
                further.append(passage)
        filled.append(replace(shown, further=tuple(further)))
    return filled


def excerpt(text: str, words: Sequence[str], chars: int) -> str:
    """At most so many characters of a text, in whole sentences or lines: the stretch with most of the words."""
    if len(text) <= chars:
        return text
    spans = _spans(text)
    stems = [word.lower().rstrip("*")[:5] for word in words]
    worth = [sum(stem in text[start:end].lower() for stem in stems) for start, end in spans]
    best, best_span = -1, (0, chars)
    for first, (start, _) in enumerate(spans):
        last = first
        while last + 1 < len(spans) and spans[last + 1][1] - start <= chars - 2:
            last += 1
        total = sum(worth[first : last + 1])
        if total > best:
            best, best_span = total, (start, min(spans[last][1], start + max(chars - 2, 0)))
    start, end = best_span
    return ("…" if start else "") + text[start:end].strip() + ("…" if end < len(text) else "") if chars > 2 else ""


def _spans(text: str) -> list[tuple[int, int]]:
    edges = [0, *(match.end() for match in _BLOCK.finditer(text)), len(text)]
    return [(start, end) for start, end in pairwise(edges) if end > start]
