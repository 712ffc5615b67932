"""Store extractions: model answers by question, versions of each item's data, and costs spent and avoided."""

import json
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from psycopg.types.json import Jsonb

from rowen.model.changes import FieldChange, differences
from rowen.model.extraction import Evidence, Extraction, Origin, SourceSchema
from rowen.model.hashes import Hash, data_hash
from rowen.model.models import CostLine
from rowen.model.schemas import Schema
from rowen.model.search import Condition
from rowen.model.sources import Source
from rowen.model.text import error_within
from rowen.store import changes
from rowen.store.database import Connection
from rowen.store.rows import affected, all_rows, one, only
from rowen.store.runs import ANSWER_SEEN_DAYS
from rowen.store.schemas import ATTACHED_COLUMNS, AttachedSchema, count_pending


class StoredAnswer(NamedTuple):
    """A stored valid answer of a model, with what it cost."""

    data: Any
    model: str
    calls: int
    tokens: int
    usd: float | None


class NewExtraction(NamedTuple):
    """Extracted data to be stored."""

    data: Any
    origin: Origin
    model: str | None
    evidence: tuple[Evidence, ...]
    answer_key: Hash | None
    content_hash: Hash | None


class Saved(NamedTuple):
    """The outcome of saving extracted data: a first, a changed or the same version; and newly met conditions."""

    outcome: Literal["created", "changed", "same"]
    number: int
    matched: tuple[str, ...] = ()


# A stored answer. An expiring answer is either marked as used first, or not found; it is never returned and then
# deleted.
_FIND_ANSWER = """
with marked as (
    update answer set used_at = now() where key = %(key)s and used_at < now() - make_interval(days => %(days)s)
    returning *
), stored as (
    select * from marked
    union all
    select * from answer where key = %(key)s and used_at >= now() - make_interval(days => %(days)s)
)
select data, model, calls, tokens_sent + tokens_received, usd from stored limit 1
"""


async def find_answer(c: Connection, key: Hash) -> StoredAnswer | None:
    """Return the stored answer to a question, None if there is none; store the time of its use once a day."""
    row = await one(c, _FIND_ANSWER, {"key": key, "days": ANSWER_SEEN_DAYS})
    return StoredAnswer(*row) if row else None


async def keep_answer(
    c: Connection, key: Hash, data: Any, *, model: str, calls: int, tokens: tuple[int, int], usd: float | None
) -> None:
    """Store a valid answer, unless one is stored already."""
    statement = """
        insert into answer (key, data, model, calls, tokens_sent, tokens_received, usd)
        values (%s, %s, %s, %s, %s, %s, %s) on conflict (key) do nothing
    """
    await c.execute(statement, [key, json.dumps(data, ensure_ascii=False), model, calls, *tokens, usd])


async def forget_answer(c: Connection, key: Hash) -> None:
    """Delete an answer whose question is put to the model again."""
    await c.execute("delete from answer where key = %s", [key])


