"""An index that was refreshed many times answers like one that was built anew: the same items, in the same order."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from rowen import Complete, Document, Fetched, Rowen
from rowen.store.search import words as store_words
from tests.conftest import ScratchDatabase
from tests.portals.embedder import Provider
from tests.portals.scripted import Scripted, page, shows

_FIRST, _LAST = ("bal", "dul", "kot", "gut", "mer", "sil", "pan", "tor"), ("ax", "ex", "ix", "ox", "ux", "yx")
WORDS = [first + last for first in _FIRST for last in _LAST]
COUNTS = "select lexeme, passages from term order by lexeme"
TOTALS = "select passages, halvings, counted, lengths, mean_length from term_count"


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


def written(chance: random.Random, number: int) -> Document:
    """A page of some passages; many say what others say, so that scores are equal."""
    paragraphs = [" ".join(chance.choices(WORDS[:20], k=4)) for _ in range(chance.choice([1, 1, 2]))]
    if chance.random() < 0.3:
        paragraphs = [f"The {WORDS[number % 5]} of the {WORDS[number % 3]}."]
    text = "\n\n".join(f"## {WORDS[number % 7]}\n\n{one} {'filler ' * 60}" for one in paragraphs)
    return page(number, text, title=chance.choice(["Report", "Notes", f"Page {number}"]))


async def refreshed(r: Rowen, chance: random.Random, *, runs: int = 12, most: int = 60) -> dict[int, Document]:
    """Sync a source that changes again and again; returns what it has in the end."""
    now = {number: written(chance, number) for number in range(most)}
    for _ in range(runs):
        shows(*(Fetched(document) for document in now.values()), Complete())
        await r.sync("scripted:one", accept_deletions=True)
        for number in chance.sample(range(most), k=most // 4):
            if number in now and chance.random() < 0.4:
                del now[number]
            else:
                now[number] = written(chance, number)
    shows(*(Fetched(document) for document in now.values()), Complete())
    await r.sync("scripted:one", accept_deletions=True)
    return now


async def built(r: Rowen, documents: dict[int, Document], chance: random.Random, source: str = "one") -> None:
    """Harvest the same into an empty database, in another order."""
    shuffled = chance.sample(list(documents.values()), k=len(documents))
    shows(*(Fetched(document) for document in shuffled), Complete())
    await r.sync(f"scripted:{source}", accept_deletions=True)


def questions(chance: random.Random) -> list[str]:
    """Thirty questions of one to three words."""
    return [" ".join(chance.sample(WORDS[:22], k=chance.choice([1, 2, 2, 3]))) for _ in range(30)]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("embedded", [False, True], ids=["words", "fused"])
async def test_thirty_questions_have_the_same_ordered_ten(
    new_database: Callable[[], ScratchDatabase], provider: Provider, seed: int, *, embedded: bool
) -> None:
    chance, how = random.Random(seed), provider.settings if embedded else {}
    old, new = new_database(), new_database()
    async with old.open(**how) as refreshed_one, new.open(**how) as rebuilt:
        documents = await refreshed(refreshed_one, chance)
        await built(rebuilt, documents, chance)
        for words in questions(chance):
            answers = [
                [
                    (hit.url, hit.score, hit.text, hit.keyword_rank, hit.vector_rank)
                    for hit in await one.search(words, limit=10)
                ]
                for one in (refreshed_one, rebuilt)
            ]
            assert answers[0] == answers[1], words
            assert len(answers[0]) > 1

    assert old.query("select id from item where url like '%/7'") != new.query(
        "select id from item where url like '%/7'"
    )
    assert old.query(COUNTS) == new.query(COUNTS)
    assert old.query(TOTALS) == new.query(TOTALS)


@pytest.mark.parametrize("embedded", [False, True], ids=["words", "fused"])
async def test_items_that_two_sources_have_under_one_url_keep_their_order(
    new_database: Callable[[], ScratchDatabase], provider: Provider, *, embedded: bool
) -> None:
    chance, how = random.Random(3), provider.settings if embedded else {}
    old, new = new_database(), new_database()
    documents = {number: written(chance, number) for number in range(40)}
    half = {number: documents[number] for number in range(0, 40, 2)}
    async with old.open(**how) as refreshed_one, new.open(**how) as rebuilt:
        for source, shown in (("one", documents), ("two", documents), ("one", half), ("one", documents)):
            await built(refreshed_one, shown, chance, source)
        for source in ("two", "one"):
            await built(rebuilt, documents, chance, source)
        answers = [
            [
                [(hit.url, hit.source, hit.score) for hit in await one.search(words, limit=10)]
                for words in questions(random.Random(3))
            ]
            for one in (refreshed_one, rebuilt)
        ]

    assert answers[0] == answers[1]


@pytest.mark.parametrize("sample", [50_000, 40])
@pytest.mark.parametrize("share", [0.0, 0.25, 100.0])
async def test_counts_that_are_added_up_are_those_of_a_count_of_all(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch, sample: int, share: float
) -> None:
    monkeypatch.setattr(store_words, "SAMPLE", sample)
    monkeypatch.setattr(store_words, "ANEW_SHARE", share)
    async with database.open() as r:
        await refreshed(r, random.Random(sample), runs=4)
        added = database.query(COUNTS), database.query(TOTALS)
        database.execute("update term_count set halvings = null")
        assert await store_words.count_words(r._engine.database)

        assert added == (database.query(COUNTS), database.query(TOTALS))
        assert database.query("select count(*) from term_change") == [(0,)]
        assert (database.query("select halvings from term_count") == [(0,)]) is (sample == 50_000)


async def test_counting_words_costs_only_the_changes(database: ScratchDatabase, statements: list[str]) -> None:
    async with database.open() as r:
        documents = {number: page(number, f"Row {number} of the garden.") for number in range(40)}
        await built(r, documents, random.Random(1))
        statements.clear()
        await built(r, {**documents, 3: page(3, "Another row.")}, random.Random(1))
        changed = [one for one in statements if "ts_stat" in one or "merge into term" in one]
        statements.clear()
        await built(r, {**documents, 3: page(3, "Another row.")}, random.Random(1))
        unchanged = [one for one in statements if "term" in one]

    assert ["ts_stat" in one for one in changed] == [False]
    assert len(unchanged) == 1


async def test_vectors_of_deleted_texts_take_no_place_from_others(
    new_database: Callable[[], ScratchDatabase], provider: Provider
) -> None:
    old, new = new_database(), new_database()
    documents = {number: page(number, f"Text {number}.", title="") for number in range(5)}
    async with old.open(**provider.settings) as refreshed_one, new.open(**provider.settings) as rebuilt:
        await built(refreshed_one, {number: page(number, f"Gone {number}.") for number in range(400)}, random.Random(1))
        shows(*(Fetched(document) for document in documents.values()), Complete())
        await refreshed_one.sync("scripted:one", accept_deletions=True)
        await built(rebuilt, documents, random.Random(1))
        answers = [[(hit.url, hit.score) for hit in await one.search("what?")] for one in (refreshed_one, rebuilt)]

    assert answers[0] == answers[1]
    assert len(answers[0]) == 5
