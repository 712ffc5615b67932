"""Markdown files: what their front matter says, their title, and the text below."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

import ada_url

from rowen.content.base import Part
from rowen.content.blocks import BlockKind, scan
from rowen.content.headings import title_and_anchor
from rowen.model.text import LONGEST_URL, MOST_LINK_CHARS

__all__ = ["escaped", "first_heading", "markdown_links", "read_markdown", "read_plain"]

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


def escaped(text: str) -> str:
    """The same words, none of which makes a heading, list, table, quote or rule of its line."""
    return _ESCAPED_NUMBER.sub(r"\1\\", _LINE_MARK.sub(r"\\", text))


def read_markdown(text: str) -> Part:
    """Front matter is taken out of the text; without a title in it, the first heading of level 1 is the title."""
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
    """Where a Markdown page of the web leads to: absolute, without fragments, each once; code leads nowhere."""
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
    """The places of `[words](place)` and `<https://place>`, in one pass; those of images are left out."""
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
    """Where a character stands next, looked for once however often it is asked for."""

    def __init__(self, text: str, character: str, end: int) -> None:
        self._text, self._character, self._end = text, character, end
        self._found = -1

    def after(self, at: int) -> int:
        """Its next place from here on, which is never before that of the last question; the end if there is none."""
        if self._found < at:
            found = self._text.find(self._character, at, self._end)
            self._found = found if found >= 0 else self._end
        return self._found


def read_plain(text: str) -> Part:
    """Text that is no Markdown: a line that starts with `#` is not a heading there."""
    return Part(text=_HASHES.sub(r"\\", text))


def first_heading(text: str, *, only_level: int | None = None) -> str:
    """The title of the first heading, of one level if so asked; empty if there is none."""
    for block in scan(text):
        if block.kind is BlockKind.HEADING and only_level in (None, block.level):
            return title_and_anchor(text[block.start : block.end])[0]
    return ""


def _front_matter(lines: Iterable[str]) -> dict[str, list[str]]:
    """`key: value`, `key: [a, b]` and `key:` with a list below; anything else is passed over."""
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