async def save(
    c: Connection,
    source: Source,
    used: AttachedSchema,
    key: Hash,
    *,
    url: str,
    title: str,
    facts: NewExtraction,
    number: int,
) -> Saved:
    """Compare extracted data with the current version; store and log a new version if they differ.

    Must be the last step of a transaction.
    """
    name = used.schema.name
    await c.execute(
        "insert into extraction_check (source_id, key, name, state) values (%s, %s, %s, 'gone') on conflict do nothing",
        [source.id, key, name],
    )
    query = """
        select extraction.id, extraction.number, extraction.data, extraction.data_hash, checked.state
          from extraction_check checked left join extraction on extraction.id = checked.extraction_id
         where checked.source_id = %s and checked.key = %s and checked.name = %s for update of checked
    """
    version_id, last, before, before_hash, state = await only(c, query, [source.id, key, name])
    new_hash = data_hash(facts.data)
    is_same = version_id is not None and before_hash == new_hash and state != "gone"
    if state == "gone":
        before = None
    diff = [] if is_same else [change.to_json() for change in differences({} if before is None else before, facts.data)]
    if not is_same:
        version_id, last = await only(
            c,
            """
            insert into extraction (source_id, key, url, name, number, schema_id, data, data_hash, diff, evidence,
                                    origin, model, content_hash)
            select %(source)s, %(key)s, %(url)s, %(name)s, coalesce(max(number), 0) + 1, %(schema)s, %(data)s, %(hash)s,
                   %(diff)s, %(evidence)s, %(origin)s, %(model)s, %(content)s
              from extraction where source_id = %(source)s and key = %(key)s and name = %(name)s
            returning id, number
            """,
            {
                "source": source.id,
                "key": key,
                "url": url,
                "name": name,
                "schema": used.schema_id,
                "data": json.dumps(facts.data, ensure_ascii=False),
                "hash": new_hash,
                "diff": Jsonb(diff),
                "evidence": Jsonb([quote._asdict() for quote in facts.evidence]) if facts.evidence else None,
                "origin": facts.origin,
                "model": facts.model,
                "content": facts.content_hash,
            },
        )
    statement = """
        update extraction_check set extraction_id = %s, change = greatest(change, %s), state = 'current',
               answer_key = %s, checks = case when %s then checks + 1 else 0 end, tries = 0, error = null,
               error_code = null, checked_at = now() where source_id = %s and key = %s and name = %s
    """
    await c.execute(statement, [version_id, number, facts.answer_key, is_same, source.id, key, name])
    if is_same:
        return Saved("same", last)
    # A first version matches no condition, since nothing changed.
    conditions = [] if before is None else [Condition.parse(text) for text in used.conditions]
    matched = tuple(str(each) for each in conditions if each.holds(facts.data) and not each.holds(before))
    ref, patch = used.schema.ref, json.dumps(diff, ensure_ascii=False)
    lines = [changes.LogLine("extracted", key, url, title, schema=ref, diff=patch)]
    lines += [changes.LogLine("matched", key, url, f"{title}: {each}", schema=ref, diff=patch) for each in matched]
    await changes.append(c, source, None, lines)
    return Saved("created" if before is None else "changed", last, matched)


async def fail(
    c: Connection,
    source_id: int,
    key: Hash,
    name: str,
    *,
    number: int,
    error: str,
    code: str,
    answer_key: Hash | None = None,
) -> None:
    """Store that extraction failed; the last version stays current, and the item's next change starts a retry.

    The rejected answer of a model stays stored, so that it is not paid for again.
    """
    statement = """
        insert into extraction_check as checked (source_id, key, name, state, change, tries, error, error_code,
                answer_key) values (%s, %s, %s, 'failed', %s, 1, %s, %s, %s)
        on conflict (source_id, key, name) do update set state = 'failed', change = greatest(checked.change, %s),
               tries = checked.tries + 1, error = excluded.error, error_code = excluded.error_code, checked_at = now(),
               answer_key = coalesce(excluded.answer_key, checked.answer_key)
    """
    await c.execute(statement, [source_id, key, name, number, error_within(error), code, answer_key, number])


async def close_gone(c: Connection, source_id: int, key: Hash, name: str, *, number: int) -> bool:
    """Store that an item and its data are gone; return False if it had no data."""
    statement = """
        update extraction_check set state = 'gone', change = greatest(change, %s), checked_at = now()
         where source_id = %s and key = %s and name = %s and state <> 'gone'
    """
    closed = await affected(c, statement, [number, source_id, key, name])
    return closed > 0


