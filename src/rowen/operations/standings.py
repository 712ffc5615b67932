"""How everything is, at a glance: counts that every page may ask for, however many items there are."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Unpack

from rowen.harvest.engine import Engine
from rowen.model.items import ItemLine
from rowen.model.page import Page
from rowen.model.runs import Run
from rowen.model.search import Narrowing
from rowen.model.sources import Overview
from rowen.model.status import Savings, Situation, SwitchedOff, TroubleGroup
from rowen.operations.counts import KeptCounts
from rowen.operations.narrowing import filters_of, plain_filters
from rowen.operations.paging import as_key, as_text, decoded, page_of
from rowen.store import library, status
from rowen.store import runs as store_runs
from rowen.store import sources as store_sources

__all__ = ["Standings"]

_LISTING = "standings"
# What a source needs is told in two lines; more groups of errors than this are not read by anybody.
MOST_GROUPS = 20
# Sorting so many takes some milliseconds; a million would take a second.
MOST_SORTED = 5_000
# Ten thousand runs take a tenth of a second to sum up; of a week, five minutes are nothing.
SUMMED_UP_FOR = timedelta(minutes=5)


class Standings:
    """The whole in numbers."""

    def __init__(self, engine: Engine, counts: KeptCounts) -> None:
        self._database = engine.database
        self._counts = counts
        self._savings: dict[timedelta, tuple[tuple[int, int], Savings]] = {}

    async def situation(self) -> Situation:
        """How everything is."""
        counts, stale = await self._counts.items(), await self._counts.stale_shares()
        async with self._database.connection() as c:
            told = await status.state(c)
        known = [(share, counts.get(source_id, 0)) for source_id, share in stale.items()]
        share = sum(part * items for part, items in known) / max(1, sum(items for _, items in known)) if known else None
        return Situation(items=sum(counts.values()), stale=share, **told)

    async def switched_off(self) -> tuple[SwitchedOff, ...]:
        """Receivers and endpoints that are told nothing any more, since calls failed for days."""
        async with self._database.connection() as c:
            return await status.switched_off(c)

    async def sources(
        self, *, named: str | None = None, needing: bool = False, limit: int = 50, after: str | None = None
    ) -> Page[Overview]:
        """How sources are doing, by name; `needing` those that somebody should look at."""
        listing = [_LISTING, named, needing]
        place = decoded(after, listing, as_text)
        async with self._database.connection() as c:
            found = await library.overview(
                c, after=place[0] if place else None, limit=limit + 1, named=named, needing=needing
            )
        told = await self._counts.fill(found)
        return page_of(told, limit, listing, lambda one: [one.name])

    async def source(self, name: str) -> Overview:
        """How one source is doing."""
        async with self._database.connection() as c:
            found = await library.overview(c, only=name)
            if not found:
                await store_sources.need(c, name)
        [told] = await self._counts.fill(found)
        return told

    async def savings(self, since: datetime | timedelta = timedelta(days=7)) -> Savings:
        """What runs since a moment found, spent and spared.

        For a length of time it is not summed up again until a run begins or ends, or some minutes have passed.
        """
        if not isinstance(since, timedelta):
            async with self._database.connection() as c:
                return await status.savings(c, since)
        now = datetime.now(UTC)
        async with self._database.connection() as c:
            runs = await status.newest_run(c)
            known = self._savings.get(since)
            if known is None or known[0] != runs or now - (known[1].since + since) > SUMMED_UP_FOR:
                known = self._savings[since] = (runs, await status.savings(c, now - since))
        return known[1]

    async def last_runs(self, names: Sequence[str], *, limit: int = 30) -> dict[str, list[Run]]:
        """The last runs of each of these sources, oldest first."""
        async with self._database.connection() as c:
            return await status.last_runs(c, list(names), limit)

    async def troubles(self, run_id: int) -> list[TroubleGroup]:
        """Why items could not be read in a run, or have not been since, the most frequent reason first."""
        async with self._database.connection() as c:
            run = await store_runs.get(c, run_id)
            return await status.troubles(c, run.source, run.started_at, MOST_GROUPS)

    async def browse(
        self, source: str, *, limit: int = 50, after: str | None = None, **narrowing: Unpack[Narrowing]
    ) -> Page[ItemLine]:
        """The items of a source, by URL; those of a very large one in no order that says anything."""
        counts = await self._counts.items()
        async with self._database.connection() as c:
            filters = await filters_of(c, [source], None, narrowing)
            by_url = sum(counts.get(one, 0) for one in filters.source_ids or ()) <= MOST_SORTED
            listing = ["items" if by_url else "items by key", source, plain_filters(narrowing)]
            place = decoded(after, listing, as_text if by_url else as_key)
            found = await status.browse(c, filters, by_url=by_url, after=place[0] if place else None, limit=limit + 1)
        return page_of(found, limit, listing, lambda one: [one.place])

    async def items_of(self, source_id: int) -> int:
        """How many items a source has."""
        return (await self._counts.items()).get(source_id, 0)
