"""OpenDocument: texts, presentations and spreadsheets, as LibreOffice writes them."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from xml.etree.ElementTree import Element

from rowen.content.base import Part
from rowen.content.documents import DamagedError
from rowen.content.documents.flow import (
    Cell,
    Facts,
    Row,
    TextFlow,
    TextRun,
    Workbook,
    facts_of,
    inline,
    part_of,
    record_of,
)
from rowen.content.documents.packages import ZipPackage, elements, whole

__all__ = ["read_sheets", "read_slides", "read_text"]

_CONTENT = "content.xml"
_STYLES = "automatic-styles"


class OdfStyles:
    """The styles of a document: bold, italic, code, quote, title, and numbered lists."""

    def __init__(self, root: Element) -> None:
        self._styles: dict[str, Element] = {}
        self._lists: dict[str, Element] = {}
        self.add(root)

    def add(self, root: Element) -> None:
        """Take in the styles below an element."""
        for each in root.iter("style"):
            self._styles[each.get("name", "")] = each
        for each in root.iter("list-style"):
            self._lists[each.get("name", "")] = each

    def look(self, name: str | None, look: TextRun) -> TextRun:
        """Return a look changed by a style and those that it comes from."""
        for style in reversed(self._lineage(name)):
            for properties in style.iterfind("text-properties"):
                weight, posture = properties.get("font-weight"), properties.get("font-style")
                look = look._replace(
                    bold=weight == "bold" if weight else look.bold,
                    italic=posture in ("italic", "oblique") if posture else look.italic,
                    raised=properties.get("text-position", "").startswith("super") or look.raised,
                )
        return look

    def names(self, name: str | None) -> frozenset[str]:
        """Return a style's name and those of its ancestors, as people see them, in lower case."""
        found = [name or "", *(style.get("parent-style-name", "") for style in self._lineage(name))]
        return frozenset(each.replace("_20_", " ").lower() for each in found)

    def is_numbered(self, name: str, level: int) -> bool:
        """Return whether a list of this style has numbers at a level, counted from 0."""
        style = self._lists.get(name, ())
        return any(
            each.tag == "list-level-style-number" and each.get("level") == str(level + 1) and each.get("num-format")
            for each in style
        )

    def _lineage(self, name: str | None) -> list[Element]:
        lineage: list[Element] = []
        while name in self._styles and len(lineage) < _LONGEST_LINEAGE:
            lineage.append(self._styles[name])
            name = lineage[-1].get("parent-style-name", "")
        return lineage


