"""The rows of a CKAN listing, and which of them came already."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from rowen.connectors.catalog.languages import word
from rowen.connectors.catalog.marks import Marks
from rowen.formats.json import payload_of
from rowen.model.hashes import body_hash

__all__ = ["Sightings", "Unread", "id_of", "mark_of"]


class Unread(NamedTuple):
    """A row whose record could not even be received; without an identifier where that cannot be had either."""

    id: str
    error: str


def id_of(row: Any) -> str:
    """The identifier of a row; empty if it has none."""
    if isinstance(row, Unread):
        return row.id
    return word(row.get("id")) if isinstance(row, dict) else ""


def mark_of(row: Any) -> str:
    """What tells a row from others: its identifier, or all of it."""
    return id_of(row) or "?" + body_hash(payload_of(row) or b"").hex()[:16]


class Sightings:
    """What came of a listing; `strangers` are the marks of the rows that have no identifier.

    A row is taken for a repeat only beside its like in one answer. A row that comes again with a later page may be
    there but once: where the order changes, or something was added further up, pages overlap.
    """

    def __init__(self) -> None:
        self._marks = Marks()
        self._repeats: dict[str, int] = {}
        self._nameless_rows = 0
        self.strangers: set[str] = set()

    def __len__(self) -> int:
        return len(self._marks)

    def __contains__(self, mark: str) -> bool:
        return mark in self._marks

    @property
    def nameless(self) -> int:
        """How many rows have no identifier; those that look alike are as many as their places."""
        return max(self._nameless_rows, len(self.strangers))

    @property
    def named(self) -> int:
        """How many different identifiers came."""
        return len(self._marks) - len(self.strangers)

    @property
    def repeats(self) -> int:
        """How many rows repeat another one."""
        return sum(self._repeats.values()) + self.nameless - len(self.strangers)

    def take(self, rows: Sequence[Any], *, overlap: int) -> tuple[list[Any], list[Any]]:
        """The rows that are new, and those that repeat one; the first `overlap` stand where others came before."""
        fresh: list[Any] = []
        again: list[Any] = []
        here: Counter[str] = Counter()
        for number, (row, mark) in enumerate(zip(rows, map(mark_of, rows), strict=True)):
            named = mark[0] != "?"
            is_new = self._marks.add(mark)
            here[mark] += 1
            if not named:
                self._nameless_rows += number >= overlap
                self.strangers.add(mark)
            if is_new:
                fresh.append(row)
            elif named and here[mark] - 1 > self._repeats.get(mark, 0):
                self._repeats[mark] = here[mark] - 1
                again.append(row)
        return fresh, again
