"""Run searches: build the conditions of filters, read the rows of the search statement, and find copies of items."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any, NamedTuple

from rowen.model.datasets import DATASET
from rowen.model.items import ItemLine, Passage
from rowen.model.search import Condition, Filters, Hit, Query, pairs, spaced
from rowen.store.database import Connection
from rowen.store.items.items import RECORD_KIND
from rowen.store.rows import all_rows, column, list_of, scalar
from rowen.store.search.ranking import Meaning, statement

# Copies have at least a sentence, as duplicates do: shorter texts ("No description.") are equal for different things.
_LEAST_CHARACTERS = 40
# Passages with one text that are compared: an opening that more items share is boilerplate, and few are copies.
_MOST_COMPARED = 200


class CopiedItem(NamedTuple):
    """One of several items with the same text."""

    id: int
    url: str
    title: str
    source: str


class Copies(NamedTuple):
    """All items with the same text, by source and URL; `name` is a hash of the text."""

    name: str
    items: tuple[CopiedItem, ...]


# Items with equal texts. The index of the first passage leads to other items with it; then the whole texts are
# compared. Datasets of a series have equal descriptions, and only their titles contain the place or the year.
_COPIES = """
select original.id, left(encode(sha256(convert_to(original.text, 'UTF8')), 'hex'), 16),
       item.id, item.url, item.title, source.name
  from item original
 cross join lateral (select text_hash from chunk where item_id = original.id order by position limit 1) opening
 cross join lateral (select item_id from chunk where text_hash = opening.text_hash limit %(compared)s) other
  join item on item.id = other.item_id and item.text = original.text
       and (item.title = original.title or original.media_type is distinct from %(dataset)s)
  join source on source.id = item.source_id
 where original.id = any(%(items)s) and length(original.text) >= %(characters)s
 group by original.id, original.text, item.id, source.id
 order by original.id, source.name, item.url
"""


async def copies(c: Connection, item_ids: Sequence[int]) -> dict[int, Copies]:
    """Return the copies of each of these items, including itself; items without a copy are left out."""
    bounds = {"characters": _LEAST_CHARACTERS, "compared": _MOST_COMPARED}
    rows = await all_rows(c, _COPIES, {"items": list(item_ids), "dataset": DATASET, **bounds})
    groups = ((key, [CopiedItem(*item) for _, _, *item in group]) for key, group in groupby(rows, lambda row: row[:2]))
    return {item_id: Copies(name, tuple(items)) for (item_id, name), items in groups if len(items) > 1}


# When an item was modified: according to its catalog, otherwise according to its last change in the index.
_MODIFIED = (
    "case when item.record ->> 'modified' ~ '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}'"
    " then left(item.record ->> 'modified', 10) {sign} %({name})s::timestamptz::date::text"
    " else item.updated_at {sign} %({name})s::timestamptz end"
)

_CONDITIONS = {
    "source_ids": "item.source_id = any(%(source_ids)s::bigint[])",
    "tags": "exists (select from unnest(item.tags) tag, unnest(%(tags)s::text[]) wanted"
    " where lower(tag) = lower(wanted))",
    "languages": "exists (select from unnest(%(languages)s::text[]) wanted"
    " where starts_with(lower(replace(item.text_language, '_', '-')) || '-', lower(replace(wanted, '_', '-')) || '-'))",
    "record_kinds": f"{RECORD_KIND} = any(%(record_kinds)s::text[])",
    "publisher": "position(lower(%(publisher)s) in lower(item.record ->> 'publisher')) > 0",
    "since": _MODIFIED.format(sign=">=", name="since"),
    "until": _MODIFIED.format(sign="<=", name="until"),
    "path": "starts_with(case when starts_with(%(path)s, '/')"
    " then substring(item.url from '^[a-z][a-z0-9+.-]*://[^/]*(/.*)$') else item.url end, %(path)s)",
    "without_item": "item.id <> %(without_item)s",
}

# A field of an item's current data; each entry of a list is compared.
_WHERE = (
    "exists (select from extraction_check checked join extraction on extraction.id = checked.extraction_id"
    " cross join lateral (select extraction.data::jsonb #> %(where_path_{number})s::text[] as value) field"
    " cross join lateral jsonb_array_elements(case jsonb_typeof(value) when 'array' then value"
    " else jsonb_build_array(value) end) entry"
    " where checked.source_id = item.source_id and checked.key = item.key and checked.state <> 'gone' and {compared})"
)


def condition(filters: Filters) -> tuple[str, dict[str, Any]]:
    """Return the SQL condition of filters on `item`, empty if there are no filters, and its parameters."""
    conditions: list[str] = []
    values: dict[str, Any] = {}
    for filter_ in fields(filters):
        value = getattr(filters, filter_.name)
        if isinstance(value, Sequence) and not isinstance(value, str):
            value = list(value)
        # An empty list of sources matches nothing; other empty lists are no filters.
        if filter_.name != "where" and value is not None and (value != [] or filter_.name == "source_ids"):
            conditions.append(_CONDITIONS[filter_.name])
            values[filter_.name] = value
    for number, comparison in enumerate(filters.where):
        conditions.append(_WHERE.format(number=number, compared=_compared(comparison, number)))
        values |= {f"where_path_{number}": list(comparison.path), f"where_value_{number}": comparison.value}
    return " and ".join(conditions), values


def _compared(condition: Condition, number: int) -> str:
    """Return the SQL comparison of a field; a list matches if one of its entries matches."""
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
    """Return the languages of all items, by a loose index scan."""
    query = """
        with recursive known(code) as (
            (select text_language from item where text_language is not null order by text_language limit 1)
            union all
            select (select text_language from item where text_language > known.code order by text_language limit 1)
              from known where known.code is not null
        )
        select code from known where code is not null
    """
    return await column(c, query)


async def browse(c: Connection, filters: Filters, *, by_url: bool, after: str | None, limit: int) -> list[ItemLine]:
    """Return the items that pass filters, ordered by URL or, for very many items, by key, which has an index."""
    where, values = condition(filters)
    order, place, first = (
        ("url", "url", "%(after)s") if by_url else ("key", "encode(key, 'hex')", "decode(%(after)s, 'hex')")
    )
    query = f"""
        select url, title, language, revision, updated_at, {place} as place from item
         where {where} and (%(after)s::text is null or {order} > {first}) order by {order} limit %(limit)s
    """.encode()  # noqa: S608 (two orders and conditions of our own)
    return await list_of(c, ItemLine, query, {**values, "after": after, "limit": limit})


PASSAGES = 4
"""Maximum number of passages of an item in an answer: with four, three lines each, it fits a screen."""

WEAKEST = 0.6
"""The share of the best passage's score that another passage must reach, unless its distance is within `NEARLY`."""

