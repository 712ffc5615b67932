"""Saved searches, and the items that started or stopped matching them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowen.errors import RefusedError, UsageError
from rowen.model.access import Scope
from rowen.model.search import Query, SavedNews, SavedSearch, check_words
from rowen.model.sources import one_or_more
from rowen.model.wording import check_name
from rowen.operations.operation import ResourceGroup, operation
from rowen.operations.paging import Page, as_number, decoded, page_of
from rowen.store import sources as source_store
from rowen.store.search import saved

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta

    from rowen.operations.parameters import After, Limit, NewName, OnlySources

# Each of them runs again when its news are read, and stores its matches. For larger numbers, webhooks are better.
_MOST_SAVED = 1_000


class SavedSearches(ResourceGroup):
    """Saved searches."""

    @operation(scope=Scope.WRITE)
    async def save(
        self,
        name: NewName,
        query: Annotated[str, Meta(min_length=1, max_length=1000, description="Search words to follow.")],
        *,
        sources: OnlySources = (),
    ) -> SavedSearch:
        """Save a search; present matches are not news, later new and lost ones are."""
        check_name(name, "a saved search")
        check_words(query)
        if not Query.parse(query):
            raise UsageError(f"There are no words to follow in {query!r}.")
        sources = one_or_more(sources)
        async with self._database.transaction() as c:
            for source in sources:
                await source_store.get(c, source)
            if await saved.count(c) >= _MOST_SAVED:
                raise RefusedError(
                    f"{_MOST_SAVED:,} searches are saved, and there may be no more. Nothing was changed.",
                    hint="Forget some of them first.",
                )
            return await saved.add(c, name, query, sources)

    @operation(scope=Scope.WRITE)
    async def remove(self, name: Annotated[str, Meta(description="Name of the saved search.")]) -> None:
        """Remove a saved search."""
        async with self._database.transaction() as c:
            await saved.remove(c, (await saved.get(c, name)).id)

    @operation(scope=Scope.READ)
    async def news(
        self,
        name: Annotated[str, Meta(description="Name of the saved search.")],
        *,
        after: Annotated[int, Meta(ge=0, le=2**62, description="Only results after the one with this id.")] = 0,
        limit: Limit = 100,
    ) -> list[SavedNews]:
        """List new and lost matches of a saved search after a line, oldest first."""
        await self._catch_up(name)
        async with self._database.connection() as c:
            return await saved.news(c, (await saved.get(c, name)).id, after=after, limit=limit)

    @operation(scope=Scope.READ)
    async def newest_news(
        self,
        name: Annotated[str, Meta(description="Name of the saved search.")],
        *,
        limit: Limit = 50,
        after: After | None = None,
    ) -> Page[SavedNews]:
        """List new and lost matches of a saved search, newest first."""
        listing = ["saved news", name]
        place = decoded(after, listing, as_number)
        await self._catch_up(name)
        async with self._database.connection() as c:
            search_id = (await saved.get(c, name)).id
            news = await saved.newest(c, search_id, before=place[0] if place else None, limit=limit + 1)
        return page_of(news, limit, listing, lambda line: [line.id])

    async def _catch_up(self, name: str) -> None:
        """Process the changes since the previous call."""
        more = True
        while more:
            async with self._database.transaction() as c:
                more = await saved.catch_up(c, name)

    @operation(scope=Scope.READ)
    async def list(self) -> list[SavedSearch]:
        """List all saved searches by name."""
        async with self._database.connection() as c:
            return await saved.every(c)
