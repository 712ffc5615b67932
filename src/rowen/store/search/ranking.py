"""The search statement: it ranks passages separately by words and by meaning, and adds the two scores.

Items with equal scores are ordered by key, and passages by position, never by ids, so that a refreshed index answers
like a rebuilt one. Two things are left to chance: which passages beyond `MOST_CANDIDATES` are scored, and which
neighbours an approximate vector index misses.

Words are ranked by BM25. The frequency of a word in a passage is derived from `ts_rank` with equal weights, which is
rank = sum(1/n², n = 1 … frequency) / (π²/6): rank / (1 - rank) grows with the frequency, by 1.6 for each occurrence.

Passages are looked up by the rarest words, as long as few passages have one of these words, and otherwise by pairs and
triples of words. So a common word costs nothing: it only adds to the scores of passages that other words found.

If a filter leaves few passages, all of them are scored, by words and by meaning; otherwise the indexes are used.
"""

from dataclasses import dataclass
from functools import lru_cache

from rowen.store.items.items import RECORD_KIND

# Maximum number of words that are ranked, the rarest first; each costs one rank per candidate. Long questions gained up
# to .05 nDCG by 32 instead of 16 (CACM, LISA), and nothing by more.
MOST_WORDS = 32
# How soon repeating a word in the query stops counting (BM25's k3, usually 7 or more): long questions repeat their
# subject, which was worth .04 nDCG on CISI and .05 on LISA.
REPETITION = 8
# Words that are looked up in the index. With eight instead of sixteen, .03 nDCG were lost on CACM and .01 on SciFact;
# more gained nothing.
LOOKED_UP_WORDS = 16
# Common words that are looked up in pairs and triples: eight words have 84 pairs and triples.
COMBINED_WORDS = 8
# Approximate number of passages that are scored: small collections whole, large ones by their rare words. Each costs
# one rank per word.
CANDIDATES = 1_500
# A filter removes some of the candidates, so more are looked up.
CANDIDATES_TO_FILTER = 5_000
# A hard limit for wrong estimates: the word counts may be old.
MOST_CANDIDATES = 4_000
# A filter that leaves at most this many passages is scanned whole: by words, where each passage costs a rank, and by
# meaning, where it costs only a distance, and where an index that has to return few of many misses most.
SMALL_FILTER, SMALL_FOR_MEANING = 3_000, 10_000
# Counting stops here: one more than the largest number that is still small.
FILTER_BOUND = SMALL_FOR_MEANING + 1
# Items whose two scores are added: ten times as many as are shown.
WORDS_DEPTH = 100
# Fewer items are taken by meaning: every vector is near to some degree, and the farther vectors are noise.
MEANING_DEPTH = 60
# Even fewer with a filter, since each item must be found among the items that the filter removes.
FILTERED_DEPTH = 50
# Maximum number of vectors taken from the index. Some vectors have no passage any more, and with a filter most have no
# passage that passes it. If a fifth of all passages pass, the nearest 50 are among 250 vectors, at 1 % among 5,000.
SCANNED, SCANNED_FILTERED = 200, 8_000
# Passages with the same text that are taken as near: the first COPIES by key, of at most MOST_COPIES that pass a
# filter. A text with more copies, such as a licence, says little about any of its items.
COPIES, MOST_COPIES = 3, 100
# Share of the title in an item's distance: enough to decide between items that say the same. More was worse on tuning
# halves: nDCG@10 of CISI .421 at 0, .413 at .05 and .393 at .15, of Medline .754, .753 and .753; Cranfield's is .581 at
# 0 and at .15. Before the passages have their vectors, there is only the title's distance.
TITLE_SHARE = 0.01
# Vectors that are scanned for each vector in use. Unused vectors are deleted after some weeks; if their share is
# higher, fewer of the nearest passages are found.
_PASSED_OVER = 4
# BM25: how soon repetitions of a word stop counting (k1, 1.2 is the usual value), and how much long passages are
# penalised (b, usually 0.75; passages differ less in length than whole documents). Chosen on Cranfield and Python's
# docs.
SATURATION, LENGTH_SHARE = 1.2, 0.6
# How much a word in a title (1) or heading (0.4) counts beside its frequency; chosen on the same two sets.
BOOST = 5.0
# How much meaning counts beside words, at an embedder's weight of 1: 3 and 5 are as good within .005 nDCG on the tuning
# halves of six sets. Adding scores instead of ranks was decided with both halves in sight.
MEANING_SHARE = 4
# The number of texts from which the usual distance is computed: few enough to cost nothing, enough for a mean.
SAMPLED_VECTORS = 64
# If fewer of the candidates have a vector, words alone rank them. Between .3 and .5 some small set always lost up to
# .003 nDCG at a quarter or a half of the vectors. The share is one half plus two standard deviations of chance for the
# number of candidates: .6 of 100, .7 of 25, all of 4. Of few candidates, chance alone gives some questions six in ten.
LEAST_SHARE = "least(1, 0.5 + 1 / sqrt(candidates))"
# The order of items with equal scores, independent of their history. Two sources may have items with the same key.
_KEY = "item.key || convert_to(source.name, 'UTF8')"
_OF_SOURCE = "join source on source.id = item.source_id"


