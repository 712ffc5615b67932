"""One pass over a listing: page by page, in the order of identifiers, without a gap.

Each page begins with the last row of the one before. If it does not, the listing has moved under our feet (a dataset
was deleted further up, say, so that another slipped past the page border): the walk steps back until the two
join again. Without that, as many additions as deletions would make the count come out right over a hole.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import datetime
from typing import Any

from rowen.connectors.catalog.bounds import Bounds, EndlessError
from rowen.connectors.ckan.api import Answer, Api
from rowen.connectors.ckan.pager import Pager
from rowen.connectors.ckan.rows import Sightings, Unread, mark_of
from rowen.errors import SourceError

__all__ = ["Walk"]

log = logging.getLogger(__name__)

MOST_PAGE_BYTES = 6 << 20
"""Larger pages are asked for in smaller parts: read into records, they take ten times as much memory."""

MOST_SETBACKS = 20
"""Steps back after which a listing is taken for one without an order."""


class Walk:
    """The rows of a listing, each once.

    `again` are those of the last page that repeat one. `repeated` tells that the listing ended with a page that had
    come before, `disobeyed` that it ignores `since`, `replaced` that so much of it is new that it was left.
    """

    def __init__(
        self,
        api: Api,
        bounds: Bounds,
        *,
        since: str | None = None,
        ids: bool = False,
        position: int = 0,
        after: str | None = None,
    ) -> None:
        self._bounds = bounds
        self.since = since
        self.ids = ids
        self.position = position
        self.after = after
        self.declared: int | None = None
        self.clock: datetime | None = None
        self.again: list[Any] = []
        self.repeated = self.disobeyed = self.replaced = False
        self._pager = Pager(api, since=since, ids=ids, most_bytes=MOST_PAGE_BYTES)
        self._seen = Sightings()
        self._frontier = position
        self._joined = self._steady = self._exact = True
        self._overlaps = True
        self._setbacks = 0

    @property
    def unique(self) -> int:
        """How many different rows came."""
        return len(self._seen)

    @property
    def named(self) -> int:
        """How many different identifiers came."""
        return self._seen.named

    @property
    def nameless(self) -> int:
        """How many rows came without an identifier."""
        return self._seen.nameless

    @property
    def strangers(self) -> set[str]:
        """The marks of the rows that came without an identifier."""
        return self._seen.strangers

    @property
    def accounted(self) -> int:
        """How many of the declared rows are explained: the different ones and, in a steady listing, the repeats.

        It is steady if each page began with the very row that the one before ended with.
        """
        return self.unique + (self._seen.repeats if self._exact else 0)

    @property
    def at_end(self) -> bool:
        """Whether all that is declared was received: what follows can only confirm it."""
        return self.declared is not None and self._frontier >= self.declared

    def has(self, name: str) -> bool:
        """Whether a row of this identifier came."""
        return name in self._seen

    def forget(self) -> None:
        """Take what came for not seen."""
        self._seen = Sightings()

    async def pages(self) -> AsyncGenerator[list[Any]]:
        """The rows that were not seen before, a page at a time; the next one is on its way meanwhile."""
        coming = self._next()
        try:
            while True:
                start, answer = await coming
                self._note(answer)
                joins = self._joins(start, answer)
                fresh, self.again = self._take(start, answer) if joins else ([], [])
                ended = joins and self._move(start, answer, is_new=bool(fresh or self.again))
                if not ended:
                    coming = self._next()
                if fresh or self.again:
                    yield fresh
                if ended:
                    return
        finally:
            coming.cancel()
            with suppress(asyncio.CancelledError, SourceError):
                await coming

    def _note(self, answer: Answer) -> None:
        self.declared = answer.count
        self.clock = self.clock or answer.clock

    def _next(self) -> asyncio.Task[tuple[int, Answer]]:
        overlap = self._steady and self.position > 0 and self._overlaps
        return asyncio.create_task(self._pager.page(self.position, overlap=overlap))

    def _take(self, start: int, answer: Answer) -> tuple[list[Any], list[Any]]:
        if self.position and not (start < self.position and answer.rows and mark_of(answer.rows[0]) == self.after):
            self._exact = False
        return self._seen.take(answer.rows, overlap=self._frontier - start)

    def _move(self, start: int, answer: Answer, *, is_new: bool) -> bool:
        """Note where to go on; tells whether the listing has ended."""
        end = start + len(answer.rows)
        stepped_back, self._joined = not self._joined, True
        if self.since and not start and end >= (answer.count or end + 1):
            # The count of all datasets is compared afterwards, which makes up for a page that confirms the end.
            self._frontier = end
            return True
        if not is_new and not stepped_back:
            self.repeated = end > self._frontier
            return True
        if why := self._bounds.exceeded(self.unique, answer.count):
            raise EndlessError(why)
        self._frontier = max(self._frontier, end)
        self.position = end
        self.after = mark_of(answer.rows[-1]) if answer.rows else self.after
        # A page that began with a row over which the portal fails would fail as well.
        self._overlaps = not (answer.rows and isinstance(answer.rows[-1], Unread))
        return False

    def _joins(self, start: int, answer: Answer) -> bool:
        """Whether a page follows the one before without a gap; if not, the walk has been set back."""
        if not self._steady or self.after is None or start >= self.position:
            return True
        names = [mark_of(row) for row in answer.rows]
        if self.after in names or (names and names[0] <= self.after):
            return True
        self._setbacks += 1
        if not self._joined or self._setbacks > MOST_SETBACKS:
            log.warning("the listing keeps no order; only its count can tell whether it was seen whole")
            self._steady = False
            return True
        self._joined = False
        self.position = max(0, min(start, answer.count or start) - max(self._pager.rows // 2, 1))
        return False
