"""Reads OpenDocument text documents, presentations and spreadsheets, as LibreOffice writes them."""

from collections.abc import Iterable, Iterator
from itertools import accumulate, groupby, tee
from xml.etree.ElementTree import Element

from rowen.content.base import Part
from rowen.content.documents import DamagedError
from rowen.content.documents.flow import Cell, Facts, Row, TextFlow, TextRun, Workbook, facts_of, inline, part_of
from rowen.content.documents.packages import ZipPackage, elements, whole

_CONTENT = "content.xml"
_STYLES = "automatic-styles"


class OdfStyles:
    """The styles of a document: bold, italic, code, quote, title, and numbered lists."""

    def __init__(self, root: Element) -> None:
        self._styles: dict[str, Element] = {}
        self._lists: dict[str, Element] = {}
        self.add(root)

    def add(self, root: Element) -> None:
        """Add the styles below an element."""
        self._styles |= {style.get("name", ""): style for style in root.iter("style")}
        self._lists |= {style.get("name", ""): style for style in root.iter("list-style")}

    def text_format(self, name: str | None, base: TextRun) -> TextRun:
        """Return the format `base`, changed by a style and its ancestors."""
        for style in reversed(self._lineage(name)):
            for properties in style.iterfind("text-properties"):
                weight, posture = properties.get("font-weight"), properties.get("font-style")
                base = base._replace(
                    bold=weight == "bold" if weight else base.bold,
                    italic=posture in ("italic", "oblique") if posture else base.italic,
                    raised=properties.get("text-position", "").startswith("super") or base.raised,
                )
        return base

    def names(self, name: str | None) -> frozenset[str]:
        """Return the display names of a style and its ancestors, in lower case."""
        names = [name or "", *(style.get("parent-style-name", "") for style in self._lineage(name))]
        return frozenset(name.replace("_20_", " ").lower() for name in names)

    def is_numbered(self, name: str, level: int) -> bool:
        """Return whether a list style has numbers at `level`, counted from 0."""
        levels = (entry for entry in self._lists.get(name, ()) if entry.get("level") == str(level + 1))
        return any(entry.tag == "list-level-style-number" and entry.get("num-format") for entry in levels)

    def _lineage(self, name: str | None) -> list[Element]:
        lineage: list[Element] = []
        while name in self._styles and len(lineage) < _LONGEST_LINEAGE:
            lineage.append(self._styles[name])
            name = lineage[-1].get("parent-style-name", "")
        return lineage


class OdfWriter:
    """Converts OpenDocument elements to blocks of a flow."""

    LEFT_OUT = frozenset(
        {"tracked-changes", "forms", "table-of-content", "alphabetical-index", "illustration-index", "table-index"}
        | {"object-index", "user-index", "bibliography", "annotation", "sequence-decls", "shapes", "desc"}
    )

    def __init__(self, styles: OdfStyles) -> None:
        self.styles = styles
        self._notes: list[Element] = []

    def write(self, block: Element, flow: TextFlow) -> None:
        """Write one block, followed by its notes."""
        match block.tag:
            case "h":
                flow.heading(whole(block.get("outline-level"), 1), self.words(block))
            case "p":
                names = self.styles.names(block.get("style-name"))
                runs = list(self._formatted(block))
                if "title" in names:
                    flow.heading(1, inline(runs, plain=True))
                elif names & {"preformatted text", "source code"}:
                    flow.code("".join(run.text for run in runs))
                elif names & {"quotations", "quote"}:
                    flow.quote(inline(runs))
                else:
                    flow.paragraph(inline(runs))
            case "list":
                self._list(block, flow, 0, block.get("style-name", ""))
            case "table":
                flow.table([[self._cell(cell) for cell in row if cell.tag in _CELLS] for row in _rows(block)])
            case tag if tag in _INNER:
                for inner in block:
                    self.write(inner, flow)
        notes, self._notes = self._notes, []
        for note in notes:
            runs = [run for part in note.iterfind("note-body") for run in self._runs(part, TextRun(""))]
            flow.paragraph(inline([_citation(note), TextRun(" "), *runs]))

    def words(self, block: Element) -> str:
        """Return the text of a block on one line, as HTML without markup."""
        return inline(self._runs(block, TextRun("")), plain=True)

    def _list(self, block: Element, flow: TextFlow, level: int, style: str) -> None:
        numbered = self.styles.is_numbered(style, level)
        number = 0
        for entry in block:
            own = [part for part in entry if part.tag in ("p", "h")]
            if entry.tag == "list-item" and own:
                number = whole(entry.get("start-value"), number + 1)
                html = "<br>".join(filter(None, (inline(self._formatted(part)) for part in own)))
                flow.item(min(level, _DEEPEST_LIST), html, number=number if numbered else None)
            for inner in entry.iterfind("list"):
                self._list(inner, flow, level + bool(own), inner.get("style-name") or style)

    def _cell(self, cell: Element) -> Cell:
        """Return a table cell; a cell covered by another one is empty, but keeps its position."""
        flow = TextFlow()
        for block in cell if cell.tag == "table-cell" else ():
            self.write(block, flow)
        return Cell(flow.html())

    def _formatted(self, block: Element) -> Iterator[TextRun]:
        return self._runs(block, self.styles.text_format(block.get("style-name"), TextRun("")))

    def _runs(self, parent: Element, base: TextRun) -> Iterator[TextRun]:
        yield base._replace(text=_spaced(parent.text))
        for child in parent:
            match child.tag:
                case "s":
                    yield base._replace(text=" " * min(_MOST_SPACES, max(1, whole(child.get("c"), 1))))
                case "tab":
                    yield base._replace(text=" ")
                case "line-break":
                    yield base._replace(text="\n")
                case "span":
                    yield from self._runs(child, self.styles.text_format(child.get("style-name"), base))
                case "a":
                    yield from self._runs(child, base._replace(href=child.get("href", "")))
                case "note":
                    self._notes.append(child)
                    yield _citation(child)
                case tag if tag not in self.LEFT_OUT and tag not in ("ruby-text", "object", "image", "title"):
                    yield from self._runs(child, base)
                    if tag in ("p", "h"):
                        yield TextRun("\n")
            yield base._replace(text=_spaced(child.tail))


