"""Texts that have a vector are embedded again when somebody orders it: each once, while search goes on."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rowen import Complete, EmbeddingEstimate, Fetched, Gone
from rowen.errors import StoreError
from rowen.harvest import embed as flow
from rowen.operations.facts import fact
from rowen.store.search import embeddings
from tests.conftest import ScratchDatabase
from tests.harvest.embedded import ADDRESS, is_direction_of, pages, sync, untitled, vectors_of
from tests.portals.embedder import Provider, vector_of, vectors
from tests.portals.scripted import Scripted, page, shows


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    kinds(Scripted)
    monkeypatch.setattr(flow, "LONGEST_PAUSE_S", 0.01)


def change_model(provider: Provider) -> None:
    """Let the provider give other vectors under the same name from now on."""
    provider.received.clear()
    provider.asked_for.clear()
    provider.always = vectors(lambda vector: [-number for number in vector])


def is_new(vector: list[float], text: str) -> bool:
    return is_direction_of([-number for number in vector], text)


def new_texts(database: ScratchDatabase) -> set[str]:
    """The passages whose vectors are those of the changed model; all others have their old ones."""
    found = vectors_of(database)
    fresh = {text for text, vector in found.items() if is_new(vector, text)}
    assert all(is_direction_of(vector, text) for text, vector in found.items() if text not in fresh)
    return fresh


async def test_all_texts_are_embedded_again_once_after_a_cost_estimate(
    database: ScratchDatabase, provider: Provider
) -> None:
    estimates: list[EmbeddingEstimate] = []
    async with database.open(**provider.settings, embedder_price=1000.0) as r:
        await sync(r, Fetched(page(1, "Shared.")), Fetched(page(2, "Shared.")), Fetched(page(3, "Alone.")))
        change_model(provider)
        refused = await r.embeddings.embed(again=True, agreed=lambda estimate: estimates.append(estimate) is not None)
        untouched = (database.query("select count(*) from embedding_again"), list(provider.received))
        report = await r.embeddings.embed(again=True, agreed=lambda estimate: not estimates.append(estimate))
        second = await r.embeddings.embed()
        third = await sync(r, Fetched(page(1, "Shared.")), Fetched(page(2, "Shared.")), Fetched(page(3, "Alone.")))

    texts = ["Alone.", "Page 1", "Page 2", "Page 3", "Shared."]
    tokens = sum(map(len, texts)) // 4
    assert (refused, untouched) == (None, ([(0,)], []))
    assert estimates == [EmbeddingEstimate("openai:double", None, 5, tokens, tokens / 1000, 5)] * 2
    assert report is not None
    assert second is not None
    assert (report.embedded, report.again, report.pending, report.error) == (5, 0, 0, None)
    assert (sorted(provider.received), second.embedded, third.stats.embedded) == (texts, 0, 0)
    assert new_texts(database) == {"Alone.", "Shared."}
    assert database.query("select count(*) from embedding") == [(5,)]


async def test_only_the_texts_of_a_source_are_embedded_again_and_shared_ones_once(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings) as r:
        shows(Fetched(untitled(1, "Shared.")), Fetched(untitled(2, "Of one.")), Complete())
        await r.sync("scripted:one")
        shows(Fetched(untitled(1, "Shared.")), Fetched(untitled(2, "Of two.")), Complete())
        await r.sync("scripted:two")
        change_model(provider)
        report = await r.embeddings.embed(again=True, sources="two")
        rest = await r.embeddings.embed()

    assert (sorted(provider.received), new_texts(database)) == (["Of two.", "Shared."], {"Of two.", "Shared."})
    assert report is not None
    assert rest is not None
    assert (report.embedded, report.again, rest.embedded) == (2, 0, 0)


async def test_an_order_that_ended_early_is_finished_later_and_nothing_is_paid_twice(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings, embedder_batch=2, embedder_concurrency=1) as r:
        await sync(r, *pages(1, 2, 3, 4, 5))
        change_model(provider)
        begun = await r.embeddings.embed(again=True, limit=2)
        halfway = len(new_texts(database))
        [status] = await r.embeddings.list()
        synced = await sync(r, *pages(1, 2, 3, 4, 5))
        estimates: list[EmbeddingEstimate] = []
        finished = await r.embeddings.embed(agreed=lambda estimate: not estimates.append(estimate))
        [after] = await r.embeddings.list()

    assert begun is not None
    assert finished is not None
    assert (begun.embedded, begun.again, halfway, status.again, status.pending) == (2, 3, 2, 3, 0)
    assert (fact(status)["again"], status.coverage, synced.stats.embedded) == (3, 1.0, 0)
    assert ([one.texts for one in estimates], finished.embedded, finished.again, after.again) == ([3], 3, 0, 0)
    assert (len(provider.received), provider.repeated(), len(new_texts(database))) == (5, {}, 5)


async def test_a_provider_that_fails_midway_leaves_the_rest_with_its_old_vectors(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(
        **provider.settings, embedder_batch=2, embedder_concurrency=1, cb_failure_threshold=1000
    ) as r:
        await sync(r, *pages(1, 2, 3, 4, 5))
        change_model(provider)
        provider.moods.extend([vectors(lambda vector: [-n for n in vector]), vectors(lambda vector: vector[:3])])
        broken = await r.embeddings.embed(again=True)
        halfway = len(new_texts(database))
        healed = await r.embeddings.embed()

    assert broken is not None
    assert healed is not None
    assert "3 dimensions where 8 are stored" in (broken.error or "")
    assert (broken.embedded, broken.again, halfway) == (2, 3, 2)
    assert (healed.embedded, healed.again, len(new_texts(database))) == (3, 0, 5)


async def test_unstored_texts_keep_their_old_vectors_and_stay_listed(
    database: ScratchDatabase, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = embeddings._copy

    async def lost(*what: Any) -> None:
        await copy(*what)
        raise StoreError("The disk is full.")

    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1, 2, 3))
        change_model(provider)
        with monkeypatch.context() as patched:
            patched.setattr(embeddings, "_copy", lost)
            with pytest.raises(StoreError):
                await r.embeddings.embed(again=True)
        before = (new_texts(database), len(vectors_of(database)))
        healed = await r.embeddings.embed()

    assert before == (set(), 3)
    assert healed is not None
    assert (healed.embedded, healed.again, len(new_texts(database))) == (3, 0, 3)


async def test_a_refused_text_keeps_its_vector_and_a_formerly_refused_one_is_retried_once(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings) as r:
        provider.poison = "number 1"
        await sync(r, *pages(1, 2, 3))
        change_model(provider)
        provider.poison = "number 2"
        report = await r.embeddings.embed(again=True)
        asked = len(provider.asked_for)
        second = await r.embeddings.embed()
        [status] = await r.embeddings.list()

    assert report is not None
    assert second is not None
    assert (report.embedded, report.refused, report.again, status.refused) == (2, 1, 0, 0)
    assert (second.embedded, second.refused, len(provider.asked_for)) == (0, 0, asked)
    assert new_texts(database) == {"All about number 1.", "All about number 3."}
    assert len(vectors_of(database)) == 3


async def test_search_goes_on_and_the_index_and_the_vectors_of_questions_are_right_afterwards(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings, embedder_batch=1, embedder_concurrency=1, vector_index_from=2) as r:
        await sync(r, *pages(*range(1, 9)))
        question = "All about number 5."
        before = await r.search(question)
        change_model(provider)
        await r.embeddings.embed(again=True, limit=4)
        meanwhile = await r.search(question)
        await r.embeddings.embed()
        after = await r.search(question)
        [status] = await r.embeddings.list()

    nearest = database.query(
        "select text from (select text_hash from embedding where model_id = 1"
        " order by vector::halfvec(8) <=> %s::text::halfvec(8) limit 1) nearest join chunk using (text_hash)",
        str([-number for number in vector_of(question)]),
    )
    assert (before[0].text, after[0].text, nearest) == (question, question, [(question,)])
    assert (after[0].vector_rank, after[0].similarity) == (1, pytest.approx(1, abs=0.01))
    assert [hit.similarity is not None for hit in meanwhile] == [True] * 8
    assert provider.repeated() == {question: 2}, "the text, and the question once more under the changed model"
    assert status.indexed


async def test_deleted_texts_lose_their_old_vectors(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings, embedder_batch=1, embedder_concurrency=1) as r:
        await sync(r, *pages(1, 2, 3, 4))
        shows(Gone("https://example.org/4"))
        await r.sync(ADDRESS)
        change_model(provider)
        await r.embeddings.embed(again=True, limit=1)
        number = next(n for n in (1, 2, 3) if f"All about number {n}." not in new_texts(database))
        shows(Gone(f"https://example.org/{number}"))
        await r.sync(ADDRESS)
        await r.embeddings.embed()
        stored = database.query("select count(*) from embedding")
        await sync(r, *pages(1, 2, 3, 4))

    assert stored == [(2,)]
    assert len(new_texts(database)) == 4
    assert provider.repeated() == {}


async def test_two_processes_that_work_off_an_order_pay_once(database: ScratchDatabase, provider: Provider) -> None:
    how = {**provider.settings, "embedder_batch": 1, "embedder_concurrency": 1}
    async with database.open(**how) as one, database.open(**how) as other:
        await sync(one, *pages(*range(1, 7)))
        change_model(provider)
        await one.embeddings.embed(again=True, limit=1)
        reports = await asyncio.gather(one.embeddings.embed(), other.embeddings.embed())

    assert sum(report.embedded for report in reports if report) == 5
    assert provider.repeated() == {}
    assert len(new_texts(database)) == 6
