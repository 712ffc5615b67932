"""Markdown of others as HTML that can do no harm: no markup of its own, no picture, no link but to the web."""

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from rowen.interfaces.web.addresses import joined

__all__ = ["first_part", "prose"]

# With its shell, a page stays below 60 kB, which a slow line has in a second; twice that is felt.
MOST_HTML = 45_000
# Where a text may be cut: between blocks.
_BLANK = re.compile(r"\n\s*\n")
# A part of a text that is tried first; most text grows by a tenth as HTML.
MOST_CHARS = 36_000
# Below this a part says nothing; what still grows so much is a table of empty cells, and is shown as it is written.
LEAST_CHARS = 2_000


class _Renderer(RendererHTML):
    """Headings one step lower, since the page has the first; pictures as links to them."""

    def heading_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"<h{_lower(tokens[idx].tag)}>"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"</h{_lower(tokens[idx].tag)}>\n"

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        href = joined(env["base"], str(tokens[idx].attrGet("href") or ""))
        return str(Markup('<a href="{}" rel="noreferrer nofollow">').format(href)) if href else "<a>"

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        told = tokens[idx].content or "picture"
        return str(Markup('<span class="quiet">[{}]</span>').format(told))


def _lower(tag: str) -> int:
    return min(6, int(tag[1:]) + 1)


_MARKDOWN = MarkdownIt("commonmark", {"html": False, "linkify": False}, renderer_cls=_Renderer).enable("table")


def prose(text: str, base: str) -> Markup:
    """A text as HTML; `base` is the address that its links are relative to."""
    return Markup(_MARKDOWN.render(text, {"base": base}))  # noqa: S704 (the renderer escapes; markup is off)


def first_part(text: str, base: str, start: int = 0) -> tuple[Markup, int | None]:
    """What of a text fits into one page, from a character on, and where the next page begins."""
    most = MOST_CHARS
    while True:
        end = _cut(text, start, most)
        html = prose(text[start:end], base)
        if len(html.encode()) <= MOST_HTML:
            break
        if most <= LEAST_CHARS:
            html = Markup("<pre>{}</pre>").format(escape(text[start:end]))
            break
        most //= 2
    return html, end if end < len(text) else None


def _cut(text: str, start: int, most: int) -> int:
    """The end of a part: at a blank line, if there is one in its second half."""
    if len(text) - start <= most:
        return len(text)
    blanks = [found.end() for found in _BLANK.finditer(text, start + most // 2, start + most)]
    return blanks[-1] if blanks else start + most
