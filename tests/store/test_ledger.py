"""The ledger of paid calls in PostgreSQL: costs, their causes, and their retention."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from rowen.enrich import base as embedders
from rowen.enrich.base import EmbedderTools, Spec
from rowen.enrich.ledger import charged_to
from rowen.errors import EmbeddingError
from rowen.model.models import Charge, LedgerEntry, SpentUsd, TokenUsage
from rowen.net.client import Client
from rowen.settings import Settings
from rowen.store.ledger import ProviderLedger, prune
from tests.conftest import ScratchDatabase
from tests.harvest.embedded import pages, sync
from tests.portals.embedder import Provider, status
from tests.portals.scripted import Scripted

NOW = datetime.now(UTC)
DAY = NOW.replace(hour=0, minute=0, second=0, microsecond=0)


def entry(usd: float | None = 0.5, *, at: datetime = NOW, charge: Charge = Charge(1, 2), **changes: Any) -> LedgerEntry:  # noqa: B008 (frozen)
    values: dict[str, Any] = {
        "at": at,
        "purpose": "embed",
        "provider": "api.example.org",
        "model": "m-1",
        "inputs": 3,
        "usage": TokenUsage(100, 20),
        "usd": usd,
        "latency_s": 0.25,
        "result": "answered",
        "status": 200,
        "charge": charge,
    }
    return LedgerEntry(**values | changes)


async def test_costs_are_summed_by_run_source_and_day(database: ScratchDatabase) -> None:
    async with database.open() as r:
        ledger = ProviderLedger(r._engine.database)
        await ledger.record(entry(0.5))
        await ledger.record(entry(None, status=None, result="unreachable"))
        await ledger.record(entry(0.25, charge=Charge(9, 2)))
        await ledger.record(entry(0.125, charge=Charge()))
        await ledger.record(entry(4.0, charge=Charge(8, 2), at=NOW - timedelta(days=20)))
        await ledger.record(entry(8.0, charge=Charge(7, 2), at=NOW - timedelta(days=40)))

        since = NOW - timedelta(days=30)
        spent = await ledger.spent(Charge(1, 2), day=DAY, source_since=since)
        nobody = await ledger.spent(Charge(), day=DAY, source_since=since)

    assert spent == SpentUsd(0.5, 4.75, 0.875, tokens_by_run=240, tokens_for_source=480, tokens_by_day=480)
    assert nobody == SpentUsd(by_day=0.875, tokens_by_day=480)


async def test_a_bounded_number_of_old_entries_is_deleted_at_once(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.store.ledger._PRUNED_AT_ONCE", 2)
    time = 0.0
    async with database.open() as r:
        ledger = ProviderLedger(r._engine.database, clock=lambda: time)
        for days in (1, 89, 91, 92, 93):
            await ledger.record(entry(at=NOW - timedelta(days=days)))
        assert database.query("select count(*) from provider_call") == [(5,)]

        time += 3_601
        await ledger.record(entry())
        assert database.query("select count(*) from provider_call") == [(4,)]
        async with r._engine.database.connection() as c:
            assert [await prune(c), await prune(c)] == [1, 0]


async def test_an_entry_outlives_its_source_and_a_rollback(database: ScratchDatabase) -> None:
    async with database.open() as r:
        ledger = ProviderLedger(r._engine.database)
        async with r._engine.database.transaction():
            await ledger.record(entry())
            raise psycopg.Rollback

    assert database.query("select purpose, result, tokens_sent, run_id from provider_call") == [
        ("embed", "answered", 100, 1)
    ]


async def test_an_embedder_writes_every_attempt_and_no_text(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    provider = Provider()
    provider.moods.append(status(500))
    values = provider.settings | {"embedder_key": "env:MY_KEY", "embedder_price": 100, "budget_run_usd": 0.0012}
    settings = Settings(**values, allow_addresses="127.0.0.0/8", host_delay_s=0, fetch_tries=2, proxy=None)
    try:
        async with database.open() as r, Client(settings) as client:

            async def opened() -> Client:
                return client

            spec = Spec("openai", "double", None, provider.base)
            embedder = embedders.make(spec, EmbedderTools(opened, settings, ProviderLedger(r._engine.database)))
            with charged_to(run_id=5):
                await embedder.embed(["a private text of some words"])
                with pytest.raises(EmbeddingError, match="this run") as caught:
                    await embedder.embed(["another private text"])
            await embedder.close()
    finally:
        provider.close()

    assert "ROWEN_BUDGET_RUN_USD" in (caught.value.hint or "")
    rows = database.query("select purpose, model, inputs, tokens_sent, usd, result, status, run_id from provider_call")
    assert rows == [
        ("embed", "double", 1, 0, 0.0, "failed", 500, 5),
        ("embed", "double", 1, 7, 0.0007, "answered", 200, 5),
    ]
    everything = str(database.query("select * from provider_call"))
    assert "private" not in everything
    assert "secret" not in everything


async def test_a_sync_writes_its_paid_calls_into_the_ledger(
    database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    kinds(Scripted)
    provider = Provider()
    try:
        async with database.open(**provider.settings, embedder_price=1) as r:
            run = await sync(r, *pages(1, 2, 3))
            await sync(r, *pages(1, 2, 3))
    finally:
        provider.close()

    assert run.stats.embedded == 3
    assert database.query("select purpose, model, inputs, result, status, usd > 0 from provider_call") == [
        ("embed", "double", 3, "answered", 200, True)
    ]


async def test_a_day_whose_budget_is_used_up_leaves_texts_waiting_and_the_run_complete(
    database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    kinds(Scripted)
    provider = Provider()
    try:
        async with database.open(**provider.settings, embedder_price=1, budget_day_usd=0.0000001) as r:
            run = await sync(r, *pages(1, 2, 3))
            report = await r.embeddings.embed()
        async with database.open(**provider.settings, embedder_price=1, budget_day_usd=1) as r:
            caught_up = await r.embeddings.embed()
    finally:
        provider.close()

    assert (run.status, run.stats.created, run.stats.embeddings_pending) == ("completed", 3, 3)
    assert report is not None
    assert "the budget is 1e-07 USD for one day" in (report.error or "")
    assert "ROWEN_BUDGET_RUN_USD" in (report.hint or "")
    assert caught_up is not None
    assert (caught_up.embedded, caught_up.pending, len(provider.asked_for)) == (3, 0, 1)
