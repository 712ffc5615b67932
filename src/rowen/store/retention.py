"""Runs, answers of models, and news of saved searches that are too old: forgotten a batch at a time."""

from typing import NamedTuple

from rowen.settings import Settings
from rowen.store.database import Connection, Database
from rowen.store.rows import one

__all__ = ["ANSWER_SEEN_DAYS", "Forgotten", "forget", "forget_all"]

# A transaction of so many rows takes a tenth of a second. A worker deletes as many of each in an hour.
_AT_ONCE = 5_000
# How often a source changes is learned from its last 40 whole looks; half of its runs may be partial.
_RUNS_KEPT = 100
# A search that matches once in a season still has news to show.
_NEWS_KEPT = 100
# A feed of a search that matches every day for a quarter, a hundred times a day. Nobody reads more.
_NEWS_MOST = 10_000

ANSWER_SEEN_DAYS = 1
"""The use of an answer is noted when the last note is older: a pass over answers of yesterday writes nothing."""


class Forgotten(NamedTuple):
    """How many runs, answers and news of saved searches were forgotten; `looked_at` counts answers still in use too."""

    runs: int = 0
    answers: int = 0
    news: int = 0
    looked_at: int = 0

    def __add__(self, other: object) -> "Forgotten":
        """Add the counts of two batches."""
        if not isinstance(other, Forgotten):
            return NotImplemented
        return Forgotten(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


# Kept whatever their age: the last runs of each source, the first (what an item costs), the last that was completed,
# the last complete ones (guard, moves, last check of all items), those that deleted something since, and those that
# count for deletions that are held back.
# Numbers rise with time: of each source nothing is read but what is old enough.
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
# Each answer is looked at once in the whole time: one that facts in force rest on counts as used now.
_ANSWERS = """
with old as materialized (
    select key from answer where used_at < now() - make_interval(secs => %(seconds)s)
     order by used_at limit %(limit)s for update skip locked
), needed as materialized (
    select key from old
     where exists (select from extraction_check where answer_key = old.key and state <> 'gone')
), kept as (
    update answer set used_at = now() from needed where answer.key = needed.key
), gone as (
    delete from answer using old
     where answer.key = old.key and not exists (select from needed where needed.key = old.key) returning 1
)
select (select count(*) from gone), (select count(*) from old)
"""
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


async def forget(c: Connection, settings: Settings) -> Forgotten:
    """Forget what is too old, at most a batch of each kind; return how many rows that were."""
    limit = {"limit": _AT_ONCE}
    runs = await c.execute(_RUNS, {**limit, "seconds": settings.runs_kept_days * _DAY_S, "kept": _RUNS_KEPT})
    row = await one(c, _ANSWERS, {**limit, "seconds": settings.answers_kept_days * _DAY_S})
    answers, looked_at = row or (0, 0)
    kept = {"kept": _NEWS_KEPT, "most": _NEWS_MOST}
    news = await c.execute(_NEWS, {**limit, **kept, "seconds": settings.saved_news_kept_days * _DAY_S})
    return Forgotten(runs.rowcount, answers, news.rowcount, looked_at)


async def forget_all(database: Database, settings: Settings) -> Forgotten:
    """Forget everything that is too old, a batch in each transaction."""
    forgotten = Forgotten()
    while True:
        async with database.transaction() as c:
            batch = await forget(c, settings)
        forgotten += batch
        if not any(batch):
            return forgotten