class OdfWriter:
    """Writes blocks into a flow."""

    LEFT_OUT = frozenset(
        {"tracked-changes", "forms", "table-of-content", "alphabetical-index", "illustration-index", "table-index"}
        | {"object-index", "user-index", "bibliography", "annotation", "sequence-decls", "shapes", "desc"}
    )

    def __init__(self, styles: OdfStyles) -> None:
        self.styles = styles
        self._notes: list[Element] = []

    def write(self, block: Element, flow: TextFlow) -> None:
        """Write one block, and below it the notes to it."""
        match block.tag:
            case "h":
                flow.heading(whole(block.get("outline-level"), 1), self.words(block))
            case "p":
                self._paragraph(block, flow)
            case "list":
                self._list(block, flow, 0, block.get("style-name", ""))
            case "table":
                flow.table([[self._cell(cell) for cell in _cells(row)] for row in _rows(block)])
            case tag if tag in _INNER:
                for inner in block:
                    self.write(inner, flow)
        notes, self._notes = self._notes, []
        for note in notes:
            runs = (run for part in note.iterfind("note-body") for run in self._runs(part, TextRun("")))
            flow.paragraph(inline([_citation(note), TextRun(" "), *runs]))

    def words(self, block: Element) -> str:
        """Return the words of a block on one line, as HTML without any mark."""
        return inline(self._runs(block, TextRun("")), plain=True)

    def _paragraph(self, block: Element, flow: TextFlow) -> None:
        names = self.styles.names(block.get("style-name"))
        runs = list(self._runs(block, self.styles.look(block.get("style-name"), TextRun(""))))
        if names & {"title"}:
            flow.heading(1, inline(runs, plain=True))
        elif names & {"preformatted text", "source code"}:
            flow.code("".join(run.text for run in runs))
        elif names & {"quotations", "quote"}:
            flow.quote(inline(runs))
        else:
            flow.paragraph(inline(runs))

    def _list(self, block: Element, flow: TextFlow, level: int, style: str) -> None:
        numbered = self.styles.is_numbered(style, level)
        number = 0
        for entry in block:
            own = [part for part in entry if part.tag in ("p", "h")]
            if entry.tag == "list-item" and own:
                number = whole(entry.get("start-value"), number + 1)
                html = "<br>".join(filter(None, (self._inline(part) for part in own)))
                flow.item(min(level, _DEEPEST_LIST), html, number=number if numbered else None)
            for inner in entry.iterfind("list"):
                self._list(inner, flow, level + bool(own), inner.get("style-name") or style)

    def _inline(self, block: Element) -> str:
        return inline(self._runs(block, self.styles.look(block.get("style-name"), TextRun(""))))

    def _cell(self, cell: Element) -> Cell:
        flow = TextFlow()
        for block in cell if cell.tag == "table-cell" else ():
            self.write(block, flow)
        return Cell(flow.html())

    def _runs(self, parent: Element, look: TextRun) -> Iterator[TextRun]:
        yield look._replace(text=_spaced(parent.text))
        for child in parent:
            yield from self._child(child, look)
            yield look._replace(text=_spaced(child.tail))

    def _child(self, child: Element, look: TextRun) -> Iterator[TextRun]:
        match child.tag:
            case "s":
                yield look._replace(text=" " * min(_MOST_SPACES, max(1, whole(child.get("c"), 1))))
            case "tab":
                yield look._replace(text=" ")
            case "line-break":
                yield look._replace(text="\n")
            case "span":
                yield from self._runs(child, self.styles.look(child.get("style-name"), look))
            case "a":
                yield from self._runs(child, look._replace(href=child.get("href", "")))
            case "note":
                self._notes.append(child)
                yield _citation(child)
            case "ruby-text" | "object" | "image" | "title":
                return
            case tag if tag not in self.LEFT_OUT:
                yield from self._runs(child, look)
                if tag in ("p", "h"):
                    yield TextRun("\n")


# Deleted words, forms and tables of contents are taken whole, to be left out.
_BLOCKS = frozenset({_STYLES, "h", "p", "list", "table", "frame", *OdfWriter.LEFT_OUT})
_ROWS = frozenset({_STYLES, "table-row", *OdfWriter.LEFT_OUT})
_TABLES = frozenset({"table"})
_MOST_COPIES = 1_000  # a row or a cell is repeated by a number in an attribute, which may be any
# Spaces are a number in an attribute, which may be any.
_MOST_SPACES = 100
# Styles name their parents; in a damaged file they name each other.
_LONGEST_LINEAGE = 16
# Deeper items are shown at this level.
_DEEPEST_LIST = 8
_INNER = frozenset(
    {"section", "frame", "text-box", "g", "custom-shape", "list-header", "index-body", "rect", "ellipse"}
)


def read_text(body: bytes) -> Part:
    """Read a text document."""
    package = _opened(body)
    writer = OdfWriter(OdfStyles(package.tree("styles.xml")))
    flow = TextFlow()
    for block in elements(package.pieces(_CONTENT), _BLOCKS):
        if block.tag == _STYLES:
            writer.styles.add(block)
        else:
            writer.write(block, flow)
    return part_of(flow.html(), _facts(package))


def read_slides(body: bytes) -> Part:
    """Read a presentation: one heading per slide."""
    package = _opened(body)
    writer = OdfWriter(OdfStyles(package.tree("styles.xml")))
    flow = TextFlow()
    number = 0
    for part in elements(package.pieces(_CONTENT), frozenset({_STYLES, "page"})):
        if part.tag == _STYLES:
            writer.styles.add(part)
        else:
            number += 1
            _write_slide(writer, part, flow, number)
    return part_of(flow.html(), _facts(package))


