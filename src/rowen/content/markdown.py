"""Markdown: reads files with front matter, and finds blocks, headings with their anchors, and links."""

import re
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

import ada_url

from rowen.content.base import Part
from rowen.model.text import LONGEST_HEADING, LONGEST_URL, MOST_LINK_CHARS, heading_within

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
# A shorter list is one block; in a longer one each item is a block.
_SPLIT_LIST_ABOVE = 400
# A longer paragraph above dashes is text above a rule, not a heading.
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
    """Escape characters that would turn a line into a heading, list, table, quote or rule."""
    return _ESCAPED_NUMBER.sub(r"\1\\", _LINE_MARK.sub(r"\\", text))


def read_markdown(text: str) -> Part:
    """Read a Markdown file; without a title in its front matter, the first heading of level 1 is the title."""
    fields: dict[str, list[str]] = {}
    if front := _FRONT_MATTER.match(text):
        fields = _front_matter(front[1])
        text = text[front.end() :]
    languages = (fields[key][0] for key in ("language", "lang", "locale") if fields.get(key))
    return Part(
        text=text,
        title=next(iter(fields.get("title", ())), "") or first_heading(text, only_level=1),
        tags=tuple(fields.get("tags", []) + fields.get("keywords", []) + fields.get("categories", [])),
        language=next(languages, "") or None,
    )


def _front_matter(source: str) -> dict[str, list[str]]:
    """Read `key: value`, `key: [a, b]`, and `key:` followed by a list; ignore anything else."""
    fields: dict[str, list[str]] = {}
    key = ""
    for line in source.split("\n"):
        if match := _KEY.match(line):
            key = match[1].strip().lower()
            value = (match[2] or "").strip()
            is_list = value.startswith("[") and value.endswith("]")
            if is_list or (key in ("tags", "keywords", "categories") and "," in value):
                parts = (value[1:-1] if is_list else value).split(",")
                fields[key] = [word for part in parts if (word := _unquoted(part))]
            else:
                word = _unquoted(value)
                fields[key] = [word] if word not in ("", "|", ">", "|-", ">-") else []
        elif key and (item := _ITEM.match(line)):
            fields[key].append(_unquoted(item[1]))
    return fields


def _unquoted(source: str) -> str:
    value = source.strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return _COMMENT.sub("", value).strip() if not value.startswith("#") else ""


def read_plain(text: str) -> Part:
    """Read plain text; `#` at the start of a line is escaped, since it does not start a heading."""
    return Part(text=_HASHES.sub(r"\\", text))


def markdown_links(text: str, url: str) -> tuple[str, ...]:
    """Return the links of a Markdown page: absolute, without fragments, each once; links in code are ignored."""
    links: dict[str, None] = {}
    left_chars = MOST_LINK_CHARS + LONGEST_URL
    for block in scan(text):
        if block.kind is BlockKind.FENCE or left_chars < 0:
            continue
        for target in _link_targets(text, block.start, block.end):
            with suppress(ValueError):
                link = str(ada_url.join_url(url, target)).partition("#")[0]
                if link.startswith(("http://", "https://")) and link not in links and left_chars >= 0:
                    links[link] = None
                    left_chars -= len(link)
    return tuple(links)


def _link_targets(text: str, at: int, end: int) -> Iterator[str]:
    """Yield the targets of `[text](target)` and `<https://target>` in one pass; images are left out."""
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
    """Finds the next position of a character; caches it so that a scan takes linear time."""

    def __init__(self, text: str, character: str, end: int) -> None:
        self._text, self._character, self._end = text, character, end
        self._position = -1

    def after(self, at: int) -> int:
        """Return the next position from `at` on, or the end of the text; `at` must never decrease."""
        if self._position < at:
            position = self._text.find(self._character, at, self._end)
            self._position = position if position >= 0 else self._end
        return self._position


