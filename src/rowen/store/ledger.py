"""Keep a ledger of paid calls, in the table `provider_call`.

Each entry is written in its own transaction, so that the cost stays recorded if its harvest is rolled back.
"""

import time
from collections.abc import Callable
from datetime import datetime

from rowen.model.models import Charge, LedgerEntry, SpentUsd
from rowen.store.database import Connection, Database
from rowen.store.rows import affected, only

KEPT_DAYS = 90
"""Days that entries are kept: a quarter, to compare the bills of months; budgets look back 30 days."""

_PRUNE_EVERY_S = 3600.0
# Entries that are deleted at once: bounds the delay of one call; the rest is deleted in the next hours.
_PRUNED_AT_ONCE = 10_000


class ProviderLedger:
    """The ledger of one database; implements `enrich.ledger.Ledger`."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._prune_at = float("-inf")

    async def record(self, entry: LedgerEntry) -> None:
        """Store an entry, and delete expired entries once an hour."""
        charge, usage = entry.charge, entry.usage
        values = [
            *(entry.at, entry.purpose, entry.provider, entry.model, entry.inputs, usage.sent, usage.received),
            *(entry.usd, entry.latency_s, entry.result, entry.status),
            *(charge.run_id, charge.source_id, charge.subject),
        ]
        async with self._database.connection() as c:
            statement = """
                insert into provider_call (at, purpose, provider, model, inputs, tokens_sent, tokens_received, usd,
                        latency_s, result, status, run_id, source_id, subject)
                values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
            """
            await c.execute(statement, values)
            if self._clock() >= self._prune_at:
                self._prune_at = self._clock() + _PRUNE_EVERY_S
                await prune(c)

    async def spent(self, charge: Charge, *, day: datetime, source_since: datetime) -> SpentUsd:
        """Return the cost of the run, of its source since `source_since`, and of all sources since `day`."""
        values = {"run": charge.run_id, "source": charge.source_id, "day": day, "since": source_since}
        async with self._database.connection() as c:
            return SpentUsd(*await only(c, _SPENT, values))


async def prune(c: Connection, *, kept_days: int = KEPT_DAYS) -> int:
    """Delete a bounded number of the oldest expired entries; return how many."""
    statement = """
        delete from provider_call where id in (select id from provider_call
                 where at < now() - make_interval(days => %s) order by at limit %s)
    """
    return await affected(c, statement, [kept_days, _PRUNED_AT_ONCE])


_SPENT = """
select coalesce((select sum(usd) from provider_call where run_id = %(run)s), 0),
       coalesce((select sum(usd) from provider_call where source_id = %(source)s and at >= %(since)s), 0),
       coalesce((select sum(usd) from provider_call where at >= %(day)s), 0),
       coalesce((select sum(tokens_sent + tokens_received) from provider_call where run_id = %(run)s), 0)::bigint,
       coalesce((select sum(tokens_sent + tokens_received) from provider_call
                  where source_id = %(source)s and at >= %(since)s), 0)::bigint,
       coalesce((select sum(tokens_sent + tokens_received) from provider_call where at >= %(day)s), 0)::bigint
"""