NEARLY = 0.05
"""The cosine distance by which another passage may be farther away than the nearest passage."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RankedItem:
    """A hit with its item id and unrounded `score`, which further queries need."""

    item_id: int
    dataset: bool
    hit: Hit
    score: float

    @property
    def place(self) -> tuple[float, int]:
        """The position in the ranking; the next page begins after it."""
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
    """Return the best matches by words and, if a vector is given, by meaning; and an explanation of the ranking.

    The vector is text in PostgreSQL's notation. `depth` items are ranked by words, at least a hundred; all pages of a
    search must be requested with the same `depth`.
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
    return [_ranked_item(list(passages)) for _, passages in groupby(rows[1:], key=lambda row: row["item"])], rows[0]


# Settings of the transaction. The planner cannot know how few candidates there are, and compiling costs more than such
# a statement. The search for the nearest vectors must be wider the more there are: a width of 100 finds 0.98 of them
# among 100,000 and 0.90 among a million, where 600 finds 0.95.
_SETTINGS = """
select set_config('jit', 'off', true), set_config('hnsw.iterative_scan', 'relaxed_order', true),
       set_config('hnsw.ef_search', case when reltuples < 300000 then '100' else '600' end, true)
  from pg_class where oid = 'embedding'::regclass
"""


async def item_vector(c: Connection, item_id: int, model_id: int) -> str | None:
    """Return the mean vector of an item's passages; None if no passage has a vector."""
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
    required = [(phrase, "phrase", "together") for phrase in query.phrases]
    for term, in_order, in_pairs in [*required, *((word, "without", "without_together") for word in query.excluded)]:
        if rest := spaced(term):
            yield in_order, rest
        if characters := pairs(term):
            yield in_pairs, " ".join(characters)


def _ranked_item(rows: list[Row]) -> RankedItem:
    """Return the hit of an item from the rows of its passages: the best passage, and others nearly as good."""
    head = rows[0]
    best = max(row["passage_score"] or 0.0 for row in rows)
    distances = [row["passage_distance"] for row in rows if row["passage_distance"] is not None]
    farthest = min(distances, default=0.0) + NEARLY
    good = [
        row
        for row in rows
        if row is head
        or (row["passage_score"] or 0.0) >= WEAKEST * best > 0
        or (row["passage_distance"] is not None and row["passage_distance"] <= farthest)
    ]
    # Neighbouring passages are joined; those with the best row come first.
    order = enumerate(sorted(good, key=lambda row: row["ordinal"]))
    runs = [[row for _, row in group] for _, group in groupby(order, key=lambda pair: pair[1]["ordinal"] - pair[0])]
    runs.sort(key=lambda run: min(good.index(row) for row in run))
    first, *further = [
        Passage(
            "\n\n".join(row["text"] for row in run),
            tuple(run[0]["heading"]),
            run[0]["anchor"],
            round(max(row["passage_score"] or 0.0 for row in run), 4),
            _union(row["words"] or () for row in run),
            _similarity(min((d for row in run if (d := row["passage_distance"]) is not None), default=None)),
        )
        for run in runs
    ]
    hit = Hit(
        head["url"],
        head["title"],
        head["source"],
        first.heading,
        first.text,
        round(head["score"], 6),
        first.anchor,
        head["passages"],
        words=_union(row["words"] or () for row in rows),
        similarity=_similarity(head["distance"]),
        keyword_rank=head["word_rank"],
        vector_rank=head["meaning_rank"],
        kind=head["kind"],
        language=head["language"],
        record_kind=head["record_kind"],
        further=tuple(further),
    )
    return RankedItem(head["item"], head["dataset"], hit, head["score"])


def _union(words: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for group in words for word in group))


def _similarity(distance: float | None) -> float | None:
    return None if distance is None else round(1 - distance, 4)
