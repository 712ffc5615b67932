"""What readers of documents write: blocks as plain HTML for the page reader, sheets as tables, and metadata."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

from rowen.content.base import Part
from rowen.content.data import fitting_table
from rowen.content.documents.packages import ZipPackage
from rowen.content.html import read_page
from rowen.content.markdown import escaped
from rowen.model.text import left_chars, spend

__all__ = [
    "Cell",
    "Facts",
    "Row",
    "TextFlow",
    "TextRun",
    "Workbook",
    "core_facts",
    "facts_of",
    "inline",
    "part_of",
    "record_of",
]

_FOLLOWED = ("http://", "https://", "mailto:")
# More is left out, and the text says so.
MOST_CHARS = 10_000_000
# Where less than one cell in four is filled, columns are not kept apart: the table would be mostly bars.
_SPARSEST = 4
Row = Mapping[int, str]
"""The cells of a row that are not empty, by their column."""
# Programs fill in a title where the author gave none.
_PREFIX = re.compile(r"(?:Microsoft (?:Office )?(?:Word|PowerPoint|Excel)|Word Document) - ", re.IGNORECASE)
_NO_TITLE = re.compile(
    r"(?:untitled|title|document|presentation|präsentation|présentation|slide|book|mappe|dokument|folie|workbook"
    r"|powerpoint[ -]pr\S+|présentation powerpoint)?[ _-]*\d*"
    r"|\S+\.(?:docx?|dotx?|xlsx?|pptx?|odt|ods|odp|rtf|pdf|tex|dvi|indd|qxp|pages|txt|html?)",
    re.IGNORECASE,
)
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")


class TextRun(NamedTuple):
    """Text of one format; a line end in it is one on the page."""

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
        """Add a heading of level 1 to 6."""
        level = min(6, max(1, level))
        self._block(f"<h{level}>{html}</h{level}>" if html else "")

    def paragraph(self, html: str) -> None:
        """Add a paragraph."""
        self._block(f"<p>{html}</p>" if html else "")

    def quote(self, html: str) -> None:
        """Add a quoted paragraph."""
        self._block(f"<blockquote><p>{html}</p></blockquote>" if html else "")

    def code(self, line: str) -> None:
        """Add lines of code; adjacent ones become one block."""
        self._end_lists()
        self._code.append(line)

    def item(self, level: int, html: str, *, number: int | None = None) -> None:
        """Add an item of a list, numbered or not; level 0 is the outermost."""
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
        """Add a table whose first row is its head; a table of a single cell is only a frame around it."""
        filled = [row for row in rows if any(cell.html for cell in row)]
        if len(filled) == 1 and len(filled[0]) == 1:
            self._block(f"<div>{filled[0][0].html}</div>")
        elif filled:
            self._block("".join(("<table>", *map(_row, filled), "</table>")))

    def slide(self, number: int, title: str, content: "TextFlow") -> None:
        """Add the content of a slide under its title; skip an empty slide."""
        html = content.html()
        if title or html:
            self.heading(2, title or f"Slide {number}")
            self._block(html)

    def html(self) -> str:
        """Return all blocks."""
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


class Workbook:
    """Collects sheets up to a limit."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        # Half of the budget, since the names of columns may be spent once more for each cell.
        self._left_chars = min(MOST_CHARS, left_chars() // 2)

    def add(self, name: str, rows: Iterable[Row]) -> None:
        """Add a sheet; skip an empty one."""
        blocks = list(map(_block, _blocks(self._within_limit(rows))))
        if blocks:
            self._parts += [f"## {' '.join(name.split())}", *blocks]

    @property
    def is_full(self) -> bool:
        """Return whether something had to be left out."""
        return self._left_chars < 0

    def markdown(self) -> str:
        """Return all sheets as Markdown."""
        rest = ["*The rest of this workbook was left out: it is too large.*"] if self.is_full else []
        return "\n\n".join(self._parts + rest)

    def _within_limit(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            self._left_chars -= sum(len(cell) + 3 for cell in row.values()) + 1
            if self.is_full:
                return
            yield row


def _blocks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    block: list[Row] = []
    for row in rows:
        if row:
            block.append(row)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _block(rows: list[Row]) -> str:
    """Format adjacent rows as a table; rows of one cell each as paragraphs."""
    if all(len(row) == 1 for row in rows):
        return "\n\n".join(escaped(" ".join(cell.split())) for row in rows for cell in row.values())
    columns = sorted({column for row in rows for column in row})
    if len(columns) * len(rows) > _SPARSEST * sum(map(len, rows)):
        return fitting_table([list(row.values()) for row in rows])
    return fitting_table([[row.get(column, "") for column in columns] for row in rows])


@dataclass(frozen=True, slots=True)
class Facts:
    """Metadata of a document; empty where it has none."""

    title: str = ""
    authors: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    language: str | None = None


def facts_of(title: str, authors: Iterable[str], keywords: Iterable[str], language: str) -> Facts:
    """Return the metadata of a file in normal form."""
    words = (word.strip() for each in keywords for word in re.split(r"[,;\n]", each))
    names = (" ".join(name.split()) for name in authors)
    tongue = language.strip()
    return Facts(
        title=sensible_title(title),
        authors=tuple(dict.fromkeys(filter(None, names))),
        keywords=tuple(dict.fromkeys(filter(None, words))),
        language=tongue.replace("_", "-") if _LANGUAGE.fullmatch(tongue) else None,
    )


def core_facts(package: ZipPackage) -> Facts:
    """Return the core properties of an Office file."""
    root = package.tree("docProps/core.xml")
    return facts_of(_text(root, "title"), [_text(root, "creator")], [_text(root, "keywords")], _text(root, "language"))


def sensible_title(told: str) -> str:
    """Return a title; empty for a generated one."""
    title = _PREFIX.sub("", " ".join(told.split()))
    return "" if _NO_TITLE.fullmatch(title) else title


def part_of(html: str, facts: Facts, **record: Any) -> Part:
    """Return a document whose text is given as HTML; without a title of its own, the first heading is its title."""
    page = read_page(html)
    return Part(
        text=page.text,
        title=facts.title or sensible_title(page.title),
        tags=facts.keywords,
        language=facts.language,
        links=page.links,
        record=record_of(facts, record),
    )


def record_of(facts: Facts, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a document. It has no dates: a program writes a new one with every export."""
    return {**({"authors": list(facts.authors)} if facts.authors else {}), **more}


def _text(root: Element, name: str) -> str:
    found = next(root.iter(name), None)
    return "".join(found.itertext()) if found is not None else ""
