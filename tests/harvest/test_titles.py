"""What an item is called has a vector of its own: one input an item, and the first to be made."""

from collections.abc import Callable
from typing import Any

import pytest

from rowen import Complete, Document, Fetched, Gone
from rowen.enrich import base as embedders
from rowen.model.datasets import DATASET
from rowen.model.status import Tidied
from tests.conftest import ScratchDatabase
from tests.harvest.embedded import ADDRESS, sync
from tests.harvest.senses import Senses
from tests.portals.embedder import Provider
from tests.portals.scripted import Scripted, page, shows


@pytest.fixture(autouse=True)
def _kinds(kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    kinds(Scripted)
    monkeypatch.setattr(embedders, "_registered", {**embedders._registered, "senses": Senses})


def dataset(number: int, publisher: str) -> Document:
    return page(number, "Of hay.", title="Hay", tags=("a", "b"), media_type=DATASET, record={"publisher": publisher})


async def test_a_title_is_sent_once_with_the_publisher_of_a_dataset_and_without_tags(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings) as r:
        run = await sync(r, Fetched(page(1, "One.", tags=("x",))), Fetched(page(2, "Two.")), Fetched(dataset(3, "Us")))

    titles = ["Hay\nUs", "Page 1", "Page 2"]
    assert (run.stats.embedded, run.stats.embeddings_pending) == (6, 0)
    assert sorted(provider.received) == sorted([*titles, "One.", "Two.", "Of hay."])


async def test_a_new_title_or_publisher_costs_one_input_and_new_tags_cost_none(
    database: ScratchDatabase, provider: Provider
) -> None:
    text = "\n\n".join(f"## Part {n}\n\n" + f"Words of part {n}. " * 60 for n in range(5))
    async with database.open(**provider.settings) as r:
        await sync(r, Fetched(page(1, text, title="Old")), Fetched(dataset(2, "Us")))
        provider.received.clear()
        titled = await sync(r, Fetched(page(1, text, title="New")), Fetched(dataset(2, "Us")))
        tagged = await sync(r, Fetched(page(1, text, title="New", tags=("t",))), Fetched(dataset(2, "Us")))
        published = await sync(r, Fetched(page(1, text, title="New", tags=("t",))), Fetched(dataset(2, "Them")))
        same = await sync(r, Fetched(page(1, text, title="New", tags=("t",))), Fetched(dataset(2, "Them")))

    assert [run.stats.embedded for run in (titled, tagged, published, same)] == [1, 0, 1, 0]
    assert (tagged.stats.updated, tagged.stats.embeddings_pending) == (1, 0)
    assert (titled.stats.chunks_written, tagged.stats.chunks_written, same.stats.rows_written) == (0, 0, 0)
    assert provider.received == ["New", "Hay\nThem"]


async def test_the_same_title_is_sent_once_and_an_item_without_one_costs_nothing(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings) as r:
        await sync(r, *(Fetched(page(n, f"Text {n}.", title="Index")) for n in (1, 2)), Fetched(page(3, "3", title="")))
        emptied = await sync(
            r, *(Fetched(page(n, f"Text {n}.", title="")) for n in (1, 2)), Fetched(page(3, "3", title=""))
        )

    assert sorted(provider.received) == ["3", "Index", "Text 1.", "Text 2."]
    assert (emptied.stats.updated, emptied.stats.embedded) == (2, 0)
    assert database.query("select count(*) from item_title") == [(0,)]


async def test_titles_and_openings_of_all_items_come_before_the_depths_of_one(
    database: ScratchDatabase, provider: Provider
) -> None:
    deep = "\n\n".join(f"## Part {n}\n\n" + f"Words of part {n}. " * 60 for n in range(6))
    async with database.open(**provider.settings, embedder_batch=1, embedder_concurrency=1, embed_wait_s=0) as r:
        provider.down = True
        await sync(r, *(Fetched(page(n, deep.replace("Part", f"Page {n} part"), title=f"T{n}")) for n in (1, 2, 3)))
        provider.down = False
        await r.embeddings.embed()

    order = [text.split("\n")[0] for text in provider.received]
    assert order[:3] == ["T3", "T2", "T1"]
    assert order[3:6] == ["Page 3 part 0", "Page 2 part 0", "Page 1 part 0"]
    assert len(order) == 3 + 18
    assert provider.repeated() == {}


async def test_titles_of_later_items_are_embedded_before_older_passages(
    database: ScratchDatabase, provider: Provider
) -> None:
    deep = "\n\n".join(f"## Part {n}\n\n" + f"Words of part {n}. " * 60 for n in range(6))
    settings: dict[str, Any] = {**provider.settings, "embedder_batch": 1, "embedder_concurrency": 1}
    async with database.open(**settings, embed_wait_s=0) as r:
        provider.down = True
        await sync(r, Fetched(page(1, deep, title="Old")))
        provider.down = False
        await r.embeddings.embed(limit=3)
        provider.down = True
        await sync(r, Fetched(page(1, deep, title="Old")), Fetched(page(2, "Short.", title="New")))
        provider.down = False
        await r.embeddings.embed()

    order = [text.split("\n")[0] for text in provider.received]
    assert order[:2] == ["Old", "Part 0"]
    assert order[3:5] == ["New", "Short."]


@pytest.mark.parametrize("filters", [{}, {"sources": ["one"]}])
async def test_an_item_is_found_by_its_title_before_its_passages_have_vectors(
    database: ScratchDatabase, filters: dict[str, Any]
) -> None:
    async with database.open(embedder="senses") as r:
        shows(
            Fetched(page(1, "First words.\n\n" + "More words. " * 300, title="Kitten")),
            Fetched(page(2, "First words, too.", title="Coins")),
            Complete(),
        )
        await r.sync(ADDRESS)
        database.execute("delete from embedding where text_hash in (select text_hash from chunk)")
        database.execute("update embedding_model set covered_to = 0")
        answer = await r.search("feline", **filters)

    assert (answer[0].title, answer[0].vector_rank) == ("Kitten", 1)
    assert answer[0].text.startswith("First words.")
    assert answer[0].similarity is not None
    assert answer[0].similarity > 0.99


async def test_of_equal_items_the_one_with_the_matching_title_ranks_first(database: ScratchDatabase) -> None:
    async with database.open(embedder="senses") as r:
        await sync(
            r, *(Fetched(page(n, f"All of kitten, {n}.", title=t)) for n, t in enumerate(("Dogs", "Cats", "Rain")))
        )
        answer = await r.search("feline")

    assert answer[0].title == "Cats"
    assert len(answer) == 3


async def test_a_phrase_or_an_excluded_word_holds_for_what_a_title_finds(database: ScratchDatabase) -> None:
    async with database.open(embedder="senses") as r:
        await sync(r, Fetched(page(1, "Wet words.", title="Kitten")), Fetched(page(2, "Dry words.", title="Cats")))
        without = await r.search("feline -wet")
        strict = await r.search('feline "dry words"')

    assert [hit.title for hit in without] == ["Cats"]
    assert [hit.title for hit in strict] == ["Cats"]


async def test_the_vector_of_a_deleted_title_is_kept_for_some_days(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings, embeddings_kept_days=0) as r:
        await sync(r, *(Fetched(page(n, f"Text {n}.")) for n in (1, 2, 3)))
        shows(Gone("https://example.org/2"))
        await r.sync(ADDRESS)

        assert await r.database.tidy() == Tidied(dropped=2, kept=0)
        assert database.query("select count(*) from embedding") == [(4,)]


async def test_a_refused_title_is_not_requested_again(database: ScratchDatabase, provider: Provider) -> None:
    provider.poison = "Forbidden"
    async with database.open(**provider.settings) as r:
        run = await sync(r, Fetched(page(1, "Text.", title="Forbidden")), Fetched(page(2, "More.")))
        asked = len(provider.asked_for)
        again = await sync(r, Fetched(page(1, "Text.", title="Forbidden")), Fetched(page(2, "More.")))
        [status] = await r.embeddings.list()

    assert (run.stats.embedded, run.stats.embeddings_pending, status.refused, status.pending) == (3, 0, 1, 0)
    assert (again.stats.embedded, len(provider.asked_for)) == (0, asked)