_COLUMNS = """
select source.name as source, extraction.url, schema.name || '@' || schema.version as schema, extraction.number,
       extraction.data, extraction.diff, extraction.origin, extraction.model, extraction.at,
       coalesce(checked.state <> 'gone' and checked.extraction_id = extraction.id, false) as current,
       case when checked.extraction_id = extraction.id then checked.checks else 0 end,
       case when checked.extraction_id = extraction.id then checked.checked_at end, extraction.evidence,
       encode(extraction.content_hash, 'hex')
"""
_VERSIONS = f"""
{_COLUMNS}
  from extraction
  join source on source.id = extraction.source_id
  join schema on schema.id = extraction.schema_id
  left join extraction_check checked on checked.source_id = extraction.source_id and checked.key = extraction.key
       and checked.name = extraction.name
"""


async def history(c: Connection, key: Hash, name: str, *, source: str | None = None) -> list[Extraction]:
    """Return all versions of an item's data under a schema name, oldest first."""
    where = """
     where extraction.key = %(key)s and extraction.name = %(name)s
       and (%(source)s::text is null or source.name = %(source)s)
     order by source.name, extraction.number
    """
    rows = await all_rows(c, _VERSIONS + where, {"key": key, "name": name, "source": source})
    return [_extraction(row) for row in rows]


async def histories(c: Connection, keys: list[Hash], name: str) -> list[Extraction]:
    """Return all versions of some items' data under a schema name, oldest first for each."""
    where = " where extraction.key = any(%s) and extraction.name = %s"
    order = " order by source.name, extraction.url, extraction.number"
    return [_extraction(row) for row in await all_rows(c, _VERSIONS + where + order, [keys, name])]


# The sources that have data under each schema, found by a loose scan of the index.
_PAIRS = """
with recursive pair(name, source_id) as (
    (select name collate "C", source_id from extraction order by name collate "C", source_id limit 1)
    union all
    select next.name, next.source_id from pair cross join lateral (
        select name collate "C" as name, source_id from extraction
         where (name collate "C", source_id) > (pair.name, pair.source_id)
         order by name collate "C", source_id limit 1) next
)
select pair.name, pair.source_id, source.name from pair join source on source.id = pair.source_id
 where (%(name)s::text is null or pair.name = %(name)s)
   and (%(sources)s::text[] is null or source.name = any(%(sources)s))
   and (%(after)s::text[] is null or array[pair.name, source.name] collate "C" >= %(after)s::text[] collate "C")
 order by pair.name, source.name collate "C"
"""
# In the order of the index, row by row: the planner does not know that nearly all versions are in force, and would sort
# all of them.
_IN_FORCE = f"""
{_COLUMNS}
  from (select * from extraction
         where name collate "C" = %(name)s and source_id = %(source)s and url collate "C" > %(after)s
         order by url collate "C" offset 0) extraction
 cross join lateral (select * from extraction_check checked where checked.source_id = extraction.source_id
                        and checked.key = extraction.key and checked.name = extraction.name
                        and checked.state in ('current', 'failed') and checked.extraction_id = extraction.id
                      limit 1) checked
 cross join lateral (select name from source where id = extraction.source_id limit 1) source
 cross join lateral (select name, version from schema where id = extraction.schema_id limit 1) schema
 order by extraction.url collate "C" limit %(limit)s
"""  # noqa: S608 (constants)


async def current(
    c: Connection,
    *,
    name: str | None = None,
    sources: list[str] | None = None,
    after: tuple[str, str, str] | None = None,
    limit: int,
) -> list[Extraction]:
    """Return the current data by schema, source and URL; with `after`, only data after this position."""
    place = list(after[:2]) if after else None
    pairs = await all_rows(c, _PAIRS, {"name": name, "sources": sources or None, "after": place})
    extractions: list[Extraction] = []
    for schema, source_id, source in pairs:
        url = after[2] if after and place == [schema, source] else ""
        values = {"name": schema, "source": source_id, "after": url, "limit": limit - len(extractions)}
        extractions += [_extraction(row) for row in await all_rows(c, _IN_FORCE, values)]
        if len(extractions) == limit:
            break
    return extractions


