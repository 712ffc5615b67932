"""Pages that are asked for before their turn, where it is known at which addresses they will be.

A slow portal is waited for once for several pages, as many as its host may be asked for at a time. They are taken in
order and looked at one after the other as ever: a walk sees what it would have seen page by page, a little earlier.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from rowen.concurrency import end
from rowen.errors import FetchError
from rowen.net.response import Response

__all__ = ["Ahead", "PageRequest"]


class PageRequest(NamedTuple):
    """How a page is asked for: by its address or, where there is one, by a body that is sent there."""

    url: str
    body: bytes | None = None


class Ahead:
    """The answers that are on their way, for one walk.

    It gives up for the rest of the walk as soon as an answer is not a good one, or one was asked for in vain: a portal
    that cannot bear it, or whose pages are not where they were expected, is asked page by page, and at most once for
    nothing.
    """

    def __init__(
        self, ask: Callable[[PageRequest], Awaitable[Response]], *, is_good: Callable[[Response], bool], most: int
    ) -> None:
        self._ask = ask
        self._is_good = is_good
        self._coming: dict[PageRequest, asyncio.Task[Response]] = {}
        self._left: list[asyncio.Task[Response]] = []
        self.most = most

    def want(self, pages: Sequence[PageRequest]) -> None:
        """Ask for the next pages, the first of which is wanted next."""
        if not self.most or (self._coming and [*pages[:1]] != [next(iter(self._coming))]):
            return self._give_up()
        for page in pages[: self.most]:
            if page not in self._coming:
                self._coming[page] = asyncio.create_task(self._answer(page))
        return None

    async def take(self, page: PageRequest) -> Response | None:
        """The answer of a page that was asked for; None if it has to be asked for now."""
        coming = self._coming.pop(page, None)
        if coming is None:
            if self._coming:
                self._give_up()
            return None
        try:
            response = await coming
        except FetchError:
            response = None
        if response is None or not self._is_good(response):
            self._give_up()
            return None
        return response

    async def close(self) -> None:
        """Leave what is still on its way."""
        self._give_up()
        await end(self._left)

    async def _answer(self, page: PageRequest) -> Response:
        return await self._ask(page)

    def _give_up(self) -> None:
        self.most = 0
        for coming in self._coming.values():
            coming.cancel()
        self._left += self._coming.values()
        self._coming.clear()
