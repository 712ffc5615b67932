"""Search: filters, the search statement and its rows, and items with equal texts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from rowen.model.datasets import DATASET
from rowen.model.items import Passage
from rowen.model.search import Condition, Filters, Hit, Query, language_code, pairs, spaced
from rowen.store.database import Connection
from rowen.store.items.items import RECORD_KIND
from rowen.store.rows import all_rows, column, scalar
from rowen.store.search.ranking import Meaning, statement

# A sentence, as for duplicates: shorter texts ("No description.") are the same for different things.
_ENOUGH_CHARACTERS = 40
# Passages of one text that are checked: an opening that more items share is boilerplate, and few are copies.
_MOST_LOOKED_AT = 200


class CopiedItem(NamedTuple):
    """One of several items with the same text."""

    id: int
    url: str
    title: str
    source: str


class Copies(NamedTuple):
    """All items with one text, by source and URL; `name` is a hash of the text."""

    name: str
    items: tuple[CopiedItem, ...]


# The index of the first passage leads to other items with it; then the whole texts are compared. Datasets of a series
# have equal descriptions, and only their titles contain the place or the year.
_COPIES = """
select asked.id, left(encode(sha256(convert_to(asked.text, 'UTF8')), 'hex'), 16),
       item.id, item.url, item.title, source.name
  from item asked
 cross join lateral (select text_hash from chunk where item_id = asked.id order by position limit 1) opening
 cross join lateral (select item_id from chunk where text_hash = opening.text_hash limit %(looked_at)s) other
  join item on item.id = other.item_id and item.text = asked.text
       and (item.title = asked.title or asked.media_type is distinct from %(dataset)s)
  join source on source.id = item.source_id
 where asked.id = any(%(items)s) and length(asked.text) >= %(characters)s
 group by asked.id, asked.text, item.id, source.id
 order by asked.id, source.name, item.url
