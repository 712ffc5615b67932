"""Search: one statement, and what its rows mean."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rowen.model.query import Filters, Hit, Passage, Query, pairs, spaced
from rowen.store.database import Connection
from rowen.store.filters import condition
from rowen.store.ranking import Meaning, statement
from rowen.store.rows import scalar

__all__ = ["RankedItem", "item_vector", "search"]

PASSAGES = 4
"""So many passages of an item are looked at for its answer: with four, three lines each, it still fits a screen."""

WEAKEST = 0.6
"""A further passage must score this share of what the best one does, or stand nearly as near."""

NEARLY = 0.05
"""How much farther than the nearest passage another may be, as a cosine distance, to stand nearly as near."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RankedItem:
    """A hit with what only the store knows of it; `score` is not rounded."""

    item_id: int
    dataset: bool
    hit: Hit
    score: float

    @property
    def place(self) -> tuple[float, int]:
        """Where it stands in the answer; what follows is searched from here."""
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
    """The items that answer best, by words and, where a vector is given, by meaning; and how it came about.

    A vector is text as the database writes it, from where it is made or read to where it is compared. What follows a
    place is searched with the same `depth` as what came before: so many items are ranked by words, a hundred at least.
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
        told = statement(where, meaning if vector is not None else None, strict=bool(query.phrases))
        cursor = await c.execute(told, values)
        rows = [row for (row,) in await cursor.fetchall()]
    return [_found(list(those)) for _, those in groupby(rows[1:], key=lambda row: row["item"])], rows[0]


# The planner cannot know how few candidates there are, and compiling costs more than such a statement. The more vectors
# there are, the wider one has to look for the nearest: a width of 100 finds 0.98 of them among 100,000 and 0.90 among a
# million, where 600 finds 0.95.
_SETTINGS = """
select set_config('jit', 'off', true), set_config('hnsw.iterative_scan', 'relaxed_order', true),
       set_config('hnsw.ef_search', case when reltuples < 300000 then '100' else '600' end, true)
  from pg_class where oid = 'embedding'::regclass
"""


async def item_vector(c: Connection, item_id: int, model_id: int) -> str | None:
    """What an item is about, as the mean of its passages; None if none has a vector."""
    found: str | None = await scalar(
        c,
        "select avg(vector)::text from chunk join embedding using (text_hash) where item_id = %s and model_id = %s",
        [item_id, model_id],
    )
    return found


def _terms(query: Query) -> Iterator[tuple[str, str]]:
    """The terms of a query with their kinds; words of phrases are ranked as well."""
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
    """One item by the rows of its passages, the best first."""
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
        words=_union(one["words"] or () for one in rows),
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
    """The best passage, and those that are nearly as good by words or by meaning."""
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
    """Neighbours become one passage; the one that holds the best row comes first."""
    order = sorted(rows, key=lambda row: row["ordinal"])
    runs = [
        [row for _, row in those]
        for _, those in groupby(enumerate(order), key=lambda pair: pair[1]["ordinal"] - pair[0])
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
    return tuple(dict.fromkeys(word for those in words for word in those))


def _similarity(distance: float | None) -> float | None:
    return None if distance is None else round(1 - distance, 4)
