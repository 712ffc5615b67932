"""The one statement of a search: words and meaning are ranked apart, and the two ranks fused.

Words are ranked by BM25. How often a word stands in a passage is read off `ts_rank` with equal weights, which is
rank = sum(1/n², n = 1 … frequency) / (π²/6): rank / (1 - rank) grows with the frequency, 1.6 for each time. Passages
are looked up by the rarest words, as far as they are rare enough together, and else by pairs and triples of them. So a
common word costs nothing: it only adds to the score of what the others found.

A filter that leaves few passages is looked through whole, by words and by meaning; otherwise the indexes lead.
"""

from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Meaning", "statement"]

# Words that are ranked at all, the rarest first. A pasted page asks no more than its sixteen most telling words; each
# costs one rank a candidate.
MOST_WORDS = 16
# Words that are looked up in the index. The eight rarest gave nDCG .679, all of them .689 (SciFact), in less than half
# the time.
LOOKED_UP_WORDS = 8
# About so many passages are scored: small collections whole, large ones by their rare words. Each costs one rank
# a word.
CANDIDATES = 1_500
# A filter takes some of the candidates away again, so that more are looked up.
CANDIDATES_TO_FILTER = 5_000
# A hard stop for estimates that were wrong: the counts of words may be old.
MOST_CANDIDATES = 4_000
# A filter that leaves no more passages is looked through whole: by words, where each passage costs a rank, and by
# meaning, where it costs but a distance, and where an index that is asked for few of many loses most.
SMALL_FILTER, SMALL_FOR_MEANING = 3_000, 10_000
# Counting stops here: one more than what is still small.
FILTER_BOUND = SMALL_FOR_MEANING + 1
# Ranks that are fused. An item at rank 100 by words scores 1/160, less than a third of the first: beyond, nothing moves
# the first ten.
WORDS_DEPTH = 100
# Fewer by meaning: every vector is near to some degree, and the farther ones of them are noise.
MEANING_DEPTH = 60
# With a filter: fewer, since each has to be looked for among those that the filter takes away.
FILTERED_DEPTH = 50
# Vectors that are taken from the index at most. Some have no passage any more, and with a filter most have none that is
# allowed: at a fifth of all passages, 50 of the nearest are found among some 250, at 1 % among 5,000.
SCANNED, SCANNED_FILTERED = 200, 8_000
# Passages with one and the same text that may be near; a filter decides which. A text that stands in more places, such
# as a licence, says little about any of them.
COPIES = 3
# BM25: how soon more of the same word stops counting (k1, 1.2 is the usual value), and how much long passages are held
# back (b, usually 0.75; passages differ less in length than whole documents). Chosen on Cranfield and Python's docs.
SATURATION, LENGTH_SHARE = 1.2, 0.6
# How much a word in a title (1) or heading (0.4) counts beside its frequency; chosen on the same two sets.
BOOST = 5.0
# The usual constant of reciprocal rank fusion: with less, the first of one ranking beats what both find.
RANK_OFFSET = 60


@dataclass(frozen=True, slots=True)
class Meaning:
    """The model whose vectors are searched, and how much its ranks count beside those of the words."""

    model_id: int
    dimensions: int
    weight: float


@lru_cache(maxsize=64)
def statement(where: str, meaning: Meaning | None, *, strict: bool = False) -> str:
    """The statement for items that fulfil a condition; the first row explains, each other one is a passage.

    Its parameters are kinds, terms, vector, weight, limit, depth, after_score, after_item, passages and those of the
    condition. A strict query has
    phrases: what is near must be among what has them.
    """
    parts = (
        _words(),
        _lookup(CANDIDATES_TO_FILTER if where else CANDIDATES),
        _allowed(where) if where else "",
        _scored(_candidates(where)),
        _near(where, meaning, strict=strict),
        _fused(),
        _answer("(select passages from filtered)" if where else "null"),
    )
    return "".join(parts)


def _candidates(where: str) -> str:
    """By the index where there is no filter; else by the way that suits the size of what it leaves."""
    if not where:
        return _looked_up(inside="", unless="false")
    small = _leaves_at_most(SMALL_FILTER)
    return f"({_looked_up(inside=_inside(where), unless=small)}) union all ({_LOOKED_THROUGH} and {small})"


