"""The client: all operations of Rowen, grouped by resource, on one database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rowen.harvest.engine import Engine
from rowen.model.access import Reach
from rowen.settings import Settings, load
from rowen.store.database import Patience

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path
    from typing import Unpack

    from pydantic import BaseModel

    from rowen.harvest.engine import Observer
    from rowen.model.extraction import Extracted
    from rowen.model.items import Entry, Export
    from rowen.model.runs import Run
    from rowen.model.search import Answer
    from rowen.operations.access import Access
    from rowen.operations.changes import Changes
    from rowen.operations.circuits import Circuits
    from rowen.operations.database import DatabaseCare
    from rowen.operations.deletions import Deletions
    from rowen.operations.discovery import Announce
    from rowen.operations.embeddings import Embeddings
    from rowen.operations.exports import Exports
    from rowen.operations.extraction import Extractions
    from rowen.operations.feeds import Feeds
    from rowen.operations.items import Items
    from rowen.operations.limits import CallerLimits
    from rowen.operations.parameters import PageOptions, SearchFilters
    from rowen.operations.push import Push
    from rowen.operations.queue import JobQueue
    from rowen.operations.rdf import Rdf
    from rowen.operations.runs import Runs
    from rowen.operations.schemas import Schemas
    from rowen.operations.searches import SavedSearches
    from rowen.operations.sources import Sources
    from rowen.operations.status import StatusReports
    from rowen.operations.webhooks import Webhooks
    from rowen.publish.formats import Format

VERBS = {"sync": "runs", "search": "items", "get": "items", "extract": "extraction", "export": "exports"}
"""The main operations, which the client offers as methods too, with their groups."""


class Rowen:
    """All operations on one database: `await client.sync("./docs")`, `await client.webhooks.list()`.

    Each group is imported when it is first used. The annotation names its class; the module has the name of the group.
    """

    access: Access
    changes: Changes
    circuits: Circuits
    database: DatabaseCare
    deletions: Deletions
    embeddings: Embeddings
    exports: Exports
    extraction: Extractions
    feeds: Feeds
    items: Items
    limits: CallerLimits
    push: Push
    queue: JobQueue
    rdf: Rdf
    runs: Runs
    schemas: Schemas
    searches: SavedSearches
    sources: Sources
    status: StatusReports
    webhooks: Webhooks

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._engine = Engine(settings)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in GROUPS:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            group = getattr(import_module(f"{__name__}.{name}"), GROUPS[name])
            vars(self)[name] = group(self, self._engine)
            return vars(self)[name]

    # The main operations. A test compares their parameters with those of the groups.

    async def sync(
        self,
        target: str,
        *,
        full: bool = False,
        accept_deletions: bool = False,
        dry_run: bool = False,
        only: Sequence[str] = (),
        observe: Observer | None = None,
        found: Announce | None = None,
    ) -> Run:
        """Bring one source up to date: `runs.sync`."""
        return await self.runs.sync(
            target,
            full=full,
            accept_deletions=accept_deletions,
            dry_run=dry_run,
            only=only,
            observe=observe,
            found=found,
        )

    async def search(
        self,
        words: str,
        *,
        sources: Sequence[str] | None = None,
        version: str | None = None,
        limit: int = 10,
        budget: int | None = None,
        meaning: bool = True,
        after: str | None = None,
        **filters: Unpack[SearchFilters],
    ) -> Answer:
        """Return the items that answer a query best: `items.search`."""
        return await self.items.search(
            words,
            sources=sources,
            version=version,
            limit=limit,
            budget=budget,
            meaning=meaning,
            after=after,
            **filters,
        )

    async def get(self, url: str, *, source: str | None = None) -> Entry:
        """Return one item: `items.get`."""
        return await self.items.get(url, source=source)

    async def extract(
        self,
        address: str,
        schema: str | Mapping[str, Any] | type[BaseModel],
        *,
        budget_usd: float | None = None,
        budget_tokens: int | None = None,
        reach: Reach = Reach.ALL,
        **how: Unpack[PageOptions],
    ) -> Extracted:
        """Extract the facts of one page or file: `extraction.extract`."""
        return await self.extraction.extract(
            address, schema, budget_usd=budget_usd, budget_tokens=budget_tokens, reach=reach, **how
        )

    async def export(
        self,
        form: Format,
        to: Path,
        *,
        sources: Sequence[str] = (),
        previous: Path | None = None,
        since: int | None = None,
        limit: int | None = None,
        joint: bool = False,
        excel: bool = False,
        withdrawn: bool = False,
        record_kinds: Sequence[str] = (),
        now: datetime | None = None,
    ) -> Export:
        """Write a snapshot into a new folder: `exports.export`."""
        return await self.exports.export(
            form,
            to,
            sources=sources,
            previous=previous,
            since=since,
            limit=limit,
            joint=joint,
            excel=excel,
            withdrawn=withdrawn,
            record_kinds=record_kinds,
            now=now,
        )

    async def start(self, *, patience: Patience | None = None) -> None:
        """Open the database; with `patience`, wait until it is available."""
        await self._engine.open(patience=patience)

    def stop(self) -> None:
        """Stop the work of this process soon: cancel runs and return jobs to the queue. Later calls still work."""
        if "queue" in vars(self):
            self.queue.stop_worker()
        self._engine.stop()

    async def close(self) -> None:
        """Stop the worker processes and close the database."""
        await self._engine.close()


GROUPS = dict(Rowen.__annotations__)
"""The resource groups, each with the name of its class."""


@asynccontextmanager
async def open(settings: Settings | None = None, **flags: Any) -> AsyncIterator[Rowen]:  # noqa: A001 (rowen.open())
    """Open Rowen; settings are keyword arguments, such as `home="…"` or `database_url="…"`."""
    client = Rowen(settings or load(**flags))
    await client.start()
    try:
        yield client
    finally:
        await client.close()
