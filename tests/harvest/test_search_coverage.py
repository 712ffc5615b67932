"""Search while vectors are being made: what has none yet is not ranked lower for it."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from bench.quality.coverage import by_coverage, table

from rowen import Answer, Complete, Document, Fetched, Rowen
from rowen.enrich import base as embedders
from tests.conftest import ScratchDatabase
from tests.harvest.embedded import untitled as page
from tests.harvest.senses import Senses
from tests.portals.scripted import Scripted, shows

KEPT = "create table kept as select * from embedding"
OTHERS = ("kitten", "money", "rain", "puppy", "drizzle")
# All of the same words, the first pages most often.
BODIES = [f"{'cat ' * (9 - n // 4)}and number{n} {OTHERS[n % 5]}" for n in range(36)]


@pytest.fixture(autouse=True)
def _worlds(kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    kinds(Scripted)
    monkeypatch.setattr(embedders, "_registered", {**embedders._registered, "senses": Senses})
    monkeypatch.setenv("ROWEN_EMBEDDER", "senses")


async def harvest(r: Rowen, *documents: Document, name: str = "one") -> None:
    shows(*(Fetched(document) for document in documents), Complete())
    await r.sync(f"scripted:{name}")


def numbers(hits: Sequence[Any]) -> list[str]:
    return [hit.url.rpartition("/")[2] for hit in hits]


def leave(database: ScratchDatabase, pages: Sequence[str]) -> None:
    """Take all vectors away but those of some pages."""
    wanted = ", ".join(f"'https://example.org/{one}'" for one in pages) or "''"
    database.execute("truncate embedding")
    database.execute("update embedding_model set covered_to = 0")
    database.execute(
        "insert into embedding select * from kept where text_hash in"
        f" (select text_hash from chunk join item on item.id = item_id where url in ({wanted}))"
    )


async def test_the_best_by_words_stays_first_while_only_others_have_vectors(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page("grant", "cat cat cat canine"), *(page(n, f"a cat, feline kitten {n}") for n in range(8)))
        database.execute(KEPT)
        leave(database, [str(n) for n in range(8)])
        by_words = await r.search("cat canine", meaning=False)
        answer = await r.search("cat canine")

        assert numbers(by_words)[0] == "grant"
        assert numbers(answer)[0] == "grant"


async def test_at_any_coverage_an_item_without_vector_keeps_its_rank_by_words(database: ScratchDatabase) -> None:
    rng = random.Random(12)
    names = [str(n) for n in range(len(BODIES))]
    async with database.open() as r:
        await harvest(r, *(page(n, body) for n, body in enumerate(BODIES)))
        database.execute(KEPT)
        places = numbers(await r.search("cat money", meaning=False, limit=36))
        seen = set()
        for share in (0, 1, 2, 9, 18, 24, 27, 31, 35):
            having = rng.sample(names, share)
            leave(database, having)
            answer = await r.search("cat money", limit=36)
            found = numbers(answer)
            seen.add(tuple(found))

            assert [one for one in found if one not in having] == [one for one in places if one not in having]
            assert [found.index(one) for one in names if one not in having] == [
                places.index(one) for one in names if one not in having
            ]
            assert [hit.score for hit in answer] == sorted((hit.score for hit in answer), reverse=True)
        assert len(seen) > 3, "what has vectors is ranked by them"


async def test_one_source_with_vectors_does_not_push_back_another_without(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, *(page(f"a{n}", body) for n, body in enumerate(BODIES[:12])), name="one")
        await harvest(r, *(page(f"b{n}", body + " too") for n, body in enumerate(BODIES[:12])), name="two")
        database.execute(KEPT)
        leave(database, [f"b{n}" for n in range(12)])
        by_words = numbers(await r.search("cat money", meaning=False, limit=24))
        found = numbers(await r.search("cat money", limit=24))
        filtered = await r.search("cat money", sources=["one"], limit=24)
        alone = await r.search("cat money", sources=["one"], limit=24, meaning=False)

        assert [by_words.index(f"a{n}") for n in range(12)] == [found.index(f"a{n}") for n in range(12)]
        assert numbers(filtered) == numbers(alone)
        assert filtered.explanation["coverage"] == 0
        assert (await r.search("cat money", sources=["two"])).explanation["coverage"] == 1


async def test_hits_by_meaning_only_follow_words_while_coverage_is_low(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, *(page(n, f"a dog {n}") for n in range(9)), page("far", "a puppy"))
        database.execute(KEPT)
        leave(database, ["far"])
        low = await r.search("dog")
        leave(database, ["far", *map(str, range(9))])
        full = await r.search("dog")

        assert numbers(low)[-1] == "far"
        assert numbers(low)[:-1] == numbers(await r.search("dog", meaning=False))
        assert "far" in numbers(full)


async def test_of_an_item_the_best_passage_by_words_is_shown_though_another_has_a_vector(
    database: ScratchDatabase,
) -> None:
    sections = ("cat money grant. ", "Something else entirely. ", "kitten feline purring cat. ")
    long = "\n\n".join(f"# Part {n}\n\n{text * 80}" for n, text in enumerate(sections))
    async with database.open() as r:
        await harvest(r, Document(url="https://example.org/1", title="t", text=long), page(2, "cat"))
        database.execute(
            "delete from embedding where text_hash in (select text_hash from chunk where text like '%grant%')"
        )
        by_words = (await r.search("cat grant", meaning=False))[0]
        first = (await r.search("cat grant"))[0]

        assert database.query("select count(*) > 1 from chunk where item_id = 1") == [(True,)]
        assert "grant" in by_words.text
        assert first.text == by_words.text


async def test_pages_of_an_answer_are_its_whole_at_low_coverage(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, *(page(n, body) for n, body in enumerate(BODIES)))
        database.execute(KEPT)
        leave(database, [str(n) for n in range(0, 36, 3)])
        whole = numbers(await r.search("cat money", limit=20))
        paged: list[str] = []
        after = None
        for _ in range(4):
            answer = await r.search("cat money", limit=5, after=after)
            paged += numbers(answer)
            after = answer.next

        assert paged == whole


async def test_low_coverage_is_reported_and_full_coverage_is_not(database: ScratchDatabase) -> None:
    def told(answer: Answer) -> list[str]:
        return [note for note in answer.notes if "by words only" in note]

    async with database.open() as r:
        await harvest(r, *(page(n, body) for n, body in enumerate(BODIES[:10])))
        database.execute(KEPT)
        full = await r.search("cat")
        leave(database, ["1", "4"])
        low = await r.search("cat")
        overview = await r.sources.overview()
        [model] = await r.embeddings.list()

        assert (full.explanation["coverage"], told(full)) == (1, [])
        assert low.explanation["coverage"] == pytest.approx(0.2)
        assert "20 %" in told(low)[0]
        assert told(await r.search("cat", meaning=False)) == []
        assert model.coverage == pytest.approx(0.2)
        assert overview[0].coverage == pytest.approx(0.2)


async def test_the_bench_measures_each_share_and_puts_the_vectors_back(database: ScratchDatabase) -> None:
    counts = []

    async def quality() -> float:
        counts.append(database.query("select count(*) from embedding")[0][0])
        return 0.5

    async with database.open() as r:
        await harvest(r, *(page(n, body) for n, body in enumerate(BODIES)))
        before = database.query("select text_hash, vector::text from embedding order by 1")
        rows = await by_coverage(r._engine.database, quality)

        assert counts == [0, 0, 2, 9, 18, 36] * 3
        assert rows == {"at random": [0.5] * 6, "as embedded": [0.5] * 6}
        assert database.query("select text_hash, vector::text from embedding order by 1") == before


def test_rankings_worse_than_words_alone_are_marked() -> None:
    told = table({"at random": [0.5, 0.5, 0.49, 0.6, 0.6, 0.6]})

    assert "0.4900!" in told
    assert told.count("!") == 1
