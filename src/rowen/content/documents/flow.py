"""The blocks of a document in their order, written as plain HTML: what turns pages into Markdown does the rest."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from rowen.model.text import spend

__all__ = ["Cell", "TextFlow", "TextRun", "inline"]

_FOLLOWED = ("http://", "https://", "mailto:")


class TextRun(NamedTuple):
    """Some words of one look; a line end in them is one on the page."""

    text: str
    bold: bool = False
    italic: bool = False
    raised: bool = False
    href: str = ""


class Cell(NamedTuple):
    """A cell of a table, as HTML, and how many columns it spans."""

    html: str
    span: int = 1


def inline(runs: Iterable[TextRun], *, plain: bool = False) -> str:
    """Runs as HTML. Programs cut words into runs as they like, so neighbours of one look are joined first."""
    parts = []
    for look, group in groupby(runs, key=lambda run: run[1:]):
        text = "".join(run.text for run in group)
        parts.append(_marked(text, TextRun("", *look)) if not plain else escape(text))
        spend(len(parts[-1]))
    return "".join(parts).strip().replace("\n", " " if plain else "<br>")


def _marked(text: str, look: TextRun) -> str:
    words = text.strip()
    if not words:
        return text
    before, after = text[: text.index(words)], text[text.index(words) + len(words) :]
    html = escape(words)
    for tag, wanted in (("sup", look.raised), ("em", look.italic), ("strong", look.bold)):
        html = f"<{tag}>{html}</{tag}>" if wanted else html
    if look.href.startswith(_FOLLOWED):
        html = f'<a href="{escape(look.href)}">{html}</a>'
    return before + html + after


class TextFlow:
    """Takes blocks one by one; lists, code and quotes end by themselves where another block begins."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._lists: list[str] = []
        self._code: list[str] = []

    def heading(self, level: int, html: str) -> None:
        """A heading of level 1 to 6."""
        level = min(6, max(1, level))
        self._block(f"<h{level}>{html}</h{level}>" if html else "")

    def paragraph(self, html: str) -> None:
        """A paragraph."""
        self._block(f"<p>{html}</p>" if html else "")

    def quote(self, html: str) -> None:
        """A paragraph of somebody else."""
        self._block(f"<blockquote><p>{html}</p></blockquote>" if html else "")

    def code(self, line: str) -> None:
        """A line, or some, of code; those that follow each other are one block."""
        self._end_lists()
        self._code.append(line)

    def item(self, level: int, html: str, *, number: int | None = None) -> None:
        """An item of a list, numbered or not; level 0 is the outermost."""
        if not html:
            return
        self._end_code()
        tag = "ul" if number is None else "ol"
        level = min(level, len(self._lists))
        while len(self._lists) > level + 1 or (len(self._lists) == level + 1 and self._lists[-1] != tag):
            self._parts.append(f"</li></{self._lists.pop()}>")
        if len(self._lists) == level + 1:
            self._parts.append("</li>")
        else:
            self._lists.append(tag)
            self._parts.append(f'<ol start="{number}">' if number is not None else "<ul>")
        self._parts.append(f"<li>{html}")

    def table(self, rows: Sequence[Sequence[Cell]]) -> None:
        """A table whose first row is its head; a table of a single cell is only a frame around it."""
        filled = [row for row in rows if any(cell.html for cell in row)]
        if len(filled) == 1 and len(filled[0]) == 1:
            self._block(f"<div>{filled[0][0].html}</div>")
        elif filled:
            self._block("".join(("<table>", *map(_row, filled), "</table>")))

    def slide(self, number: int, title: str, content: "TextFlow") -> None:
        """What is on a slide, under its title; one without a word leaves no trace."""
        html = content.html()
        if title or html:
            self.heading(2, title or f"Slide {number}")
            self._block(html)

    def html(self) -> str:
        """All blocks up to here."""
        self._end_lists()
        self._end_code()
        return "\n".join(self._parts)

    def _block(self, html: str) -> None:
        if html:
            self._end_lists()
            self._end_code()
            self._parts.append(html)

    def _end_lists(self) -> None:
        while self._lists:
            self._parts.append(f"</li></{self._lists.pop()}>")

    def _end_code(self) -> None:
        if self._code:
            code = escape("\n".join(self._code).strip("\n"))
            # A parser drops the line end that follows the tag.
            self._parts.append(f"<pre>\n{code}</pre>")
            self._code.clear()


def _row(cells: Sequence[Cell]) -> str:
    return "".join(("<tr>", *_cells(cells), "</tr>"))


def _cells(cells: Sequence[Cell]) -> Iterator[str]:
    for cell in cells:
        spend(len("<td></td>"))
        yield f'<td colspan="{cell.span}">{cell.html}</td>' if cell.span > 1 else f"<td>{cell.html}</td>"
