"""The output of document readers: blocks as plain HTML for the page reader, sheets as tables, and metadata."""

import re
from collections.abc import Iterable, Mapping, Sequence
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

_FOLLOWED = ("http://", "https://", "mailto:")
# The rest of a larger workbook is left out, and the text says so.
MOST_CHARS = 10_000_000
# If fewer than one cell in four is filled, columns are not aligned: the table would be mostly bars.
_SPARSEST = 4
Row = Mapping[int, str]
"""The cells of a row that are not empty, by column."""
# Programs generate a title if the author set none.
_PREFIX = re.compile(r"(?:Microsoft (?:Office )?(?:Word|PowerPoint|Excel)|Word Document) - ", re.IGNORECASE)
_NO_TITLE = re.compile(
    r"(?:untitled|title|document|presentation|präsentation|présentation|slide|book|mappe|dokument|folie|workbook"
    r"|powerpoint[ -]pr\S+|présentation powerpoint)?[ _-]*\d*"
    r"|\S+\.(?:docx?|dotx?|xlsx?|pptx?|odt|ods|odp|rtf|pdf|tex|dvi|indd|qxp|pages|txt|html?)",
    re.IGNORECASE,
)
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")


class TextRun(NamedTuple):
    """Text with one format; a line break in `text` is a line break on the page."""

    text: str
    bold: bool = False
    italic: bool = False
    raised: bool = False
    href: str = ""


class Cell(NamedTuple):
    """A table cell as HTML, and the number of columns that it spans."""

    html: str
    span: int = 1


def inline(runs: Iterable[TextRun], *, plain: bool = False) -> str:
    """Return runs as HTML; neighbours with the same format are joined, since programs split words arbitrarily."""
    parts = []
    for (bold, italic, raised, href), group in groupby(runs, key=lambda run: run[1:]):
        text = "".join(run.text for run in group)
        words = text.strip()
        html = escape(words)
        if words and not plain:
            for tag, wanted in (("sup", raised), ("em", italic), ("strong", bold)):
                html = f"<{tag}>{html}</{tag}>" if wanted else html
            if href.startswith(_FOLLOWED):
                html = f'<a href="{escape(href)}">{html}</a>'
        start = text.index(words) if words else len(text)
        parts.append(text[:start] + html + text[start + len(words) :])
        spend(len(parts[-1]))
    return "".join(parts).strip().replace("\n", " " if plain else "<br>")