@dataclass(frozen=True, slots=True)
class Meaning:
    """The model whose vectors are searched, and the weight of its scores beside those of the words."""

    model_id: int
    dimensions: int
    weight: float


@lru_cache(maxsize=64)
def statement(where: str, meaning: Meaning | None, *, strict: bool = False) -> str:
    """Return the statement that searches the items that fulfil the SQL condition `where`.

    Its first row explains the ranking; each other row is a passage. Its parameters are kinds, terms, times, vector,
    weight, limit, depth, after_score, after_item, passages and those of the condition. If `strict`, the query has
    phrases, and only passages that contain them are ranked by meaning.
    """
    candidates = CANDIDATES_TO_FILTER if where else CANDIDATES
    filtered, inside, small = "", "", "false"
    if where:
        small = f"(select passages <= {SMALL_FILTER} from filtered)"
        # Each passage's item is looked up by key: `exists` might read all items instead.
        inside = f"and (select true from item where item.id = chunk.item_id and {where})"
        # The passages that the filter leaves: counted by the index alone, and read only if they are few.
        filtered = f""", filtered as materialized (
    select count(*) as passages from (
        select from item join chunk on chunk.item_id = item.id where {where} limit {FILTER_BOUND}) passage
), allowed as materialized (
    select chunk.id, chunk.item_id, chunk.text_hash from item join chunk on chunk.item_id = item.id
     where {where} and (select passages <= {SMALL_FOR_MEANING} from filtered)
)"""
    looked_up = f"""
    select chunk.id, chunk.item_id, chunk.position, chunk.tsv from chunk
     where not {small} and chunk.tsv @@ (select chosen from plan) {inside} limit {MOST_CANDIDATES}"""
    if where:
        # `offset 0` keeps the planner from turning few look-ups by key into a scan of everything that has the words.
        looked_up = f"""({looked_up}) union all (
    select chunk.* from allowed cross join lateral (
           select chunk.id, chunk.item_id, chunk.position, chunk.tsv from chunk
            where chunk.id = allowed.id offset 0) chunk
     where chunk.tsv @@ (select every from plan) and {small})"""
    if meaning is None:
        own_distance = "null::float8"
        usual_distance = "select null::float8 as distance"
    else:
        model, distance = meaning.model_id, _distance(meaning)
        # The distance between the question and an item's best passage by words; null if the passage has no vector.
        own_distance = f"""(
        select (1 - {TITLE_SHARE}) * own + {TITLE_SHARE} * coalesce(title, own) from (
            select (select min({distance}) from embedding
                     where model_id = {model} and embedding.text_hash = chunk.text_hash) as own,
                   (select min({distance}) from item_title join embedding using (text_hash)
                     where model_id = {model} and item_title.item_id = chunk.item_id) as title
              from chunk where chunk.id = best) vectors)"""
        # The distance between the question and random texts: the texts in use with the lowest hashes, which are random
        # enough.
        usual_distance = f"""
    select avg(distance) as distance from (
        select {distance} as distance from embedding
         where model_id = {model} and {_in_use("embedding")}
         order by model_id, text_hash limit {SAMPLED_VECTORS}) sample"""
    return f"""
-- The query: its words in every language, how rare they are, and their weights.
with config(name) as materialized (
    select * from text_configs()
), question(kind, term, times, number) as (
    select * from unnest(%(kinds)s::text[], %(terms)s::text[], %(times)s::integer[]) with ordinality
), reading as materialized (
    select question.number, question.term, question.times, config.name as config, word.lexeme, word.positions[1] as part
      from question cross join config
      left join lateral unnest(to_tsvector(config.name, words_apart(question.term))) word on true
     where kind = 'word'
), spoken as (
    -- The language whose common words the query uses: they are idle, even if rare in texts of another.
    select config from reading where lexeme is null
     group by config order by count(*) desc, config = text_config(null) desc, config::text limit 1
), idle as (
    select number from reading join spoken using (config) where lexeme is null
), lexeme as (
    select distinct number, term, times, part, lexeme, exactly(lexeme) as query from reading
     where lexeme is not null
       and (number not in (select number from idle) or not exists (
               select from reading where number not in (select number from idle)))
    union all
    select number, term, times, 1, term, exactly(term) from question where kind = 'lexeme'
), counted as (
    select lexeme.number, lexeme.part, min(lexeme.term) as word, max(lexeme.times) as times, count(*) as forms,
           string_agg(lexeme.query::text, ' | ')::tsquery as query,
           -- What stands in one passage of a sample may stand in no other one.
           sum(coalesce((select term.passages from term, term_count
                          where term.lexeme = lexeme.lexeme and (term.passages > 1 << halvings or halvings = 0)),
                        passages_with(lexeme.query, 100))) as passages
      from lexeme group by number, part
    union all
    select number, 0, term || '*', 1, 1, query,
           greatest(passages_with(query, 100), (select sum(passages) from term
               where lexeme >= lower(question.term) and lexeme < lower(question.term) || U&'\\FFFF'))
      from question cross join lateral (
               select string_agg(distinct prefix.query::text, ' | ')::tsquery as query
                 from config cross join lateral (
                          select to_tsquery(config.name, exactly(question.term)::text || ':*') as query) prefix
                where numnode(prefix.query) > 0) prefix
     where kind = 'prefix' and query is not null
), collection as (
    -- While a first harvest runs, nothing is counted yet.
    select greatest(1, case when halvings is null then (select reltuples from pg_class where oid = 'chunk'::regclass)
                            else passages end)::float8 as passages,
           greatest(mean_length, 1) as mean_length
      from term_count
), sought as (
    -- Two forms of a word are one word that was typed twice.
    select min(number) as number, min(part) as part, min(word) as word, max(forms) as forms, query,
           sum(times)::float8 as times, max(passages) as passages
      from counted where passages > 0 group by query
), needle as materialized (
    select sought.*, row_number() over ordered as place, sum(sought.passages) over ordered as running,
           ln(1 + (greatest(collection.passages, sought.passages) - sought.passages + 0.5)
                  / (sought.passages + 0.5)) * times * ({REPETITION} + 1) / (times + {REPETITION}) as weight,
           ({SATURATION} * (1 - {LENGTH_SHARE}))::float8 as flat,
           ({SATURATION} * {LENGTH_SHARE})::float8 / collection.mean_length as slope
      from sought cross join collection
    window ordered as (order by sought.passages, number, part)
     order by sought.passages, number, part limit {MOST_WORDS}
)
-- The passages worth scoring: those with the rarest words, or with pairs and triples of common ones.
, required as (
    select string_agg(query, ' & ')::tsquery as query, coalesce(bool_or(positive), false) as positive from (
        select case when kind like 'without%%' then '!(' else '(' end
               || string_agg(distinct '(' || parsed::text || ')', ' | ') || ')', kind not like 'without%%'
          from question cross join config cross join lateral (select case
                   when kind in ('phrase', 'without') then phraseto_tsquery(config.name, words_apart(term))
                   else plainto_tsquery(config.name, term) end as parsed) reading
         where kind not in ('word', 'prefix', 'lexeme') and numnode(parsed) > 0
         group by kind, number) requirement(query, positive)
), common as (
    select * from needle where running > {candidates} and place <= {COMBINED_WORDS}
), combined as (
    -- Words stand together more often than by chance: eight times as often was measured.
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
    -- At least the rarest pair and the rarest triple are looked up, whatever that costs.
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
)
{filtered}
-- BM25 of each candidate. Each rank is written once, since what is written twice is computed twice: with K for
-- saturation and length, tf / (tf + K) is 1 / (1 + K / tf), and r / (1 - r) is 1 / (1 / r - 1).
, scored as materialized (
    select candidate.id, candidate.item_id, candidate.position, ranked.score
      from ({looked_up}) candidate
     cross join lateral (
           select sum(needle.weight / (1 + (needle.flat + needle.slope * length(candidate.tsv)) / (
                      0.625::float8 / (1 / least(
                          needle.forms * ts_rank('{{1, 1, 1, 1}}', candidate.tsv, needle.query), 0.995::float8) - 1)
                      + {BOOST}::float8 * ts_rank('{{0, 0, 0.4, 1}}', candidate.tsv, needle.query)))) as score
             from needle where candidate.tsv @@ needle.query) ranked
     where ranked.score is not null
)
{_near(where, inside, meaning, strict=strict)}
-- The two rankings of items, and the sum of their scores. By words the best has 1. By meaning the score is how much
-- nearer an item is than random texts, so that models whose vectors all lie close together count like others.
, by_words as materialized (
    select item_id, key, score, passages, rank, {own_distance} as distance from (
        select item_id, {_KEY} as key, score, passages, best, row_number() over (order by score desc, {_KEY}) as rank
          from (select item_id, max(score) as score, count(*) as passages,
                       (array_agg(id order by score desc, position))[1] as best
                  from scored group by item_id order by max(score) desc
                 fetch first (greatest({WORDS_DEPTH}, %(depth)s::integer)) rows with ties) item_score
          join item on item.id = item_id {_OF_SOURCE}
         order by score desc, {_KEY} limit greatest({WORDS_DEPTH}, %(depth)s::integer)) item
), coverage as (
    select avg((distance is not null)::integer)::float8 as share, count(*) as candidates, max(score) as best
      from by_words
), by_meaning as (
    select item_id, key, min(distance) as distance, count(*) as passages,
           row_number() over (order by min(distance), key) as rank
      from near group by item_id, key
), usual as ({usual_distance}
), fused as (
    select item_id, coalesce(by_words.key, by_meaning.key) as key, by_words.rank as word_rank,
           by_words.score as word_score, by_meaning.rank as meaning_rank,
           least(by_words.distance, by_meaning.distance) as distance,
           by_words.rank is null or by_words.distance is not null and share >= {LEAST_SHARE} as covered,
           greatest(by_words.passages, by_meaning.passages) as passages,
           coalesce(by_words.score / best, 0) + {MEANING_SHARE} * %(weight)s::float8 * greatest(0, coalesce(
               1 - least(by_words.distance, by_meaning.distance) / nullif(usual.distance, 0), 0)) as score
      from by_words full join by_meaning using (item_id) cross join coverage cross join usual
)
-- An item whose best passage by words has no vector keeps its place by words; the others share the remaining places, in
-- the order of their fused scores. So no item loses for want of a vector. Without any vector the answer is that of
-- words, with all vectors it is that of both.
, placed as (
    select item_id, coalesce(slot.place, word_rank) as place from (
        select item_id, word_rank, covered,
               row_number() over (partition by covered order by score desc, key) as number
          from fused) item
      left join (
        select coalesce(word_rank, 1e9) as place, row_number() over (order by word_rank nulls last) as number
          from fused where covered) slot on item.covered and slot.number = item.number
), ranked as (
    -- The best score belongs to the first place, and so on, whichever item has it. No two scores are equal, since the
    -- next page is requested by score.
    select fused.*, graded.score - number * 1e-12 as place_score
      from (select item_id, row_number() over (order by place, fused.score desc, key) as number
              from placed join fused using (item_id)) placed
      join (select score, row_number() over (order by score desc) as number from fused) graded using (number)
      join fused using (item_id)
), top as materialized (
    select item_id, word_rank, word_score, meaning_rank, distance, covered, passages, place_score as score from ranked
     where %(after_score)s::float8 is null or place_score < %(after_score)s::float8
        or place_score = %(after_score)s::float8 and item_id > %(after_item)s::bigint
     order by place_score desc, item_id limit %(limit)s
), passage as (
    select id, item_id, scored.score, near.distance,
           row_number() over (partition by item_id order by
               coalesce(scored.score / nullif(top.word_score, 0), 0)
                   + case when covered then %(weight)s::float8 * coalesce(1 - near.distance, 0) else 0 end desc,
               near.distance, coalesce(scored.position, near.position)) as place
      from scored full join near using (id, item_id) join top using (item_id)
)
select jsonb_build_object(
           'words', (select jsonb_agg(jsonb_build_object(
                         'word', word, 'query', query::text, 'passages', passages, 'weight', weight) order by place)
                       from needle),
           'unknown', (select jsonb_agg(word) from (
                           select word from counted group by word having sum(passages) = 0) word),
           'looked_up', (select chosen::text from plan),
           'filtered', {"(select passages from filtered)" if where else "null"},
           'scored', (select count(*) from scored),
           'near', (select count(*) from near),
           'coverage', (select share from coverage))
union all
select * from (select jsonb_build_object(
           'item', item.id, 'url', item.url, 'title', item.title, 'source', source.name, 'kind', source.kind,
           'language', item.text_language, 'record_kind', {RECORD_KIND}, 'dataset', item.twins is not null,
           'score', top.score, 'passages', top.passages, 'word_rank', top.word_rank, 'meaning_rank', top.meaning_rank,
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
 order by top.score desc, top.item_id, passage.place) hit
"""


