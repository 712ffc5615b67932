"""Search by meaning beside search by words."""

from collections.abc import Callable
from typing import Any

import pytest

from rowen import Complete, Document, Fetched, Gone, Rowen
from rowen.enrich import base as embedders
from rowen.model.search import plain
from tests.conftest import ScratchDatabase
from tests.harvest.embedded import untitled as page
from tests.harvest.senses import Senses
from tests.portals.scripted import Scripted, shows

INDEX = "create index on embedding using hnsw ((vector::halfvec(5)) halfvec_cosine_ops) where model_id = 1"


@pytest.fixture(autouse=True)
def _worlds(kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    kinds(Scripted)
    monkeypatch.setattr(embedders, "_registered", {**embedders._registered, "senses": Senses})
    monkeypatch.setattr(Senses, "down", False)
    monkeypatch.setenv("ROWEN_EMBEDDER", "senses")


async def harvest(r: Rowen, *documents: Document, name: str = "one") -> None:
    shows(*(Fetched(document) for document in documents), Complete())
    await r.sync(f"scripted:{name}")


def urls(hits: Any) -> list[str]:
    return [hit.url.rpartition("/")[2] for hit in hits]


async def test_an_item_without_common_words_is_found_by_meaning(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "A purring kitten."), page(2, "Coins of the realm."), page(3, "Drizzle all day."))
        answer = await r.search("feline")

        assert urls(answer)[0] == "1"
        assert answer[0].words == ()
        assert answer[0].vector_rank == 1
        assert answer[0].similarity is not None
        assert answer[0].similarity > 0.9


async def test_found_by_both_comes_before_found_by_one(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "Cats sleep."), page(2, "A kitten and money."), page(3, "A cat, purring."))
        [first, *_] = await r.search("cat purring")

        assert first.url.endswith("/3")
        assert (first.keyword_rank, first.vector_rank) == (1, 1)
        assert set(first.words) == {"cat", "purring"}


async def test_an_embedder_that_is_down_leaves_word_search_and_is_reported(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "A cat."), page(2, "A kitten."))
        monkeypatch.setattr(Senses, "down", True)
        answer = await r.search("cat")

        assert urls(answer) == ["1"]
        assert any("by words only" in note for note in answer.notes)


async def test_words_only_requests_no_vector(database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "A cat."), page(2, "A kitten."))
        monkeypatch.setattr(Senses, "down", True)
        answer = await r.search("cat", meaning=False)

        assert urls(answer) == ["1"]
        assert answer.notes == ()


async def test_deleted_text_is_not_found_though_its_vector_is_kept(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "A cat."), page(2, "A kitten."), page(3, "Coins."))
        shows(Gone("https://example.org/1"))
        await r.sync("scripted:one")

        assert "1" not in urls(await r.search("feline"))
        assert database.query("select count(*) from embedding") == [(3,)]


async def test_filters_hold_for_meaning_as_well(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "A cat."), name="one")
        await harvest(r, page(2, "A kitten."), name="two")

        assert urls(await r.search("feline", sources=["two"])) == ["2"]


async def test_phrases_and_exclusions_hold_for_meaning_as_well(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(
            r, page(1, "A sleeping cat on the mat."), page(2, "A cat and a mat."), page(3, "A kitten asleep.")
        )

        assert urls(await r.search('"sleeping cat" feline')) == ["1"]
        assert set(urls(await r.search("feline -mat"))) == {"3"}


async def test_excluded_words_are_not_part_of_the_question(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "A kitten."), page(2, "Puppy and canine."), page(3, "A dog."))
        answer = await r.search('"kitten" -dog')

        assert plain('"kitten" -dog pup*') == "kitten pup"
        assert answer[0].similarity is not None
        assert answer[0].similarity > 0.99


async def test_a_question_of_stop_words_is_searched_by_meaning(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "A cat."), page(2, "Coins."))

        assert len(await r.search("what is it")) == 2


async def test_a_source_that_holds_few_of_many_passages_gives_its_full_ten(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, *(page(f"many{n}", f"Cats, number {n}.") for n in range(300)), name="many")
        await harvest(r, *(page(f"few{n}", f"Kitten and money {n}.") for n in range(12)), name="few")
        database.execute(
            "create index on embedding using hnsw ((vector::halfvec(5)) halfvec_cosine_ops) where model_id = 1"
        )
        answer = await r.search("feline", sources=["few"])

        assert len(answer) == 10
        assert {hit.source for hit in answer} == {"few"}


async def test_similar_items_are_found_by_meaning_and_never_the_item_itself(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "A cat, purring."), page(2, "A kitten."), page(3, "Coins."), page(4, "Rain."))
        answer = await r.items.similar("https://example.org/1")

        assert urls(answer)[0] == "2"
        assert "1" not in urls(answer)


async def test_an_answer_by_meaning_costs_one_statement_beside_the_question(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "A cat."), page(2, "A kitten."))
        answer = await r.search("feline")

        assert answer.explanation["model"] == "senses"
        assert answer.explanation["near"] == 2
        assert answer.explanation["looked_up"] is None
