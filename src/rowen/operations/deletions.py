"""Pending deletions: list, accept and reject them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from rowen.errors import Hint, NotFoundError, action
from rowen.model.access import Scope
from rowen.model.hashes import Hash
from rowen.model.items import PendingDeletion
from rowen.operations.items import key_of
from rowen.operations.operation import ResourceGroup, operation
from rowen.operations.paging import Page, as_text, decoded, page_of
from rowen.store import changes, library, runs, sources
from rowen.store.items import deletions
from rowen.store.search import words

if TYPE_CHECKING:
    from rowen.operations.parameters import After, ItemUrls, Limit, OnlySource, SourceName


class Deletions(ResourceGroup):
    """Pending deletions."""

    @operation(scope=Scope.WRITE)
    async def keep(self, source: SourceName, urls: ItemUrls) -> int:
        """Keep items until their source shows them again or the deletion is accepted; all or none."""
        wanted = {key_of(url): url for url in urls}
        async with self._database.transaction() as c:
            source_id = (await sources.get(c, source)).id
            _check_pending(wanted, await deletions.keep_pending(c, source_id, list(wanted)), source)
        return len(wanted)

    @operation(scope=Scope.WRITE)
    async def accept(self, source: SourceName, urls: ItemUrls) -> int:
        """Delete items whose deletion is pending, all or none; refused while a run of the source is live."""
        wanted = {key_of(url): url for url in urls}
        async with self._database.transaction() as c:
            stored = await sources.get(c, source)
            await runs.refuse_live(c, stored)
            await deletions.create_missing_table(c)
            _check_pending(wanted, await deletions.mark_pending_deleted(c, stored.id, list(wanted)), source)
            await deletions.delete_marked(c, copies=self._settings.withdrawn_kept_days > 0)
            async for lines in deletions.read_deleted(c):
                await changes.append(c, stored, None, lines)
        await words.count_words(self._database)
        return len(wanted)

    @operation(scope=Scope.READ)
    async def list(
        self, source: OnlySource | None = None, *, limit: Limit = 100, after: After | None = None
    ) -> Page[PendingDeletion]:
        """List pending deletions by source and URL."""
        listing = ["held", source]
        place = decoded(after, listing, as_text, as_text)
        async with self._database.connection() as c:
            if source is not None:
                await sources.need(c, source)
            start = (place[0], place[1]) if place else None
            pending = await library.pending_deletions(c, source=source, limit=limit + 1, after=start)
        return page_of(pending, limit, listing, lambda deletion: [deletion.source, deletion.url])


def _check_pending(wanted: dict[Hash, str], pending: Collection[Hash], source: str) -> None:
    for key, url in wanted.items():
        if key not in pending:
            raise NotFoundError(
                f"No deletion of {url!r} is held back in {source!r}. Nothing was changed.",
                hint=Hint(action("held", source), " lists those that are."),
            )
