"""Sources: list, add, change and remove them; their state, and the number of their items.

Listing, pausing and removing need only the database. The source editor has the operations that need connectors; it is
imported when it is first used.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rowen.errors import UsageError
from rowen.harvest.engine import Engine
from rowen.model.access import Reach, Scope
from rowen.operations.operation import ResourceGroup, operation
from rowen.operations.paging import Page, as_text, decoded, page_of
from rowen.store import changes, library, push, schedules, sources, status
from rowen.store.items import duplicates
from rowen.store.search import embeddings, pending_texts, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Annotated, Unpack

    from msgspec import Meta

    from rowen.model.push import AnnouncedDocument
    from rowen.model.sources import AppliedSource, Following, FoundVersion, Overview, Preview, Source
    from rowen.operations.declarations import SourceDeclarations
    from rowen.operations.discovery import Announce
    from rowen.operations.parameters import (
        After,
        CallerReach,
        DryRun,
        Limit,
        NewSourceName,
        PackageVersion,
        PageSize,
        PreviewSize,
        Prune,
        SourceAddress,
        SourceKind,
        SourceName,
        SourceOptions,
        When,
    )
    from rowen.operations.source_editor import SourceEditor
    from rowen.store.status import ItemCounts

OUTCOMES = ("waiting", "stored", "unchanged", "overview", "gone", "failed")
"""The outcomes of documents that a feed announced."""


class Sources(ResourceGroup):
    """Sources and their state."""

    def _prepare(self) -> None:
        self.counts = KeptCounts(self._engine)

    @cached_property
    def editor(self) -> SourceEditor:
        """The operations that need connectors, imported at first use."""
        editor: type[SourceEditor] = import_module("rowen.operations.source_editor").SourceEditor
        return editor(self._client, self._engine)

    @cached_property
    def _declarations(self) -> SourceDeclarations:
        """The operations on declarations of many sources, imported at first use."""
        group: type[SourceDeclarations] = import_module("rowen.operations.declarations").SourceDeclarations
        return group(self._client, self._engine)

    @operation(scope=Scope.READ)
    async def get(
        self, name: SourceName, *, counted: Annotated[bool, Meta(description="Count its items as well.")] = True
    ) -> Source:
        """Return one source."""
        # If nothing was counted yet, count only the items of this source: a command needs one number.
        is_kept = self.counts.is_warm
        async with self._database.connection() as c:
            source = await sources.get(c, name, counted=counted and not is_kept)
        return (await self._counted([source]))[0] if counted and is_kept else source

    @operation(scope=Scope.READ)
    async def count_by_kind(self) -> dict[str, int]:
        """Return the number of sources of each kind."""
        async with self._database.connection() as c:
            return await sources.by_kind(c)

    @operation(scope=Scope.READ)
    async def overview(self) -> list[Overview]:
        """Return how all sources are doing, with the share of their passages that have vectors."""
        async with self._database.connection() as c:
            model = await embeddings.active(c)
            waiting = await pending_texts.coverage_by_source(c, model) if model else {}
            overviews = await self.counts.fill(await library.overview(c))
        if model is None:
            return overviews
        return [
            replace(source, coverage=waiting[source.name].share if source.name in waiting else 1.0)
            for source in overviews
        ]

    @operation(scope=Scope.READ)
    async def list_status(
        self,
        *,
        named: Annotated[str | None, Meta(description="Only sources whose names contain this.")] = None,
        needing: Annotated[bool, Meta(description="Only sources that need attention.")] = False,
        limit: PageSize = 50,
        after: After | None = None,
    ) -> Page[Overview]:
        """List how sources are doing, by name."""
        listing = ["standings", named, needing]
        place = decoded(after, listing, as_text)
        async with self._database.connection() as c:
            start = place[0] if place else None
            overviews = await library.overview(c, after=start, limit=limit + 1, named=named, needing=needing)
        return page_of(await self.counts.fill(overviews), limit, listing, lambda source: [source.name])

    @operation(scope=Scope.READ)
    async def status(self, name: SourceName) -> Overview:
        """Return how one source is doing."""
        async with self._database.connection() as c:
            overviews = await library.overview(c, only=name)
            if not overviews:
                await sources.need(c, name)
        [overview] = await self.counts.fill(overviews)
        return overview

    @operation(scope=Scope.READ)
    async def announcements(
        self,
        name: SourceName,
        *,
        outcome: Annotated[
            str | None,
            Meta(description="Only this outcome: waiting, stored, unchanged, overview, gone, failed."),
        ] = None,
        limit: Limit = 100,
    ) -> list[AnnouncedDocument]:
        """List the documents that the feed of a source announced, latest first."""
        if outcome is not None and outcome not in OUTCOMES:
            raise UsageError(f"There is no outcome {outcome!r}.", hint=f"The outcomes are: {', '.join(OUTCOMES)}.")
        async with self._database.connection() as c:
            source = await sources.get(c, name)
            return await push.announced_documents(c, source.id, limit=limit, outcome=outcome)

    @operation(scope=None)
    async def count_announcements(self, name: SourceName) -> dict[str, int]:
        """Return the number of announced documents by outcome."""
        async with self._database.connection() as c:
            return await push.count_announced(c, (await sources.get(c, name)).id)

    @operation(scope=None)
    async def list_due(self) -> list[Source]:
        """List all active sources in the order in which they are checked: longest due first, then by name."""
        active = [source for source in await self.list(counted=False) if source.state == "active"]
        async with self._database.connection() as c:
            now = await schedules.database_time(c)
        return sorted(active, key=lambda source: min(source.due_at or now, now))

    @operation(scope=Scope.WRITE)
    async def pause(self, name: SourceName) -> None:
        """Leave a source out of syncs until it is resumed."""
        async with self._database.connection() as c:
            await sources.set_state(c, (await sources.get(c, name)).id, "paused")

    @operation(scope=Scope.WRITE)
    async def resume(self, name: SourceName) -> None:
        """Include a paused source again; if it became due meanwhile, a worker reads it now, once."""
        async with self._database.connection() as c:
            await sources.set_state(c, (await sources.get(c, name)).id, "active")
            await schedules.notify_workers(c)

    @operation(scope=Scope.WRITE)
    async def remove(self, name: SourceName) -> int:
        """Remove a source with all its items, and return how many there were."""
        source = await self.get(name)
        async with self._database.transaction() as c:
            removed = await sources.remove(c, [source])
        await words.count_words(self._database)
        return removed

    @operation(scope=Scope.WRITE)
    async def add(
        self,
        address: SourceAddress,
        *,
        name: NewSourceName | None = None,
        kind: SourceKind | None = None,
        options: SourceOptions | None = None,
        found: Announce | None = None,
        reach: CallerReach = Reach.ALL,
        **when: Unpack[When],
    ) -> Source:
        """Add a source; the first sync reads it, or a worker if it has a schedule.

        Unless a kind is given, an address that may be any site is probed for its kind, and the registry of a package
        for the package. `found` is called with the result. `reach` limits what of this machine the address may name.
        """
        return await self.editor.add(address, name=name, kind=kind, options=options, found=found, reach=reach, **when)

    @operation(scope=Scope.WRITE)
    async def edit(
        self,
        name: SourceName,
        *,
        rename: NewSourceName | None = None,
        options: SourceOptions | None = None,
        reach: CallerReach = Reach.ALL,
        **when: Unpack[When],
    ) -> Source:
        """Change a source's name, options or schedule; an option set to None returns to its default.

        `every="none"` removes the schedule; a time zone or hours alone change the schedule that there is. `reach`
        limits what of this machine the options may newly name.
        """
        return await self.editor.edit(name, rename=rename, options=options, reach=reach, **when)

    @operation(scope=None)
    async def apply(
        self,
        path: Annotated[Path, Meta(description="A TOML file that declares sources.")],
        *,
        dry_run: DryRun = False,
        prune: Prune = False,
        trust: Annotated[
            bool, Meta(description="Let the file name secrets of this machine, and folders to write to.")
        ] = False,
    ) -> list[AppliedSource]:
        """Make the sources match a file, in one transaction, and return what changed for each.

        Sources that the file does not name stay as they are; with `prune` they are removed, with their items.
        """
        reach = Reach.ALL if trust else Reach.FILES
        return await self._declarations.apply(path, dry_run=dry_run, prune=prune, reach=reach)

    @operation(scope=Scope.WRITE)
    async def declare(
        self,
        declaration: Annotated[
            str | Mapping[str, Any], Meta(description="The text of a file of declarations, or its content as values.")
        ],
        *,
        dry_run: DryRun = False,
        prune: Prune = False,
        reach: CallerReach = Reach.OUTSIDE,
    ) -> list[AppliedSource]:
        """Make the sources match a declaration, in one transaction, and return what changed for each."""
        return await self._declarations.apply(declaration, dry_run=dry_run, prune=prune, reach=reach)

    @operation(scope=Scope.WRITE)
    async def preview(
        self,
        address: SourceAddress,
        *,
        kind: SourceKind | None = None,
        options: SourceOptions | None = None,
        limit: PreviewSize = 5,
        reach: CallerReach = Reach.ALL,
    ) -> Preview:
        """Return the kind and the first items of an address; nothing is stored.

        Raises if no kind can read the address. If it cannot be read at the moment, `trouble` says why.
        """
        return await self.editor.preview(address, kind=kind, options=options, limit=limit, reach=reach)

    @operation(scope=None)
    async def check(self, source: Source) -> None:
        """Raise if a source cannot be read at the moment; nothing is stored."""
        await self.editor.check(source)

    @operation(scope=Scope.READ)
    async def following(self, name: SourceName) -> Following | None:
        """Return how a feed or an event stream is followed; None for a source of another kind."""
        return next(iter(await self.editor.following([await self.get(name)])), None)

    @operation(scope=Scope.READ)
    async def list_following(self, among: Sequence[Source] | None = None) -> list[Following]:
        """List how all feeds and event streams are followed, or those `among` some sources."""
        return await self.editor.following(await self.list() if among is None else among)

    @operation(scope=Scope.READ)
    async def find_version(
        self,
        library: Annotated[str, Meta(min_length=1, max_length=200, description="Name of a source or of a package.")],
        version: PackageVersion | None = None,
    ) -> FoundVersion:
        """Return the source that holds the highest version of a library that matches."""
        return await self.editor.find_version(library, version)

    async def _counted(self, page: Sequence[Source]) -> list[Source]:
        """Return sources with the counts that this process has stored."""
        items, stale = await self.counts.items(), await self.counts.stale_shares()
        return [replace(source, items=items.get(source.id, 0), stale=stale.get(source.id)) for source in page]

    @operation(scope=Scope.READ)
    async def list(
        self,
        *,
        limit: PageSize | None = None,
        after: After | None = None,
        counted: Annotated[bool, Meta(description="Count the items of each source as well.")] = True,
    ) -> Page[Source]:
        """List all sources by name."""
        listing = "sources"
        place = decoded(after, listing, as_text)
        async with self._database.connection() as c:
            more = None if limit is None else limit + 1
            page = await sources.every(c, limit=more, after=place[0] if place else None)
        if counted:
            page = await self._counted(page)
        return page_of(page, limit, listing, lambda source: [source.name])


# A share of stale items changes by less than a thousandth in this time, unless the source changes every few minutes.
_STALE_FOR = timedelta(seconds=20)


class KeptCounts:
    """Counts that are expensive to compute, shared by all callers of this process."""

    def __init__(self, engine: Engine) -> None:
        self._database = engine.database
        self._counts: ItemCounts | None = None
        self._stale: tuple[datetime, tuple[int, int], dict[int, float]] | None = None
        self._datasets: tuple[int, dict[int, int]] | None = None

    @property
    def is_warm(self) -> bool:
        """Return whether all counts exist, so that the next request is cheap."""
        return self._counts is not None

    async def items(self) -> dict[int, int]:
        """Return the number of items of each source, by the id of the source."""
        if self._counts is None:
            async with self._database.transaction() as c:
                self._counts = await status.count_items(c)
        else:
            async with self._database.connection() as c:
                self._counts = await status.counted_since(c, self._counts)
        return self._counts.items

    async def datasets(self) -> dict[int, int]:
        """Return the number of datasets of each source that has datasets; the counts are renewed after changes."""
        async with self._database.connection() as c:
            number = await changes.last_number(c)
            if self._datasets is None or self._datasets[0] != number:
                self._datasets = (number, await duplicates.count_datasets(c))
        return self._datasets[1]

    async def stale_shares(self) -> dict[int, float]:
        """Return the expected share of stale items of each source; a share is at most some seconds old.

        The results of a run are included as soon as the run has ended.
        """
        now = datetime.now(UTC)
        async with self._database.connection() as c:
            runs = await status.newest_run(c)
            if self._stale is None or now - self._stale[0] > _STALE_FOR or self._stale[1] != runs:
                self._stale = (now, runs, await status.stale_shares(c))
        return self._stale[2]

    async def fill(self, overviews: Sequence[Overview]) -> list[Overview]:
        """Return overviews of sources, completed by the counts."""
        items, stale = await self.items(), await self.stale_shares()
        async with self._database.connection() as c:
            ids = await sources.ids(c, [overview.name for overview in overviews])
        filled = []
        for overview in overviews:
            source_id = ids.get(overview.name, 0)
            filled.append(replace(overview, items=items.get(source_id, 0), stale=stale.get(source_id)))
        return filled
