"""Queries behind `get`, `history`, `diff` and `status`: single items with their revisions, and overviews of sources."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg.rows import dict_row

from rowen.model.hashes import Hash
from rowen.model.items import Case, Entry, PendingDeletion, Revision
from rowen.model.sources import Overview
from rowen.store.database import Connection
from rowen.store.items.items import whole
from rowen.store.rows import Parameters, Statement, all_rows, list_of, one
from rowen.store.runs import LAST_WHOLE


async def quarantine_cases(
    c: Connection, *, source: str | None = None, limit: int = 100, after: tuple[datetime, str, str] | None = None
) -> list[Case]:
    """Return the quarantined items, newest error first; with `after`, only items after this position."""
    at, url, name = after or (None, None, None)
    query = """
        select source.name as source, quarantine.url, error, hint, tries, first_at, last_at
          from quarantine join source on source.id = source_id
         where (%(source)s::text is null or source.name = %(source)s)
           and (%(at)s::timestamptz is null or last_at < %(at)s
                or last_at = %(at)s and (quarantine.url, source.name) > (%(url)s, %(name)s))
         order by last_at desc, quarantine.url, source.name limit %(limit)s
    """
    return await list_of(c, Case, query, {"source": source, "limit": limit, "at": at, "url": url, "name": name})


async def pending_deletions(
    c: Connection, *, source: str | None = None, limit: int | None = None, after: tuple[str, str] | None = None
) -> list[PendingDeletion]:
    """Return the pending deletions by source and URL; with `after`, only deletions after this position.

    Each source is queried separately: the planner does not know that most deletions often belong to one source.
    """
    name, url = after or (None, None)
    deletions: list[PendingDeletion] = []
    for source_id, source_name in await all_rows(c, _PENDING_SOURCES, {"source": source, "name": name}):
        left = None if limit is None else limit - len(deletions)
        place = {"id": source_id, "after": url if source_name == name else None, "limit": left}
        deletions += await list_of(c, PendingDeletion, _PENDING_DELETIONS, place)
        if limit is not None and len(deletions) >= limit:
            break
    return deletions


_PENDING_SOURCES = """
select id, name from source
 where exists (select from item_held where source_id = source.id)
   and (%(source)s::text is null or name = %(source)s) and (%(name)s::text is null or name >= %(name)s)
 order by name
"""
_PENDING_DELETIONS = """
select source.name as source, item.url, item.title, item_held.at as since,
       exists (select from item_gone where item_gone.item_id = item.id) as told, item_held.kept_at
  from item_held join item on item.id = item_held.item_id join source on source.id = item_held.source_id
 where item_held.source_id = %(id)s and (%(after)s::text is null or item.url > %(after)s)
 order by item.url limit %(limit)s
"""


async def withdrawn_entries(c: Connection, key: Hash, *, days: float) -> list[Entry]:
    """Return the copies of items with this key that were deleted in the last `days`, newest first."""
    query = """
        select item_id as id, source.name as source, withdrawn.url, title, text, tags, record, source_record, language,
               media_type,
               coalesce(string_to_array(remarks, e'\\n'), '{}') as remarks, revision, withdrawn.created_at, updated_at,
               at as checked_at, at as withdrawn_at
          from withdrawn join source on source.id = source_id
         where key = %s and at > now() - make_interval(secs => %s) order by at desc, source.name
    """
    return await entries_of(c, query, [key, days * 86_400])


async def withdrawn_revisions(c: Connection, item_id: int) -> list[Revision]:
    """Return all revisions of a withdrawn item, oldest first."""
    query = """
        select old.number, old.at, old.title, old.text, old.tags
          from withdrawn, jsonb_to_recordset(revisions)
               as old(number integer, at timestamptz, title text, text text, tags text[])
         where item_id = %(id)s
         union all
        select revision, updated_at, title, text, tags from withdrawn where item_id = %(id)s
         order by 1
    """
    return await list_of(c, Revision, query, {"id": item_id})


# When an item was last checked: individually, or by a run that checked all items of its source.
_CHECKED_AT = """
greatest(item_check.checked_at, item.updated_at,
         (select max(started_at) from run where run.source_id = source.id and (complete or proved)))
"""
_ENTRY = f"""
select item.id, source.name as source, item.url, title, text, tags, record, source_record, language, media_type,
       coalesce(string_to_array(remarks, e'\\n'), '{{}}') as remarks, revision, item.created_at, item.updated_at,
       {_CHECKED_AT} as checked_at
  from item join source on source.id = item.source_id left join item_check on item_id = item.id
