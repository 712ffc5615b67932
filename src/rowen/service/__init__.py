"""What every door may ask: one object, opened with the settings in force."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rowen.harvest.engine import Engine
from rowen.service.changes import Changes
from rowen.service.deletions import Deletions
from rowen.service.exports import Exports
from rowen.service.extractions import Extractions
from rowen.service.feeds import Feeds
from rowen.service.items import Items
from rowen.service.jobs import Jobs
from rowen.service.maintenance import Maintenance
from rowen.service.models import Models
from rowen.service.preview import Previews
from rowen.service.push import Push
from rowen.service.runs import Runs
from rowen.service.saved import SavedSearches
from rowen.service.schemas import Schemas
from rowen.service.search import Search
from rowen.service.sources import Sources
from rowen.service.standings import Standings
from rowen.service.webhooks import Webhooks
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
        self.check_source, self.following = sources.check, sources.following
        self.preview = Previews(self._engine, sources).preview
        extractions = Extractions(self._engine)
        self.extract, self.extract_source = extractions.extract, extractions.extract_source
        self.estimate_extraction, self.costs = extractions.estimate, extractions.costs
        self.extractions, self.extraction_history = extractions.every, extractions.history
        self.extraction_histories = extractions.histories
        self.carry_schema, self.drop_schema, self.carried_schemas = (
            extractions.carry,
            extractions.drop,
            extractions.carried,
        )
        runs = Runs(self._engine, sources, extractions)
        self.sync, self.sync_all, self.cancel = runs.sync, runs.sync_all, runs.cancel
        self.sources_in_turn = runs.in_turn
        self.runs, self.run, self.quarantine = runs.recent, runs.get, runs.quarantine
        jobs = Jobs(self._engine, runs)
        self.jobs, self.job, self.queue_depth, self.workers = jobs.every, jobs.get, jobs.depth, jobs.workers
        self.enqueue, self.cancel_job, self.retry_job = jobs.enqueue, jobs.cancel, jobs.retry
        self.pause_queue, self.resume_queue, self.health = jobs.pause, jobs.resume, jobs.health
        self.work, self.stop = jobs.work, jobs.stop
        pushed = Push(self._engine, sources)
        self.poke, self.push_access, self.subscriptions = pushed.poke, pushed.access, pushed.subscriptions
        self.subscribe, self.unsubscribe = pushed.subscribe, pushed.unsubscribe
        self.receive_github, self.receive_call = pushed.receive_github, pushed.receive_call
        self.verify_websub, self.receive_websub = pushed.verify_websub, pushed.receive_websub
        self._look()
        self._tell()
        self._enrich()

    def _look(self) -> None:
        """What there is, and what changed."""
        deletions = Deletions(self._engine)
        self.held, self.keep_held, self.accept_held = deletions.held, deletions.keep, deletions.accept
        items = Items(self._engine)
        self.get, self.twins, self.history, self.diff = items.get, items.twins, items.history, items.diff
        self.compare, self.detail = items.compare, items.detail
        search = Search(self._engine, items)
        self.search, self.similar = search.search, search.similar
        changes = Changes(self._engine)
        self.changes, self.follow, self.newest_changes = changes.read, changes.follow, changes.newest
        self.last_change, self.start_of_last_changes = changes.last, changes.start_of_last
        standings = Standings(self._engine)
        self.situation, self.savings, self.standing_sources = standings.situation, standings.savings, standings.sources
        self.last_runs, self.troubles, self.standing = standings.last_runs, standings.troubles, standings.source
        self.items_of, self.browse = standings.items_of, standings.browse

    def _tell(self) -> None:
        """What others are told."""
        feeds = Feeds(self._engine)
        self.feed, self.event_stream, self.events = feeds.feed, feeds.event_stream, feeds.events
        self.catalog, self.data_json = feeds.catalog, feeds.data_json
        hooks = Webhooks(self._engine)
        self.webhooks, self.add_webhook, self.remove_webhook = hooks.every, hooks.add, hooks.remove
        self.pause_webhook, self.resume_webhook, self.rotate_webhook = hooks.pause, hooks.resume, hooks.rotate
        self.deliveries, self.deliver = hooks.deliveries, hooks.deliver
        self.notices, self.add_notice = hooks.notices, hooks.add_notice
        saved = SavedSearches(self._engine)
        self.saved_searches, self.save_search = saved.every, saved.save
        self.forget_search, self.search_news = saved.forget, saved.news

    def _enrich(self) -> None:
        """What is taken elsewhere, schemas and models, and the database itself."""
        exports = Exports(self._engine)
        self.export, self.export_extractions = exports.export, exports.export_extractions
        schemas = Schemas(self._engine)
        self.schemas, self.schema, self.compare_schemas = schemas.every, schemas.get, schemas.compare
        self.add_schema, self.add_schema_files, self.export_schemas = schemas.add, schemas.add_files, schemas.export
        models = Models(self._engine)
        self.embed, self.embeddings, self.embedding_remarks = models.embed, models.every, models.remarks
        self.drop_old_embeddings, self.tidy, self.check_embedder = models.drop_old, models.tidy, models.check
        self.fetch_model = models.fetch
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