_CELLS = ("table-cell", "covered-table-cell")
# Deleted text, forms and tables of contents are read as blocks, so that they can be left out.
_BLOCKS = frozenset({_STYLES, "h", "p", "list", "table", "frame", *OdfWriter.LEFT_OUT})
_ROWS = frozenset({_STYLES, "table-row", *OdfWriter.LEFT_OUT})
_MOST_COPIES = 1_000  # an attribute with an arbitrary number repeats a row or a cell
# An attribute with an arbitrary number repeats a space.
_MOST_SPACES = 100
# Styles name their parents; in a damaged file they may form a cycle.
_LONGEST_LINEAGE = 16
# Deeper items are written at this level.
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
    """Read a presentation; each slide becomes a section with a heading."""
    package = _opened(body)
    writer = OdfWriter(OdfStyles(package.tree("styles.xml")))
    flow = TextFlow()
    number = 0
    for page in elements(package.pieces(_CONTENT), frozenset({_STYLES, "page"})):
        if page.tag == _STYLES:
            writer.styles.add(page)
            continue
        number += 1
        frames = [part for part in page if part.tag != "notes"]
        title = " ".join(filter(None, (writer.words(part) for part in frames if part.get("class") == "title")))
        inner = TextFlow()
        for part in frames:
            if part.get("class") not in ("title", "date-time", "footer", "page-number", "header"):
                writer.write(part, inner)
        for notes in page.iterfind("notes"):
            words = " ".join(filter(None, (writer.words(box) for box in notes.iter("text-box"))))
            inner.paragraph(f"Notes: {words}" if words else "")
        flow.slide(number, title, inner)
    return part_of(flow.html(), _facts(package))


def read_sheets(body: bytes) -> Part:
    """Read the displayed values of a spreadsheet."""
    package = _opened(body)
    workbook = Workbook()
    hidden: set[str] = set()
    parts, tags = tee(elements(package.pieces(_CONTENT), _ROWS, opened=frozenset({"table"})))
    numbers = accumulate(part.tag == "table" for part in tags)
    for _, sheet in groupby(zip(numbers, parts, strict=True), key=lambda pair: pair[0]):
        _, head = next(sheet)
        if head.tag == _STYLES:
            hidden |= {
                style.get("name", "")
                for style in head.iter("style")
                if any(properties.get("display") == "false" for properties in style.iterfind("table-properties"))
            }
        elif not workbook.is_full and head.get("style-name") not in hidden:
            workbook.add(head.get("name", ""), (row for _, part in sheet for row in _copies(part)))
    return workbook.part(_facts(package))


def _opened(body: bytes) -> ZipPackage:
    package = ZipPackage(body)
    if _CONTENT not in package:
        raise DamagedError("is not an OpenDocument file.")
    if any(True for _ in package.tree("META-INF/manifest.xml").iter("encryption-data")):
        raise DamagedError("is encrypted.", hint="Save it without a password.")
    return package


def _facts(package: ZipPackage) -> Facts:
    root = package.tree("meta.xml")

    def texts(name: str) -> list[str]:
        return ["".join(element.itertext()) for element in root.iter(name)]

    authors = texts("creator") or texts("initial-creator")
    return facts_of(" ".join(texts("title")), authors, texts("keyword"), " ".join(texts("language")))


def _copies(row: Element) -> Iterable[Row]:
    """Return a row as often as it is repeated; a blank row once, since a sheet may end in a million blank rows."""
    cells = {}
    column = 0
    for cell in row if row.tag == "table-row" else ():
        if cell.tag not in _CELLS:
            continue
        times = max(1, whole(cell.get("number-columns-repeated"), 1))
        words = " ".join("".join(part.itertext()) for part in cell.iterfind("p")).strip()
        if text := words or cell.get("string-value") or cell.get("value") or cell.get("date-value"):
            cells.update({column + step: text for step in range(min(times, _MOST_COPIES))})
        column += times
    return [cells] * (min(_MOST_COPIES, max(1, whole(row.get("number-rows-repeated"), 1))) if cells else 1)


def _citation(note: Element) -> TextRun:
    return TextRun("".join("".join(part.itertext()) for part in note.iterfind("note-citation")), raised=True)


def _spaced(text: str | None) -> str:
    """Replace line breaks and tabs by spaces, since a program that indents its XML adds line breaks without meaning."""
    return text.replace("\n", " ").replace("\t", " ") if text else ""


def _rows(table: Element) -> Iterator[Element]:
    for child in table:
        if child.tag == "table-row":
            yield child
        elif child.tag in ("table-header-rows", "table-rows", "table-row-group"):
            yield from _rows(child)