class TextFlow:
    """Collects blocks one by one; any other block ends a list or a code block."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._lists: list[str] = []
        self._code: list[str] = []

    def heading(self, level: int, html: str) -> None:
        """Add a heading; its level is limited to 1 to 6."""
        level = min(6, max(1, level))
        self._block(f"<h{level}>{html}</h{level}>" if html else "")

    def paragraph(self, html: str) -> None:
        """Add a paragraph."""
        self._block(f"<p>{html}</p>" if html else "")

    def quote(self, html: str) -> None:
        """Add a quoted paragraph."""
        self._block(f"<blockquote><p>{html}</p></blockquote>" if html else "")

    def code(self, line: str) -> None:
        """Add a line of code; adjacent lines become one block."""
        self._end_lists()
        self._code.append(line)

    def item(self, level: int, html: str, *, number: int | None = None) -> None:
        """Add a list item, with a number or a bullet; level 0 is the outermost."""
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
        """Add a table with the first row as its head; a table of a single cell is added without a table."""
        rows = [row for row in rows if any(cell.html for cell in row)]
        if len(rows) == 1 and len(rows[0]) == 1:
            self._block(f"<div>{rows[0][0].html}</div>")
            return
        parts = []
        for row in rows:
            spend(len(row) * len("<td></td>"))
            spans = (f' colspan="{cell.span}"' if cell.span > 1 else "" for cell in row)
            parts += ["<tr>", *(f"<td{span}>{cell.html}</td>" for cell, span in zip(row, spans, strict=True)), "</tr>"]
        if parts:
            self._block("".join(["<table>", *parts, "</table>"]))

    def slide(self, number: int, title: str, content: "TextFlow") -> None:
        """Add the content of a slide below its title; skip an empty slide."""
        html = content.html()
        if title or html:
            self.heading(2, title or f"Slide {number}")
            self._block(html)

    def html(self) -> str:
        """Return all blocks as HTML."""
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
            # An HTML parser drops the line break after the tag.
            self._parts.append(f"<pre>\n{code}</pre>")
            self._code.clear()


class Workbook:
    """Collects sheets up to a size limit."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        # Half of the budget, since the names of columns may be spent once more for each cell.
        self._left_chars = min(MOST_CHARS, left_chars() // 2)

    def add(self, name: str, rows: Iterable[Row]) -> None:
        """Add a sheet; skip an empty sheet."""
        blocks: list[str] = []
        block: list[Row] = []
        for row in rows:
            self._left_chars -= sum(len(cell) + 3 for cell in row.values()) + 1
            if self.is_full:
                break
            if row:
                block.append(row)
            elif block:
                blocks.append(_block(block))
                block = []
        if block:
            blocks.append(_block(block))
        if blocks:
            self._parts += [f"## {' '.join(name.split())}", *blocks]

    @property
    def is_full(self) -> bool:
        """Return whether the size limit was exceeded, so that rows were left out."""
        return self._left_chars < 0

    def part(self, facts: "Facts") -> Part:
        """Return all sheets as Markdown, with the metadata of the file."""
        if not self.is_full:
            return facts.part("\n\n".join(self._parts))
        rest = "*The rest of this workbook was left out: it is too large.*"
        return facts.part("\n\n".join([*self._parts, rest]), truncated=True)


def _block(rows: list[Row]) -> str:
    """Return adjacent rows as a table; if each row has only one cell, as paragraphs."""
    if all(len(row) == 1 for row in rows):
        return "\n\n".join(escaped(" ".join(cell.split())) for row in rows for cell in row.values())
    columns = sorted({column for row in rows for column in row})
    if len(columns) * len(rows) > _SPARSEST * sum(map(len, rows)):
        return fitting_table([list(row.values()) for row in rows])
    return fitting_table([[row.get(column, "") for column in columns] for row in rows])


@dataclass(frozen=True, slots=True)
class Facts:
    """The metadata of a document; a field is empty if the document does not have it."""

    title: str = ""
    authors: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    language: str | None = None

    def part(self, text: str, *, title: str = "", links: tuple[str, ...] = (), **record: Any) -> Part:
        """Return a document with this metadata; `title` is used if the metadata has no title.

        The record has no dates, since programs write a new date with every export.
        """
        authors = {"authors": list(self.authors)} if self.authors else {}
        return Part(text, self.title or title, self.keywords, self.language, links, {**authors, **record})


def facts_of(title: str, authors: Iterable[str], keywords: Iterable[str], language: str = "") -> Facts:
    """Return normalised metadata of a file."""
    words = (word.strip() for several in keywords for word in re.split(r"[,;\n]", several))
    names = (" ".join(name.split()) for name in authors)
    tag = language.strip()
    return Facts(
        title=sensible_title(title),
        authors=tuple(dict.fromkeys(filter(None, names))),
        keywords=tuple(dict.fromkeys(filter(None, words))),
        language=tag.replace("_", "-") if _LANGUAGE.fullmatch(tag) else None,
    )


def core_facts(package: ZipPackage) -> Facts:
    """Return the core properties of an Office file."""
    root = package.tree("docProps/core.xml")
    title, creator, keywords, language = (
        "".join(next(root.iter(name), Element(name)).itertext())
        for name in ("title", "creator", "keywords", "language")
    )
    return facts_of(title, [creator], [keywords], language)


def sensible_title(title: str) -> str:
    """Return a title; an empty string if a program generated it."""
    title = _PREFIX.sub("", " ".join(title.split()))
    return "" if _NO_TITLE.fullmatch(title) else title


def part_of(html: str, facts: Facts) -> Part:
    """Return a document for a text in HTML; if the metadata has no title, the first heading is the title."""
    page = read_page(html)
    return facts.part(page.text, title=sensible_title(page.title), links=page.links)
