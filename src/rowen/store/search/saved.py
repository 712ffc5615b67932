"""Saved searches and their matches, updated from the change log."""

from collections.abc import Sequence
from typing import Any

from psycopg import errors

from rowen.errors import Hint, NotFoundError, RefusedError, action
from rowen.model.search import SavedNews, SavedSearch
from rowen.store.changes import last_number, next_range
from rowen.store.database import Connection
from rowen.store.rows import affected, all_rows, list_of, number, one, scalar

# Lines of the log that are read in one transaction; each costs a look-up of its item's passages.
_BATCH = 1_000

_SELECT = "select id, name, query, sources, matches, after, created_at from saved_search"

# Stores the matches of a new search. Each text configuration is queried separately, so that the word index is used.
_MATCH = """
insert into saved_match (search_id, source_id, key)
select distinct %(search)s, item.source_id, item.key
  from text_configs() as config
  join lateral (
       select item_id, language from chunk where chunk.tsv @@ websearch_to_tsquery(config, words_apart(%(query)s))
       ) passage on true
  join item on item.id = passage.item_id and text_config(coalesce(passage.language, item.text_language)) = config
  join source on source.id = item.source_id
 where %(sources)s::text[] is null or source.name = any(%(sources)s)
"""

# Stores new and lost matches among the changed items, and the news about them. The words are parsed once for each text
# configuration, not for each line.
_UPDATE = """
with query as materialized (
    select config, websearch_to_tsquery(config, words_apart(%(query)s)) as words from text_configs() as config
), touched as (
    select source_id, key, max(number) as number
      from change where number > %(after)s and number <= %(until)s and kind not in ('failing', 'recovered')
     group by source_id, key
), judged as (
    select touched.*, item.id is not null and exists (
               select from query join chunk on chunk.item_id = item.id and chunk.tsv @@ query.words
                where query.config = text_config(coalesce(chunk.language, item.text_language))) as is_match,
           match.key is not null as was_match
      from touched
      left join item on item.source_id = touched.source_id and item.key = touched.key
      left join saved_match match on match.search_id = %(search)s and match.source_id = touched.source_id
                                 and match.key = touched.key
     where %(sources)s::text[] is null
        or touched.source_id in (select id from source where name = any(%(sources)s)) or match.key is not null
), lost as (
    delete from saved_match using judged
     where search_id = %(search)s and saved_match.source_id = judged.source_id and saved_match.key = judged.key
       and not is_match
), matched as (
    insert into saved_match (search_id, source_id, key)
    select %(search)s, source_id, key from judged where is_match and not was_match
), counted as (
    update saved_search
       set matches = matches + (select count(*) filter (where is_match and not was_match)
                                       - count(*) filter (where was_match and not is_match) from judged)
     where id = %(search)s
)
insert into saved_news (search_id, kind, number, source, url, title, at)
select %(search)s, case when is_match then 'matches' else 'no longer matches' end, change.number, change.source,
       change.url, change.title, change.at
  from judged join change on change.number = judged.number
 where is_match <> was_match
 order by change.number
"""


def _saved(row: Sequence[Any]) -> SavedSearch:
    number, name, query, sources, *rest = row
    return SavedSearch(number, name, query, tuple(sources or ()), *rest)


async def every(c: Connection) -> list[SavedSearch]:
    """Return all saved searches, by name."""
    return [_saved(row) for row in await all_rows(c, _SELECT + " order by name")]


async def get(c: Connection, name: str) -> SavedSearch:
    """Return a saved search by its name."""
    row = await one(c, _SELECT + " where name = %s", [name])
    if row is None:
        raise NotFoundError(f"There is no saved search {name!r}.", hint=Hint(action("saved"), " lists all."))
    return _saved(row)


async def count(c: Connection) -> int:
    """Return the number of saved searches."""
    return await number(c, "select count(*) from saved_search")


async def add(c: Connection, name: str, query: str, sources: Sequence[str]) -> SavedSearch:
    """Save a search; items that match it already are not reported as news."""
    try:
        async with c.transaction():
            search_id = await scalar(
                c,
                "insert into saved_search (name, query, sources, after) values (%s, %s, %s, %s) returning id",
                [name, query, list(sources) or None, await last_number(c)],
            )
    except errors.UniqueViolation:
        raise RefusedError(f"There is a saved search {name!r} already. Nothing was changed.") from None
    matches = await affected(c, _MATCH, {"search": search_id, "query": query, "sources": list(sources) or None})
    await c.execute("update saved_search set matches = %s where id = %s", [matches, search_id])
    return await get(c, name)


async def remove(c: Connection, search_id: int) -> None:
    """Delete a saved search."""
    await c.execute("delete from saved_search where id = %s", [search_id])


async def catch_up(c: Connection, name: str) -> bool:
    """Read the next lines of the log for a saved search; return whether more lines follow."""
    await c.execute("select from saved_search where name = %s for update", [name])
    search = await get(c, name)
    span = await next_range(c, search.after, lines=_BATCH)
    if span.upto == search.after:
        return False
    values = {"search": search.id, "query": search.query, "sources": list(search.sources) or None}
    await c.execute(_UPDATE, {**values, "after": span.after, "until": span.upto})
    await c.execute("update saved_search set after = %s where id = %s", [span.upto, search.id])
    return not span.is_all


async def news(c: Connection, search_id: int, *, after: int, limit: int) -> list[SavedNews]:
    """Return news after an id: items that began or ceased to match."""
    query = """
        select id, kind, number, source, url, title, at from saved_news
         where search_id = %s and id > %s order by id limit %s
    """
    return await list_of(c, SavedNews, query, [search_id, after, limit])


async def newest(c: Connection, search_id: int, *, before: int | None, limit: int) -> list[SavedNews]:
    """Return news, newest first: items that began or ceased to match; with `before`, only news before this id."""
    query = """
        select id, kind, number, source, url, title, at from saved_news
         where search_id = %s and id < coalesce(%s, 9223372036854775807) order by id desc limit %s
    """
    return await list_of(c, SavedNews, query, [search_id, before, limit])
