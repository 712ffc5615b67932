"""When a source is looked at again: by its schedule, later each time while it fails, and never twice for one time.

Every run is settled here, whoever began it. All times are the database's, by which all workers go.
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

__all__ = ["Turn", "count_failure", "mend", "next_time", "settle", "tell"]

# What fails is looked at after twice as long each time, but once a day at least: somebody may have repaired it.
_LONGEST = timedelta(days=1)
# Until it is known how often a source changes.
_AT_FIRST_S = 3_600.0
# The first wait of a source that is called failing, unless its own interval is longer.
_SHORTEST = timedelta(minutes=30)
# More than the jitter of two intervals, in which a time may differ from the one that would be given now.
_SLACK = timedelta(hours=3)
# Due times that are looked at once an hour, from the furthest on: that is where wrong ones are.
_DOUBTED = 1_000
# What changes by itself is looked at within a season, however seldom that is.
_FURTHEST_AUTO = timedelta(days=90)


class Turn(NamedTuple):
    """A source that has begun to fail, or can be read again: a line for the change log."""

    source: Source
    run_id: int | None
    line: changes.LogLine


async def settle(
    database: Database, settings: Settings, source: Source, run: Run, *, looked: Sequence[int] = ()
) -> None:
    """Write down what a run means for its source: when it is due again, and how many runs in a row have failed.

    `looked` are the items that it looked at, if it looked again at some alone. If facts are to be extracted from what
    it changed, a job for that is put into the queue.
    """
    if run.status == "cancelled":
        return
    error = (run.error or "") if run.status == "failed" else None
    async with database.transaction() as c:
        await put_extraction_if_behind(c, database, source.id)
        await freshness.learn(c, source, run, looked=looked)
        await tell(c, await _settle(c, settings, source, run.id, error=error))


async def count_failure(c: Connection, settings: Settings, source: Source, error: str) -> Turn | None:
    """Count a job that failed; what comes back is told by the caller, as the last step of the transaction."""
    return await _settle(c, settings, source, None, error=error)


async def tell(c: Connection, *turns: Turn | None) -> None:
    """Write lines into the change log; must be the last step of a transaction."""
    for turn in turns:
        if turn is not None:
            await changes.append(c, turn.source, turn.run_id, [turn.line])


async def _settle(
    c: Connection, settings: Settings, source: Source, run_id: int | None, *, error: str | None
) -> Turn | None:
    before = await schedules.due_status(c, source.id)
    # It may have been edited or removed while it was read.
    is_there, text = await schedules.schedule_of(c, source.id)
    if not is_there:
        return None
    now = await schedules.database_time(c)
    failures = 0 if error is None else before.failures + 1
    is_failing = failures >= settings.failing_after
    since = (before.failing_since or now) if is_failing else None
    worth_s = await freshness.next_look_s(c, settings, source.id, text)
    at = next_time(text, now, salt=source.id + (run_id or 0), worth_s=worth_s)
    if at is not None and is_failing:
        at = max(at, now + _patience(failures - settings.failing_after))
    after = DueStatus(at, failures, since)
    if after == before:
        return None
    await schedules.store_due_status(c, source.id, after)
    await schedules.notify_workers(c)
    if is_failing == (before.failing_since is not None):
        return None
    title = f"{source.name}: {error or 'can be read again'}"
    kind: ChangeKind = "failing" if is_failing else "recovered"
    return Turn(source, run_id, changes.LogLine(kind, key(source.url), source.url, title))


async def mend(c: Connection) -> int:
    """Correct due times that only a clock can have written which has been set back since; returns how many."""
    now = await schedules.database_time(c)
    mended = 0
    for source in await schedules.furthest_due(c, days=_LONGEST / timedelta(days=1), limit=_DOUBTED):
        worth_s = await freshness.polling_s(c, source.id) if source.schedule is None else None
        at = next_time(source.schedule, now, salt=source.id, worth_s=worth_s)
        is_auto = source.schedule is not None and Schedule.parse(source.schedule).is_auto
        if at is None or source.due_at - at > (_FURTHEST_AUTO if is_auto else _LONGEST + _SLACK):
            held = await schedules.due_status(c, source.id)
            await schedules.store_due_status(c, source.id, held._replace(due_at=at))
            mended += 1
    return mended


def next_time(schedule: str | None, now: datetime, *, salt: int, worth_s: float | None = None) -> datetime | None:
    """When a source with this schedule is due next; missed times count as one.

    `worth_s` is in how many seconds it is worth a look, for one that is looked at as often as it changes, or that has
    no schedule and says itself how often it wants to be asked.
    """
    if schedule is None:
        return None if worth_s is None else Schedule(every="auto").next_after(now, salt=salt, interval_s=worth_s)
    interval_s = _AT_FIRST_S if worth_s is None else worth_s
    return Schedule.parse(schedule).next_after(now, salt=salt, interval_s=interval_s)


def _patience(times: int) -> timedelta:
    # Beyond 2^10 it is always the longest.
    return min(_LONGEST, _SHORTEST * (1 << min(times, 10)))
