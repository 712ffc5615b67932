"""The pages of a stream that are to be asked for: those that may change, and those that were never read."""

import heapq
from collections.abc import Iterable
from dataclasses import fields
from itertools import count

from rowen.connectors.base import Known, remembered
from rowen.connectors.ldes.cursor import CLOSED, OPEN, UNREAD, PageNote
from rowen.connectors.ldes.page import Relation

__all__ = ["Frontier", "FrontierPage"]

_UNBOUNDED = -(2**63)
"""Before all times, from either end: what may hold anything is read first."""

_FIELDS = tuple(field.name for field in fields(PageNote))


class FrontierPage:
    """A page on its way: what is remembered of it, and how many of its members are not handed on yet.

    No member of the page, nor of those that only it leads to, stands before its `rank` in the order, as far as is told:
    members rank by their time, and by its negative where the newest come first.
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
    """A heap of pages by the times that they begin with; `newest_first`, by those that they end with.

    A page that a newer one leads to by a relation of time is asked for only if that one had news: what is older than
    everything known stays as it was (LDES 1.0, `timestampPath`), once all of it was read.
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
        """Begin with what is remembered, or with the root."""
        unread: set[str] = set()
        for room in (OPEN, UNREAD):
            async for batch in self._known.recall_all(room):
                self._notes.update((url, remembered(note, PageNote) or PageNote()) for url, note in batch.items())
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
        """The page whose turn it is."""
        return heapq.heappop(self._heap)[2] if self._heap else None

    @property
    def rank(self) -> int | None:
        """The first rank that members of waiting pages may have; None if none waits."""
        return self._heap[0][0] if self._heap else None

    def release(self, url: str) -> None:
        """A page had news, or could not be read: ask for those behind it."""
        for older in self._waiting.pop(url, ()):
            self._push(older, self._notes[older], self._notes[older])

    def is_met(self, url: str) -> bool:
        """Whether a page was met in this run."""
        return url in self._met

    def meet(self, url: str) -> None:
        """Note that a page was met under another name."""
        self._met.add(url)

    async def discover(self, page: FrontierPage, relations: Iterable[Relation]) -> dict[tuple[str, str], object]:
        """Take in where a page leads; returns what is to be noted of pages that were not known."""
        found = [one for one in relations if one.url not in self._met]
        closed = await self._known.recall(CLOSED, [one.url for one in found])
        notes: dict[tuple[str, str], object] = {}
        for relation in found:
            if relation.url in closed:
                continue
            before = self._notes.get(relation.url)
            if before is None:
                note = PageNote(low=relation.low, high=relation.high, under=page.url if relation.is_older else None)
                notes[UNREAD, relation.url] = _plain(note)
                self._push(relation.url, note, None)
        return notes

    def finished(self, page: FrontierPage, *, closed: bool) -> dict[tuple[str, str], object]:
        """What is to be noted of a page that was read: nothing, if that is known."""
        if closed:
            return {(CLOSED, page.url): {}, (OPEN, page.url): None, (UNREAD, page.url): None}
        if page.before is None:
            return {(OPEN, page.url): _plain(page.note), (UNREAD, page.url): None}
        return {} if page.note == page.before else {(OPEN, page.url): _plain(page.note)}


def _plain(note: PageNote) -> dict[str, object]:
    return {name: value for name in _FIELDS if (value := getattr(note, name)) is not None}
