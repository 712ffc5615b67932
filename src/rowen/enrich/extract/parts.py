"""A long page in parts: cut along its headings, each part with those that stand above it."""

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

__all__ = ["cut"]

_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_FENCE = re.compile(r"\s*(```|~~~)")


class _Section(NamedTuple):
    """A heading with what follows it, and the headings above."""

    above: tuple[str, ...]
    text: str


def cut(text: str, most_chars: int) -> list[str]:
    """The parts of a text, none longer than that; neighbouring sections share a part as long as they fit."""
    if len(text) <= most_chars:
        return [text]
    parts: list[str] = []
    for section in _sections(text):
        for piece in _pieces(section, most_chars):
            if parts and len(parts[-1]) + len(piece) + 2 <= most_chars:
                # The part has its headings from its first section; what follows in the text needs them no more.
                parts[-1] += "\n\n" + piece.removeprefix("\n\n".join(section.above)).lstrip("\n")
            else:
                parts.append(piece)
    return parts


def _sections(text: str) -> Iterator[_Section]:
    path: list[tuple[int, str]] = []
    above: tuple[str, ...] = ()
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fenced ^= bool(_FENCE.match(line))
        found = None if fenced else _HEADING.match(line)
        if found:
            if lines:
                yield _Section(above, "\n".join(lines))
            depth = len(found[1])
            path = [one for one in path if one[0] < depth]
            above, lines = tuple(words for _, words in path), []
            path.append((depth, line))
        lines.append(line)
    if lines:
        yield _Section(above, "\n".join(lines))


def _pieces(section: _Section, most_chars: int) -> Iterator[str]:
    """A section with its headings; one that is too long is cut at blank lines, at lines, at last anywhere."""
    head = "\n\n".join(section.above)
    # Headings that fill a quarter of a part are left out.
    head = head + "\n\n" if head and len(head) < most_chars // 4 else ""
    room = most_chars - len(head)
    held = ""
    for block in _blocks(section.text, room):
        if held and len(held) + len(block) > room:
            yield head + held.strip("\n")
            held = ""
        held += block
    if held.strip():
        yield head + held.strip("\n")


def _blocks(text: str, room: int) -> Iterator[str]:
    for paragraph in re.split(r"(?<=\n\n)", text):
        if len(paragraph) <= room:
            yield paragraph
            continue
        for line in paragraph.splitlines(keepends=True):
            for begin in accumulate([0] + [room] * (len(line) // room)):
                if begin < len(line):
                    yield line[begin : begin + room]
