"""What there is a copy of: listing sources, pausing and removing them, which takes nothing but the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rowen.harvest.engine import Engine
from rowen.model.page import Page
from rowen.model.sources import Source
from rowen.operations.counts import KeptCounts
from rowen.operations.paging import as_text, decoded, page_of
from rowen.store import schedules, sources
from rowen.store.search import embeddings, pending_texts, words

if TYPE_CHECKING:
    from rowen.model.sources import Overview

__all__ = ["SourceList"]

_LISTING = "sources"


class SourceList:
    """What there is a copy of."""

    def __init__(self, engine: Engine, counts: KeptCounts | None = None) -> None:
        self._engine = engine
        self._counts = counts or KeptCounts(engine)
        self._database = engine.database
        self._settings = engine.settings

    async def every(self, *, limit: int | None = None, after: str | None = None, counted: bool = True) -> Page[Source]:
        """All sources, by name; with a limit the first ones, and `after` is the `next` of the page before.

        Their items are counted unless that is not wanted.
        """
        place = decoded(after, _LISTING, as_text)
        async with self._database.connection() as c:
            more = None if limit is None else limit + 1
            found = await sources.every(c, limit=more, after=place[0] if place else None)
        if counted:
            found = await self._counted(found)
        return page_of(found, limit, _LISTING, lambda source: [source.name])

    async def get(self, name: str, *, counted: bool = True) -> Source:
        """One source; its items are counted unless that is not wanted.

        Where nothing was counted yet, those of this one are: a command asks once.
        """
        is_kept = self._counts.is_warm
        async with self._database.connection() as c:
            source = await sources.get(c, name, counted=counted and not is_kept)
        return (await self._counted([source]))[0] if counted and is_kept else source

    async def by_kind(self) -> dict[str, int]:
        """How many sources there are of each kind."""
        async with self._database.connection() as c:
            return await sources.by_kind(c)

    async def overview(self) -> list[Overview]:
        """How all sources are doing."""
        from rowen.store import library

        async with self._database.connection() as c:
            model = await embeddings.active(c)
            waiting = await pending_texts.coverage_by_source(c, model) if model else {}
            found = await library.overview(c)
        found = await self._counts.fill(found)
        if model is None:
            return found
        return [
            replace(source, coverage=waiting[source.name].share if source.name in waiting else 1.0) for source in found
        ]

    async def _counted(self, found: Sequence[Source]) -> list[Source]:
        """Sources with what was counted in this process."""
        items, stale = await self._counts.items(), await self._counts.stale_shares()
        return [replace(source, items=items.get(source.id, 0), stale=stale.get(source.id)) for source in found]

    async def pause(self, name: str) -> None:
        """Leave a source out of `sync` until it is resumed."""
        async with self._database.connection() as c:
            await sources.set_state(c, (await sources.get(c, name)).id, "paused")

    async def resume(self, name: str) -> None:
        """Take a paused source in again; if it came due meanwhile, a worker reads it now, once."""
        async with self._database.connection() as c:
            await sources.set_state(c, (await sources.get(c, name)).id, "active")
            await schedules.notify_workers(c)

    async def remove(self, name: str) -> int:
        """Forget a source with all its items; returns how many."""
        source = await self.get(name)
        async with self._database.transaction() as c:
            removed = await sources.remove(c, source)
        await words.count_words(self._database)
        return removed
