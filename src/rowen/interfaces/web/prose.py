"""Convert foreign Markdown to safe HTML: no raw HTML, no pictures, links to the web only."""

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from rowen.interfaces.web.view import joined

# With header and footer, a page stays below 60 kB, which a slow connection loads in a second.
MOST_HTML = 45_000
# A text may be cut between blocks.
_BLANK = re.compile(r"\n\s*\n")
# The first size to try; most text grows by a tenth as HTML.
MOST_CHARS = 36_000
# A text whose HTML is still too long at this size, such as a table of empty cells, is shown as plain text.
LEAST_CHARS = 2_000


class _Renderer(RendererHTML):
    """Renders headings one level lower, since the page has its own main heading, and pictures as their captions."""

    def heading_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"<h{_lower(tokens[idx].tag)}>"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"</h{_lower(tokens[idx].tag)}>\n"

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        href = joined(env["base"], str(tokens[idx].attrGet("href") or ""))
        return str(Markup('<a href="{}" rel="noreferrer nofollow">').format(href)) if href else "<a>"

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return str(Markup('<span class="quiet">[{}]</span>').format(tokens[idx].content or "picture"))


def _lower(tag: str) -> int:
    return min(6, int(tag[1:]) + 1)


_MARKDOWN = MarkdownIt("commonmark", {"html": False, "linkify": False}, renderer_cls=_Renderer).enable("table")


def prose(text: str, base: str) -> Markup:
    """Return a text as HTML; relative links are resolved against the address `base`."""
    return Markup(_MARKDOWN.render(text, {"base": base}))  # noqa: S704 (the renderer escapes; markup is off)


def first_part(text: str, base: str, start: int = 0) -> tuple[Markup, int | None]:
    """Return the HTML of a text from `start` on, limited to one page, and the start of the next page, if any."""
    most = MOST_CHARS
    while True:
        end = len(text)
        if end - start > most:
            blanks = [match.end() for match in _BLANK.finditer(text, start + most // 2, start + most)]
            end = blanks[-1] if blanks else start + most
        html = prose(text[start:end], base)
        if len(html.encode()) <= MOST_HTML:
            break
        if most <= LEAST_CHARS:
            html = Markup("<pre>{}</pre>").format(escape(text[start:end]))
            break
        most //= 2
    return html, end if end < len(text) else None
