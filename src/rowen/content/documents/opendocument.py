"""OpenDocument: texts, presentations and spreadsheets, as LibreOffice writes them."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from xml.etree.ElementTree import Element

from rowen.content.base import Part
from rowen.content.documents import DamagedError
from rowen.content.documents.facts import Facts, facts_of, part_of, record_of
from rowen.content.documents.flow import TextFlow
from rowen.content.documents.markup import elements, whole
from rowen.content.documents.odf_text import OdfStyles, OdfWriter
from rowen.content.documents.packages import ZipPackage
from rowen.content.documents.sheets import Row, Workbook

__all__ = ["read_sheets", "read_slides", "read_text"]

_CONTENT = "content.xml"
_STYLES = "automatic-styles"
# Deleted words, forms and tables of contents are taken whole, to be left out.
_BLOCKS = frozenset({_STYLES, "h", "p", "list", "table", "frame", *OdfWriter.LEFT_OUT})
_ROWS = frozenset({_STYLES, "table-row", *OdfWriter.LEFT_OUT})
_TABLES = frozenset({"table"})
_MOST_COPIES = 1_000  # a row or a cell is repeated by a number in an attribute, which may be any


def read_text(body: bytes) -> Part:
    """A text document."""
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
    """A presentation: a heading a slide."""
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
    """A spreadsheet: what its cells show."""
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
    """Tells the parts of one table from those of the next."""
    count = 0

    def number(part: Element) -> int:
        nonlocal count
        count += part.tag == "table"
        return count

    return number


def _hidden(styles: Element) -> set[str]:
    """The styles of tables that are not shown."""
    return {
        each.get("name", "")
        for each in styles.iter("style")
        if any(properties.get("display") == "false" for properties in each.iterfind("table-properties"))
    }


def _copies(row: Element) -> Iterable[Row]:
    """A row as often as it is repeated; blank ones, of which a sheet ends in a million, once."""
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
