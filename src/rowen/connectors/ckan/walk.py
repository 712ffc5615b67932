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
from rowen.connectors.catalog.pages import PageSize
from rowen.connectors.ckan.api import Answer, Api, TooMuchError
from rowen.errors import BodyTooLargeError, SourceError
from rowen.model.hashes import body_hash

__all__ = ["Unread", "Walk", "id_of", "mark_of"]

log = logging.getLogger(__name__)

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
        self._seen: set[int] = set()
        self._frontier = position
        self._joined = self._steady = True

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
        return hash(name) in self._seen

    async def pages(self) -> AsyncGenerator[list[Any]]:
        """The rows that were not seen before, a page at a time; the next one is on its way meanwhile."""
        coming = asyncio.create_task(self._page())
        try:
            while True:
                start, answer = await coming
                fresh = self._take(answer)
                ended = self._move(start, answer, fresh)
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

    def _take(self, answer: Answer) -> list[Any]:
        self.declared = answer.count
        self.clock = self.clock or answer.clock
        fresh = []
        for row in answer.rows:
            known = len(self._seen)
            self._seen.add(hash(mark_of(row)))
            if len(self._seen) > known:
                fresh.append(row)
        return fresh

    def _move(self, start: int, answer: Answer, fresh: list[Any]) -> bool:
        """Note where to go on; tells whether the listing has ended."""
        end = start + len(answer.rows)
        if not self._joins(start, answer):
            self._step_back(start, answer)
            return False
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
        if not self._steady or self.after is None or start >= self.position:
            return True
        names = [mark_of(row) for row in answer.rows]
        return self.after in names or (bool(names) and names[0] <= self.after)

    def _step_back(self, start: int, answer: Answer) -> None:
        if not self._joined:
            log.warning("the listing keeps no order; only its count can tell whether it was seen whole")
            self._steady = False
            self.position = start + len(answer.rows)
            return
        self._joined = False
        self.position = max(0, min(start, answer.count or start) - max(self._size.rows // 2, 1))

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
                if 0 < len(answer.rows) <= answer.asked // 2 and start + len(answer.rows) < (answer.count or 0):
                    self._size.learn(len(answer.rows))
                self._size.grow()
                return start, answer

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
