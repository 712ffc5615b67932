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
from typing import Any, NamedTuple

from rowen.connectors.catalog.answers import UnreadableError, payload_of
from rowen.connectors.catalog.languages import word
from rowen.connectors.catalog.pages import LEAST_ROWS, PageSize
from rowen.connectors.catalog.talk import TooMuchError
from rowen.connectors.ckan.api import Answer, Api
from rowen.connectors.ckan.marks import Marks
from rowen.errors import BodyTooLargeError, SourceError
from rowen.model.hashes import body_hash

__all__ = ["Unread", "Walk", "id_of", "mark_of"]

log = logging.getLogger(__name__)

MOST_PAGE_BYTES = 6 << 20
"""Larger pages are asked for in smaller parts: read into records, they take ten times as much memory."""

MOST_SETBACKS = 20
"""Steps back after which a listing is taken for one without an order."""

MOST_UNDECLARED = 100_000
"""Rows beyond twice the declared count that are taken for a wrong count rather than for a listing without end."""


class Unread(NamedTuple):
    """A row whose record could not even be received."""

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


class Walk:
    """The rows of a listing, each once.

    `repeated` tells that it ended with a page that had come before, `disobeyed` that it ignores `since`.
    """

    def __init__(
        self,
        api: Api,
        size: PageSize,
        *,
        since: str | None = None,
        ids: bool = False,
        position: int = 0,
        after: str | None = None,
    ) -> None:
        self.since = since
        self.position = position
        self.after = after
        self.declared: int | None = None
        self.clock: datetime | None = None
        self.repeated = self.disobeyed = False
        self._api = api
        self._size = size
        self._ids = ids
        self._seen = Marks()
        self._frontier = position
        self._joined = self._steady = True
        self._setbacks = 0

    @property
    def unique(self) -> int:
        """How many different rows came."""
        return len(self._seen)

    @property
    def at_end(self) -> bool:
        """Whether all that is declared was received: what follows can only confirm it."""
        return self.declared is not None and self._frontier >= self.declared

    def has(self, name: str) -> bool:
        """Whether a row of this identifier came."""
        return name in self._seen

    async def pages(self) -> AsyncGenerator[list[Any]]:
        """The rows that were not seen before, a page at a time; the next one is on its way meanwhile."""
        coming = asyncio.create_task(self._page())
        try:
            while True:
                start, answer = await coming
                self._note(answer)
                joins = self._joins(start, answer)
                fresh = self._take(answer) if joins else []
                ended = joins and self._move(start, answer, fresh)
                if not ended:
                    coming = asyncio.create_task(self._page())
                if fresh:
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

    def _take(self, answer: Answer) -> list[Any]:
        return [row for row in answer.rows if self._seen.add(mark_of(row))]

    def _move(self, start: int, answer: Answer, fresh: list[Any]) -> bool:
        """Note where to go on; tells whether the listing has ended."""
        end = start + len(answer.rows)
        stepped_back, self._joined = not self._joined, True
        if self.since and not start and end >= (answer.count or end + 1):
            # The count of all datasets is compared afterwards, which makes up for a page that confirms the end.
            self._frontier = end
            return True
        if not fresh and not stepped_back:
            self.repeated = end > self._frontier
            return True
        if self.unique > 2 * (answer.count or 0) + MOST_UNDECLARED:
            raise SourceError(f"The listing does not end: {self.unique} rows came, {answer.count} are declared.")
        self._frontier = max(self._frontier, end)
        self.position = end
        self.after = mark_of(answer.rows[-1]) if answer.rows else self.after
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
        self.position = max(0, min(start, answer.count or start) - max(self._size.rows // 2, 1))
        return False

    async def _page(self) -> tuple[int, Answer]:
        """The page at the current place, made smaller as long as the portal fails over it."""
        while True:
            start = self.position - 1 if self._steady and self.position and self._size.rows > 1 else self.position
            try:
                answer = await self._ask(start, self._size.rows, ids=self._ids)
            except TooMuchError:
                if not self._size.shrink():
                    raise
            except (UnreadableError, BodyTooLargeError) as problem:
                if not self._size.shrink(least=1):
                    return start, await self._unread(start, problem)
            else:
                self._learn(start, answer)
                self._size.grow()
                return start, answer

    def _learn(self, start: int, answer: Answer) -> None:
        """Ask for no more at once than the portal gives, and than we care to hold."""
        received = len(answer.rows)
        if 0 < received <= answer.asked // 2 and start + received < (answer.count or 0):
            self._size.learn(received)
        if answer.size_bytes > MOST_PAGE_BYTES:
            self._size.learn(min(self._size.wanted, max(LEAST_ROWS, received * MOST_PAGE_BYTES // answer.size_bytes)))

    async def _ask(self, start: int, rows: int, *, ids: bool) -> Answer:
        return await self._api.search(start=start, rows=rows, since=self.since, ids=ids, limit_s=self._size.limit_s)

    async def _unread(self, start: int, problem: SourceError) -> Answer:
        """The row of a record that cannot be received: its identifier alone can."""
        answer = await self._ask(start, 1, ids=True)
        self._size.grow()
        rows = [Unread(name, str(problem)) for row in answer.rows if (name := id_of(row))]
        if answer.rows and not rows:
            raise problem
        return Answer(answer.count, rows, answer.clock, 1)
