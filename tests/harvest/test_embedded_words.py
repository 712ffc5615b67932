"""What is embedded of a passage: its words, all of them, and none again because a link leads elsewhere."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest

from rowen import Fetched, Gone
from rowen.enrich import base as embedders
from rowen.enrich.base import Embedded, EmbedderTools, Limits, Spec
from rowen.model.status import Tidied
from tests.conftest import ScratchDatabase
from tests.harvest.embedded import ADDRESS, sync, untitled
from tests.harvest.senses import _vector
from tests.portals.embedder import Provider
from tests.portals.scripted import Scripted, shows

LINKED = "# Cats\n\nSee [the **guide**](https://example.org/1.0/guide.html?a=1) and\n`run()`."


class PartlyReading:
    """Reads four words at a time, each part in the direction of its sense."""

    kind: ClassVar[str] = "partly"
    name = "partly"
    limits = Limits(texts=64, tokens=100_000, chars_per_text=10_000)
    weight = 1.0
    price = None
    lies: ClassVar[int] = 0

    def __init__(self, spec: Spec, tools: EmbedderTools) -> None:
        self.spec = spec

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
        if question:
            return Embedded([_vector(text) for text in texts], tokens=1)
        parts = [[" ".join(text.split()[at : at + 4]) for at in range(0, len(text.split()), 4)] for text in texts]
        vectors = [_vector(part) for of_text in parts for part in of_text]
        return Embedded(vectors, tokens=len(vectors), parts=[len(of_text) + PartlyReading.lies for of_text in parts])

    async def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _kinds(kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    kinds(Scripted)
    monkeypatch.setattr(embedders, "_registered", dict(embedders._registered))
    embedders.register(PartlyReading)


async def test_words_are_sent_without_addresses_and_markup(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings) as r:
        await sync(r, Fetched(untitled(1, LINKED)))

    assert provider.received == ["Cats\n\nSee the guide and\nrun()."]


async def test_a_link_that_leads_elsewhere_costs_no_input_and_its_passage_is_stored_as_it_is(
    database: ScratchDatabase, provider: Provider
) -> None:
    moved = LINKED.replace("1.0", "1.1")
    async with database.open(**provider.settings) as r:
        await sync(r, Fetched(untitled(1, LINKED)))
        run = await sync(r, Fetched(untitled(1, moved)))

    assert (run.stats.amended, run.stats.embedded, run.stats.embeddings_reused) == (1, 0, 1)
    assert (run.stats.chunks_written, run.stats.embeddings_pending, len(provider.received)) == (1, 0, 1)
    assert database.query("select text from chunk") == [(moved,)]


async def test_a_passage_without_words_is_not_sent(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings) as r:
        run = await sync(r, Fetched(untitled(1, "![](https://example.org/a.png)")))

    assert (run.stats.chunks_written, run.stats.embedded, run.stats.embeddings_pending) == (1, 0, 0)
    assert provider.received == []


async def test_no_word_of_a_long_passage_is_outside_every_vector(database: ScratchDatabase) -> None:
    text = "one two three four five six seven eight nine ten eleven kitten"
    async with database.open(embedder="partly") as r:
        run = await sync(r, Fetched(untitled(1, text)), Fetched(untitled(2, "some other four words")))
        answer = await r.search("feline")
        [status] = await r.embeddings.list()

    assert (run.stats.embedded, run.stats.embeddings_pending, status.vectors, status.pending) == (2, 0, 2, 0)
    assert database.query("select part from embedding order by text_hash, part") in (
        [(0,), (1,), (2,), (0,)],
        [(0,), (0,), (1,), (2,)],
    )
    assert answer[0].url == "https://example.org/1"
    assert answer[0].similarity is not None
    assert answer[0].similarity > 0.9
    assert len({hit.url for hit in answer}) == len(answer)


@pytest.mark.parametrize("asked", ["feline", '"ten eleven" feline', "feline -coins"])
async def test_a_passage_of_many_parts_is_found_once_by_its_nearest_part(database: ScratchDatabase, asked: str) -> None:
    text = "cat cat cat cat cat dog cat cat kitten ten eleven twelve"
    async with database.open(embedder="partly") as r:
        await sync(r, Fetched(untitled(1, text)))
        answer = await r.search(asked)
        filtered = await r.search(asked, sources=["one"])

    for found in (answer, filtered):
        assert [(hit.url, hit.passages) for hit in found] == [("https://example.org/1", 1)]
        assert found[0].similarity is not None
        assert found[0].similarity > 0.99


async def test_all_parts_of_a_deleted_text_are_removed(database: ScratchDatabase) -> None:
    async with database.open(embedder="partly", embeddings_kept_days=0) as r:
        await sync(
            r, Fetched(untitled(1, "a b c d e f g h i")), Fetched(untitled(2, "cats")), Fetched(untitled(3, "dogs"))
        )
        shows(Gone("https://example.org/1"))
        await r.sync(ADDRESS)
        tidied = await r.database.tidy()
        back = await sync(
            r, *(Fetched(untitled(n, text)) for n, text in ((1, "a b c d e f g h i"), (2, "cats"), (3, "dogs")))
        )

    assert tidied == Tidied(dropped=3, kept=0)
    assert (back.stats.embedded, database.query("select count(*) from embedding")) == (1, [(5,)])


async def test_parts_that_do_not_fit_the_vectors_are_refused(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PartlyReading, "lies", 1)
    async with database.open(embedder="partly") as r:
        await sync(r, Fetched(untitled(1, "cats")))
        remarks = r.embeddings.remarks()

    assert "gave 1 vectors for 1 texts" in " ".join(remarks)
    assert database.query("select count(*) from embedding") == [(0,)]
