"""Store runs and their leases; delete expired runs, model answers and news of saved searches.

A source has at most one live run, by a unique index. A run is dead if its session is gone or its lease has expired.
The server frees the session's advisory lock at once, even after a kill -9; a lease expires if the process is frozen or
its cable is cut.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from psycopg.rows import TupleRow

from rowen.errors import BusyError, Hint, NotFoundError, RefusedError, action
from rowen.model.runs import Mode, Run, RunStats, RunStatus
from rowen.model.sources import Source
from rowen.model.text import error_within
from rowen.settings import Settings
from rowen.store.database import Connection, Database, translate_database_errors
from rowen.store.locks import Lock, hold_session, release_session
from rowen.store.rows import affected, all_rows, number, one, only, scalar

# For statements over `source`: how many items the last run left out at a limit. In the table such a run is complete,
# since it swept; in interfaces it is not.
BEYOND_LIMIT = """
coalesce((select (run.tally->>'truncated')::int from run where run.source_id = source.id order by id desc limit 1), 0)
"""
# For statements over `source`: the start of its last whole run. With this condition the planner expects every other run
# to match; it would otherwise read and sort all runs of each source.
LAST_WHOLE = """
(select run.started_at from run
  where run.source_id = source.id and run.complete and coalesce((run.tally->>'truncated')::int = 0, true)
  order by run.id desc limit 1)
"""

# Closes a run as failed whose process is gone.
_FAIL_DEAD = """
update run set status = 'failed', finished_at = now(), lease_until = null,
       error = 'its process ended without closing it; what it had committed is kept'
 where id = %s and status = 'running'
"""


class Problem(NamedTuple):
    """The failure of a run: message, error code, and the seconds until the source may be retried."""

    message: str | None = None
    code: str | None = None
    retry_in_s: float | None = None


class Lease:
    """The right to be the live run of a source."""

    def __init__(self, database: Database, connection: Connection, run_id: int, lease_s: float) -> None:
        self.run_id = run_id
        self.lease_s = lease_s
        self._database = database
        self._connection = connection

    @classmethod
    async def take(
        cls, database: Database, source: Source, *, mode: Mode, lease_s: float, job: int | None = None
    ) -> "Lease":
        """Begin a run and take its lease; a dead run of the source is closed as failed."""
        connection = await database.borrow()
        try:
            with translate_database_errors(database.place):
                async with connection.transaction():
                    await refuse_live(connection, source)
                    statement = """
                        insert into run (source_id, mode, lease_until, job_id)
                        values (%s, %s, now() + make_interval(secs => %s), %s) returning id
                    """
                    run_id: int = await scalar(connection, statement, [source.id, mode, lease_s, job])
                    await hold_session(connection, Lock.RUN, run_id)
        except BaseException:
            # The session of this connection may hold the lock of a run that never began.
            await connection.close()
            await database.give_back(connection)
            raise
        return cls(database, connection, run_id, lease_s)

    async def renew(self, stats: RunStats) -> bool:
        """Renew the lease and store the present statistics; return whether the run was asked to end."""
        with translate_database_errors(self._database.place):
            is_cancelled = await scalar(
                self._connection,
                "update run set lease_until = now() + make_interval(secs => %s), tally = %s::jsonb"
                " where id = %s and status = 'running' returning cancel_requested_at is not null",
                [self.lease_s, json.dumps(stats.to_json()), self.run_id],
            )
        if is_cancelled is None:
            raise BusyError(f"Run {self.run_id} was taken over by another one after it had been silent for too long.")
        return bool(is_cancelled)

    async def close(
        self, status: RunStatus, *, complete: bool, stats: RunStats, problem: "Problem | None", proved: bool = False
    ) -> None:
        """End the run and release the source; an incomplete run may have `proved` all other items unchanged."""
        error = problem or Problem()
        try:
            with translate_database_errors(self._database.place):
                await self._connection.execute(
                    "update run set status = %s, complete = %s, proved = %s, finished_at = now(), lease_until = null,"
                    " tally = %s::jsonb, error = %s, error_code = %s,"
                    " retry_at = now() + make_interval(secs => %s),"
                    " last_item = case when %s then (select max(id) from item) end"
                    " where id = %s and status = 'running'",
                    [
                        *(status, complete, proved, json.dumps(stats.to_json())),
                        *(error.message and error_within(error.message), error.code, error.retry_in_s),
                        *(complete, self.run_id),
                    ],
                )
                await release_session(self._connection, Lock.RUN, self.run_id)
        except BaseException:
            await self._connection.close()
            raise
        finally:
            await self._database.give_back(self._connection)


async def refuse_live(c: Connection, source: Source) -> None:
    """Raise `BusyError` if the source has a live run; close a dead run as failed.

    No other run of the source can begin before the transaction ends.
    """
    if await one(c, "select from source where id = %s for update", [source.id]) is None:
        raise NotFoundError(f"Source {source.name!r} was removed in the meantime.")
    query = f"""
        select id, started_at, lease_until < now() or {Lock.RUN.tried("id")}
          from run where source_id = %s and status = 'running'
    """  # noqa: S608 (a constant)
    row = await one(c, query, [source.id])
    if row is None:
        return
    run_id, started_at, is_dead = row
    if not is_dead:
        raise BusyError(
            f"Source {source.name!r} is being synced by run {run_id}, since {started_at:%H:%M:%S} UTC.",
            hint=Hint(action("run", str(run_id)), " shows its progress."),
        )
    await c.execute(_FAIL_DEAD, [run_id])


async def live_of(c: Connection, source: Source) -> int:
    """Return the id of a source's live run."""
    run_id: int | None = await scalar(c, "select id from run where source_id = %s and status = 'running'", [source.id])
    if run_id is None:
        raise NotFoundError(
            f"Source {source.name!r} has no live run.", hint=Hint(action("runs", source.name), " lists the last ones.")
        )
    return run_id