def _near(where: str, meaning: Meaning | None, *, strict: bool) -> str:
    if meaning is None:
        return _NOTHING_NEAR
    model = meaning.model_id
    distance = f"vector::halfvec({meaning.dimensions}) <=> %(vector)s::halfvec({meaning.dimensions})"
    if strict:
        return _nearest(_near_scored(distance, model))
    if not where:
        return _nearest(
            _near_by_index(distance, model, inside="", unless="false", depth=MEANING_DEPTH, scanned=SCANNED)
        )
    small = _leaves_at_most(SMALL_FOR_MEANING)
    by_index = _near_by_index(
        distance,
        model,
        inside=_inside(where),
        unless=small,
        depth=FILTERED_DEPTH,
        scanned=SCANNED_FILTERED,
    )
    looked_through = _near_looked_through(distance, model)
    return _nearest(f"({by_index}) union all ({looked_through} and {small})")


def _words() -> str:
    """What is asked: the words in every language, how rare they are, and what they weigh."""
    return f"""
with config(name) as materialized (
    select * from text_configs()
), asked(kind, term, number) as (
    select * from unnest(%(kinds)s::text[], %(terms)s::text[]) with ordinality
), reading as materialized (
    select asked.number, asked.term, config.name as config, found.lexeme, found.positions[1] as part
      from asked cross join config
      left join lateral unnest(to_tsvector(config.name, words_apart(asked.term))) found on true
     where kind = 'word'
), spoken as (
    -- The language whose common words the query uses: they are idle, even if rare in texts of another.
    select config from reading where lexeme is null
     group by config order by count(*) desc, config = text_config(null) desc, config::text limit 1
), idle as (
    select number from reading join spoken using (config) where lexeme is null
), lexeme as (
    select distinct number, term, part, lexeme, exactly(lexeme) as query from reading
     where lexeme is not null
       and (number not in (select number from idle) or not exists (
               select from reading where number not in (select number from idle)))
    union all
    select number, term, 1, term, exactly(term) from asked where kind = 'lexeme'
), counted as (
    select lexeme.number, lexeme.part, min(lexeme.term) as word, count(*) as forms,
           string_agg(lexeme.query::text, ' | ')::tsquery as query,
           sum(coalesce((select term.passages from term where term.lexeme = lexeme.lexeme),
                        passages_with(lexeme.query, 100))) as passages
      from lexeme group by number, part
    union all
    select number, 0, term || '*', 1, query,
           greatest(passages_with(query, 100), (select sum(passages) from term
               where lexeme >= lower(asked.term) and lexeme < lower(asked.term) || U&'\\FFFF'))
      from asked cross join lateral (
               select string_agg(distinct prefix.query::text, ' | ')::tsquery as query
                 from config cross join lateral (
                          select to_tsquery(config.name, exactly(asked.term)::text || ':*') as query) prefix
                where numnode(prefix.query) > 0) prefix
     where kind = 'prefix' and query is not null
), collection as (
    select greatest(passages, (select reltuples from pg_class where oid = 'chunk'::regclass), 1)::float8 as passages,
           greatest(mean_length, 1) as mean_length
      from term_count
), needle as materialized (
    select counted.*, row_number() over ordered as place, sum(counted.passages) over ordered as running,
           ln(1 + (greatest(collection.passages, counted.passages) - counted.passages + 0.5)
                  / (counted.passages + 0.5)) as weight,
           ({SATURATION} * (1 - {LENGTH_SHARE}))::float8 as flat,
           ({SATURATION} * {LENGTH_SHARE})::float8 / collection.mean_length as slope
      from counted cross join collection
     where counted.passages > 0
    window ordered as (order by counted.passages, number, part)
     order by counted.passages, number, part limit {MOST_WORDS}
)"""


