"""The change log: read it after a number, and follow it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rowen.errors import NotFoundError
from rowen.model.access import Scope
from rowen.model.changes import Change
from rowen.model.search import check_words
from rowen.operations.operation import ResourceGroup, operation
from rowen.operations.paging import Page, as_number, decoded, page_of
from rowen.store import changes, runs
from rowen.store.database import Connection

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta

    from rowen.operations.parameters import After, Limit, OnlyChangeKinds, OnlySource, RunId, SearchWords, SinceChange

# The changes of a run are logged before the run is closed; facts extracted for the run follow within the hour.
_SETTLING = timedelta(hours=1)


class Changes(ResourceGroup):
    """The change log."""

    @operation(scope=Scope.READ)
    async def newest(
        self,
        *,
        source: OnlySource | None = None,
        kinds: OnlyChangeKinds = (),
        run: Annotated[RunId | None, Meta(description="Only changes of this run.")] = None,
        query: SearchWords | None = None,
        field: Annotated[
            str, Meta(max_length=200, description="Only changes in which this field of extracted facts differs.")
        ]
        | None = None,
        limit: Limit = 50,
        after: After | None = None,
    ) -> Page[Change]:
        """List the newest lines of the change log first.

        With a query, only changes of items that contain its words; with a field, only changes of that field of facts.
        """
        check_words(query)
        listing = ["newest", source, sorted(kinds), run, query, field]
        place = decoded(after, listing, as_number)
        how: dict[str, Any] = {"source": source, "kinds": kinds, "run": run, "query": query or None, "field": field}
        async with self._database.connection() as c:
            missing: NotFoundError | None = None
            if run is not None:
                try:
                    stored = await runs.get(c, run)
                    how |= {"since": stored.started_at, "until": stored.finished_at and stored.finished_at + _SETTLING}
                except NotFoundError as problem:
                    missing = problem
            lines = await changes.newest(c, before=place[0] if place else None, limit=limit + 1, **how)
            if missing is not None and not lines and not await changes.has_run(c, run):
                # The lines of a run are kept longer than the run.
                raise missing
        return page_of(lines, limit, listing, lambda change: [change.number])

    @operation(scope=None)
    async def follow(self, *, since: SinceChange = 0, source: OnlySource | None = None) -> AsyncGenerator[Change]:
        """Yield the lines of the change log, and then each new one as it is committed; never ends."""
        async with self._database.connection() as c:
            after = await self._number(c, since)
        async with aclosing(self._engine.listener.follow(after, source=source)) as batches:
            async for batch in batches:
                for change in batch:
                    yield change

    async def _number(self, c: Connection, since: int | datetime | timedelta) -> int:
        if isinstance(since, int):
            return since
        moment = datetime.now(UTC) - since if isinstance(since, timedelta) else since
        return await changes.number_before(c, moment)

    @operation(scope=Scope.READ)
    async def last_number(self) -> int:
        """Return the number of the newest line of the change log."""
        async with self._database.connection() as c:
            return await changes.last_number(c)

    @operation(scope=None)
    async def number_before_last(
        self, count: Annotated[int, Meta(ge=1, description="Number of changes.")], *, source: OnlySource | None = None
    ) -> int:
        """Return the number after which the newest `count` lines begin."""
        async with self._database.connection() as c:
            return await changes.number_of_last(c, count, source=source)

    @operation(scope=Scope.READ)
    async def list(
        self,
        *,
        since: SinceChange = 0,
        source: OnlySource | None = None,
        limit: Limit | None = None,
        after: After | None = None,
    ) -> Page[Change]:
        """List the lines of the change log after a number, or since a moment."""
        listing = ["changes", source]
        place = decoded(after, listing, as_number)
        async with self._database.connection() as c:
            number = place[0] if place else await self._number(c, since)
            more = None if limit is None else limit + 1
            where, values = changes.of_source(source), {"source": source}
            read = await changes.read_after(c, number, limit=more, where=where, values=values)
        return page_of(read.lines, limit, listing, lambda change: [change.number])

    __call__ = list  # noqa: A003 (the method)