"""


async def copies(c: Connection, item_ids: Sequence[int]) -> dict[int, Copies]:
    """Return the items with the same text as each of these, including itself; items without a copy are left out."""
    rows = await all_rows(
        c,
        _COPIES,
        {"items": list(item_ids), "characters": _ENOUGH_CHARACTERS, "looked_at": _MOST_LOOKED_AT, "dataset": DATASET},
    )
    by_item: dict[int, Copies] = {}
    for item_id, name, *item in rows:
        by_item[item_id] = Copies(name, (*(by_item[item_id].items if item_id in by_item else ()), CopiedItem(*item)))
    return {item_id: group for item_id, group in by_item.items() if len(group.items) > 1}


# A catalog states when a dataset was modified; for all other items, the time of their last change here counts.
_MODIFIED = (
    "case when item.record ->> 'modified' ~ '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}'"
    " then left(item.record ->> 'modified', 10) {sign} %({name})s::timestamptz::date::text"
    " else item.updated_at {sign} %({name})s::timestamptz end"
)

_CONDITIONS = {
    "source_ids": "item.source_id = any(%(source_ids)s::bigint[])",
    "tags": "exists (select from unnest(item.tags) tag where lower(tag) = any(%(tags)s::text[]))",
    "languages": "exists (select from unnest(%(languages)s::text[]) code"
    " where starts_with(lower(replace(item.language, '_', '-')) || '-', code || '-'))",
    "record_kinds": f"{RECORD_KIND} = any(%(record_kinds)s::text[])",
    "publisher": "position(lower(%(publisher)s) in lower(item.record ->> 'publisher')) > 0",
    "since": _MODIFIED.format(sign=">=", name="since"),
    "until": _MODIFIED.format(sign="<=", name="until"),
    "path": "starts_with(case when starts_with(%(path)s, '/')"
    " then substring(item.url from '^[a-z][a-z0-9+.-]*://[^/]*(/.*)$') else item.url end, %(path)s)",
    "without_item": "item.id <> %(without_item)s",
}

# A field of an item's data in force; each entry of a list is compared.
_WHERE = (
    "exists (select from extraction_check held join extraction on extraction.id = held.extraction_id"
    " cross join lateral (select extraction.data::jsonb #> %(where_path_{number})s::text[] as found) field"
    " cross join lateral jsonb_array_elements(case jsonb_typeof(found) when 'array' then found"
    " else jsonb_build_array(found) end) entry"
    " where held.source_id = item.source_id and held.key = item.key and held.state <> 'gone' and {compared})"
)


def condition(filters: Filters) -> tuple[str, dict[str, Any]]:
    """Return filters as a condition on `item` with its parameters; an empty one if there are no filters."""
    parameters = {
        "source_ids": None if filters.source_ids is None else list(filters.source_ids),
        "tags": [tag.lower() for tag in filters.tags] or None,
        "languages": [language_code(code) for code in filters.languages] or None,
        "record_kinds": list(filters.record_kinds) or None,
        "publisher": filters.publisher,
        "since": filters.since,
        "until": filters.until,
        "path": filters.path,
        "without_item": filters.without_item,
    }
    values: dict[str, Any] = {name: value for name, value in parameters.items() if value is not None}
    conditions = [_CONDITIONS[name] for name in values]
    for number, comparison in enumerate(filters.where):
        conditions.append(_WHERE.format(number=number, compared=_compared(comparison, number)))
        values |= {f"where_path_{number}": list(comparison.path), f"where_value_{number}": comparison.value}
    return " and ".join(conditions), values


def _compared(condition: Condition, number: int) -> str:
    """Return the comparison of a field; a list matches if one of its entries does."""
    if condition.sign == "exists":
        return "jsonb_typeof(entry) <> 'null'"
    value = f"%(where_value_{number})s"
    if condition.sign == "~":
        return f"position(lower({value}::text) in lower(entry #>> '{{}}')) > 0"
    sign = "<>" if condition.sign == "!=" else condition.sign
    text = f"lower(entry #>> '{{}}') {sign} lower({value}::text)"
    if not isinstance(condition.value, float):
        return f"jsonb_typeof(entry) <> 'null' and {text}"
    return (
        "case jsonb_typeof(entry) when 'number' then (entry #>> '{}')::double precision"
        f" {sign} {value}::double precision when 'null' then false else {text} end"
    )


async def languages(c: Connection) -> list[str]:
    """Return the languages of all items, by a loose scan of their index."""
    return await column(
        c,
        """
        with recursive held(code) as (
            (select language from item where language is not null order by language limit 1)
            union all
            select (select language from item where language > held.code order by language limit 1)
              from held where held.code is not null
        )
        select code from held where code is not null
        """,
    )


PASSAGES = 4
"""So many passages of an item are looked at for its answer: with four, three lines each, it still fits a screen."""

WEAKEST = 0.6
"""A further passage must score this share of what the best one does, or stand nearly as near."""

NEARLY = 0.05
"""How much farther than the nearest passage another may be, as a cosine distance, to stand nearly as near."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RankedItem:
    """A hit with internal values; `score` is not rounded."""

    item_id: int
    dataset: bool
    hit: Hit
    score: float

    @property
    def place(self) -> tuple[float, int]:
        """The position in the ranking, from which the next page is searched."""
        return self.score, self.item_id


async def search(
    c: Connection,
    query: Query,
    *,
    limit: int,
    filters: Filters | None = None,
    meaning: Meaning | None = None,
    vector: str | None = None,
    after: tuple[float, int] | None = None,
    depth: int | None = None,
) -> tuple[list[RankedItem], Row]:
    """Return the items that match best by words and, with a vector, by meaning, and an explanation.

    A vector is text in the notation of the database, from where it is computed or read to where it is compared. The
    next page is searched with the same `depth` as the one before: so many items are ranked by words, at least a
    hundred.
    """
    where, values = condition(filters or Filters())
    terms = list(_terms(query))
    values |= {
        "kinds": [kind for kind, _ in terms],
        "terms": [term for _, term in terms],
        "times": [query.times.get(term, 1) if kind == "word" else 1 for kind, term in terms],
        "vector": vector,
        "weight": meaning.weight if meaning else 0.0,
        "limit": limit,
        "depth": depth or limit,
        "after_score": after[0] if after else None,
        "after_item": after[1] if after else None,
        "passages": PASSAGES,
    }
    async with c.pipeline(), c.transaction():
        await c.execute(_SETTINGS)
        query_statement = statement(where, meaning if vector is not None else None, strict=bool(query.phrases))
        cursor = await c.execute(query_statement, values)
        rows = [row for (row,) in await cursor.fetchall()]
    return [_found(list(passages)) for _, passages in groupby(rows[1:], key=lambda row: row["item"])], rows[0]


