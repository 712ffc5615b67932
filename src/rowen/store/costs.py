"""What paid calls cost since a moment, and what was avoided beside."""

from datetime import datetime
from typing import Any

from rowen.model.extraction import CostLine
from rowen.store.database import Connection
from rowen.store.rows import all_rows

__all__ = ["costs"]

# Summed up by numbers first: to put a name to each call, and sort all of them by it, takes three times as long.
_SPENT = """
select source.name, split_part(purpose, ' ', 1), subject, model, sum(calls)::bigint, sum(failed)::bigint,
       sum(sent)::bigint, sum(received)::bigint, sum(usd)
  from (select source_id, purpose, subject, model, count(*) as calls,
               count(*) filter (where result <> 'answered') as failed, sum(tokens_sent) as sent,
               sum(tokens_received) as received, sum(usd) as usd
          from provider_call where at >= %s group by 1, 2, 3, 4) spent
  left join source on source.id = source_id
 group by 1, 2, 3, 4 order by 1 nulls last, 2, 3, 5 desc
"""
_AVOIDED = """
select source.name, avoided_call.name, sum(calls)::bigint, sum(tokens)::bigint, sum(usd)
  from avoided_call left join source on source.id = source_id
 where day >= %s::date group by 1, 2
"""


async def costs(c: Connection, since: datetime) -> list[CostLine]:
    """By source, purpose, schema and model; what was avoided stands beside the first line that it belongs to."""
    avoided: dict[Any, tuple[Any, ...]] = {}
    for source, name, *counts in await all_rows(c, _AVOIDED, [since]):
        avoided[source, "extract", name] = tuple(counts)
    lines = []
    for source, purpose, subject, *rest in await all_rows(c, _SPENT, [since]):
        beside = avoided.pop((source, purpose, subject), ())
        lines.append(CostLine(source, purpose, subject, *rest, *beside))
    for (source, purpose, subject), beside in avoided.items():
        lines.append(CostLine(source, purpose, subject, None, 0, 0, 0, 0, 0.0, *beside))
    return lines