def _near(where: str, inside: str, meaning: Meaning | None, *, strict: bool) -> str:
    """Return the part of the statement that finds the nearest passages."""
    if meaning is None:
        return """, near as (
    select null::bigint as id, null::bigint as item_id, null::bigint as position, null::bytea as key,
           null::float8 as distance where false
)"""
    model, distance = meaning.model_id, _distance(meaning)
    depth, scanned, small = MEANING_DEPTH, SCANNED, "false"
    if where:
        depth, scanned = FILTERED_DEPTH, SCANNED_FILTERED
        small = f"(select passages <= {SMALL_FOR_MEANING} from filtered)"

    def opening(of: str, inside: str = "") -> str:
        """Return a query for the first passage of an item that contains what the search query requires."""
        return f"""
           select chunk.id from chunk
            where chunk.item_id = {of}.item_id and coalesce(chunk.tsv @@ (select query from required), true) {inside}
            order by chunk.position limit 1"""

    # The vectors of the passages that were found by words.
    of_scored = f"""
    select chunk.id, chunk.item_id, nearest.distance as own, null::float8 as title
      from scored join chunk using (id) cross join lateral (
           select min({distance}) as distance from embedding
            where embedding.model_id = {model} and embedding.text_hash = chunk.text_hash) nearest
     where nearest.distance is not null order by nearest.distance limit {MEANING_DEPTH}"""
    # The nearest vectors of passages, and of titles, which stand for the first passage of their item. Vectors whose
    # text is gone are kept for a while; they are skipped and do not count towards the limit.
    by_index = f"""
    select passage.id, passage.item_id, case when not titled then nearest.distance end as own,
           case when titled then nearest.distance end as title
      from (select text_hash, distance
              from (select text_hash, {distance} as distance from embedding where model_id = {model}
                     order by {distance} limit {_PASSED_OVER * scanned}) vector
             where {_in_use("vector")} limit {scanned}) nearest
     cross join lateral (
          (select copy.id, copy.item_id, false as titled
             from (select chunk.id, chunk.item_id, chunk.position from chunk
                    where chunk.text_hash = nearest.text_hash
                      and coalesce(chunk.tsv @@ (select query from required), true) {inside}
                    limit {MOST_COPIES}) copy
             join item on item.id = copy.item_id {_OF_SOURCE} order by {_KEY}, copy.position limit {COPIES})
           union all
          (select copy.id, copy.item_id, true
             from (select opening.id, item_title.item_id
                     from item_title cross join lateral ({opening("item_title", inside)}) opening
                    where item_title.text_hash = nearest.text_hash limit {MOST_COPIES}) copy
             join item on item.id = copy.item_id {_OF_SOURCE} order by {_KEY} limit {COPIES})) passage
     where not {small} limit {2 * depth}"""
    # The vectors of all passages and titles that a filter leaves, if these are few.
    of_allowed = f"""(
    select allowed.id, allowed.item_id, nearest.distance as own, null::float8 as title
      from allowed cross join lateral (
           select min({distance}) as distance from embedding
            where embedding.model_id = {model} and embedding.text_hash = allowed.text_hash) nearest
     where {small} and nearest.distance is not null
       and ((select query from required) is null
            or (select tsv @@ (select query from required) from chunk where chunk.id = allowed.id))
     order by nearest.distance limit {MEANING_DEPTH}
) union all (
    select opening.id, named.item_id, null, named.distance
      from (select item_title.item_id, nearest.distance
              from (select distinct item_id from allowed) item join item_title using (item_id)
             cross join lateral (
                   select min({distance}) as distance from embedding
                    where embedding.model_id = {model} and embedding.text_hash = item_title.text_hash) nearest
             where {small} and nearest.distance is not null
             order by nearest.distance limit {MEANING_DEPTH}) named
     cross join lateral ({opening("named")}) opening
)"""
    passages = of_scored if strict else f"({by_index}) union all {of_allowed}" if where else by_index
    # For a passage found by its own vector, the distance of its title is looked up, and vice versa. Its own distance is
    # that of its nearest part. If only the passage or only the title has a vector, that distance is used for both.
    return f""", neighbour as materialized (
    select id, item_id, min(own) as own, min(title) as title from ({passages}) passage group by id, item_id
), near as materialized (
    select id, item_id, position, key,
           (1 - {TITLE_SHARE}) * coalesce(own, title) + {TITLE_SHARE} * coalesce(title, own) as distance
      from (select id, item_id, (select position from chunk where chunk.id = neighbour.id) as position,
                   (select {_KEY} from item {_OF_SOURCE} where item.id = neighbour.item_id) as key, coalesce(own, (
                       select min({distance}) from chunk join embedding using (text_hash)
                        where chunk.id = neighbour.id and model_id = {model})) as own,
                   coalesce(title, (
                       select min({distance}) from item_title join embedding using (text_hash)
                        where item_title.item_id = neighbour.item_id and model_id = {model})) as title
              from neighbour) passage
     order by distance, key, position limit {MEANING_DEPTH}
)"""


def _in_use(of: str) -> str:
    """Return the SQL condition that a passage or title has this text; it is checked by key for each vector."""
    return f"""coalesce(
           (select true from chunk where chunk.text_hash = {of}.text_hash limit 1),
           (select true from item_title where item_title.text_hash = {of}.text_hash limit 1))"""


def _distance(meaning: Meaning) -> str:
    return f"vector::halfvec({meaning.dimensions}) <=> %(vector)s::halfvec({meaning.dimensions})"
