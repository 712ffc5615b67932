"""Descriptions as text: catalogs hold HTML, Markdown and plain words in the same field."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turbohtml import Node

__all__ = ["has_markup", "one_line", "plain"]

_TAG = re.compile(r"</?[a-zA-Z][^<>]*>|<!--")
_ENTITY = re.compile(r"&(?:#\d+|#x[0-9a-fA-F]+|[a-zA-Z]\w{1,30});")
# HTML 13.2.4.3: a parser opens these anew in each paragraph that they reach into, all of them, which takes it 30 µs a
# byte of a hostile text. They say nothing here.
_FORMATTING = re.compile(
    r"</?(?:a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)(?=[\s/>])(?:[^<>\"']++|\"[^\"]*+\"|'[^']*+')*+>",
    re.IGNORECASE,
)
LONGEST_MARKUP = 1_000_000
"""Characters. Parsed where other work waits for it, at 0.3 µs each; no description is so long."""

_DROPPED = frozenset({"script", "style", "template", "noscript", "head", "title"})
_BLOCKS = frozenset(
    {
        "address",
        "article",
        "blockquote",
        "dd",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figure",
        "footer",
        "form",
        "header",
        "hr",
    }
    | {"h1", "h2", "h3", "h4", "h5", "h6", "main", "nav", "ol", "p", "pre", "section", "table", "tr", "ul"}
)
_SPACE = re.compile(r"[ \t\r\n\xa0]+")
_GAP = re.compile(r"\n{3,}")


def plain(text: str) -> str:
    """A description without tags and entities, its paragraphs and list items on lines of their own.

    What has none is left alone: it may be Markdown, whose line ends matter.
    """
    if len(text) > LONGEST_MARKUP:
        return text.strip()
    if "<" in text and _TAG.search(text):
        return _rendered(text)
    if "&" in text and _ENTITY.search(text):
        return _rendered(text.replace("<", "&lt;").replace("\n", "<br>"))
    return text.strip()


def one_line(text: str) -> str:
    """A name, a title or a short statement: the same in one line."""
    return " ".join(plain(text).split())


def has_markup(text: str) -> bool:
    """Whether there are tags in a text."""
    return "<" in text and _TAG.search(text) is not None


def _rendered(html: str) -> str:
    # Most runs of a catalog meet no markup, since nothing changed: the parser takes 50 ms to import.
    from turbohtml import parse_fragment

    parts: list[str] = []
    _write(parse_fragment(_FORMATTING.sub("", html)), parts)
    lines = [line.strip(" ") for line in "".join(parts).split("\n")]
    return _GAP.sub("\n\n", "\n".join(lines)).strip()


def _write(root: "Node", parts: list[str]) -> None:
    """Walk the tree without recursion: markup can be nested deeper than Python calls may be."""
    from turbohtml import Element, Text

    waiting: list[Node | str] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            parts.append(node)
        elif isinstance(node, Text):
            parts.append(_SPACE.sub(" ", node.data))
        elif not isinstance(node, Element):
            waiting.extend(reversed(list(node.children)))
        elif node.tag not in _DROPPED:
            before, after = _around(node.tag)
            waiting.append(after)
            waiting.extend(reversed(list(node.children)))
            parts.append(before)


def _around(tag: str) -> tuple[str, str]:
    if tag in _BLOCKS:
        return "\n\n", "\n\n"
    if tag == "br":
        return "\n", ""
    if tag == "li":
        return "\n- ", ""
    return ("", " ") if tag in ("td", "th") else ("", "")
