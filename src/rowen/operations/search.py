"""What answers a question: by words, by meaning, or both."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Unpack

from rowen.errors import Hint, NotFoundError, action
from rowen.harvest.engine import Engine
from rowen.model.passages import within
from rowen.model.search import Answer, Filters, Hit, Narrowing, Query, Twin, plain
from rowen.model.sources import one_or_more
from rowen.model.wording import percent
from rowen.operations.items import Items
from rowen.operations.narrowing import filters_of, plain_filters
from rowen.operations.paging import as_number, as_score, as_text, decoded, encoded
from rowen.operations.question_vectors import QuestionVector, QuestionVectors
from rowen.store.database import Connection
from rowen.store.items import deletions as held_store
from rowen.store.items import duplicates as twin_store
from rowen.store.search import embeddings, pending_texts
from rowen.store.search import search as store_search
from rowen.store.search import words as store_words
from rowen.store.search.ranking import Meaning
from rowen.store.search.search import RankedItem, copies

__all__ = ["Search"]

# The dozen rarest words tell an item from others; more of them found the same items, slower.
TELLING_WORDS = 12
# Each is a look through all words of the index; who mistypes more than four has typed something else.
MOST_CORRECTED = 4
# From here on, fewer than one candidate in ten keeps its place by words: nobody would see the difference.
LOW_COVERAGE = 0.9


class Search:
    """Finding items."""

    def __init__(self, engine: Engine, items: Items) -> None:
        self._database = engine.database
        self._items = items
        self._questions = QuestionVectors(engine)

    async def search(
        self,
        words: str,
        *,
        sources: Sequence[str] | None = None,
        version: str | None = None,
        limit: int = 10,
        budget: int | None = None,
        meaning: bool = True,
        after: str | None = None,
        **narrowing: Unpack[Narrowing],
    ) -> Answer:
        """The items that answer best, each with its best passages.

        Quoted phrases must stand in the passage, `-words` must not, `word*` finds prefixes. With a version, such as
        `2.x`, only sources that have one answer: of each package the highest that is meant. A budget bounds the
        characters of all passages together. `after` is the `next` of the answer before.
        """
        sources = one_or_more(sources) or None
        query = Query.parse(words)
        if not query:
            return Answer(notes=("There is no word to search for.",) if words.strip() else ())
        listing = ["search", words, sorted(sources or ()), version, meaning, limit, plain_filters(narrowing)]
        start = _Start.of(decoded(after, listing, as_score, as_number, rest=as_text))
        began = time.perf_counter()
        question = await self._questions.vector_of(plain(words)) if meaning else QuestionVector(None)
        asked_s = time.perf_counter() - began
        async with self._database.connection() as c:
            filters = await filters_of(c, sources, version, narrowing)
            answer, rest = await _answer(c, query, question, filters=filters, limit=limit, start=start)
        answer = replace(answer, next=encoded(listing, rest) if rest else None)
        answer = replace(answer, explanation={**answer.explanation, "question_ms": round(asked_s * 1000, 1)})
        return answer if budget is None else replace(answer, hits=within(answer.hits, budget))

    async def similar(
        self,
        url: str,
        *,
        source: str | None = None,
        sources: Sequence[str] | None = None,
        limit: int = 10,
        budget: int | None = None,
        **narrowing: Unpack[Narrowing],
    ) -> Answer:
        """The items that are most like one that is held, by meaning and by the words that tell it from others."""
        entry = await self._items.get(url, source=source)
        if entry.withdrawn_at is not None:
            raise NotFoundError(f"{url!r} was withdrawn: only what is still held can be compared.")
        async with self._database.connection() as c:
            query = Query(lexemes=tuple(await store_words.characteristic_words(c, entry.id, limit=TELLING_WORDS)))
            model = await embeddings.active(c)
            vector = await store_search.item_vector(c, entry.id, model.id) if model is not None else None
            filters = replace(await filters_of(c, one_or_more(sources) or None, None, narrowing), without_item=entry.id)
            answer, _ = await _answer(c, query, QuestionVector(vector, model), filters=filters, limit=limit)
        hits = tuple(hit for hit in answer.hits if hit.url != entry.url)
        return replace(answer, hits=hits if budget is None else within(hits, budget))


class _Start(NamedTuple):
    """Where a ranking goes on: after this place, without the datasets that were shown."""

    score: float
    item: int
    shown: frozenset[str]

    @classmethod
    def of(cls, place: list[Any] | None) -> "_Start | None":
        return cls(place[0], place[1], frozenset(place[2:])) if place else None


async def _answer(
    c: Connection, query: Query, question: QuestionVector, *, filters: Filters, limit: int, start: _Start | None = None
) -> tuple[Answer, list[Any] | None]:
    """What answers, and the place where the ranking goes on; None at its end."""
    began = time.perf_counter()
    meaning, notes = _meaning(question)
    # Twice as many, since datasets and texts that several sources have become one hit.
    ask: dict[str, Any] = {"limit": 2 * limit, "filters": filters, "meaning": meaning, "vector": question.vector}
    ask |= {"after": (start.score, start.item) if start else None, "depth": 2 * limit}
    found, explanation = await store_search.search(c, query, **ask)
    unknown = explanation.pop("unknown") or []
    corrected = await store_words.corrections(c, [word for word in unknown if word in query.words][:MOST_CORRECTED])
    if corrected:
        found, explanation = await store_search.search(c, query.replacing(corrected), **ask)
        explanation.pop("unknown")
    notes += _words_only(explanation["coverage"]) if meaning else ()
    found = await _marked(c, found)
    grouped = await _grouped(c, found, start.shown if start else frozenset())
    hits, shown = [hit for hit, *_ in grouped[:limit]], {name for _, _, name in grouped[:limit] if name}
    last = grouped[limit - 1][1] if len(grouped) > limit else found[-1] if len(found) == 2 * limit else None
    rest = [*last.place, *sorted(shown | (start.shown if start else frozenset()))] if last else None
    if question.model is not None and not question.model.complete:
        await pending_texts.note_wanted(c, question.model, [one.item_id for _, one, _ in grouped[:limit]])
    explanation |= {"search_ms": round((time.perf_counter() - began) * 1000, 1)}
    explanation |= {"model": question.model.name if meaning and question.model else None, "unknown": unknown}
    return Answer(tuple(hits), corrected, notes, explanation), rest


def _meaning(question: QuestionVector) -> tuple[Meaning | None, tuple[str, ...]]:
    if question.trouble is not None:
        return None, (f"Searched by words only: {question.trouble}",)
    if question.vector is None or question.model is None or question.model.dimensions is None:
        return None, _words_only(None if question.model is None else 0)
    return Meaning(question.model.id, question.model.dimensions, question.model.weight), ()


def _words_only(coverage: float | None) -> tuple[str, ...]:
    """What should be known while many of the candidates have no vector."""
    if coverage is None or coverage >= LOW_COVERAGE:
        return ()
    told = f"{percent(coverage)} of what has the words has vectors so far, the rest is ranked by words only; "
    return (Hint(told, action("embed"), ", or the next sync, goes on."),)


async def _marked(c: Connection, found: Sequence[RankedItem]) -> list[RankedItem]:
    """The same, those marked whose deletion was held back."""
    ids = await held_store.pending_among(c, [one.item_id for one in found]) if found else set()
    return [replace(one, hit=replace(one.hit, held=True)) if one.item_id in ids else one for one in found]


async def _grouped(
    c: Connection, found: Sequence[RankedItem], shown_before: frozenset[str]
) -> list[tuple[Hit, RankedItem, str | None]]:
    """The hits, those of one dataset or one text as one: the original if it was found, else the best.

    With each hit stand its place in the ranking and the name of its group.
    """
    datasets = [one.item_id for one in found if one.dataset]
    groups = await twin_store.groups(c, datasets) if datasets else {}
    alike = await copies(c, [one.item_id for one in found if one.item_id not in groups])
    hits: list[tuple[Hit, RankedItem, str | None]] = []
    shown = set(shown_before)
    by_id = {one.item_id: one for one in found}
    for one in found:
        group = groups.get(one.item_id)
        same = alike.get(one.item_id)
        if group is None and same is None:
            hits.append((one.hit, one, None))
        elif same is not None and same.name not in shown:
            shown.add(same.name)
            also = tuple(Twin(copy.url, copy.title, copy.source) for copy in same.items if copy.id != one.item_id)
            hits.append((replace(one.hit, twins=also), one, same.name))
        elif group is not None and group.name not in shown:
            shown.add(group.name)
            chosen = by_id.get(group.original.id, one)
            others = [member for member in group.members if member.id != chosen.item_id]
            twins = tuple(Twin(m.url, m.title, m.source, m is group.original) for m in others)
            hits.append((replace(chosen.hit, score=one.hit.score, twins=twins), one, group.name))
    return hits
