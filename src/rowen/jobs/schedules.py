"""Compute due times of sources from their schedules, with growing delays while they fail.

Every run is settled here, whatever started it. All times are read from the database's clock.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from rowen.jobs import freshness
from rowen.jobs.queue import put_extraction_if_behind
from rowen.model.changes import ChangeKind
from rowen.model.runs import Run
from rowen.model.schedules import Schedule
from rowen.model.sources import Source
from rowen.model.url import key
from rowen.settings import Settings
from rowen.store import changes, schedules
from rowen.store.database import Connection, Database
from rowen.store.schedules import DueStatus

# A failing source is retried with doubled delays, but at least daily, since it may have been repaired.
_LONGEST = timedelta(days=1)
# The interval until the change rate of a source is known.
_AT_FIRST_S = 3_600.0
# The first delay of a failing source, unless its own interval is longer.
_SHORTEST = timedelta(minutes=30)
# More than the jitter of two intervals, by which a stored due time may differ from a new one.
_SLACK = timedelta(hours=3)
# The number of due times that are checked once an hour, latest first, since wrong times are in the far future.
_DOUBTED = 1_000
# The longest interval of an automatic schedule.
_FURTHEST_AUTO = timedelta(days=90)


class StatusChange(NamedTuple):
    """A line of the change log about a source that started to fail or recovered."""

    source: Source
    run_id: int | None
    line: changes.LogLine


async def settle(
    database: Database, settings: Settings, source: Source, run: Run, *, checked: Sequence[int] = ()
) -> None:
    """Update the source of a finished run: its due time, its failures and its change rate.

    `checked` are the ids of the items that a run of selected items checked. An extraction is enqueued if the run's
    changes need one.
    """
    if run.status == "cancelled":
        return
    error = (run.error or "") if run.status == "failed" else None
    async with database.transaction() as c:
        await put_extraction_if_behind(c, database, source.id)
        await freshness.learn(c, source, run, checked=checked)
        await append(c, await _settle(c, settings, source, run.id, error=error))


async def count_failure(c: Connection, settings: Settings, source: Source, error: str) -> StatusChange | None:
    """Count a failed job; the caller must pass the result to `append` as the last step of the transaction."""
    return await _settle(c, settings, source, None, error=error)


async def append(c: Connection, *status_changes: StatusChange | None) -> None:
    """Write these changes of status into the change log, as the last step of a transaction."""
    for change in status_changes:
        if change is not None:
            await changes.append(c, change.source, change.run_id, [change.line])


async def _settle(
    c: Connection, settings: Settings, source: Source, run_id: int | None, *, error: str | None
) -> StatusChange | None:
    before = await schedules.due_status(c, source.id)
    # The source may have been edited or removed during the run.
    is_there, text = await schedules.schedule_of(c, source.id)
    if not is_there:
        return None
    now = await schedules.database_time(c)
    failures = 0 if error is None else before.failures + 1
    is_failing = failures >= settings.failing_after
    since = (before.failing_since or now) if is_failing else None
    worth_s = await freshness.next_check_s(c, settings, source.id, text)
    at = next_time(text, now, salt=source.id + (run_id or 0), worth_s=worth_s)
    if at is not None and is_failing:
        # Beyond a factor of 2^10 it is always the longest delay.
        at = max(at, now + min(_LONGEST, _SHORTEST * (1 << min(failures - settings.failing_after, 10))))
    after = DueStatus(at, failures, since)
    if after == before:
        return None
    await schedules.store_due_status(c, source.id, after)
    await schedules.notify_workers(c)
    if is_failing == (before.failing_since is not None):
        return None
    title = f"{source.name}: {error or 'can be read again'}"
    kind: ChangeKind = "failing" if is_failing else "recovered"
    return StatusChange(source, run_id, changes.LogLine(kind, key(source.url), source.url, title))


async def mend(c: Connection) -> int:
    """Correct due times written by a clock that has been set back since; return how many were corrected."""
    now = await schedules.database_time(c)
    mended = 0
    for source in await schedules.furthest_due(c, days=_LONGEST / timedelta(days=1), limit=_DOUBTED):
        worth_s = await freshness.polling_s(c, source.id) if source.schedule is None else None
        at = next_time(source.schedule, now, salt=source.id, worth_s=worth_s)
        is_auto = source.schedule is not None and Schedule.parse(source.schedule).is_auto
        if at is None or source.due_at - at > (_FURTHEST_AUTO if is_auto else _LONGEST + _SLACK):
            status = await schedules.due_status(c, source.id)
            await schedules.store_due_status(c, source.id, status._replace(due_at=at))
            mended += 1
    return mended


def next_time(schedule: str | None, now: datetime, *, salt: int, worth_s: float | None = None) -> datetime | None:
    """Return the next due time of a source with this schedule; several missed times count as one.

    `worth_s` is the delay until the next check is worth it, for automatic schedules and for sources without a schedule
    that announce a polling interval.
    """
    if schedule is None:
        return None if worth_s is None else Schedule(every="auto").next_after(now, salt=salt, interval_s=worth_s)
    interval_s = _AT_FIRST_S if worth_s is None else worth_s
    return Schedule.parse(schedule).next_after(now, salt=salt, interval_s=interval_s)