"""  # noqa: S608 (constants)


async def entries_of(c: Connection, statement: Statement, parameters: Parameters) -> list[Entry]:
    """Return the items that a statement selects, with whole records."""

    def entry(*, record: Mapping[str, Any], source_record: bytes | None, **rest: Any) -> Entry:
        return Entry(record=whole(record, source_record), **rest)

    cursor = await c.cursor(row_factory=dict_row).execute(statement, parameters)
    return [entry(**row) for row in await cursor.fetchall()]


async def entries(c: Connection, *keys: Hash) -> list[Entry]:
    """Return the items with these keys, one for each source that has the item."""
    return await entries_of(c, f"{_ENTRY} where key = any(%s) order by source.name, item.url", [list(keys)])


async def at_page(c: Connection, mark: int) -> list[Entry]:
    """Return the datasets that have the duplicate mark of a page."""
    return await entries_of(c, f"{_ENTRY} where item.twins @> array[%s::bigint] order by source.name", [mark])


async def first_of_source(c: Connection, name: str) -> list[Entry]:
    """Return the only item of the named source, or two items if it has several."""
    return await entries_of(c, f"{_ENTRY} where source.name = %s limit 2", [name])


async def source_urls(c: Connection) -> dict[str, str]:
    """Return the URLs of all sources, by name."""
    return dict(await all_rows(c, "select name, url from source"))


async def check_times(c: Connection, keys: Sequence[Hash]) -> dict[tuple[str, str], datetime]:
    """Return when the items with these keys were last checked, by source and URL."""
    query = f"""
        select source.name, item.url, {_CHECKED_AT}
          from item join source on source.id = item.source_id left join item_check on item_id = item.id
         where key = any(%s)
    """  # noqa: S608 (constants)
    rows = await all_rows(c, query, [list(keys)])
    return {(source, url): at for source, url, at in rows}


async def revisions(c: Connection, item_id: int) -> list[Revision]:
    """Return all revisions of an item, oldest first, with the present version last."""
    query = """
        select number, at, title, text, tags from revision where item_id = %(id)s
        union all
        select revision, updated_at, title, text, tags from item where id = %(id)s
        order by 1
    """
    return await list_of(c, Revision, query, {"id": item_id})


async def superseded_record(c: Connection, item_id: int) -> tuple[Mapping[str, Any], datetime] | None:
    """Return the record before the present one and the start of its validity; None if there is none."""
    row = await one(
        c,
        "select record, source_record, at from superseded_record where item_id = %s order by number desc limit 1",
        [item_id],
    )
    return None if row is None else (whole(row[0], row[1]), row[2])


async def last_new_at(c: Connection, source_ids: Sequence[int]) -> dict[int, datetime]:
    """Return the start of the last run of each source that created or updated an item."""
    query = """
        select source_id, started_at from unnest(%s::bigint[]) as given (source_id)
         cross join lateral (
               select started_at from run
                where run.source_id = given.source_id
                  and coalesce((tally->>'created')::int, 0) + coalesce((tally->>'updated')::int, 0) > 0
                order by id desc limit 1) as last
    """
    rows = await all_rows(c, query, [list(source_ids)])
    return dict(rows)


_CHOSEN = {
    "after": "source.name > %(after)s",
    "only": "source.name = %(only)s",
    "named": "position(lower(%(named)s) in lower(source.name || ' ' || source.url)) > 0",
    "needing": "source.state = 'active' and (last.status in ('failed', 'partial')"
    " or source.id in (select source_id from item_held where kept_at is null))",
}
# The chosen sources are counted at once: if one source has most of the rows, the planner would otherwise read them for
# each source.
_OVERVIEW = f"""
with source as materialized (
    select source.*, last.status as last_status, last.started_at as last_run_at, last.error as last_error,
           coalesce((last.tally->>'truncated')::int, 0) as truncated
      from source
      left join lateral (select * from run where run.source_id = source.id order by id desc limit 1) last on true
     where {{chosen}} order by source.name limit %(limit)s
), pending as materialized (
    select source_id, count(*) as items from item_held
     where kept_at is null and source_id = any(array(select id from source)) group by source_id
), unread as materialized (
    select source_id, count(*) as items from quarantine
     where source_id = any(array(select id from source)) group by source_id
)
select source.name, source.kind, source.url, source.state, source.schedule, 0 as items,
       coalesce(pending.items, 0) as deletions_held, coalesce(unread.items, 0) as quarantined,
       last_status, last_run_at, last_error, truncated, {LAST_WHOLE} as last_complete_at, source_due.due_at
  from source
  left join pending on pending.source_id = source.id
  left join unread on unread.source_id = source.id
  left join source_due on source_due.source_id = source.id
 order by source.name
"""  # noqa: S608 (constants)


async def overview(
    c: Connection,
    *,
    after: str | None = None,
    limit: int | None = None,
    named: str | None = None,
    only: str | None = None,
    needing: bool = False,
) -> list[Overview]:
    """Return the status of sources by name; with `after`, only sources whose names come after it.

    `only` selects the source of this name, `named` the sources with this text in their name or URL, `needing` the
    sources that need attention. Items are not counted.
    """
    filters = {"after": after, "named": named, "only": only, "needing": needing or None}
    values = {name: value for name, value in filters.items() if value is not None}
    chosen = " and ".join(_CHOSEN[name] for name in values) or "true"
    return await list_of(c, Overview, _OVERVIEW.format(chosen=chosen).encode(), {**values, "limit": limit})
