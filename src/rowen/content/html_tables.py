"""Tables of a page, made regular: turbohtml writes a table whose rows differ in width as raw HTML."""

from turbohtml import Element

__all__ = ["as_boxes", "make_regular"]

_WIDEST_SPAN = 50
_LONGEST_REPEATED = 80
_MOST_PADDING = 20


def make_regular(table: Element) -> None:
    """Spans become cells: a cell that spans rows is repeated in each, one that spans columns is followed by blanks."""
    rows = [(row, cells) for row in table.select("tr") if (cells := row.select("td,th"))]
    if not rows:
        return
    if table.select_one("[colspan],[rowspan]") is not None:
        carried: dict[int, tuple[int, str]] = {}
        for row, cells in rows:
            carried = _spread(row, cells, carried)
        rows = [(row, row.select("td,th")) for row, _ in rows]
    widest = max(len(cells) for _, cells in rows)
    missing = widest * len(rows) - sum(len(cells) for _, cells in rows)
    if missing > _MOST_PADDING * len(rows) + widest:
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


def _spread(row: Element, cells: list[Element], carried: dict[int, tuple[int, str]]) -> dict[int, tuple[int, str]]:
    """Lay out one row below cells that reach into it; returns what reaches into the next row."""
    kept = {column: (rows - 1, words) for column, (rows, words) in carried.items() if rows > 1}
    at = 0
    for cell in cells:
        while at in carried:
            cell.insert_before(_cell(carried[at][1]))
            at += 1
        across, down = _span(cell, "colspan"), _span(cell, "rowspan")
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
    if words:
        cell.set_text(words)
    return cell


def _span(cell: Element, name: str) -> int:
    told = cell.attrs.pop(name, None)
    if not isinstance(told, str) or not (told := told.strip()).isdecimal() or len(told) > 9:
        return 1
    return min(max(1, int(told)), _WIDEST_SPAN if name == "colspan" else 10_000)
