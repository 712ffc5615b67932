"""The cursor of a stream, the notes about its pages, and the frontier of pages to request.

Pages are stored as notes and not in the cursor, since there may be many.
"""

import heapq
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any

from rowen.connectors.base import Known, parse_stored
from rowen.connectors.ldes.page import Relation
from rowen.connectors.ldes.shapes import EventStream

# The rooms of notes.
OPEN = "page"  # pages that are requested in each run, since they may change
UNREAD = "unread"  # linked pages that were never read
CLOSED = "closed"  # pages that are never requested again, since they are immutable or gone
DELETED = "deleted"  # deleted objects with the time of their deletion, since older versions of them may arrive later
CONTEXTS = "context"  # JSON-LD contexts as they were when first fetched

_UNBOUNDED = -(2**63)  # sorts before all times in either order, so that pages without bounds are read first


@dataclass(slots=True)
class PageNote:
    """A page that each run requests, with its members' time bounds; `under` is the newer page that links to it."""

    etag: str | None = None
    last_modified: str | None = None
    low: int | None = None
    high: int | None = None
    under: str | None = None

    def to_note(self) -> dict[str, object]:
        """Return the note as JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(slots=True)
class LdesCursor:
    """The cursor. `complete` is true if the last run read all pages; the counts are only displayed."""

    root: str
    stream: EventStream
    window: list[str | None]
    complete: bool = False
    pages: int = 0
    members: int = 0
    last_member_at: str | None = None
    contexts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, cursor: Any) -> "LdesCursor | None":
        """Return the stored cursor; None if none is stored or it cannot be read."""
        return parse_stored(cursor, cls)

    def to_cursor(self) -> dict[str, Any]:
        """Return the cursor as JSON."""
        return asdict(self)


class FrontierPage:
    """A page in progress: its note, and the number of its members that were not emitted yet.

    `rank` is a lower bound for the members of the page and of all pages behind it: a time, or the negated time if the
    newest members come first.
    """

    __slots__ = ("before", "finished", "left", "note", "rank", "url")

    def __init__(self, url: str, note: PageNote, before: PageNote | None, *, newest_first: bool) -> None:
        self.url = url
        self.note = note
        self.before = before
        self.left = 0
        self.finished: dict[tuple[str, str], object] | None = None
        bound = note.high if newest_first else note.low
        self.rank = _UNBOUNDED if bound is None else -bound if newest_first else bound


class Frontier:
    """A heap of pages, sorted by the start of their time range, or by its end if `newest_first`.

    A page that a newer page links to by a relation of time is requested only if the newer page had new members. Once
    all pages were read, members that are older than all known members do not change (LDES 1.0, `timestampPath`).
    """

    def __init__(self, known: Known, *, is_complete: bool, newest_first: bool = False) -> None:
        self._known = known
        self._newest_first = newest_first
        self._is_complete = is_complete
        self._notes: dict[str, PageNote] = {}
        self._waiting: dict[str, list[str]] = {}
        self._heap: list[tuple[int, int, FrontierPage]] = []
        self._numbers = count()
        self._met: set[str] = set()

    async def load(self, root: str) -> None:
        """Load the pages in the notes, and the root if it is not among them."""
        unread: set[str] = set()
        for room in (OPEN, UNREAD):
            async for batch in self._known.recall_all(room):
                self._notes.update((url, parse_stored(note, PageNote) or PageNote()) for url, note in batch.items())
                unread.update(batch if room == UNREAD else ())
        if root not in self._notes and not await self._known.recall(CLOSED, [root]):
            self._push(root, PageNote(), None)
        for url, note in sorted(self._notes.items()):
            is_read = self._is_complete and url not in unread
            if is_read and note.under in self._notes and note.under != url:
                self._waiting.setdefault(note.under or "", []).append(url)
            else:
                self._push(url, note, None if url in unread else note)

    def _push(self, url: str, note: PageNote, before: PageNote | None) -> None:
        if url not in self._met:
            self._met.add(url)
            page = FrontierPage(url, note, before, newest_first=self._newest_first)
            heapq.heappush(self._heap, (page.rank, next(self._numbers), page))

    def pop(self) -> FrontierPage | None:
        """Return the next page; None if no page waits."""
        return heapq.heappop(self._heap)[2] if self._heap else None

    @property
    def rank(self) -> int | None:
        """Return the lowest rank that members of waiting pages may have; None if no page waits."""
        return self._heap[0][0] if self._heap else None

    def release(self, url: str) -> None:
        """Queue the older pages that a page links to, since it had new members or could not be read."""
        for older in self._waiting.pop(url, ()):
            self._push(older, self._notes[older], self._notes[older])

    def meet(self, url: str) -> None:
        """Mark a URL as met, since it is another name of a page that was read."""
        self._met.add(url)

    async def discover(self, page: FrontierPage, relations: Iterable[Relation]) -> dict[tuple[str, str], object]:
        """Queue the unknown pages that a page links to, and return their notes."""
        unmet = [relation for relation in relations if relation.url not in self._met]
        closed = await self._known.recall(CLOSED, [relation.url for relation in unmet])
        notes: dict[tuple[str, str], object] = {}
        for relation in unmet:
            if relation.url not in closed and relation.url not in self._notes:
                note = PageNote(low=relation.low, high=relation.high, under=page.url if relation.is_older else None)
                notes[UNREAD, relation.url] = note.to_note()
                self._push(relation.url, note, None)
        return notes

    def finished(self, page: FrontierPage, *, closed: bool) -> dict[tuple[str, str], object]:
        """Return the changed notes of a page after reading it; `closed` if it need never be requested again."""
        if closed:
            return {(CLOSED, page.url): {}, (OPEN, page.url): None, (UNREAD, page.url): None}
        if page.before is None:
            return {(OPEN, page.url): page.note.to_note(), (UNREAD, page.url): None}
        return {} if page.note == page.before else {(OPEN, page.url): page.note.to_note()}