async def current_in_batches(
    c: Connection, *, name: str | None, sources: list[str] | None, size: int
) -> AsyncGenerator[list[Extraction]]:
    """Yield all current data, in batches."""
    after: tuple[str, str, str] | None = None
    while batch := await current(c, name=name, sources=sources, after=after, limit=size):
        yield batch
        last = batch[-1]
        after = (last.schema.partition("@")[0], last.source, last.url)


def _extraction(row: tuple[Any, ...]) -> Extraction:
    source, url, schema, number, data, diff, origin, model, at, is_current, checks, checked_at, evidence, content = row
    changed = tuple(FieldChange(entry["op"], entry["path"], entry.get("before"), entry.get("after")) for entry in diff)
    quotes = tuple(Evidence(**entry) for entry in evidence or ())
    columns = (source, url, schema, number, data, changed, origin, model, at)
    return Extraction(*columns, is_current, checks, checked_at, quotes, content)


class AvoidedCalls(NamedTuple):
    """The number of model calls that were avoided, with their tokens and costs."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0


async def avoid(c: Connection, source_id: int | None, name: str, avoided: Mapping[str, AvoidedCalls]) -> None:
    """Add avoided calls to today's statistics, by reason."""
    for reason, counts in avoided.items():
        if counts.calls:
            statement = """
                insert into avoided_call as today (day, source_id, name, reason, calls, tokens, usd)
                values ((now() at time zone 'utc')::date, %s, %s, %s, %s, %s, %s)
                on conflict (day, source_id, name, reason) do update set calls = today.calls + excluded.calls,
                       tokens = today.tokens + excluded.tokens, usd = today.usd + excluded.usd
            """
            await c.execute(statement, [source_id, name, reason, *counts])


# Summed by ids first: joining a name to each call, and sorting by it, takes three times as long.
_SPENT_BY_LINE = """
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
    """Return costs by source, purpose, schema and model; avoided calls are in the first line of their schema."""
    rows = await all_rows(c, _AVOIDED, [since])
    avoided = {(source, "extract", name): tuple(counts) for source, name, *counts in rows}
    lines = []
    for source, purpose, subject, *rest in await all_rows(c, _SPENT_BY_LINE, [since]):
        lines.append(CostLine(source, purpose, subject, *rest, *avoided.pop((source, purpose, subject), ())))
    lines += [CostLine(*group, None, 0, 0, 0, 0, 0.0, *counts) for group, counts in avoided.items()]
    return lines


_OVERVIEW = f"""
select source.name, source.id, waits_for, waits_until, coalesce(checked.current, 0), coalesce(checked.failed, 0),
       (select coalesce(max(number), 0) from change where change.source_id = source.id), {ATTACHED_COLUMNS}
  from source_schema join source on source.id = source_id join schema on schema.id = schema_id
  left join (select source_id, name, count(*) filter (where state = 'current') as current,
                    count(*) filter (where state = 'failed') as failed
               from extraction_check where %(id)s::bigint is null or source_id = %(id)s
              group by source_id, name) checked
    on checked.source_id = source.id and checked.name = source_schema.name
 where %(id)s::bigint is null or source.id = %(id)s
 order by source.name, source_schema.name
"""  # noqa: S608 (a constant)


async def overview(c: Connection, source_id: int | None = None) -> list[SourceSchema]:
    """Return all attached schemas with their progress; items are counted only for schemas that are behind the log."""
    overviews = []
    rows = await all_rows(c, _OVERVIEW.encode(), {"id": source_id})
    for source, id_, waits_for, until, current, failed, last, *row in rows:
        used = AttachedSchema(id_, Schema(*row[:5]), *row[5:])
        left = await count_pending(c, used, upto=last) if last > used.extracted_to else 0
        settings = used.schema.ref, used.grounding, used.learns, used.rules, tuple(used.conditions)
        progress = used.extracted_to, left, current, failed, waits_for, until
        overviews.append(SourceSchema(source, *settings, *progress, only_urls=tuple(used.only_urls)))
    return overviews