def first_heading(text: str, *, only_level: int | None = None) -> str:
    """Return the text of the first heading, only of level `only_level` if it is given; empty if there is none."""
    for block in scan(text):
        if block.kind is BlockKind.HEADING and only_level in (None, block.level):
            return title_and_anchor(text[block.start : block.end])[0]
    return ""


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
    """Return all blocks of a text, in order; every line that is not blank belongs to exactly one block."""
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
    """Reads a text line by line; the open block is the span from `start` to `end`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.blocks: list[Block] = []
        self.kind: BlockKind | None = None
        self.start = self.end = self.lines = 0
        self.last_start = self.last_but_one_end = 0
        self.after_blank = False
        self.fence = ""
        # True inside a fence that is not part of a list: lines without the fence's mark are skipped.
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
        if self.fence:
            if self.kind is not BlockKind.LIST or indent > self.base:
                if body.startswith(self.fence) and not body.rstrip().strip(self.fence[0]):
                    self.fence = ""
                    self.skips = False
                self._extend(position, line)
                return
            self.fence = ""
        if self.kind is not BlockKind.LIST:
            self._outside_list(line, body, indent, position)
            return
        opening = _OPEN.match(body) if body[0] in _MARKS else None
        mark = opening.lastgroup if opening else None
        if indent > self.base:
            self.fence = opening[0] if opening and mark == "fence" else ""
        elif mark == "item":
            self.items.append((self.start, self.end))
            self.start = position
            self.base = indent
        elif self.after_blank or mark in ("heading", "fence", "table"):
            self.close()
            self._outside_list(line, body, indent, position)
            return
        self._extend(position, line)

    def close(self) -> None:
        """End the open block."""
        if self.skips:
            self.end = len(self.text.rstrip())
        if self.kind is BlockKind.LIST:
            items = [*self.items, (self.start, self.end)]
            if self.end - items[0][0] <= _SPLIT_LIST_ABOVE:
                items = [(items[0][0], self.end)]
            self.blocks.extend(Block(BlockKind.LIST, 0, start, end) for start, end in items)
        elif self.kind is not None:
            self.blocks.append(Block(self.kind, 0, self.start, self.end))
        self.kind = None
        self.fence = ""
        self.skips = False

    def blank(self) -> None:
        """Handle a blank line, which ends most blocks."""
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

    def _outside_list(self, line: str, body: str, indent: int, position: int) -> None:
        if self.kind is BlockKind.FENCE:
            self.close()
        opening = _OPEN.match(body) if indent < 4 and body[0] in _MARKS else None
        in_paragraph = self.kind is BlockKind.PARAGRAPH
        match opening.lastgroup if opening else None:
            case "heading":
                self.close()
                self._heading(len(opening[0]) if opening else 0, position, position, line)
            case "underline" if in_paragraph and self.lines <= 3 and self.end - self.start <= _LONGEST_SETEXT:
                self._heading(1 if body[0] == "=" else 2, self.start, position, line)
            case "fence":
                self._begin(BlockKind.FENCE, position, line)
                self.fence = opening[0] if opening else ""
                self.skips = True
            case "table" if self.kind is not BlockKind.TABLE:
                self._begin(BlockKind.TABLE, position, line)
            # CommonMark 5.3: an ordered list may interrupt a paragraph only if it starts with 1.
            case "item" if not in_paragraph or not body[0].isdigit() or body[:2] in ("1.", "1)"):
                self._begin(BlockKind.LIST, position, line)
                self.base = indent
                self.items = []
            case _ if self.kind is BlockKind.TABLE and "|" in line:
                self._extend(position, line)
            case _ if not in_paragraph:
                self._begin(BlockKind.PARAGRAPH, position, line)
            case _:
                if "|" in body and "|" in self.text[self.last_start : self.end] and _DELIMITER_ROW.match(body):
                    # This line is a delimiter row, so the line before was the head of a table.
                    if self.lines > 1:
                        self.blocks.append(Block(BlockKind.PARAGRAPH, 0, self.start, self.last_but_one_end))
                    self.kind, self.start = BlockKind.TABLE, self.last_start
                self._extend(position, line)

    def _heading(self, level: int, start: int, position: int, line: str) -> None:
        self.kind = None
        self.blocks.append(Block(BlockKind.HEADING, level, start, position + len(line.rstrip())))
        self.after_blank = False


def title_and_anchor(source: str) -> tuple[str, str | None]:
    """Return the text of a heading without links, emphasis and escapes, and the anchor in `{#id}` or None."""
    source = source[: 4 * LONGEST_HEADING].strip()
    words = source.lstrip("#") if source.startswith("#") else source.rpartition("\n")[0] or source
    line = " ".join(words.split())
    if not _MARKED.search(line):
        return heading_within(line), None
    anchor = None
    if line[-1] == "}" and (match := _ANCHOR.search(line)):
        anchor, line = match[1], line[: match.start()]
    if line.endswith("#"):
        line = _CLOSING.sub("", line)
    if "[" in line:
        line = _IMAGE_OR_LINK.sub(r"\1", line)
    if "*" in line or "_" in line:
        line = _EMPHASIS.sub(lambda match: match[2] or match[4], line)
    line = line.replace("`", "")
    return heading_within((_ESCAPE.sub(r"\1", line) if "\\" in line else line).strip()), anchor


class Slugs:
    """Derives anchors from headings as GitHub does; an anchor that occurs again gets a number."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def of(self, title: str) -> str:
        """Return the anchor of the next heading of the document."""
        slug = _NOT_IN_SLUG.sub("", title.lower()).replace(" ", "-")
        count = self._seen.get(slug, 0)
        self._seen[slug] = count + 1
        return f"{slug}-{count}" if count else slug


class Trail:
    """The headings above a position in a document."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []
        self._slugs = Slugs()
        self.anchor: str | None = None

    def enter(self, level: int, source: str) -> None:
        """Add a heading, which ends all headings of the same and of lower levels."""
        title, anchor = title_and_anchor(source)
        slug = self._slugs.of(title)
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        self._open.append((level, title))
        self.anchor = anchor or slug or None

    @property
    def path(self) -> tuple[str, ...]:
        """Return the titles of the headings, from the outermost to the innermost."""
        return tuple(title for _, title in self._open if title)