def read_sheets(body: bytes) -> Part:
    """Read a spreadsheet: the displayed values of its cells."""
    package = _opened(body)
    workbook = Workbook()
    hidden: set[str | None] = set()
    for _, parts in groupby(elements(package.pieces(_CONTENT), _ROWS, opened=_TABLES), key=_sheet_counter()):
        head = next(parts)
        if head.tag == _STYLES:
            hidden |= _hidden(head)
        elif not workbook.is_full and head.get("style-name") not in hidden:
            workbook.add(head.get("name", ""), (row for part in parts for row in _copies(part)))
    facts = _facts(package)
    cut = {"truncated": True} if workbook.is_full else {}
    return Part(workbook.markdown(), facts.title, facts.keywords, facts.language, record=record_of(facts, cut))


def _opened(body: bytes) -> ZipPackage:
    package = ZipPackage(body)
    if _CONTENT not in package:
        raise DamagedError("is no OpenDocument file.")
    if any(True for _ in package.tree("META-INF/manifest.xml").iter("encryption-data")):
        raise DamagedError("is encrypted.", hint="Save it without a password.")
    return package


def _facts(package: ZipPackage) -> Facts:
    root = package.tree("meta.xml")
    return facts_of(
        " ".join(_texts(root, "title")),
        list(_texts(root, "creator")) or list(_texts(root, "initial-creator")),
        [*_texts(root, "keyword")],
        " ".join(_texts(root, "language")),
    )


def _texts(root: Element, name: str) -> Iterator[str]:
    return ("".join(each.itertext()) for each in root.iter(name))


def _write_slide(writer: OdfWriter, page: Element, flow: TextFlow, number: int) -> None:
    frames = [part for part in page if part.tag != "notes"]
    titles = [part for part in frames if part.get("class") == "title"]
    words = " ".join(filter(None, (writer.words(part) for part in titles)))
    inner = TextFlow()
    for part in frames:
        if part.get("class") not in ("title", "date-time", "footer", "page-number", "header"):
            writer.write(part, inner)
    for notes in page.iterfind("notes"):
        said = " ".join(filter(None, (writer.words(box) for box in notes.iter("text-box"))))
        inner.paragraph(f"Notes: {said}" if said else "")
    flow.slide(number, words, inner)


def _sheet_counter() -> Callable[[Element], int]:
    """Return a key function that numbers tables."""
    count = 0

    def number(part: Element) -> int:
        nonlocal count
        count += part.tag == "table"
        return count

    return number


def _hidden(styles: Element) -> set[str]:
    """Return the styles of tables that are not shown."""
    return {
        each.get("name", "")
        for each in styles.iter("style")
        if any(properties.get("display") == "false" for properties in each.iterfind("table-properties"))
    }


def _copies(row: Element) -> Iterable[Row]:
    """Return a row as often as it is repeated; blank ones, of which a sheet ends in a million, once."""
    cells = {}
    column = 0
    for cell in row if row.tag == "table-row" else ():
        if cell.tag not in ("table-cell", "covered-table-cell"):
            continue
        times = max(1, whole(cell.get("number-columns-repeated"), 1))
        if shown := _shown(cell):
            cells.update({column + step: shown for step in range(min(times, _MOST_COPIES))})
        column += times
    return [cells] * (min(_MOST_COPIES, max(1, whole(row.get("number-rows-repeated"), 1))) if cells else 1)


def _shown(cell: Element) -> str:
    lines = ["".join(part.itertext()) for part in cell.iterfind("p")]
    return " ".join(lines).strip() or cell.get("string-value") or cell.get("value") or cell.get("date-value") or ""


def _citation(note: Element) -> TextRun:
    return TextRun("".join("".join(each.itertext()) for each in note.iterfind("note-citation")), raised=True)


def _spaced(text: str | None) -> str:
    """Normalise white space as in HTML: a program that indents its XML adds line ends without meaning."""
    return text.replace("\n", " ").replace("\t", " ") if text else ""


def _rows(table: Element) -> Iterator[Element]:
    for child in table:
        if child.tag == "table-row":
            yield child
        elif child.tag in ("table-header-rows", "table-rows", "table-row-group"):
            yield from _rows(child)


def _cells(row: Element) -> Iterator[Element]:
    """Return the cells of a row, and those that another one covers: empty, but in their place."""
    return (cell for cell in row if cell.tag in ("table-cell", "covered-table-cell"))
