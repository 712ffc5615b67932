"""The blocks of a Markdown text: headings, fences, tables, lists and paragraphs, as spans of it."""

import re
from enum import Enum
from typing import NamedTuple

__all__ = ["Block", "BlockKind", "scan"]

# A shorter list is one block; of a longer one each item is.
_SPLIT_LIST_ABOVE = 400
# A longer paragraph above dashes is text above a rule, and no heading.
_LONGEST_SETEXT = 300

_MARKS = frozenset("#`~|-*+=0123456789")
_OPEN = re.compile(
    r"(?P<heading>\#{1,6})(?=[ \t]|$)"
    r"|(?P<fence>`{3,}(?=[^`]*$)|~{3,})"
    r"|(?P<table>\|)"
    r"|(?P<underline>={2,}|-{2,})[ \t]*$"
    r"|(?P<item>[-*+]|\d{1,9}[.)])(?=[ \t]|$)"
)
_DELIMITER_ROW = re.compile(r"(?=[ \t:|]*+-)[ \t:|-]*+$")


class BlockKind(Enum):
    """What a block is."""

    HEADING = "heading"
    FENCE = "fence"
    TABLE = "table"
    LIST = "list"
    PARAGRAPH = "paragraph"


class Block(NamedTuple):
    """One block: `text[start:end]`, without the blank lines around it."""

    kind: BlockKind
    level: int
    start: int
    end: int


def scan(text: str) -> list[Block]:
    """All blocks of a text, in order. Every line that is not blank is in exactly one of them."""
    scanner = _Scanner(text)
    position = 0
    for line in text.split("\n"):
        if not line:
            scanner.blank()
        elif not scanner.skips or scanner.fence in line:
            scanner.feed(line, position)
        position += len(line) + 1
    scanner.close()
    return scanner.blocks


class _Scanner:
    """Reads line by line; what is open is the span from `start` to `end`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.blocks: list[Block] = []
        self.kind: BlockKind | None = None
        self.start = self.end = self.lines = 0
        self.last_start = self.last_but_one_end = 0
        self.after_blank = False
        self.fence = ""
        # Inside a fence that stands by itself, lines without its mark need no look.
        self.skips = False
        self.base = 0
        self.items: list[tuple[int, int]] = []

    def feed(self, line: str, position: int) -> None:
        body = line.lstrip()
        if not body:
            self.blank()
            return
        indent = len(line) - len(body)
        if indent and "\t" in line[:indent]:
            indent = len(line[:indent].expandtabs(4))
        if self.fence and self._still_fenced(body, indent):
            self._extend(position, line)
        elif self.kind is BlockKind.LIST:
            self._in_list(line, body, indent, position)
        else:
            self._outside_list(line, body, indent, position)

    def close(self) -> None:
        """End the open block."""
        if self.skips:
            self.end = len(self.text.rstrip())
        if self.kind is BlockKind.LIST:
            self._close_list()
        elif self.kind is not None:
            self.blocks.append(Block(self.kind, 0, self.start, self.end))
        self.kind = None
        self.fence = ""
        self.skips = False

    def blank(self) -> None:
        """Pass a blank line, which ends most blocks."""
        self.after_blank = True
        if self.kind is not BlockKind.LIST and not self.fence:
            self.close()

    def _begin(self, kind: BlockKind, position: int, line: str) -> None:
        self.close()
        self.kind = kind
        self.start = position
        self.lines = 0
        self._extend(position, line)

    def _extend(self, position: int, line: str) -> None:
        self.last_start, self.last_but_one_end = position, self.end
        self.end = position + len(line.rstrip())
        self.lines += 1
        self.after_blank = False

    def _still_fenced(self, body: str, indent: int) -> bool:
        if self.kind is BlockKind.LIST and indent <= self.base:
            self.fence = ""
            return False
        if body.startswith(self.fence) and not body.rstrip().strip(self.fence[0]):
            self.fence = ""
            self.skips = False
        return True

    def _in_list(self, line: str, body: str, indent: int, position: int) -> None:
        found = _OPEN.match(body) if body[0] in _MARKS else None
        mark = found.lastgroup if found else None
        if indent > self.base:
            if found and mark == "fence":
                self.fence = found[0]
            self._extend(position, line)
        elif mark == "item":
            self.items.append((self.start, self.end))
            self.start = position
            self.base = indent
            self._extend(position, line)
        elif self.after_blank or mark in ("heading", "fence", "table"):
            self.close()
            self._outside_list(line, body, indent, position)
        else:
            self._extend(position, line)

    def _outside_list(self, line: str, body: str, indent: int, position: int) -> None:
        if self.kind is BlockKind.FENCE:
            self.close()
        found = _OPEN.match(body) if indent < 4 and body[0] in _MARKS else None
        match found.lastgroup if found else None:
            case "heading":
                self._heading(len(found[0]) if found else 0, position, line)
            case "fence":
                self._begin(BlockKind.FENCE, position, line)
                self.fence = found[0] if found else ""
                self.skips = True
            case "table" if self.kind is not BlockKind.TABLE:
                self._begin(BlockKind.TABLE, position, line)
            case "underline" if self._underlines():
                self._heading(1 if body[0] == "=" else 2, self.start, line, position)
            case "item" if self._may_start_list(body):
                self._begin(BlockKind.LIST, position, line)
                self.base = indent
                self.items = []
            case _:
                self._prose(line, body, position)

    def _heading(self, level: int, start: int, line: str, position: int | None = None) -> None:
        if position is None:
            self.close()
        self.kind = None
        end = (start if position is None else position) + len(line.rstrip())
        self.blocks.append(Block(BlockKind.HEADING, level, start, end))
        self.after_blank = False

    def _underlines(self) -> bool:
        return self.kind is BlockKind.PARAGRAPH and self.lines <= 3 and self.end - self.start <= _LONGEST_SETEXT

    def _may_start_list(self, body: str) -> bool:
        # CommonMark 5.3: of ordered lists, only one that starts with 1 may interrupt a paragraph.
        return self.kind is not BlockKind.PARAGRAPH or not body[0].isdigit() or body[:2] in ("1.", "1)")

    def _prose(self, line: str, body: str, position: int) -> None:
        if self.kind is BlockKind.TABLE and (body[0] == "|" or "|" in line):
            self._extend(position, line)
        elif self.kind is not BlockKind.PARAGRAPH:
            self._begin(BlockKind.PARAGRAPH, position, line)
        elif "|" in body and "|" in self.text[self.last_start : self.end] and _DELIMITER_ROW.match(body):
            self._table_from_last_line(line, position)
        else:
            self._extend(position, line)

    def _table_from_last_line(self, line: str, position: int) -> None:
        head = self.last_start
        if self.lines > 1:
            self.blocks.append(Block(BlockKind.PARAGRAPH, 0, self.start, self.last_but_one_end))
        self.kind = BlockKind.TABLE
        self.start = head
        self._extend(position, line)

    def _close_list(self) -> None:
        items = [*self.items, (self.start, self.end)]
        if items[-1][1] - items[0][0] <= _SPLIT_LIST_ABOVE:
            items = [(items[0][0], items[-1][1])]
        self.blocks.extend(Block(BlockKind.LIST, 0, start, end) for start, end in items)
