"""Reads Excel workbooks: the displayed values of cells, if the file contains them without calculation."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from xml.etree.ElementTree import Element

from rowen.content.base import Part
from rowen.content.documents import DamagedError
from rowen.content.documents.flow import Row, Workbook, core_facts
from rowen.content.documents.packages import ZipPackage, elements, whole

_LAST_COLUMN = 16_384  # XFD, the last column of the format
_LAST_DAY = 2_958_466  # the day after 31 December 9999, the last date in Excel and Python
_DATES = frozenset((*range(14, 23), *range(27, 37), 45, 47, *range(50, 59)))
_PERCENTS = frozenset((9, 10))
_NOT_SHOWN = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\[\]]*\]')


def read_excel(body: bytes) -> Part:
    """Return the visible sheets of a workbook."""
    package = ZipPackage(body)
    main = package.main("xl/workbook.xml", what="an Excel workbook")
    book = package.tree(main)
    if book.tag != "workbook":
        raise DamagedError("is not an Excel workbook.")
    cells = _Cells(package, main, book)
    targets = package.targets(main)
    workbook = Workbook()
    for sheet in book.iter("sheet"):
        kind, path = targets.get(sheet.get("r:id", ""), ("", ""))
        if kind == "worksheet" and sheet.get("state", "visible") == "visible" and not workbook.is_full:
            workbook.add(sheet.get("name", ""), cells.rows(path))
    return workbook.part(core_facts(package))


class _Cells:
    """Reads cells: resolves shared strings, and formats numbers as dates or percentages by their style."""

    def __init__(self, package: ZipPackage, main: str, book: Element) -> None:
        self._package = package
        paths = dict(package.targets(main).values())
        pieces = package.pieces(paths.get("sharedStrings", "xl/sharedStrings.xml"))
        self._texts = [_text(text).strip() for text in elements(pieces, frozenset({"si"}))]
        self._dates, self._percents = _formats(package.tree(paths.get("styles", "xl/styles.xml")))
        since_1904 = any(settings.get("date1904") in ("1", "true") for settings in book.iter("workbookPr"))
        self._epoch = datetime(1904, 1, 1) if since_1904 else datetime(1899, 12, 30)  # noqa: DTZ001 (a wall clock's)

    def rows(self, path: str) -> Iterator[Row]:
        """Yield the rows of a sheet, with an empty row in place of a gap in the row numbers."""
        last = 0
        for row in elements(self._package.pieces(path), frozenset({"row"})):
            number = whole(row.get("r"), last + 1)
            if number > last + 1:
                yield {}
            last = number
            cells = {}
            column = 0
            for cell in row.iter("c"):
                letters = cell.get("r", "").rstrip("0123456789$").lstrip("$").upper()
                column = _column(letters) or column + 1
                if text := self._displayed(cell).strip():
                    cells[column] = text
            yield cells

    def _displayed(self, cell: Element) -> str:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return _text(cell.find("is"))
        value = cell.findtext("v", "")
        if kind == "s":
            index = whole(value, -1)
            return self._texts[index] if 0 <= index < len(self._texts) else ""
        if kind == "b":
            return {"1": "TRUE", "0": "FALSE"}.get(value, value)
        if kind != "n":
            return value
        try:
            number = float(value)
        except ValueError:
            return value
        style = whole(cell.get("s"))
        if style not in self._dates or not 0 <= number < _LAST_DAY:
            if style in self._percents:
                return f"{number * 100:.15g}%"
            # Excel displays fifteen digits; a file holds seventeen.
            return value if len(value) < 16 else f"{number:.15g}"
        # Excel treats 1900 as a leap year, so its first sixty days are off by one.
        early = 1 if number < 60 and self._epoch.year == 1899 else 0
        at = self._epoch + timedelta(days=int(number) + early, seconds=round(number % 1 * 86_400))
        if number < 1:
            return f"{at:%H:%M:%S}"
        return f"{at:%Y-%m-%d}" if not number % 1 else f"{at:%Y-%m-%d %H:%M:%S}"


def _text(element: Element | None) -> str:
    """Return the text of a cell without its phonetic guide."""
    children = element if element is not None else ()
    return "".join(part.text or "" for child in children if child.tag != "rPh" for part in child.iter("t"))


def _formats(root: Element) -> tuple[frozenset[int], frozenset[int]]:
    """Return the styles that display dates, and the styles that display percentages."""
    dates, percents = set(_DATES), set(_PERCENTS)
    codes = {whole(entry.get("numFmtId"), -1): entry.get("formatCode", "") for entry in root.iter("numFmt")}
    for number, code in codes.items():
        # A duration, such as `[h]:mm`, stays a number.
        displayed = _NOT_SHOWN.sub("", code.partition(";")[0]).lower()
        if "[" not in displayed and any(mark in displayed for mark in "ymdhs") and "general" not in displayed:
            dates.add(number)
        if "%" in _NOT_SHOWN.sub("", code):
            percents.add(number)
    formats = root.find("cellXfs")
    used = [whole(entry.get("numFmtId")) for entry in formats] if formats is not None else []
    return (
        frozenset(style for style, number in enumerate(used) if number in dates),
        frozenset(style for style, number in enumerate(used) if number in percents),
    )


@lru_cache(_LAST_COLUMN)
def _column(letters: str) -> int:
    """Return the number of a column from its letters; 0 if Excel has no such column."""
    if not 0 < len(letters) <= 3 or not letters.isascii() or not letters.isalpha():
        return 0
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number if number <= _LAST_COLUMN else 0
