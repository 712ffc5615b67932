"""The parts behind the façade, each imported and made when it is first asked for something."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rowen.harvest.engine import Engine

if TYPE_CHECKING:
    from rowen.operations.access import Access
    from rowen.operations.announced import AnnouncedDocuments
    from rowen.operations.changes import Changes
    from rowen.operations.circuits import Circuits
    from rowen.operations.costly import CostlyWork
    from rowen.operations.counts import KeptCounts
    from rowen.operations.deletions import Deletions
    from rowen.operations.endpoints import StatementEndpoints
    from rowen.operations.exports import Exports
    from rowen.operations.extractions import Extractions
    from rowen.operations.feeds import Feeds
    from rowen.operations.field_diffs import FieldDiffs
    from rowen.operations.items import Items
    from rowen.operations.jobs import Jobs
    from rowen.operations.maintenance import Maintenance
    from rowen.operations.models import Models
    from rowen.operations.preview import Previews
    from rowen.operations.push import Push
    from rowen.operations.runs import Runs
    from rowen.operations.saved import SavedSearches
    from rowen.operations.schemas import Schemas
    from rowen.operations.search import Search
    from rowen.operations.source_list import SourceList
    from rowen.operations.sources import Sources
    from rowen.operations.standings import Standings
    from rowen.operations.statements import PageStatementFiles
    from rowen.operations.watches import Watches
    from rowen.operations.webhooks import Webhooks

__all__ = ["Parts"]


class Parts:
    """What does the work of one `Rowen`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @cached_property
    def access(self) -> Access:
        """Who may ask."""
        from rowen.operations.access import Access

        return Access(self.engine)

    @cached_property
    def counts(self) -> KeptCounts:
        """What is dear to count."""
        from rowen.operations.counts import KeptCounts

        return KeptCounts(self.engine)

    @cached_property
    def costly(self) -> CostlyWork:
        """Exports that are under way."""
        from rowen.operations.costly import CostlyWork

        return CostlyWork(self.engine)

    @cached_property
    def source_list(self) -> SourceList:
        """What there is a copy of."""
        from rowen.operations.source_list import SourceList

        return SourceList(self.engine, self.counts)

    @cached_property
    def sources(self) -> Sources:
        """Adding and changing sources."""
        from rowen.operations.sources import Sources

        return Sources(self.engine, self.counts)

    @cached_property
    def previews(self) -> Previews:
        """What a source would bring."""
        from rowen.operations.preview import Previews

        return Previews(self.engine, self.sources)

    @cached_property
    def standings(self) -> Standings:
        """Everything in a few numbers."""
        from rowen.operations.standings import Standings

        return Standings(self.engine, self.counts)

    @cached_property
    def extractions(self) -> Extractions:
        """Facts of items."""
        from rowen.operations.extractions import Extractions

        return Extractions(self.engine)

    @cached_property
    def runs(self) -> Runs:
        """Bringing sources up to date."""
        from rowen.operations.runs import Runs

        return Runs(self.engine, self.sources, lambda: self.extractions)

    @cached_property
    def jobs(self) -> Jobs:
        """The queue and its workers."""
        from rowen.operations.jobs import Jobs

        return Jobs(self.engine, self.runs)

    @cached_property
    def circuits(self) -> Circuits:
        """Which services are not called at the moment."""
        from rowen.operations.circuits import Circuits

        return Circuits(self.engine)

    @cached_property
    def push(self) -> Push:
        """What others tell us."""
        from rowen.operations.push import Push

        return Push(self.engine, self.sources)

    @cached_property
    def watches(self) -> Watches:
        """Runs and jobs that are watched."""
        from rowen.operations.watches import Watches

        return Watches(self.engine)

    @cached_property
    def deletions(self) -> Deletions:
        """Deletions that are held back."""
        from rowen.operations.deletions import Deletions

        return Deletions(self.engine)

    @cached_property
    def items(self) -> Items:
        """Single items."""
        from rowen.operations.items import Items

        return Items(self.engine)

    @cached_property
    def field_diffs(self) -> FieldDiffs:
        """What differs between versions of records and facts, field by field."""
        from rowen.operations.field_diffs import FieldDiffs

        return FieldDiffs(self.engine, self.items, self.extractions)

    @cached_property
    def search(self) -> Search:
        """Finding items."""
        from rowen.operations.search import Search

        return Search(self.engine, self.items)

    @cached_property
    def changes(self) -> Changes:
        """The change log."""
        from rowen.operations.changes import Changes

        return Changes(self.engine)

    @cached_property
    def feeds(self) -> Feeds:
        """The change log as feeds, and all datasets as a catalog."""
        from rowen.operations.feeds import Feeds

        return Feeds(self.engine, self.counts)

    @cached_property
    def announced(self) -> AnnouncedDocuments:
        """Documents that streams announce."""
        from rowen.operations.announced import AnnouncedDocuments

        return AnnouncedDocuments(self.engine)

    @cached_property
    def endpoints(self) -> StatementEndpoints:
        """SPARQL endpoints that hear what pages state."""
        from rowen.operations.endpoints import StatementEndpoints

        return StatementEndpoints(self.engine)

    @cached_property
    def statements(self) -> PageStatementFiles:
        """What pages state, as files and for endpoints."""
        from rowen.operations.statements import PageStatementFiles

        return PageStatementFiles(self.engine)

    @cached_property
    def webhooks(self) -> Webhooks:
        """Who is told of changes."""
        from rowen.operations.webhooks import Webhooks

        return Webhooks(self.engine)

    @cached_property
    def saved(self) -> SavedSearches:
        """Searches that are followed."""
        from rowen.operations.saved import SavedSearches

        return SavedSearches(self.engine)

    @cached_property
    def exports(self) -> Exports:
        """Snapshots."""
        from rowen.operations.exports import Exports

        return Exports(self.engine)

    @cached_property
    def schemas(self) -> Schemas:
        """What facts are extracted as."""
        from rowen.operations.schemas import Schemas

        return Schemas(self.engine)

    @cached_property
    def models(self) -> Models:
        """Embedding models and their vectors."""
        from rowen.operations.models import Models

        return Models(self.engine)

    @cached_property
    def maintenance(self) -> Maintenance:
        """The database itself."""
        from rowen.operations.maintenance import Maintenance

        return Maintenance(self.engine)
