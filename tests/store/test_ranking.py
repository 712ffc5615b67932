"""Ranking by words is BM25, and its cost grows with the rare words, not with the common ones."""

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rowen import Complete, Fetched, Rowen
from rowen.model.search import Filters, Query, pairs
from rowen.store.database import Connection
from rowen.store.locks import Lock, hold
from rowen.store.search import ranking, search
from rowen.store.search import words as store_words
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows

WORDS = [f"{a}{b}{c}x" for a in "bdfgk" for b in "aou" for c in "lmnrt"]


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Set other bounds for one test, so that a small collection is treated as a large one."""

    def set_to(**values: int) -> None:
        for name, value in values.items():
            monkeypatch.setattr(ranking, name, value)
        ranking.statement.cache_clear()

    yield set_to
    ranking.statement.cache_clear()


def texts(count: int, *, seed: int = 7) -> list[str]:
    """Texts of the same words, some common and some rare."""
    rng = random.Random(seed)
    weights = [1 / rank for rank in range(1, len(WORDS) + 1)]
    return [" ".join(rng.choices(WORDS, weights, k=rng.randint(5, 60))) for _ in range(count)]


async def harvest(r: Rowen, bodies: list[str], *, name: str = "one") -> None:
    shows(*(Fetched(page(n, body, title="")) for n, body in enumerate(bodies)), Complete())
    await r.sync(f"scripted:{name}")


async def ask(c: Connection, words: str, **more: Any) -> tuple[list[int], dict[str, Any]]:
    items, explanation = await search.search(c, Query.parse(words), limit=10, **more)
    return [int(item.hit.url.rpartition("/")[2]) for item in items], explanation


def bm25(bodies: list[str], words: list[str]) -> dict[int, float]:
    """Return the score by the textbook formula, with the number of different words as the length of a text."""
    k, b = ranking.SATURATION, ranking.LENGTH_SHARE
    bags = [body.split() for body in bodies]
    mean = sum(len(set(bag)) for bag in bags) / len(bags)
    scores = dict.fromkeys(range(len(bags)), 0.0)
    for word in words:
        having = sum(word in bag for bag in bags)
        idf = math.log(1 + (len(bags) - having + 0.5) / (having + 0.5))
        for n, bag in enumerate(bags):
            if tf := bag.count(word):
                scores[n] += idf * tf / (tf + k * (1 - b + b * len(set(bag)) / mean))
    return scores


async def test_words_are_ranked_as_by_bm25(database: ScratchDatabase) -> None:
    bodies = texts(120)
    async with database.open() as r:
        await harvest(r, bodies)
        for words in (["balx"], ["balx", "dulx", "kutx"], ["kotx", "kunx", "gutx", "bamx"]):
            scores = bm25(bodies, words)
            best = sorted(scores, key=lambda n: -scores[n])[:5]
            async with r._engine.database.connection() as c:
                items, _ = await ask(c, " ".join(words))

            assert [scores[n] for n in items[:5]] == pytest.approx([scores[n] for n in best], rel=0.03)


async def test_common_words_are_not_looked_up_when_rare_ones_suffice(
    database: ScratchDatabase, bounds: Callable[..., None]
) -> None:
    bounds(CANDIDATES=40)
    async with database.open() as r:
        await harvest(r, [*("common text here" for _ in range(200)), "common quinces", "quinces alone"])
        async with r._engine.database.connection() as c:
            items, explanation = await ask(c, "common quinces")

    assert items == [200, 201]
    assert explanation["looked_up"] == "'quinc'"
    assert explanation["scored"] == 2
    assert [word["passages"] for word in explanation["words"]] == [2, 201]


async def test_words_that_are_all_common_are_looked_up_together(
    database: ScratchDatabase, bounds: Callable[..., None]
) -> None:
    bounds(CANDIDATES=35)
    async with database.open() as r:
        bodies = ["apples only"] * 40 + ["pears only"] * 40 + ["neither"] * 320 + ["apples and pears"]
        await harvest(r, bodies)
        async with r._engine.database.connection() as c:
            items, explanation = await ask(c, "apples pears")

    assert items == [400]
    assert "&" in explanation["looked_up"]
    assert explanation["scored"] == 1


async def test_common_words_that_never_occur_together_are_looked_up_separately(
    database: ScratchDatabase, bounds: Callable[..., None]
) -> None:
    bounds(CANDIDATES=35)
    async with database.open() as r:
        await harvest(r, ["apples only"] * 40 + ["pears only"] * 40 + ["neither"] * 320)
        async with r._engine.database.connection() as c:
            items, explanation = await ask(c, "apples pears")

    assert len(items) == 10
    assert explanation["scored"] == 80


async def test_a_phrase_is_looked_up_by_itself_and_not_by_rarer_words(
    database: ScratchDatabase, bounds: Callable[..., None]
) -> None:
    bounds(CANDIDATES=10)
    async with database.open() as r:
        await harvest(r, ["red apples here"] * 30 + ["a quince"] * 2 + ["red and green apples"] * 20)
        async with r._engine.database.connection() as c:
            items, explanation = await ask(c, '"red apples" quince')

    assert len(items) == 10
    assert max(items) < 30
    assert explanation["scored"] == 30


async def test_a_single_common_word_is_still_answered(database: ScratchDatabase, bounds: Callable[..., None]) -> None:
    bounds(CANDIDATES=10)
    async with database.open() as r:
        await harvest(r, [f"apples {n}" for n in range(100)])
        async with r._engine.database.connection() as c:
            items, explanation = await ask(c, "apples")

    assert len(items) == 10
    assert explanation["scored"] == 100


async def test_a_large_filter_gives_the_same_answer_as_a_small_one(
    database: ScratchDatabase, bounds: Callable[..., None]
) -> None:
    async with database.open() as r:
        await harvest(r, texts(60), name="one")
        await harvest(r, texts(60, seed=9), name="two")
        async with r._engine.database.connection() as c:
            two = Filters(source_ids=[(await r.sources.get("two")).id])
            small = await ask(c, "kotx kunx", filters=two)
            bounds(SMALL_FILTER=3, SMALL_FOR_MEANING=3, FILTER_BOUND=4)
            large = await ask(c, "kotx kunx", filters=two)

    assert small[1]["filtered"] == 60
    assert large[1]["filtered"] == 4
    assert large[0] == small[0] != []


async def test_counts_of_a_sample_are_scaled_up(database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_words, "SAMPLE", 500)
    async with database.open() as r:
        await harvest(r, [f"apples {'and pears ' * (n % 2)} stand in row {n} of the garden" for n in range(2_000)])
        counted = dict(database.query("select lexeme, passages from term"))

    assert 1_300 <= counted["appl"] <= 2_700
    assert 600 <= counted["pear"] <= 1_400


async def test_a_count_neither_waits_nor_blocks(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, ["apple"])
        async with r._engine.database.connection() as other, other.transaction():
            await other.execute("insert into term values ('x', 1)")
            await hold(other, Lock.TERMS)
            counted = await store_words.count_words(r._engine.database)
            await harvest(r, ["apple", "pear"], name="two")

    assert counted is False


def test_the_statement_is_made_once_for_a_shape() -> None:
    assert ranking.statement("", None) is ranking.statement("", None)


def test_a_slip_of_one_letter_is_corrected() -> None:
    guesses = {word for _, word in store_words.variants("orhcard")}

    assert "orchard" in guesses
    assert {"orhcrd", "orhcards", "orkcard"} <= guesses
    assert list(store_words.variants("abc")) == list(store_words.variants("x1y2")) == []


async def test_queries_split_scripts_without_spaces_like_the_index(database: ScratchDatabase) -> None:
    for text in ("日本語", "全文検索エンジン", "데이터", "語"):
        rows = database.query("select lexeme from unnest(to_tsvector('simple', words_apart(%s)))", text)

        assert set(pairs(text)) <= {lexeme for (lexeme,) in rows}
