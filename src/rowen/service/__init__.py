"""What every door may ask: one object, opened with the settings in force."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rowen.harvest.engine import Engine
from rowen.service.changes import Changes
from rowen.service.exports import Exports
from rowen.service.items import Items
from rowen.service.maintenance import Maintenance
from rowen.service.models import Models
from rowen.service.runs import Runs
from rowen.service.search import Search
from rowen.service.sources import Sources
from rowen.settings import Settings, load

__all__ = ["Rowen", "open"]


class Rowen:
    """Sources, runs, items and the change log of one database.

    All it can do is done by small parts, and asked for here: `await rowen.sync("./docs")`, `await rowen.search("…")`.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._engine = Engine(settings)
        sources = Sources(self._engine)
        self.sources, self.source, self.overview = sources.every, sources.get, sources.overview
        self.add, self.edit, self.remove = sources.add, sources.edit, sources.remove
        self.pause, self.resume, self.apply = sources.pause, sources.resume, sources.apply
        self.find_or_add, self.check_source = sources.find_or_add, sources.check
        runs = Runs(self._engine, sources)
        self.sync, self.sync_all, self.stop, self.cancel = runs.sync, runs.sync_all, runs.stop, runs.cancel
        self.runs, self.run, self.quarantine = runs.recent, runs.get, runs.quarantine
        items = Items(self._engine)
        self.get, self.twins, self.history, self.diff = items.get, items.twins, items.history, items.diff
        search = Search(self._engine, items)
        self.search, self.similar = search.search, search.similar
        changes = Changes(self._engine)
        self.changes, self.follow, self.last_change = changes.read, changes.follow, changes.last
        self.export = Exports(self._engine).export
        models = Models(self._engine)
        self.embed, self.embeddings, self.embedding_remarks = models.embed, models.every, models.remarks
        self.drop_old_embeddings, self.tidy, self.check_embedder = models.drop_old, models.tidy, models.check
        maintenance = Maintenance(self._engine)
        self.database, self.conninfo, self.client_call = (
            maintenance.database,
            maintenance.conninfo,
            maintenance.client_call,
        )
        self.check_vectors, self.check_workers = maintenance.check_vectors, maintenance.check_workers

    async def start(self) -> None:
        """Open the database."""
        await self._engine.open()

    async def close(self) -> None:
        """End worker processes and close the database."""
        await self._engine.close()


@asynccontextmanager
async def open(settings: Settings | None = None, **flags: Any) -> AsyncIterator[Rowen]:  # noqa: A001 (rowen.open())
    """Open Rowen; settings may be given by name, such as `home="…"` or `database_url="…"`."""
    rowen = Rowen(settings or load(**flags))
    await rowen.start()
    try:
        yield rowen
    finally:
        await rowen.close()
