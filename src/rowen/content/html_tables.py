"""Tables of a page, made regular: turbohtml writes a table whose rows differ in width as raw HTML."""

import re

from turbohtml import Element

from rowen.model.text import spend

__all__ = ["as_boxes", "make_regular"]

# A cell over many rows is repeated in each if it is short; a long one would multiply the text.
_LONGEST_REPEATED = 80

Span = tuple[Element, int, int]
"""A cell, and over how many columns and rows it reaches."""

Carried = dict[int, tuple[int, str]]
"""By column, for how many more rows a cell from above reaches down, and its words."""


def make_regular(table: Element) -> None:
    """Spans become cells: a cell that spans rows is repeated in each, one that spans columns is followed by blanks."""
    rows = [(row, cells) for row in table.select("tr") if (cells := row.select("td,th"))]
    if not rows:
        return
    if table.select_one("[colspan],[rowspan]") is not None:
        if not _spread_all([(row, [_span(cell) for cell in cells]) for row, cells in rows]):
            as_boxes(table)
            return
        rows = [(row, row.select("td,th")) for row, _ in rows]
    widest = max(len(cells) for _, cells in rows)
    if widest * len(rows) > _most(sum(len(cells) for _, cells in rows)):
        as_boxes(table)
        return
    for row, cells in rows:
        row.extend(Element("td") for _ in range(widest - len(cells)))


def as_boxes(table: Element) -> None:
    """A table that only lays out a page: its cells are parts of the page, not of a row."""
    for element in table.select("caption,thead,tbody,tfoot,tr,td,th"):
        if element.closest("table") is table or element.closest("table") is None:
            element.tag = "div"
    table.tag = "div"


def _most(cells: int) -> int:
    """How many cells a table of so many may grow to: a few that claim to span thousands are not believed."""
    return 20 * cells + 1000


def _spread_all(rows: list[tuple[Element, list[Span]]]) -> bool:
    """Lay out all rows, unless that would blow the table up."""
    area = 0
    for at, (_, spans) in enumerate(rows):
        area += sum(across * min(down, len(rows) - at) for _, across, down in spans)
    if area > _most(sum(len(spans) for _, spans in rows)):
        return False
    carried: Carried = {}
    for row, spans in rows:
        carried = _spread(row, spans, carried)
    return True


def _spread(row: Element, spans: list[Span], carried: Carried) -> Carried:
    """Lay out one row below cells that reach into it; returns what reaches into the next row."""
    kept = {column: (rows - 1, words) for column, (rows, words) in carried.items() if rows > 1}
    at = 0
    for cell, across, down in spans:
        while at in carried:
            cell.insert_before(_cell(carried[at][1]))
            at += 1
        if down > 1:
            words = " ".join(cell.text.split())
            kept[at] = (down - 1, words if len(words) <= _LONGEST_REPEATED else "")
            kept.update({at + step: (down - 1, "") for step in range(1, across)})
        if across > 1:
            cell.insert_after(*(Element("td") for _ in range(across - 1)))
        at += across
    while at in carried:
        row.append(_cell(carried[at][1]))
        at += 1
    return kept


def _cell(words: str) -> Element:
    cell = Element("td")
    spend(len(words))
    if words:
        cell.set_text(words)
    return cell


def _span(cell: Element) -> Span:
    return cell, _number(cell, "colspan"), _number(cell, "rowspan")


def _number(cell: Element, name: str) -> int:
    told = cell.attrs.pop(name, None)
    # HTML 4.9.11: more than 1,000 columns are 1,000.
    return min(1000, max(1, int(told))) if isinstance(told, str) and re.fullmatch(r"[0-9]{1,5}", told.strip()) else 1
