"""The state of everything in a few numbers, whose cost does not depend on the number of items."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rowen.model.access import Scope
from rowen.model.models import Costs
from rowen.model.status import Health, Savings, Status, SwitchedOff
from rowen.operations.operation import ResourceGroup, operation
from rowen.store import extraction as store
from rowen.store import jobs, status
from rowen.store.search import embeddings, pending_texts

if TYPE_CHECKING:
    from rowen.operations.parameters import Moment

# Summing up ten thousand runs takes a tenth of a second; in sums over a week, five minutes do not matter.
SUMMED_UP_FOR = timedelta(minutes=5)


class StatusReports(ResourceGroup):
    """Status, health, savings and costs."""

    def _prepare(self) -> None:
        self._savings: dict[timedelta, tuple[tuple[int, int], Savings]] = {}

    @operation(scope=Scope.READ)
    async def get(self) -> Status:
        """Return the status of everything."""
        counts, stale = await self._client.sources.counts.items(), await self._client.sources.counts.stale_shares()
        async with self._database.connection() as c:
            numbers = await status.state(c)
        known = [(share, counts.get(source_id, 0)) for source_id, share in stale.items()]
        share = sum(part * items for part, items in known) / max(1, sum(items for _, items in known)) if known else None
        return Status(items=sum(counts.values()), stale=share, **numbers)

    @operation(scope=None)
    async def list_disabled(self) -> tuple[SwitchedOff, ...]:
        """List webhooks and endpoints that were disabled after days of failures."""
        async with self._database.connection() as c:
            return await status.switched_off(c)

    @operation(scope=Scope.READ)
    async def savings(self, since: Moment = timedelta(days=7)) -> Savings:
        """Return what runs since a moment found, spent and avoided.

        For a period, the sum is computed again when a run begins or ends, or after some minutes.
        """
        if not isinstance(since, timedelta):
            async with self._database.connection() as c:
                return await status.savings(c, since)
        now = datetime.now(UTC)
        async with self._database.connection() as c:
            runs = await status.newest_run(c)
            cached = self._savings.get(since)
            if cached is None or cached[0] != runs or now - (cached[1].since + since) > SUMMED_UP_FOR:
                cached = self._savings[since] = (runs, await status.savings(c, now - since))
        return cached[1]

    @operation(scope=Scope.READ)
    async def health(self) -> Health:
        """Return the health of the system: queue, workers, failures, backlog."""
        async with self._database.connection() as c:
            model = await embeddings.active(c)
            waiting = await pending_texts.coverage_by_source(c, model) if model else {}
            return await jobs.health(c, embeddings_pending=sum(source.waiting for source in waiting.values()))

    @operation(scope=Scope.READ)
    async def costs(self, since: Moment = timedelta(days=30)) -> Costs:
        """Return the cost of paid calls since a moment, by source, purpose and schema, and the avoided cost."""
        moment = datetime.now(UTC) - since if isinstance(since, timedelta) else since
        async with self._database.connection() as c:
            return Costs(moment, tuple(await store.costs(c, moment)))
