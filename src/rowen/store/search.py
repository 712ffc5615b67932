"""Keyword search over passages, in one statement.

A word weighs by its rarity (its inverse document frequency), which PostgreSQL's own ranking does not know; only the
rarest few are looked up, so that common words cost little. Each passage is scored by the words it has, each item
answers with its best passage.
"""

from collections.abc import Sequence

from rowen.model.query import Hit, Query
from rowen.store.database import Connection

__all__ = ["search"]

_SEARCH = """
with recursive language(code) as (
    (select language from item where language is not null order by language limit 1)
    union all
    select (select item.language from item where item.language > language.code order by item.language limit 1)
      from language where language.code is not null
), config(name) as (
    select text_config(null) union select text_config(code) from language where code is not null
), asked(kind, term) as (
    select 'word', unnest(%(words)s::text[])
    union all select 'prefix', unnest(%(prefixes)s::text[])
    union all select 'phrase', unnest(%(phrases)s::text[])
    union all select 'excluded', unnest(%(excluded)s::text[])
), needle as (
    select kind, term, string_agg(distinct '(' || query::text || ')', ' | ')::tsquery as query
      from asked, config, lateral (select case kind
               when 'word' then plainto_tsquery(config.name, term)
               when 'prefix' then to_tsquery(config.name, quote_literal(term) || ':*')
               else phraseto_tsquery(config.name, term) end as query) parsed
     where numnode(query) > 0
     group by kind, term
), counted as (
    select query, (select count(*) from (select from chunk where tsv @@ query limit 10000) found) as documents
      from needle where kind <> 'excluded'
), weighed as (
    select query, ln(1 + greatest((select reltuples from pg_class where oid = 'chunk'::regclass), 10000) / documents)
           as weight
      from counted where documents > 0 order by documents limit 8
), scored as (
    select chunk.id, chunk.item_id,
           sum(weighed.weight * ts_rank('{0.4, 0.4, 0.7, 1}', chunk.tsv, weighed.query)) as score
      from weighed join chunk on chunk.tsv @@ weighed.query
     where not exists (select from needle where kind = 'phrase' and not chunk.tsv @@ query)
       and not exists (select from needle where kind = 'excluded' and chunk.tsv @@ query)
       and (%(sources)s::text[] is null or chunk.item_id in (
               select item.id from item join source on source.id = item.source_id where source.name = any(%(sources)s)))
     group by chunk.id, chunk.item_id
), best as (
    select distinct on (item_id) item_id, id, score, count(*) over (partition by item_id) as passages
      from scored order by item_id, score desc, id
)
select item.url, item.title, source.name, chunk.heading, chunk.text, best.score, chunk.anchor, best.passages
  from (select * from best order by score desc, item_id limit %(limit)s) best
  join chunk using (id)
  join item on item.id = best.item_id
  join source on source.id = item.source_id
 order by best.score desc, best.item_id
"""


async def search(c: Connection, query: Query, *, limit: int, sources: Sequence[str] | None = None) -> list[Hit]:
    """The items that answer best."""
    if not query:
        return []
    rows = await (
        await c.execute(
            _SEARCH,
            {
                "words": list(query.words),
                "prefixes": list(query.prefixes),
                "phrases": list(query.phrases),
                "excluded": list(query.excluded),
                "sources": list(sources) if sources else None,
                "limit": limit,
            },
        )
    ).fetchall()
    return [
        Hit(url, title, source, tuple(heading), text, round(float(score), 4), anchor, passages)
        for url, title, source, heading, text, score, anchor, passages in rows
    ]
