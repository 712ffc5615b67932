"""Sheets of a workbook become headings and tables: blank rows part tables, blank columns are dropped."""

from collections.abc import Iterable, Iterator, Mapping

from rowen.content.markdown import escaped
from rowen.content.tables import fitting_table
from rowen.model.text import left_chars

__all__ = ["Row", "Workbook"]

# More is left out, and the text says so.
MOST_CHARS = 10_000_000
# Where less than one cell in four is filled, columns are not kept apart: the table would be mostly bars.
_SPARSEST = 4

Row = Mapping[int, str]
"""The cells of a row that are not empty, by their column."""


class Workbook:
    """Takes sheets one by one, until there is more text than anybody would search."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        # Half of the budget, since the names of columns may be spent once more for each cell.
        self._left_chars = min(MOST_CHARS, left_chars() // 2)

    def add(self, name: str, rows: Iterable[Row]) -> None:
        """A sheet; one without any cell leaves no trace."""
        blocks = list(map(_block, _blocks(self._within_limit(rows))))
        if blocks:
            self._parts += [f"## {' '.join(name.split())}", *blocks]

    @property
    def is_full(self) -> bool:
        """Whether something had to be left out."""
        return self._left_chars < 0

    def markdown(self) -> str:
        """All sheets up to here."""
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
    """Rows of one cell each are remarks, not a table."""
    if all(len(row) == 1 for row in rows):
        return "\n\n".join(escaped(" ".join(cell.split())) for row in rows for cell in row.values())
    columns = sorted({column for row in rows for column in row})
    if len(columns) * len(rows) > _SPARSEST * sum(map(len, rows)):
        return fitting_table([list(row.values()) for row in rows])
    return fitting_table([[row.get(column, "") for column in columns] for row in rows])
