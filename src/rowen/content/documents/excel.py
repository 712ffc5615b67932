"""Excel workbooks: the displayed values of cells, as far as the file has them without a calculation."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from xml.etree.ElementTree import Element

from rowen.content.base import Part
from rowen.content.documents import DamagedError
from rowen.content.documents.flow import Row, Workbook, core_facts, record_of
from rowen.content.documents.packages import ZipPackage, elements, whole

__all__ = ["read_excel"]

_LAST_COLUMN = 16_384  # XFD, the last that the format has
_LAST_DAY = 2_958_466  # the day after 31 December 9999, the last that Excel and Python know
_DATES = frozenset((*range(14, 23), *range(27, 37), 45, 47, *range(50, 59)))
_PERCENTS = frozenset((9, 10))
_NOT_SHOWN = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\[\]]*\]')


def read_excel(body: bytes) -> Part:
    """Return the sheets of a workbook that are not hidden."""
    package = ZipPackage(body)
    main = package.main("xl/workbook.xml", what="Excel workbook")
    book = package.tree(main)
    if book.tag != "workbook":
        raise DamagedError("is no Excel workbook.")
    cells = _Cells(package, main, book)
    targets = package.targets(main)
    workbook = Workbook()
    for sheet in book.iter("sheet"):
        kind, path = targets.get(sheet.get("r:id", ""), ("", ""))
        if kind == "worksheet" and sheet.get("state", "visible") == "visible" and not workbook.is_full:
            workbook.add(sheet.get("name", ""), cells.rows(path))
    facts = core_facts(package)
    cut = {"truncated": True} if workbook.is_full else {}
    return Part(workbook.markdown(), facts.title, facts.keywords, facts.language, record=record_of(facts, cut))


class _Cells:
    """Reads cells: texts are kept once for the whole workbook, and numbers become dates by their format."""

    def __init__(self, package: ZipPackage, main: str, book: Element) -> None:
        self._package = package
        paths = dict(package.targets(main).values())
        pieces = package.pieces(paths.get("sharedStrings", "xl/sharedStrings.xml"))
        self._texts = [_text(each).strip() for each in elements(pieces, frozenset({"si"}))]
        self._dates, self._percents = _formats(package.tree(paths.get("styles", "xl/styles.xml")))
        since_1904 = any(each.get("date1904") in ("1", "true") for each in book.iter("workbookPr"))
        self._epoch = datetime(1904, 1, 1) if since_1904 else datetime(1899, 12, 30)  # noqa: DTZ001 (a wall clock's)

    def rows(self, path: str) -> Iterator[Row]:
        """Yield the rows of a sheet, and an empty one where some are missing."""
        last = 0
        for row in elements(self._package.pieces(path), frozenset({"row"})):
            number = whole(row.get("r"), last + 1)
            if number > last + 1:
                yield {}
            last = number
            yield self._row(row)

    def _row(self, row: Element) -> Row:
        cells = {}
        column = 0
        for cell in row.iter("c"):
            column = _column(cell.get("r", "")) or column + 1
            if shown := self._shown(cell).strip():
                cells[column] = shown
        return cells

    def _shown(self, cell: Element) -> str:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return _text(cell.find("is"))
        found = cell.find("v")
        value = (found.text or "") if found is not None else ""
        match kind:
            case "s":
                index = whole(value, -1)
                return self._texts[index] if 0 <= index < len(self._texts) else ""
            case "b":
                return {"1": "TRUE", "0": "FALSE"}.get(value, value)
            case "n":
                return self._number(value, whole(cell.get("s")))
            case _:
                return value

    def _number(self, value: str, style: int) -> str:
        try:
            number = float(value)
        except ValueError:
            return value
        if style in self._dates and 0 <= number < _LAST_DAY:
            return _date(number, self._epoch)
        if style in self._percents:
            return f"{number * 100:.15g}%"
        # Excel shows fifteen digits; a file holds seventeen.
        return value if len(value) < 16 else f"{number:.15g}"


def _date(number: float, epoch: datetime) -> str:
    """Return a day, a time, or both. Excel's first sixty days are one off: it takes 1900 for a leap year."""
    early = 1 if number < 60 and epoch.year == 1899 else 0
    at = epoch + timedelta(days=int(number) + early, seconds=round(number % 1 * 86_400))
    if number < 1:
        return f"{at:%H:%M:%S}"
    return f"{at:%Y-%m-%d}" if not number % 1 else f"{at:%Y-%m-%d %H:%M:%S}"


def _text(element: Element | None) -> str:
    """Return the text of a cell without its phonetic guide."""
    if element is None:
        return ""
    return "".join(part.text or "" for child in element if child.tag != "rPh" for part in child.iter("t"))


def _formats(root: Element) -> tuple[frozenset[int], frozenset[int]]:
    """Return the styles that show dates, and those that show percents."""
    codes = {whole(each.get("numFmtId"), -1): each.get("formatCode", "") for each in root.iter("numFmt")}
    found = root.find("cellXfs")
    used = [whole(each.get("numFmtId")) for each in found] if found is not None else []
    return (
        _styles(used, _DATES | {number for number, code in codes.items() if _is_date(code)}),
        _styles(used, _PERCENTS | {number for number, code in codes.items() if "%" in _NOT_SHOWN.sub("", code)}),
    )


def _styles(used: Sequence[int], wanted: frozenset[int]) -> frozenset[int]:
    return frozenset(style for style, number in enumerate(used) if number in wanted)


def _is_date(code: str) -> bool:
    """Return whether a format shows a day or a time; a length of time, `[h]:mm`, stays the number that it is."""
    shown = _NOT_SHOWN.sub("", code.partition(";")[0]).lower()
    return "[" not in shown and any(mark in shown for mark in "ymdhs") and "general" not in shown


def _column(reference: str) -> int:
    """Return the number of a column by its letters; 0 if Excel has no such column."""
    return _number_of(reference.rstrip("0123456789$").lstrip("$").upper())


@lru_cache(_LAST_COLUMN)
def _number_of(letters: str) -> int:
    if not 0 < len(letters) <= 3 or not letters.isascii() or not letters.isalpha():
        return 0
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number if number <= _LAST_COLUMN else 0
