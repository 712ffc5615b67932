"""Schedules of sources, and their due times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowen.errors import UsageError
from rowen.jobs import freshness
from rowen.jobs.schedules import next_time
from rowen.model.schedules import Schedule
from rowen.model.sources import Source
from rowen.store import schedules
from rowen.store.database import Connection

if TYPE_CHECKING:
    from rowen.operations.parameters import When

__all__ = ["NONE", "plan_source", "wanted"]

NONE = "none"
"""What `every` says where a source is to have no schedule."""


def wanted(held: str | None, when: When) -> str | None:
    """Return the new schedule of a source; parameters that are not given keep their values."""
    given = {name: value for name, value in when.items() if value is not None}
    if not given:
        return held
    if str(given.get("every", "")).strip().lower() == NONE:
        if len(given) > 1:
            raise UsageError(f"every = {NONE!r} takes the schedule away: nothing else can be said beside it.")
        return None
    if held is not None and not given.keys() & {"every", "cron"}:
        before = Schedule.parse(held)
        kept = {"every": before.interval, "cron": before.cron, "during": ", ".join(map(str, before.during))}
        zone = {"tz": before.tz} if before.tz != "UTC" else {}
        given = {**{name: value for name, value in kept.items() if value}, **zone, **given}
    schedule = Schedule.declared(**given)  # type: ignore[arg-type]
    return str(schedule) if schedule else None


async def plan_source(c: Connection, source: Source, schedule: str | None) -> None:
    """Set the due time of a source under a new schedule: now, if it was never read completely."""
    now = await schedules.database_time(c)
    if schedule is None:
        at = next_time(None, now, salt=source.id, worth_s=await freshness.polling_s(c, source.id))
        await schedules.set_due(c, source.id, at)
        return
    at = next_time(schedule, now, salt=source.id)
    if source.last_complete_at is None:
        hours = Schedule.parse(schedule).hours
        at = hours.opens(now) if hours else now
    await schedules.set_due(c, source.id, at)
