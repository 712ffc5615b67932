"""Markdown files: what their front matter says, their title, and the text below."""

import re
from collections.abc import Iterable
from contextlib import suppress

import ada_url

from rowen.content.blocks import Kind, scan
from rowen.content.headings import title_and_anchor
from rowen.content.part import Part
from rowen.model.caps import LONGEST_URL, MOST_LINK_CHARS

__all__ = ["first_heading", "markdown_links", "read_markdown", "read_plain"]

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"([A-Za-z_][\w .-]*?)[ \t]*:(?:[ \t]+(.*)|[ \t]*)$")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)$")
_COMMENT = re.compile(r"[ \t]+#.*$")
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(\s*<?([^\s<>()]+)>?[^)\n]*\)|<(https?://[^\s<>]+)>")
_HASHES = re.compile(r"^(?=[ ]{0,3}#{1,6}[ \t])", re.MULTILINE)


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
        if block.kind is Kind.FENCE or left_chars < 0:
            continue
        for inline, bare in _LINK.findall(text, block.start, block.end):
            with suppress(ValueError):
                link = str(ada_url.join_url(url, inline or bare)).partition("#")[0]
                if link.startswith(("http://", "https://")) and link not in found and left_chars >= 0:
                    found[link] = None
                    left_chars -= len(link)
    return tuple(found)


def read_plain(text: str) -> Part:
    """Text that is no Markdown: a line that starts with `#` is not a heading there."""
    return Part(text=_HASHES.sub(r"\\", text))


def first_heading(text: str, *, only_level: int | None = None) -> str:
    """The title of the first heading, of one level if so asked; empty if there is none."""
    for block in scan(text):
        if block.kind is Kind.HEADING and only_level in (None, block.level):
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
