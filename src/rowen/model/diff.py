"""What changed between two texts, line by line and, within a changed line, word by word."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from rowen.model.extraction import FieldChange

__all__ = ["DiffForm", "DiffLine", "DiffPiece", "FieldDiff", "Hunk", "ItemDiff", "LineKind", "hunks_of"]

DiffForm: TypeAlias = Literal["unified", "html"]
LineKind: TypeAlias = Literal["same", "removed", "added"]

# As many lines of context as patches have: enough to find the place, at twice as much the change drowns.
_CONTEXT = 3
# Words of longer lines are not compared: the time grows with the square, and such a line is data, not prose.
_LONGEST_LINE = 4_000
# Lines that share fewer words are told as one that went and one that came: a patchwork of words says less.
_LEAST_ALIKE = 0.4
_WORD = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class DiffPiece:
    """A part of a line, and whether it differs."""

    text: str
    changed: bool = False


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line that stayed, went or came, with its number before and after."""

    kind: LineKind
    pieces: tuple[DiffPiece, ...]
    older: int | None = None
    newer: int | None = None

    @property
    def text(self) -> str:
        """The whole line."""
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that changed, with some around them."""

    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class ItemDiff:
    """What changed between two revisions of an item; revision 0 is nothing at all."""

    url: str
    source: str
    older: int
    newer: int
    title: tuple[str, str]
    tags_added: tuple[str, ...]
    tags_removed: tuple[str, ...]
    hunks: tuple[Hunk, ...]


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """What changed in the record of an item, or in the facts that it yields under a schema (`of`), field by field.

    `older_at` and `newer_at` are when either version was last written; `older_at` is None where there was none before.
    """

    url: str
    source: str
    of: str
    older_at: datetime | None
    newer_at: datetime
    fields: tuple[FieldChange, ...]


def hunks_of(before: str, after: str) -> tuple[Hunk, ...]:
    """The places where two texts differ."""
    older, newer = before.splitlines(), after.splitlines()
    matcher = SequenceMatcher(None, older, newer)
    return tuple(
        Hunk(tuple(line for step in group for line in _lines(step, older, newer)))
        for group in matcher.get_grouped_opcodes(_CONTEXT)
    )


_Step: TypeAlias = tuple[str, int, int, int, int]


def _lines(step: _Step, older: Sequence[str], newer: Sequence[str]) -> Iterator[DiffLine]:
    tag, first, last, start, end = step
    if tag == "equal":
        for offset, text in enumerate(older[first:last]):
            yield DiffLine("same", (DiffPiece(text),), first + offset + 1, start + offset + 1)
        return
    gone, come = older[first:last], newer[start:end]
    # Only where as many lines went as came is it clear which of them became which.
    pairs = [_pieces(a, b) for a, b in zip(gone, come, strict=True)] if len(gone) == len(come) else []
    for offset, text in enumerate(gone):
        yield DiffLine("removed", pairs[offset][0] if pairs else (DiffPiece(text, True),), first + offset + 1, None)
    for offset, text in enumerate(come):
        yield DiffLine("added", pairs[offset][1] if pairs else (DiffPiece(text, True),), None, start + offset + 1)


def _pieces(before: str, after: str) -> tuple[tuple[DiffPiece, ...], tuple[DiffPiece, ...]]:
    """Two lines in pieces that stayed and pieces that differ."""
    whole = (DiffPiece(before, True),), (DiffPiece(after, True),)
    if max(len(before), len(after)) > _LONGEST_LINE:
        return whole
    older, newer = _WORD.findall(before), _WORD.findall(after)
    matcher = SequenceMatcher(None, older, newer, autojunk=False)
    if matcher.ratio() < _LEAST_ALIKE:
        return whole
    removed: list[DiffPiece] = []
    added: list[DiffPiece] = []
    for tag, first, last, start, end in matcher.get_opcodes():
        changed = tag != "equal"
        removed += [DiffPiece("".join(older[first:last]), changed)] if last > first else []
        added += [DiffPiece("".join(newer[start:end]), changed)] if end > start else []
    return tuple(removed), tuple(added)