def _lookup(candidates: int) -> str:
    """Which passages are worth scoring: those with the rarest words, or with pairs and triples of common ones."""
    return f""", required as (
    select string_agg(query, ' & ')::tsquery as query, coalesce(bool_or(positive), false) as positive from (
        select case when kind like 'without%%' then '!(' else '(' end
               || string_agg(distinct '(' || parsed::text || ')', ' | ') || ')', kind not like 'without%%'
          from asked cross join config cross join lateral (select case
                   when kind in ('phrase', 'without') then phraseto_tsquery(config.name, words_apart(term))
                   else plainto_tsquery(config.name, term) end as parsed) reading
         where kind not in ('word', 'prefix', 'lexeme') and numnode(parsed) > 0
         group by kind, number) requirement(query, positive)
), common as (
    select * from needle where running > {candidates} and place <= {LOOKED_UP_WORDS}
), combined as (
    -- Words stand together more often than by chance: eight times is what was seen.
    select query, sum(expected) over least_first as running, row_number() over least_first as place from (
        select 2 as size, '(' || a.query::text || ') & (' || b.query::text || ')' as query,
               8 * a.passages * b.passages / collection.passages as expected
          from collection, common a join common b on a.place < b.place
        union all
        select 3, '(' || a.query::text || ') & (' || b.query::text || ') & (' || c.query::text || ')',
               64 * a.passages * b.passages * c.passages / collection.passages ^ 2
          from collection, common a join common b on a.place < b.place join common c on b.place < c.place) combination
    window least_first as (partition by size order by expected, query)
), chosen as (
    -- Of pairs and of triples at least the rarest is looked up, whatever it costs.
    select string_agg('(' || query || ')', ' | ')::tsquery as query from (
        select query::text from needle where running <= {candidates} and place <= {LOOKED_UP_WORDS}
        union all
        select query from combined
         where running <= {candidates}
            or place = 1 and not exists (select from needle where running <= {candidates})) part
), plan as materialized (
    select coalesce(every.query && required.query, every.query) as every,
           case when not required.positive and passages_with(wanted.query, 1) > 0 then wanted.query
                else coalesce(every.query && required.query, every.query) end as chosen
      from required
     cross join (select string_agg('(' || query::text || ')', ' | ')::tsquery as query from needle) every
     cross join lateral (
           select coalesce(chosen.query && required.query, chosen.query) as query from chosen) wanted
)"""


def _allowed(where: str) -> str:
    """What a filter leaves: counted by the index alone; the passages themselves are read only if they are few."""
    return f""", filtered as materialized (
    select count(*) as passages from (
        select from item join chunk on chunk.item_id = item.id where {where} limit {FILTER_BOUND}) passage
), allowed as materialized (
    select chunk.id, chunk.item_id, chunk.text_hash from item join chunk on chunk.item_id = item.id
     where {where} and (select passages <= {SMALL_FOR_MEANING} from filtered)
)"""


def _leaves_at_most(bound: int) -> str:
    """Whether a filter leaves so few passages."""
    return f"(select passages <= {bound} from filtered)"


def _inside(where: str) -> str:
    """A condition on a passage's item, looked up by key for each passage: `exists` might read all items instead."""
    return f"""
       and (select true from item where item.id = chunk.item_id and {where})"""


def _looked_up(*, inside: str, unless: str) -> str:
    return f"""
    select chunk.id, chunk.item_id, chunk.tsv from chunk
     where not {unless} and chunk.tsv @@ (select chosen from plan){inside} limit {MOST_CANDIDATES}"""


# `offset 0` keeps the planner from turning few look-ups by key into a scan of everything that has the words.
_LOOKED_THROUGH = """
    select chunk.* from allowed cross join lateral (
           select chunk.id, chunk.item_id, chunk.tsv from chunk where chunk.id = allowed.id offset 0) chunk
     where chunk.tsv @@ (select every from plan)"""


def _scored(candidate: str) -> str:
    """BM25 of each candidate.

    Each rank is written once, since what is written twice is computed twice: with K for saturation and length,
    tf / (tf + K) is 1 / (1 + K / tf), and r / (1 - r) is 1 / (1 / r - 1).
    """
    return f""", scored as materialized (
    select candidate.id, candidate.item_id, ranked.score
      from ({candidate}) candidate
     cross join lateral (
           select sum(needle.weight / (1 + (needle.flat + needle.slope * length(candidate.tsv)) / (
                      0.625::float8 / (1 / least(
                          needle.forms * ts_rank('{{1, 1, 1, 1}}', candidate.tsv, needle.query), 0.995::float8) - 1)
                      + {BOOST}::float8 * ts_rank('{{0, 0, 0.4, 1}}', candidate.tsv, needle.query)))) as score
             from needle where candidate.tsv @@ needle.query) ranked
     where ranked.score is not null
)"""


_NOTHING_NEAR = """, near as (
    select null::bigint as id, null::bigint as item_id, null::float8 as distance where false
)"""


def _nearest(passages: str) -> str:
    return f""", near as materialized (
    select * from ({passages}) passage order by distance limit {MEANING_DEPTH}
)"""


