"""How many items each source has, counted once in the life of a process; after that the change log tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rowen.harvest.engine import Engine
from rowen.store import sources

if TYPE_CHECKING:
    from rowen.model.sources import Overview
    from rowen.store.status import ItemCounts

__all__ = ["KeptCounts"]

# A share of stale items moves by less than a thousandth in that time, unless its source changes every few minutes.
_STALE_FOR = timedelta(seconds=20)


class KeptCounts:
    """Numbers that are dear to count and cheap to keep, for all who ask in one process."""

    def __init__(self, engine: Engine) -> None:
        self._database = engine.database
        self._counts: ItemCounts | None = None
        self._stale: tuple[datetime, tuple[int, int], dict[int, float]] | None = None
        self._datasets: tuple[int, dict[int, int]] | None = None

    @property
    def is_warm(self) -> bool:
        """Whether everything was counted, so that another look costs next to nothing."""
        return self._counts is not None

    async def items(self) -> dict[int, int]:
        """How many items each source has, by its number."""
        from rowen.store import status

        if self._counts is None:
            async with self._database.transaction() as c:
                self._counts = await status.count_items(c)
        else:
            async with self._database.connection() as c:
                self._counts = await status.counted_since(c, self._counts)
        return self._counts.items

    async def datasets(self) -> dict[int, int]:
        """How many datasets each source lists that lists any; counted again when the change log has gone on."""
        from rowen.store import changes
        from rowen.store.items import duplicates

        async with self._database.connection() as c:
            number = await changes.last_number(c)
            if self._datasets is None or self._datasets[0] != number:
                self._datasets = (number, await duplicates.count_datasets(c))
        return self._datasets[1]

    async def stale_shares(self) -> dict[int, float]:
        """The share of each source's items that are expected to be stale, as it was some seconds ago at most.

        What a run taught counts as soon as it has ended.
        """
        from rowen.store import status

        now = datetime.now(UTC)
        async with self._database.connection() as c:
            runs = await status.newest_run(c)
            if self._stale is None or now - self._stale[0] > _STALE_FOR or self._stale[1] != runs:
                self._stale = (now, runs, await status.stale_shares(c))
        return self._stale[2]

    async def fill(self, found: Sequence[Overview]) -> list[Overview]:
        """Overviews of sources with their numbers."""
        items, stale = await self.items(), await self.stale_shares()
        async with self._database.connection() as c:
            ids = await sources.ids(c, [one.name for one in found])
        numbers = [ids.get(one.name, 0) for one in found]
        return [replace(one, items=items.get(n, 0), stale=stale.get(n)) for one, n in zip(found, numbers, strict=True)]
