"""The course of one pass over a CKAN listing: page by page, in the order of identifiers, without a gap.

Each page begins with the last row of the one before. If it does not, the listing has moved under our feet (a dataset
was deleted further up, say, so that another slipped past the page border): the pass steps back until the two
join again. Without that, as many additions as deletions would make the count come out right over a hole.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from rowen.connectors.catalog.records import HashSet
from rowen.connectors.catalog.text import word
from rowen.formats.json import payload_of
from rowen.model.hashes import body_hash

__all__ = ["MissingRecord", "PageCursor", "UnparsedRow", "id_of", "mark_of"]

MOST_SETBACKS = 20
"""Steps back after which a listing is taken for one without an order: each costs a page, and a busy portal needs few.
"""

log = logging.getLogger(__name__)


class MissingRecord(NamedTuple):
    """A row whose record could not be received; without an identifier where that cannot be had either."""

    id: str
    error: str


class UnparsedRow(NamedTuple):
    """A row with an identifier, as it came: a page of them takes a fifth of the memory of one that is read.

    One that `is_listed` is no tombstone, and describes no harvest.
    """

    id: str
    raw: msgspec.Raw
    modified: Any = None
    is_listed: bool = False


def id_of(row: Any) -> str:
    """The identifier of a row; empty if it has none."""
    if isinstance(row, MissingRecord | UnparsedRow):
        return row.id
    return word(row.get("id")) if isinstance(row, dict) else ""


def mark_of(row: Any) -> str:
    """What tells a row from others: its identifier, or all of it."""
    return id_of(row) or "?" + body_hash(payload_of(row) or b"").hex()[:32]


@dataclass(slots=True)
class PageCursor:
    """Where a pass is: the next row is at `position`, behind the one marked `after`.

    `repeated` tells that the listing ended with a page that had come before, `ends_by_count` that only the count says
    that the last page was the last one. A listing is `steady` as long as its order
    can be relied on; `overlaps` tells whether the next page is to begin with the last row.
    """

    since: str | None = None
    ids: bool = False
    position: int = 0
    after: str | None = None
    ended: bool = False
    repeated: bool = False
    at_end: bool = False
    ends_by_count: bool = False
    overlaps: bool = field(init=False)
    _frontier: int = field(init=False)
    _steady: bool = True
    _stepped_back: bool = False
    _setbacks: int = 0
    _seen: HashSet = field(default_factory=HashSet)
    _repeats: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._frontier = self.position
        self.overlaps = self.position > 0

    def joins(self, start: int, rows: Sequence[Any], count: int | None, *, step: int) -> bool:
        """Whether a page follows the one before without a gap; if not, the pass has been set back."""
        if not self._steady or self.after is None or start >= self.position:
            return True
        marks = [mark_of(row) for row in rows]
        if self.after in marks or (marks and marks[0] <= self.after):
            return True
        self._setbacks += 1
        if self._stepped_back or self._setbacks > MOST_SETBACKS:
            log.warning("the listing keeps no order; only its count can tell whether it was seen whole")
            self._steady = False
            return True
        self._stepped_back = True
        self.position = max(0, min(start, count or start) - max(step // 2, 1))
        self.overlaps = self.position > 0
        return False

    def starts(self, rows: int, count: int) -> Iterator[int]:
        """Where the next pages of so many rows begin, if all goes well, up to the one that confirms the end."""
        position = self.position
        while True:
            start = position - 1 if self.overlaps and rows > 1 else position
            yield start
            if position >= count:
                return
            position = min(start + rows, count)

    def take(self, start: int, rows: Sequence[Any]) -> list[Any]:
        """The rows that are new, and those that really are there again.

        A row is taken for a repeat only beside its like in one answer. One that comes again with a later page may be
        there but once: where the order changes, or something was added further up, pages overlap. A row without an
        identifier counts wherever no row stood before.
        """
        taken: list[Any] = []
        here: Counter[str] = Counter()
        for number, (row, mark) in enumerate(zip(rows, map(mark_of, rows), strict=True)):
            is_new = self._seen.add(mark)
            here[mark] += 1
            if mark[0] == "?":
                is_repeat = start + number >= self._frontier
            else:
                is_repeat = here[mark] - 1 > self._repeats.get(mark, 0)
            if is_repeat and not is_new:
                self._repeats[mark] = here[mark] - 1
            if is_new or is_repeat:
                taken.append(row)
        return taken

    def move(self, start: int, rows: Sequence[Any], count: int | None, *, is_new: bool) -> None:
        """Note where to go on, and whether the listing has ended."""
        end = start + len(rows)
        stepped_back, self._stepped_back = self._stepped_back, False
        # Of what was modified the first page is mostly the only one: whether to confirm that is left to the walk.
        self.ends_by_count = self.since is not None and not start and end >= (count or end + 1)
        if not is_new and not stepped_back:
            self.repeated = end > self._frontier
            self.ended = self.at_end = True
            return
        self._frontier = max(self._frontier, end)
        self.at_end = count is not None and self._frontier >= count
        self.position = end
        self.after = mark_of(rows[-1]) if rows else self.after
        # A page that began with a row over which the portal fails would fail as well.
        self.overlaps = self._steady and end > 0 and not (rows and isinstance(rows[-1], MissingRecord))
