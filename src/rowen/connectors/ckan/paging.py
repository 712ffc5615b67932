"""The position of one walk over a CKAN listing, which is read page by page, sorted by identifier, without gaps.

Each page begins with the last row of the previous page. If it does not, the listing has changed. For example, an
earlier dataset was deleted, so that a later one moved across the page border. The walk then steps back until two pages
overlap again. Otherwise equal numbers of additions and deletions would make the count correct although a record was
missed.
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

# Steps back after which a listing counts as unordered: each costs a page, and a busy portal causes only a few.
MOST_SETBACKS = 20
log = logging.getLogger(__name__)


class PackageRow(NamedTuple):
    """An unparsed row, which takes a fifth of the memory of a parsed row.

    `raw` is the received record; None if it could not be received, for the reason `error`. `id` is empty if the
    identifier could not be received either. `is_listed` is unset for tombstones and for descriptions of harvests.
    """

    id: str
    raw: msgspec.Raw | None = None
    modified: Any = None
    is_listed: bool = False
    error: str | None = None


def id_of(row: Any) -> str:
    """Return the identifier of a row; empty if it has none."""
    if isinstance(row, PackageRow):
        return row.id
    return word(row.get("id")) if isinstance(row, dict) else ""


def is_missing(row: Any) -> bool:
    """Return whether the record of a row could not be received."""
    return isinstance(row, PackageRow) and row.error is not None


def mark_of(row: Any) -> str:
    """Return the identifier of a row; if it has none, a hash of the whole row."""
    return id_of(row) or "?" + body_hash(payload_of(row) or b"").hex()[:32]


@dataclass(slots=True)
class PageCursor:
    """The position of a walk: the next row is at `position`, after the row identified by `after`.

    `repeated` is set if the listing ended with a repeated page. `ends_by_count` is set if only the declared count
    indicates that the last page was read. `overlaps` is set if the next page should begin with the last row of this
    page.
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
    _stepped_back: bool = False
    _setbacks: int = 0
    _seen: HashSet = field(default_factory=HashSet)
    _repeats: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._frontier = self.position
        self.overlaps = self.position > 0

    @property
    def _is_steady(self) -> bool:
        """Return whether the listing has a stable order."""
        return self._setbacks <= MOST_SETBACKS

    def joins(self, start: int, rows: Sequence[Any], count: int | None, *, step: int) -> bool:
        """Return whether a page follows the previous page without a gap; if it does not, step back."""
        if not self._is_steady or self.after is None or start >= self.position:
            return True
        marks = [mark_of(row) for row in rows]
        if self.after in marks or (marks and marks[0] <= self.after):
            return True
        self._setbacks += 1
        if self._stepped_back or self._setbacks > MOST_SETBACKS:
            log.warning("the listing has no stable order; only its count can prove that it was read whole")
            self._setbacks = MOST_SETBACKS + 1
            return True
        self._stepped_back = True
        self.position = max(0, min(start, count or start) - max(step // 2, 1))
        self.overlaps = self.position > 0
        return False

    def starts(self, rows: int, count: int) -> Iterator[int]:
        """Yield the expected starts of the next pages of `rows` rows, including the page that confirms the end."""
        position = self.position
        while True:
            start = position - 1 if self.overlaps and rows > 1 else position
            yield start
            if position >= count:
                return
            position = min(start + rows, count)

    def take(self, start: int, rows: Sequence[Any]) -> list[Any]:
        """Return the new rows, and the rows that the listing really contains more than once.

        A row counts as a repetition only if the same answer contains an equal row. A row that comes again on a later
        page may exist only once: pages overlap if the order changes or a record is inserted before. A row without an
        identifier counts at every position that was not read before.
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
        """Set the next position, and whether the listing has ended; `is_new` is set if the page had new rows."""
        end = start + len(rows)
        stepped_back, self._stepped_back = self._stepped_back, False
        # A list of changes usually has one page: the walk decides whether to request another page to confirm the end.
        self.ends_by_count = self.since is not None and not start and end >= (count or end + 1)
        if not is_new and not stepped_back:
            self.repeated = end > self._frontier
            self.ended = self.at_end = True
            return
        self._frontier = max(self._frontier, end)
        self.at_end = count is not None and self._frontier >= count
        self.position = end
        self.after = mark_of(rows[-1]) if rows else self.after
        # A page that begins with a row on which the portal fails would fail as well.
        self.overlaps = self._is_steady and end > 0 and not (rows and is_missing(rows[-1]))