async def request_cancel(c: Connection, run_id: int) -> Run:
    """Ask a live run to end, or close a dead run as failed; return the run in its new state."""
    run = await get(c, run_id)
    if run.status != "running":
        raise RefusedError(f"Run {run_id} of {run.source!r} ended already: {run.status}.")
    statement = """
        update run set cancel_requested_at = coalesce(cancel_requested_at, now())
         where id = %s and status = 'running'
    """
    await c.execute(statement, [run_id])
    await c.execute(f"{_FAIL_DEAD} and (lease_until < now() or {Lock.RUN.tried('id')})", [run_id])
    return await get(c, run_id)


async def fence(c: Connection, run_id: int) -> None:
    """Raise `BusyError` if another process took over the run."""
    if await one(c, "select from run where id = %s and status = 'running' for share", [run_id]) is None:
        raise BusyError(f"Run {run_id} was taken over by another one; nothing more was written by it.")


async def deleted_since_whole(c: Connection, source_id: int) -> int:
    """Return how many items were deleted since the last complete run."""
    query = """
        select coalesce(sum((tally ->> 'deleted')::integer), 0) from run where source_id = %(source)s and id >
               coalesce((select max(id) from run where source_id = %(source)s and complete), 0)
    """
    return await number(c, query, {"source": source_id})


async def amend(c: Connection, run_id: int, stats: RunStats) -> None:
    """Replace the statistics of a run that has ended."""
    await c.execute("update run set tally = %s::jsonb where id = %s", [json.dumps(stats.to_json()), run_id])


_SELECT = """
select run.id, source.name, source.kind, run.mode, run.status, run.complete, run.started_at, run.finished_at,
       run.tally, run.error, run.error_code, run.retry_at, run.job_id
  from run join source on source.id = run.source_id
"""


async def recent(c: Connection, *, source: str | None = None, limit: int = 20, after: int | None = None) -> list[Run]:
    """Return the last runs, newest first; with `after`, only runs older than the run of this id."""
    where = """
     where (%(source)s::text is null or source.name = %(source)s) and (%(after)s::bigint is null or run.id < %(after)s)
     order by run.id desc limit %(limit)s
    """
    rows = await all_rows(c, _SELECT + where, {"source": source, "after": after, "limit": limit})
    return [_run(row) for row in rows]


async def get(c: Connection, run_id: int) -> Run:
    """Return a run."""
    row = await one(c, _SELECT + " where run.id = %s", [run_id])
    if row is None:
        raise NotFoundError(
            f"There is no run {run_id}; it may have been deleted after its retention time (ROWEN_RUNS_KEPT_DAYS).",
            hint=Hint(action("runs"), " lists the stored runs."),
        )
    return _run(row)


async def of_numbers(c: Connection, numbers: Sequence[int]) -> list[Run]:
    """Return the runs with these ids; ids without a run are ignored."""
    rows = await all_rows(c, _SELECT + " where run.id = any(%s::bigint[])", [list(numbers)])
    return [_run(row) for row in rows]


def _run(row: TupleRow) -> Run:
    run_id, source, kind, mode, status, complete, started_at, finished_at, stats, *ending = row
    counts = RunStats.from_json(stats)
    whole = complete and not counts.truncated
    return Run(run_id, source, kind, mode, status, whole, started_at, finished_at, counts, *ending)


# Rows that are deleted in one transaction, in a tenth of a second; a worker deletes as many of each kind per hour.
_AT_ONCE = 5_000
# The change rate of a source is computed from its last 40 whole checks, and half of its runs may be partial checks.
_RUNS_KEPT = 100
# With this number, a search that matches once in a season still has news to show.
_NEWS_KEPT = 100
# Enough for the feed of a search that matches a hundred times a day for a quarter. Nobody reads more.
_NEWS_MOST = 10_000