# The planner cannot know how few candidates there are, and compiling costs more than such a statement. The more vectors
# there are, the wider the search for the nearest must be: a width of 100 finds 0.98 of them among 100,000 and 0.90
# among a million, where 600 finds 0.95.
_SETTINGS = """
select set_config('jit', 'off', true), set_config('hnsw.iterative_scan', 'relaxed_order', true),
       set_config('hnsw.ef_search', case when reltuples < 300000 then '100' else '600' end, true)
  from pg_class where oid = 'embedding'::regclass
"""


async def item_vector(c: Connection, item_id: int, model_id: int) -> str | None:
    """Return the mean vector of an item's passages; None if none has a vector."""
    vector: str | None = await scalar(
        c,
        "select avg(vector)::text from chunk join embedding using (text_hash) where item_id = %s and model_id = %s",
        [item_id, model_id],
    )
    return vector


def _terms(query: Query) -> Iterator[tuple[str, str]]:
    """Yield the terms of a query with their kinds; words of phrases are ranked as well."""
    yield from (("word", word) for word in query.words)
    yield from (("prefix", prefix) for prefix in query.prefixes)
    yield from (("lexeme", lexeme) for lexeme in query.lexemes)
    for phrase in query.phrases:
        yield from (("word", word) for word in (*spaced(phrase).split(), *pairs(phrase)))
        yield from _strictly(phrase, "phrase", "together")
    for word in query.excluded:
        yield from _strictly(word, "without", "without_together")


def _strictly(term: str, in_order: str, in_pairs: str) -> Iterator[tuple[str, str]]:
    if rest := spaced(term):
        yield in_order, rest
    if characters := pairs(term):
        yield in_pairs, " ".join(characters)


def _found(rows: list[Row]) -> RankedItem:
    """Return the hit that the rows of an item's passages describe, best passage first."""
    row = rows[0]
    first, *further = _joined(_worthwhile(rows))
    hit = Hit(
        row["url"],
        row["title"],
        row["source"],
        first.heading,
        first.text,
        round(row["score"], 6),
        first.anchor,
        row["passages"],
        words=_union(row_of_passage["words"] or () for row_of_passage in rows),
        similarity=_similarity(row["distance"]),
        keyword_rank=row["word_rank"],
        vector_rank=row["meaning_rank"],
        kind=row["kind"],
        language=row["language"],
        record_kind=row["record_kind"],
        further=tuple(further),
    )
    return RankedItem(row["item"], row["dataset"], hit, row["score"])


def _worthwhile(rows: list[Row]) -> list[Row]:
    """Return the best passage, and those that are nearly as good by words or by meaning."""
    best = max(row["passage_score"] or 0.0 for row in rows)
    near = [row["passage_distance"] for row in rows if row["passage_distance"] is not None]
    farthest = min(near, default=0.0) + NEARLY
    return [
        row
        for row in rows
        if row is rows[0]
        or (row["passage_score"] or 0.0) >= WEAKEST * best > 0
        or (row["passage_distance"] is not None and row["passage_distance"] <= farthest)
    ]


def _joined(rows: list[Row]) -> list[Passage]:
    """Join neighbouring passages; the passage that contains the best row comes first."""
    order = sorted(rows, key=lambda row: row["ordinal"])
    runs = [
        [row for _, row in group]
        for _, group in groupby(enumerate(order), key=lambda pair: pair[1]["ordinal"] - pair[0])
    ]
    runs.sort(key=lambda run: min(rows.index(row) for row in run))
    return [_passage(run) for run in runs]


def _passage(run: list[Row]) -> Passage:
    head = run[0]
    distances = [row["passage_distance"] for row in run if row["passage_distance"] is not None]
    return Passage(
        "\n\n".join(row["text"] for row in run),
        tuple(head["heading"]),
        head["anchor"],
        round(max(row["passage_score"] or 0.0 for row in run), 4),
        _union(row["words"] or () for row in run),
        _similarity(min(distances, default=None)),
    )


def _union(words: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for group in words for word in group))


def _similarity(distance: float | None) -> float | None:
    return None if distance is None else round(1 - distance, 4)
