"""Markdown: files with front matter, the blocks of a text, headings with their anchors, and links."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

import ada_url

from rowen.content.base import Part
from rowen.model.text import LONGEST_HEADING, LONGEST_URL, MOST_LINK_CHARS, heading_within

__all__ = [
    "Block",
    "BlockKind",
    "Slugs",
    "Trail",
    "escaped",
    "first_heading",
    "markdown_links",
    "read_markdown",
    "read_plain",
    "scan",
    "title_and_anchor",
]

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"([A-Za-z_][\w .-]*+)[ \t]*+:(?:[ \t]++(.*)|[ \t]*+)$")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)$")
_COMMENT = re.compile(r"(?<![ \t])[ \t]++#.*$")
_MARK = re.compile(
    r"(?P<image>!\[)|(?P<opens>\[)|\]\(\s*+<?(?P<place>[^\s<>()]++)|<(?P<bare>https?://[^\s<>]++)>|[\]\n]"
)
_LINE_MARK = re.compile(
    r"^[ \t]*(?=#{1,6}(?:\s|$)|[>|<]|`{3}|~{3}|(?:=+|-+|_+|\*+)[ \t]*$|[-+*]\s|\d{1,9}[.)]\s)", re.MULTILINE
)
_ESCAPED_NUMBER = re.compile(r"\\(\d+)(?=[.)])")
_HASHES = re.compile(r"^(?=[ ]{0,3}#{1,6}[ \t])", re.MULTILINE)
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
_ANCHOR = re.compile(r"\s*\{#([^\s{}]+)(?: [^{}]*)?\}\s*$")
_CLOSING = re.compile(r"(?:^|[ \t])#+[ \t]*$")
_IMAGE_OR_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()\s]*(?:\([^()]*\)[^()\s]*)?(?: \"[^\"]*\")?\)|\[[^\[\]]*\])")
_EMPHASIS = re.compile(r"(?<!\\)(\*{1,3})(?=\S)([^*]+)(?<=\S)\1|(?<![\w\\])(_{1,3})(?=\S)([^_]+)(?<=\S)\3(?!\w)")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_MARKED = re.compile(r"[\[*_`\\{]|#$")
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")


def escaped(text: str) -> str:
    """Escape all that would make a heading, list, table, quote or rule of a line."""
    return _ESCAPED_NUMBER.sub(r"\1\\", _LINE_MARK.sub(r"\\", text))


def read_markdown(text: str) -> Part:
    """Read a Markdown file. Without a title in its front matter, the first heading of level 1 is the title."""
    facts: dict[str, list[str]] = {}
    if found := _FRONT_MATTER.match(text):
        facts = _front_matter(found[1].split("\n"))
        text = text[found.end() :]
    return Part(
        text=text,
        title=_first(facts, "title") or first_heading(text, only_level=1),
        tags=tuple(facts.get("tags", []) + facts.get("keywords", []) + facts.get("categories", [])),
        language=_first(facts, "language", "lang", "locale") or None,
    )


def markdown_links(text: str, url: str) -> tuple[str, ...]:
    """Return the links of a Markdown page: absolute, without fragments, each once, none from code."""
    found: dict[str, None] = {}
    left_chars = MOST_LINK_CHARS + LONGEST_URL
    for block in scan(text):
        if block.kind is BlockKind.FENCE or left_chars < 0:
            continue
        for place in _places(text, block.start, block.end):
            with suppress(ValueError):
                link = str(ada_url.join_url(url, place)).partition("#")[0]
                if link.startswith(("http://", "https://")) and link not in found and left_chars >= 0:
                    found[link] = None
                    left_chars -= len(link)
    return tuple(found)


def _places(text: str, at: int, end: int) -> Iterator[str]:
    """Yield the places of `[words](place)` and `<https://place>`, in one pass; those of images are left out."""
    is_open = False
    close, line_end = _Ahead(text, ")", end), _Ahead(text, "\n", end)
    while mark := _MARK.search(text, at, end):
        at = mark.end()
        if mark["bare"]:
            yield mark["bare"]
        elif mark["place"] and is_open and close.after(at) < line_end.after(at):
            yield mark["place"]
            at = close.after(at) + 1
        elif mark["place"]:
            at = mark.start() + 1
        is_open = bool(mark["opens"]) or (is_open and bool(mark["image"] or mark["bare"]))


class _Ahead:
    """The next position of a character, cached so that a scan stays linear."""

    def __init__(self, text: str, character: str, end: int) -> None:
        self._text, self._character, self._end = text, character, end
        self._found = -1

    def after(self, at: int) -> int:
        """Return the next position from `at` on; the end if there is none. `at` never decreases."""
        if self._found < at:
            found = self._text.find(self._character, at, self._end)
            self._found = found if found >= 0 else self._end
        return self._found


def read_plain(text: str) -> Part:
    """Read plain text, in which a line that starts with `#` is no heading."""
    return Part(text=_HASHES.sub(r"\\", text))


def first_heading(text: str, *, only_level: int | None = None) -> str:
    """Return the title of the first heading, of one level if so asked; empty if there is none."""
    for block in scan(text):
        if block.kind is BlockKind.HEADING and only_level in (None, block.level):
            return title_and_anchor(text[block.start : block.end])[0]
    return ""


def _front_matter(lines: Iterable[str]) -> dict[str, list[str]]:
    """Read `key: value`, `key: [a, b]` and `key:` with a list below; ignore anything else."""
    facts: dict[str, list[str]] = {}
    key = ""
    for line in lines:
        if found := _KEY.match(line):
            key = found[1].strip().lower()
            facts[key] = _values(found[2] or "", key)
        elif key and (item := _ITEM.match(line)):
            facts[key].append(_unquoted(item[1]))
    return facts


def _values(source: str, key: str) -> list[str]:
    value = source.strip()
    if value.startswith("[") and value.endswith("]"):
        return [word for part in value[1:-1].split(",") if (word := _unquoted(part))]
    if key in ("tags", "keywords", "categories") and "," in value:
        return [word for part in value.split(",") if (word := _unquoted(part))]
    return [value] if (value := _unquoted(value)) and value not in ("|", ">", "|-", ">-") else []


def _unquoted(source: str) -> str:
    value = source.strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return _COMMENT.sub("", value).strip() if not value.startswith("#") else ""


def _first(facts: dict[str, list[str]], *keys: str) -> str:
    return next((facts[key][0] for key in keys if facts.get(key)), "")


class BlockKind(Enum):
    """The kinds of blocks."""

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
    """Return all blocks of a text, in order. Every line that is not blank is in exactly one of them."""
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


def title_and_anchor(source: str) -> tuple[str, str | None]:
    """Return the plain words of a heading line, and the anchor that it names by `{#id}`, if it does."""
    line = _words(source[: 4 * LONGEST_HEADING].strip())
    if not _MARKED.search(line):
        return heading_within(line), None
    anchor = None
    if line[-1] == "}" and (found := _ANCHOR.search(line)):
        anchor, line = found[1], line[: found.start()]
    return heading_within(_plain(_CLOSING.sub("", line) if line.endswith("#") else line)), anchor


def _plain(line: str) -> str:
    """Return the words without links, emphasis, code marks and escapes."""
    if "[" in line:
        line = _IMAGE_OR_LINK.sub(r"\1", line)
    if "*" in line or "_" in line:
        line = _EMPHASIS.sub(lambda match: match[2] or match[4], line)
    line = line.replace("`", "")
    return (_ESCAPE.sub(r"\1", line) if "\\" in line else line).strip()


def _words(source: str) -> str:
    """Return the heading without its hashes or its underline, on one line."""
    words = source.lstrip("#") if source.startswith("#") else source.rpartition("\n")[0] or source
    return " ".join(words.split())


class Slugs:
    """Anchors as GitHub derives them from headings; a repeated one gets a number."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def of(self, title: str) -> str:
        """Return the anchor of the next heading of the document."""
        slug = _NOT_IN_SLUG.sub("", title.lower()).replace(" ", "-")
        count = self._seen.get(slug, 0)
        self._seen[slug] = count + 1
        return f"{slug}-{count}" if count else slug


class Trail:
    """The headings in force while a document is read from its top."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []
        self._slugs = Slugs()
        self.anchor: str | None = None

    def enter(self, level: int, source: str) -> None:
        """Pass a heading: it ends all headings of its level and below."""
        title, anchor = title_and_anchor(source)
        slug = self._slugs.of(title)
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        self._open.append((level, title))
        self.anchor = anchor or slug or None

    @property
    def path(self) -> tuple[str, ...]:
        """Return the titles from the outermost heading to the nearest one."""
        return tuple(title for _, title in self._open if title)