def _near_by_index(distance: str, model: int, *, inside: str, unless: str, depth: int, scanned: int) -> str:
    return f"""
    select passage.id, passage.item_id, nearest.distance
      from (select text_hash, {distance} as distance from embedding where model_id = {model}
             order by {distance} limit {scanned}) nearest
     cross join lateral (
           select chunk.id, chunk.item_id from chunk
            where chunk.text_hash = nearest.text_hash
              and coalesce(chunk.tsv @@ (select query from required), true){inside}
            limit {COPIES}) passage
     where not {unless} limit {depth}"""


def _near_looked_through(distance: str, model: int) -> str:
    return f"""
    select allowed.id, allowed.item_id, nearest.distance from allowed cross join lateral (
           select {distance} as distance from embedding
            where embedding.model_id = {model} and embedding.text_hash = allowed.text_hash offset 0) nearest
     where ((select query from required) is null
            or (select tsv @@ (select query from required) from chunk where chunk.id = allowed.id))"""


def _near_scored(distance: str, model: int) -> str:
    return f"""
    select chunk.id, chunk.item_id, nearest.distance from scored join chunk using (id) cross join lateral (
           select {distance} as distance from embedding
            where embedding.model_id = {model} and embedding.text_hash = chunk.text_hash offset 0) nearest"""


def _fused() -> str:
    """The two rankings of items, fused, and the best passages of each item."""
    return f""", by_words as (
    select item_id, score, passages, row_number() over (order by score desc, item_id) as rank
      from (select item_id, max(score) as score, count(*) as passages from scored group by item_id) item
     order by score desc, item_id limit greatest({WORDS_DEPTH}, %(depth)s::integer)
), by_meaning as (
    select item_id, min(distance) as distance, count(*) as passages,
           row_number() over (order by min(distance), item_id) as rank
      from near group by item_id
), fused as (
    select item_id, by_words.rank as word_rank, by_words.score as word_score,
           by_meaning.rank as meaning_rank, by_meaning.distance,
           greatest(by_words.passages, by_meaning.passages) as passages,
           coalesce(1.0 / ({RANK_OFFSET} + by_words.rank), 0)
               + coalesce(%(weight)s::float8 / ({RANK_OFFSET} + by_meaning.rank), 0) as score
      from by_words full join by_meaning using (item_id)
), top as materialized (
    select * from fused
     where %(after_score)s::float8 is null or score < %(after_score)s::float8
        or score = %(after_score)s::float8 and item_id > %(after_item)s::bigint
     order by score desc, item_id limit %(limit)s
), passage as (
    select id, item_id, scored.score, near.distance,
           row_number() over (partition by item_id order by
               coalesce(scored.score / nullif(top.word_score, 0), 0)
                   + %(weight)s::float8 * coalesce(1 - near.distance, 0) desc, id) as place
      from scored full join near using (id, item_id) join top using (item_id)
)"""


def _answer(filtered: str) -> str:
    return f"""
select jsonb_build_object(
           'words', (select jsonb_agg(jsonb_build_object(
                         'word', word, 'query', query::text, 'passages', passages, 'weight', weight) order by place)
                       from needle),
           'unknown', (select jsonb_agg(word) from (
                           select word from counted group by word having sum(passages) = 0) word),
           'looked_up', (select chosen::text from plan),
           'filtered', {filtered},
           'scored', (select count(*) from scored),
           'near', (select count(*) from near))
union all
select * from (select jsonb_build_object(
           'item', item.id, 'url', item.url, 'title', item.title, 'source', source.name, 'kind', source.kind,
           'language', item.language, 'dataset', item.twins is not null, 'score', top.score,
           'passages', top.passages, 'word_rank', top.word_rank, 'meaning_rank', top.meaning_rank,
           'distance', top.distance,
           'text', chunk.text, 'heading', chunk.heading, 'anchor', chunk.anchor, 'passage_score', passage.score,
           'passage_distance', passage.distance,
           'ordinal', (select count(*) from chunk o where o.item_id = chunk.item_id and o.position < chunk.position),
           'words', (select jsonb_agg(word order by needle.place) from needle where chunk.tsv @@ query))
  from top
  join passage on passage.item_id = top.item_id and passage.place <= %(passages)s
  join chunk on chunk.id = passage.id
  join item on item.id = top.item_id
  join source on source.id = item.source_id
 order by top.score desc, top.item_id, passage.place) found
"""
