"""Passages get vectors: each text is paid for once, behind the harvest."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rowen import Complete, Fetched, Gone
from rowen.enrich import base as embedders
from rowen.enrich.base import Embedded, EmbedderTools, Limits, Spec
from rowen.errors import ConfigurationError, UsageError
from rowen.harvest import embed as flow
from rowen.model.status import Tidied
from rowen.operations.search import QuestionVectors
from rowen.store.search.embeddings import Claim
from tests.conftest import ScratchDatabase
from tests.harvest.embedded import ADDRESS, is_direction_of, pages, sync, untitled, vectors_of
from tests.portals.embedder import Provider
from tests.portals.scripted import Scripted, shows


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    kinds(Scripted)
    monkeypatch.setattr(flow, "LONGEST_PAUSE_S", 0.01)


async def test_new_passages_are_embedded_behind_the_harvest(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings) as r:
        run = await sync(r, *pages(1, 2, 3))

    stats = run.stats
    assert (run.status, stats.embedded, stats.embeddings_pending, stats.embeddings_reused) == ("completed", 3, 0, 0)
    assert stats.embedding_tokens > 0
    found = vectors_of(database)
    assert len(found) == 3
    assert all(is_direction_of(vector, text) for text, vector in found.items())


async def test_the_tally_is_kept_with_the_run(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings) as r:
        run = await sync(r, *pages(1, 2))

        assert (await r.runs.get(run.id)).stats == run.stats


async def test_a_second_run_sends_nothing_and_writes_nothing(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1, 2, 3))
        before = database.query("select xmin, * from embedding_model")
        run = await sync(r, *pages(1, 2, 3))

        assert (run.stats.embedded, run.stats.rows_written, len(provider.asked_for)) == (0, 0, 1)
        assert database.query("select xmin, * from embedding_model") == before


async def test_one_edited_passage_costs_one_input(database: ScratchDatabase, provider: Provider) -> None:
    paragraphs = [f"Paragraph {n}. " + "Word after word. " * 60 for n in range(6)]
    async with database.open(**provider.settings) as r:
        await sync(r, Fetched(untitled(1, "\n\n".join(paragraphs))))
        provider.received.clear()
        paragraphs[2] = paragraphs[2].replace("Word after word. ", "Other words. ", 1)
        run = await sync(r, Fetched(untitled(1, "\n\n".join(paragraphs))))

        assert (run.stats.updated, run.stats.embedded, len(provider.received)) == (1, 1, 1)


async def test_the_same_text_in_another_source_item_or_version_is_not_sent_again(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1, 2))
        shows(*pages(1, 2), Complete())
        second = await r.sync("scripted:two")
        third = await sync(r, Fetched(untitled(7, "All about number 1.")), *pages(1, 2))

        assert (second.stats.embedded, second.stats.embeddings_reused) == (0, 2)
        assert (third.stats.embedded, third.stats.embeddings_reused) == (0, 1)
        assert len(provider.received) == 2


async def test_a_text_that_comes_back_is_not_sent_again(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1, 2))
        shows(Gone("https://example.org/2"))
        await r.sync(ADDRESS)
        run = await sync(r, *pages(1, 2))

        assert (run.stats.created, run.stats.embedded, run.stats.embeddings_reused) == (1, 0, 1)
        assert provider.repeated() == {}


async def test_equal_passages_of_one_run_are_sent_once(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings) as r:
        run = await sync(r, *(Fetched(untitled(n, "The very same words.")) for n in range(5)))

        assert run.stats.embedded == 1
        assert provider.received == ["The very same words."]


async def test_a_new_model_is_embedded_beside_the_current_one_and_used_once_complete(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1, 2, 3))
        partly = await r.embeddings.embed(model="other", limit=2)
        assert partly is not None
        assert (partly.embedded, partly.pending, partly.switched, partly.state) == (2, 1, False, "building")
        assert [(m.name, m.state) for m in await r.embeddings.list()] == [
            ("openai:double", "active"),
            ("openai:other", "building"),
        ]

        whole = await r.embeddings.embed(model="other")

        assert whole is not None
        assert (whole.embedded, whole.pending, whole.switched, whole.state) == (1, 0, True, "active")
        assert [(m.name, m.state) for m in await r.embeddings.list()] == [
            ("openai:double", "retired"),
            ("openai:other", "active"),
        ]
        assert await r.embeddings.drop_old() == 3
        assert [m.name for m in await r.embeddings.list()] == ["openai:other"]


async def test_settings_that_name_another_model_do_not_mix_vectors(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1))
    async with database.open(**{**provider.settings, "embedder_model": "other"}) as r:
        run = await sync(r, *pages(1, 2))
        remarks = r.embeddings.remarks()
        models = await r.embeddings.list()

    assert run.stats.embedded == 1
    assert [(m.name, m.vectors) for m in models] == [("openai:double", 2)]
    assert "openai:other" in remarks[0]
    assert "rowen embed" in remarks[0]


async def test_without_a_setting_the_database_determines_the_embedder(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1))
    async with database.open(embedder=None) as r:
        run = await sync(r, *pages(1, 2))

    assert (run.stats.embedded, len(provider.received)) == (1, 2)


async def test_the_estimated_cost_is_shown_first_and_may_be_declined(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(embedder="none") as r:
        await sync(r, *pages(1, 2))
    async with database.open(**provider.settings, embedder_price=2.0) as r:
        told: list[Any] = []
        declined = await r.embeddings.embed(agreed=lambda estimate: bool(told.append(estimate)))

        assert declined is None
        assert (told[0].texts, told[0].usd) == (2, pytest.approx(told[0].tokens * 2 / 1e6))
        assert (provider.asked_for, await r.embeddings.list()) == ([], [])


async def test_the_embedder_none_embeds_and_reports_nothing(database: ScratchDatabase) -> None:
    async with database.open(embedder="none") as r:
        run = await sync(r, *pages(1))
        with pytest.raises(UsageError):
            await r.embeddings.embed()

        assert (run.stats.embedded, run.stats.embeddings_pending) == (0, 0)
        assert await r.embeddings.list() == []


async def test_two_at_once_pay_once(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(embedder="none") as r:
        await sync(r, *pages(*range(40)))
    async with database.open(**provider.settings) as one, database.open(**provider.settings) as two:
        reports = await asyncio.gather(
            one.embeddings.embed(), two.embeddings.embed(), one.embeddings.embed(), two.embeddings.embed()
        )

    assert sum(report.embedded for report in reports if report) == 40
    assert (len(provider.received), provider.repeated()) == (40, {})


async def test_the_newest_passages_come_first(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(embedder="none") as r:
        await sync(r, *pages(*range(5)))
        await sync(r, *pages(*range(9)))
    async with database.open(**provider.settings, embedder_batch=4, embedder_concurrency=1) as r:
        await r.embeddings.embed(limit=4)

    assert sorted(provider.received) == [f"All about number {n}." for n in range(5, 9)]


async def test_a_third_party_kind_joins_by_being_registered(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Letters:
        """Counts letters."""

        kind = "letters"
        name = "letters:26"
        limits = Limits(texts=8, tokens=1000, chars_per_text=100)
        weight = 0.1
        price = None

        def __init__(self, spec: Spec, tools: EmbedderTools) -> None:
            self.spec = spec

        async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
            alphabet = "abcdefghijklmnopqrstuvwxyz"
            return Embedded([[text.lower().count(letter) for letter in alphabet] for text in texts], 0)

        async def close(self) -> None:
            return

    monkeypatch.setattr(embedders, "_registered", dict(embedders._registered))
    embedders.register(Letters)
    async with database.open(embedder="letters") as r:
        run = await sync(r, *pages(1, 2))
        [facts] = await r.embeddings.list()

    # Both pages have the same letters, and yet they are two texts.
    assert (run.stats.embedded, facts.name, facts.vectors) == (2, "letters:26", 2)


async def test_a_question_is_embedded_once(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1))
        first = await QuestionVectors(r._engine).vector_of("what about one?")
        again = await QuestionVectors(r._engine).vector_of("what about one?")

    assert first.vector is not None
    assert is_direction_of(json.loads(first.vector), "what about one?")
    assert again.vector is not None
    assert json.loads(again.vector) == pytest.approx(json.loads(first.vector), abs=1e-3)
    assert provider.received.count("what about one?") == 1


async def test_vectors_of_deleted_texts_are_kept_for_some_days(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1, 2, 3))
        shows(Gone("https://example.org/2"))
        await r.sync(ADDRESS)

        assert await r.database.tidy() == Tidied(dropped=0, kept=1)
    async with database.open(**provider.settings, embeddings_kept_days=0) as r:
        assert await r.database.tidy() == Tidied(dropped=1, kept=0)
        run = await sync(r, *pages(1, 2, 3))

        assert (run.stats.embedded, run.stats.embeddings_reused) == (1, 0)


async def test_an_index_is_built_when_due_and_rebuilt_after_a_killed_build(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings, vector_index_from=5) as r:
        await sync(r, *pages(1, 2, 3))
        assert [m.indexed for m in await r.embeddings.list()] == [False]
        await sync(r, *pages(*range(1, 9)))
        assert [m.indexed for m in await r.embeddings.list()] == [True]
        database.execute("update pg_index set indisvalid = false where indexrelid = 'embedding_hnsw_1'::regclass")
        assert [m.indexed for m in await r.embeddings.list()] == [False]

        await r.embeddings.embed()

        assert [m.indexed for m in await r.embeddings.list()] == [True]
        assert database.query("select count(*) from embedding") == [(8,)]


async def test_requested_dimensions_make_another_model(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings, embedder_dimensions=4) as r:
        await sync(r, *pages(1))
        [facts] = await r.embeddings.list()

    assert (facts.name, facts.dimensions, provider.asked_for[0]["dimensions"]) == ("openai:double:4", 4, 4)


async def test_gemini_requests_use_its_own_format(database: ScratchDatabase, provider: Provider) -> None:
    settings = {"embedder": "gemini", "embedder_url": f"{provider.url}/v1beta", "embedder_key": "k"}
    async with database.open(**settings) as r:
        await sync(r, *pages(1, 2))
        question = await QuestionVectors(r._engine).vector_of("why?")

    assert question.vector is not None
    assert provider.keys[0] == "k"
    tasks = [one["taskType"] for asked in provider.asked_for for one in asked["requests"]]
    assert tasks == ["RETRIEVAL_DOCUMENT", "RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"]
    assert all(is_direction_of(vector, text) for text, vector in vectors_of(database).items())


async def test_a_large_load_drops_the_index_and_rebuilds_it(
    database: ScratchDatabase, provider: Provider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="rowen.harvest.embed")
    async with database.open(**provider.settings, vector_index_from=5) as r:
        await sync(r, *pages(*range(6)))
    store = Claim.store

    async def slowly(claim: Claim, vectors: Any, **how: Any) -> None:
        await asyncio.sleep(0.1)
        await store(claim, vectors, **how)

    monkeypatch.setattr(Claim, "store", slowly)
    monkeypatch.setattr(flow, "LEAST_MEASURED", 2)
    monkeypatch.setattr(flow, "INDEX_INSERTS_PER_S", 0)
    async with database.open(embedder="none") as r:
        await sync(r, *pages(*range(40)))
    async with database.open(**provider.settings, vector_index_from=5, embedder_batch=4, embedder_concurrency=1) as r:
        await r.embeddings.embed()
        [facts] = await r.embeddings.list()

    assert [record.getMessage()[:17] for record in caplog.records].count("dropped the index") == 1
    assert (facts.indexed, facts.vectors) == (True, 40)


async def test_vectors_of_a_removed_model_are_not_mixed_with_others(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1))
    database.execute("update embedding_model set name = 'openai:before'")
    async with database.open(embedder=None) as r:
        run = await sync(r, *pages(1, 2))
        question = await QuestionVectors(r._engine).vector_of("what now?")
        remarks = r.embeddings.remarks()
        report = await r.embeddings.embed()
        after = await QuestionVectors(r._engine).vector_of("what now?")

    assert (run.stats.embedded, run.stats.embeddings_pending) == (0, 1)
    assert question.vector is None
    assert "cannot use any more" in remarks[0]
    assert report is not None
    assert (report.switched, report.embedded) == (True, 2)
    assert after.vector is not None


async def test_a_database_with_vectors_of_a_removed_embedder_is_searched_by_words_with_a_hint_how_to_switch(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1))
    database.execute(
        "update embedding_model set name = 'wordllama-l2-supercat:f16:256', kind = 'local-fast', url = null"
    )
    async with database.open(embedder=None) as r:
        run = await sync(r, *pages(1, 2))
        remarks = r.embeddings.remarks()
        answer = await r.search("text")
        with pytest.raises(ConfigurationError, match="local-fast is no longer part of Rowen"):
            await r.embeddings.embed()
    async with database.open(**provider.settings) as r:
        report = await r.embeddings.embed()

    assert (run.status, run.stats.created, run.stats.embeddings_pending) == ("completed", 1, 1)
    assert "`rowen embed --embedder local`" in remarks[0]
    assert "`rowen embed --embedder local`" in str(answer.notes)
    assert report is not None
    assert (report.switched, report.embedded, report.pending) == (True, 2, 0)


async def test_the_setting_local_fast_names_its_replacement(database: ScratchDatabase) -> None:
    async with database.open(embedder="local-fast") as r:
        with pytest.raises(ConfigurationError, match="rowen embed --embedder local") as caught:
            await r.embeddings.embed()

    assert "gemini, local, none, openai" in (caught.value.hint or "")
    assert "local-fast" not in embedders.kinds()
