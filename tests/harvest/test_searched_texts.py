"""What was searched for gets its vectors before the rest."""

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from rowen import Complete, Fetched, Gone, Rowen
from rowen.store.search import embeddings, pending_texts
from tests.conftest import ScratchDatabase
from tests.harvest.embedded import ADDRESS, sync
from tests.portals.embedder import Provider
from tests.portals.scripted import Scripted, page, shows

NOTES = "select url, times from item_wanted join item on item.id = item_id order by url"
WORDS = {1: "barley", 2: "clover", 3: "dahlia", 4: "elder"}


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


def deep(number: int) -> Fetched:
    """A page of four passages with a word of its own in each."""
    parts = (f"## {WORDS[number]} {n}\n\n" + f"Words of {WORDS[number]} part {n}. " * 60 for n in range(4))
    return Fetched(page(number, "\n\n".join(parts), title=f"T{number}"))


async def harvest(r: Rowen, provider: Provider, *numbers: int) -> None:
    """Store pages while nobody makes vectors."""
    provider.down = True
    await sync(r, *map(deep, numbers))
    provider.down = False


def sent(provider: Provider) -> list[str]:
    """The first lines of what was embedded, in order; questions are left out."""
    return [text.split("\n")[0] for text in provider.received if text not in WORDS.values()]


def one_by_one(provider: Provider) -> dict[str, Any]:
    return {**provider.settings, "embedder_batch": 1, "embedder_concurrency": 1, "embed_wait_s": 0}


async def test_the_most_searched_texts_are_embedded_after_titles_and_openings(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**one_by_one(provider)) as r:
        await harvest(r, provider, 1, 2, 3, 4)
        for word in ("barley", "clover", "barley"):
            await r.search(word)
        noted = database.query(NOTES)
        await r.embeddings.embed()

    order = sent(provider)
    assert noted == [("https://example.org/1", 2), ("https://example.org/2", 1)]
    assert sorted(order[:8]) == sorted([*(f"T{n}" for n in WORDS), *(f"{word} 0" for word in WORDS.values())])
    assert order[8:14] == [f"{word} {n}" for word in ("barley", "clover") for n in (1, 2, 3)]
    assert len(order) == 4 + 16
    assert provider.repeated() == {}
    assert database.query(NOTES) == []


async def test_texts_searched_between_two_batches_are_embedded_next(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**one_by_one(provider)) as r:
        await harvest(r, provider, 1, 2, 3)
        await r.embeddings.embed(limit=7)
        await r.search('"barley"')
        await r.embeddings.embed()

    assert sent(provider)[6:10] == ["dahlia 3", "barley 1", "barley 2", "barley 3"]
    assert provider.repeated() == {}


async def test_a_search_on_a_finished_index_notes_nothing(
    database: ScratchDatabase, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        raise AssertionError("a statement that a finished index does not need")

    async with database.open(**provider.settings) as r:
        await sync(r, *map(deep, (1, 2)))
        monkeypatch.setattr(pending_texts, "note_wanted", never)
        answers = [await r.search("barley"), await r.search("barley", meaning=False), await r.search("nothing")]

    assert [len(answer) > 0 for answer in answers[:2]] == [True, True]
    assert database.query(NOTES) == []


async def test_an_item_that_has_all_its_vectors_is_not_noted_beside_one_that_has_not(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings, embed_wait_s=0) as r:
        await sync(r, deep(1))
        await r.embeddings.embed()
        await harvest(r, provider, 1, 2)
        await r.search("words part")

    assert database.query(NOTES) == [("https://example.org/2", 1)]


async def test_no_more_than_ten_items_of_a_search_are_noted(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings, embed_wait_s=0) as r:
        provider.down = True
        await sync(r, *(Fetched(page(n, f"Hay number {n}.")) for n in range(15)))
        answer = await r.search("hay", limit=15)

    assert len(answer) == 15
    assert len(database.query(NOTES)) == 10


async def test_a_note_that_cannot_be_written_does_not_fail_the_search(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings, embed_wait_s=0) as r:
        await harvest(r, provider, 1)
        database.execute("alter table item_wanted rename to elsewhere")
        answer = await r.search("barley")
        database.execute("alter table elsewhere rename to item_wanted")

    assert [hit.title for hit in answer] == ["T1"]


async def test_a_search_does_not_wait_for_a_concurrent_deletion_of_its_hits(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings, embed_wait_s=0) as r:
        await harvest(r, provider, 1, 2)
        with psycopg.connect(database.conninfo, options="-c search_path=rowen,public") as other:
            other.execute("delete from item where url = 'https://example.org/1'")
            answer = await asyncio.wait_for(r.search("part words"), 10)
            noted = database.query(NOTES)
            other.rollback()

    assert len(answer) == 2
    assert noted == [("https://example.org/2", 1)]


async def test_a_note_goes_with_its_item(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings, embed_wait_s=0) as r:
        await harvest(r, provider, 1, 2, 3)
        await r.search("barley")
        noted = database.query(NOTES)
        provider.down = True
        shows(Gone("https://example.org/1"))
        await r.sync(ADDRESS)

    assert noted == [("https://example.org/1", 1)]
    assert database.query("select * from item_wanted") == []


async def test_a_source_with_an_exhausted_budget_delays_no_other_source(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**one_by_one(provider)) as r:
        await harvest(r, provider, 1)
        provider.down = True
        shows(deep(2), Complete())
        await r.sync("scripted:two")
        for word in ("barley", "barley", "clover"):
            await r.search(word)
        [(first,)] = database.query("select id from source where name = 'one'")
        async with r._engine.database.connection() as c:
            model = await embeddings.active(c)
            assert model is not None
            found = await pending_texts.pending_wanted(c, model, limit=20, without=[first])

    assert [text.text.split()[0] for text in found] == ["clover"] * 4