ANSWER_SEEN_DAYS = 1
"""The age at which the stored time of an answer's use is updated: a second pass within a day writes nothing."""


class ForgottenRows(NamedTuple):
    """The numbers of deleted runs, answers and news; `looked_at` is the number of answers checked."""

    runs: int = 0
    answers: int = 0
    news: int = 0
    looked_at: int = 0


# Deletes old runs. For each source these runs are kept whatever their age: the last runs, the first run (cost of an
# item), the last completed run, the last complete runs (guard, moves, last check of all items), later runs that deleted
# items, and runs that count for pending deletions. Ids rise with time: of each source only old rows are read.
_OF_SOURCE = "select id from run where run.source_id = source.id"
_RUNS = f"""
delete from run where id in (
    select old.id
      from (select id as last_old from run where started_at < now() - make_interval(secs => %(seconds)s)
             order by started_at desc limit 1) age
     cross join source
     cross join lateral ({_OF_SOURCE} order by id limit 1) first
     cross join lateral ({_OF_SOURCE} order by id desc offset %(kept)s limit 1) bound
     cross join lateral ({_OF_SOURCE} and id > first.id and id <= least(bound.id, last_old) order by id limit 1) due
     cross join lateral (
           select coalesce(({_OF_SOURCE} and status = 'completed' order by id desc limit 1), 0) as last_completed,
                  coalesce(({_OF_SOURCE} and complete order by id desc limit 1), 0) as last_complete,
                  coalesce(({_OF_SOURCE} and complete and coalesce((tally ->> 'truncated')::integer = 0, true)
                             order by id desc limit 1), 0) as last_whole,
                  (select min(run_id) from item_held where source_id = source.id and kept_at is null) as holding
            where due.id > 0 offset 0) needed
     cross join lateral (
           {_OF_SOURCE} and id >= due.id and id <= least(bound.id, last_old) and status <> 'running'
              and started_at < now() - make_interval(secs => %(seconds)s)
              and id not in (last_completed, last_complete, last_whole)
              and (id < last_complete or coalesce((tally ->> 'deleted')::bigint, 0) = 0)
              and (holding is null or id < holding)
            order by id limit %(limit)s) old
     limit %(limit)s)
"""  # noqa: S608 (a constant)
# Deletes old answers. Each is checked once per retention time: an answer behind current data counts as used now.
_ANSWERS = """
with old as materialized (
    select key from answer where used_at < now() - make_interval(secs => %(seconds)s)
     order by used_at limit %(limit)s for update skip locked
), needed as materialized (
    select key from old
     where exists (select from extraction_check where answer_key = old.key and state <> 'gone')
), used as (
    update answer set used_at = now() from needed where answer.key = needed.key
), deleted as (
    delete from answer using old
     where answer.key = old.key and not exists (select from needed where needed.key = old.key) returning 1
)
select (select count(*) from deleted), (select count(*) from old)
"""
# Deletes old news of each saved search, except the last ones, and the oldest news if there are too many.
_NEWS = """
delete from saved_news where id in (
    select old.id
      from saved_search search
     cross join lateral (select id, at from saved_news where search_id = search.id order by id limit 1) oldest
     cross join lateral (
           select coalesce((select id from saved_news where search_id = search.id
                             order by id desc offset %(kept)s limit 1), 0) as recent,
                  coalesce((select id from saved_news where search_id = search.id
                             order by id desc offset %(most)s limit 1), 0) as most) bound
     cross join lateral (
           select id, at from saved_news
            where search_id = search.id and id <= bound.recent
              and (oldest.id <= bound.most or oldest.at < now() - make_interval(secs => %(seconds)s))
            order by id limit %(limit)s) old
     where old.id <= bound.most or old.at < now() - make_interval(secs => %(seconds)s)
     limit %(limit)s)
"""
_DAY_S = 86_400


async def forget_old(c: Connection, settings: Settings) -> ForgottenRows:
    """Delete a batch of expired runs, answers and news each; return the numbers."""
    limit = {"limit": _AT_ONCE}
    runs = {**limit, "seconds": settings.runs_kept_days * _DAY_S, "kept": _RUNS_KEPT}
    deleted_runs = await affected(c, _RUNS, runs)
    answers = await only(c, _ANSWERS, {**limit, "seconds": settings.answers_kept_days * _DAY_S})
    news = {**limit, "seconds": settings.saved_news_kept_days * _DAY_S, "kept": _NEWS_KEPT, "most": _NEWS_MOST}
    return ForgottenRows(deleted_runs, answers[0], await affected(c, _NEWS, news), answers[1])


async def forget_all_old(database: Database, settings: Settings) -> ForgottenRows:
    """Delete all expired rows, each batch in its own transaction."""
    total = ForgottenRows()
    while True:
        async with database.transaction() as c:
            batch = await forget_old(c, settings)
        total = ForgottenRows(*(count + more for count, more in zip(total, batch, strict=True)))
        if not any(batch):
            return total
