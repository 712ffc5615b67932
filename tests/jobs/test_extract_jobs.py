"""Extraction as jobs: one that is to end begins no more calls, and loses no answer that was paid for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rowen.jobs.queue import put_extraction
from rowen.jobs.worker import TASKS
from tests.conftest import ScratchDatabase
from tests.harvest.shop import market, stock
from tests.jobs.conftest import Opened, Yard
from tests.portals.language_model import Model

LAMPS = 8


@asynccontextmanager
async def active(yard: Opened) -> AsyncIterator[tuple[Yard, Model, int]]:
    """A shop whose lamps wait for a slow model, two at a time, and the job that is to extract them."""
    with market(LAMPS) as (shop, model):
        async with yard(**model.settings, llm_concurrency=2) as y:
            await stock(y.r, shop)
            await y.r.extraction.detach("shop", "lamp")
            await y.r.sync("shop")
            await y.r.extraction.attach("shop", "lamp@1")
            y.tasks.update(TASKS)
            # Until the provider has accepted the key, one call is made at a time.
            shop.sell(99, price=1)
            await y.r.extract(f"{shop.url}/99", "lamp@1")
            model.questions.clear()
            model.latency_s = 0.5
            source = await y.r.sources.get("shop")
            async with y.engine.database.transaction() as c:
                job = await put_extraction(c, y.engine.database, source.id)
            assert job is not None
            yield y, model, job


async def test_a_cancelled_extraction_ends_after_the_calls_that_are_under_way(
    yard: Opened, database: ScratchDatabase
) -> None:
    async with active(yard) as (y, model, job):
        async with y.working(extract=1):
            await y.until(lambda: model.calls == 2)
            await y.r.queue.cancel(job)
            ended = await y.until_state(job, "cancelled")
        assert (ended.tries, model.calls) == (1, 2)
        assert database.query("select count(*) from answer") == [(3,)]
        assert database.query("select count(*) from extraction") == [(2,)]

        [report] = await y.r.extraction.extract_source("shop")
        assert (report.created, model.calls) == (LAMPS - 2, LAMPS)


async def test_a_stopping_worker_releases_an_extraction_and_the_next_one_pays_only_the_rest(
    yard: Opened, database: ScratchDatabase
) -> None:
    async with active(yard) as (y, model, job):
        async with y.working(extract=1):
            await y.until(lambda: model.calls == 2)
        given_back = await y.job(job)
        assert (given_back.state, given_back.tries, model.calls) == ("waiting", 0, 2)

        await y.work(extract=1)
        assert (await y.job(job)).state == "done"
        assert model.calls == LAMPS
        assert database.query("select count(*) from extraction") == [(LAMPS,)]


@pytest.mark.parametrize("how", ["cancel", "leave"])
async def test_an_extraction_that_was_done_before_it_heard_of_its_end_is_done(yard: Opened, how: str) -> None:
    async with active(yard) as (y, model, job):
        model.latency_s = 0.2
        worker = y.worker(extract=1)
        task = asyncio.create_task(worker.run())
        await y.until(lambda: model.calls == LAMPS)
        if how == "cancel":
            await y.r.queue.cancel(job)
            await y.until_state(job, "done")
        worker.stop()
        await task
        assert (await y.job(job)).state == "done"


async def test_a_job_beyond_the_budget_waits_without_a_try_and_nothing_has_failed(yard: Opened) -> None:
    with market(1) as (shop, model):
        async with yard(**model.settings, budget_day_tokens=1) as y:
            await stock(y.r, shop)
            await y.r.sync("shop")
            y.tasks.update(TASKS)
            # The sync left it for what it could not do.
            [job] = [one.id for one in await y.r.queue.list() if one.task == "extract"]

            async def has_waited() -> bool:
                return bool((await y.job(job)).waits)

            async with y.working(extract=1):
                await y.until(has_waited)
            waiting = await y.job(job)
            [carried] = await y.r.extraction.list_attached("shop")
            assert (waiting.state, waiting.tries, waiting.error_code) == ("waiting", 0, "budget_exceeded")
            assert (carried.state, carried.failed, carried.pending, model.calls) == ("waiting", 0, 1, 0)
            assert "budget" in (carried.waits_for or "")
        async with yard(**model.settings) as y:
            [report] = await y.r.extraction.extract_source("shop")
            assert (report.created, (await y.r.extraction.list_attached("shop"))[0].state) == (1, "current")


async def test_a_budget_for_one_pass_is_spent_once_and_the_rest_waits_for_the_next(yard: Opened) -> None:
    with market(1) as (shop, model):
        async with yard(**model.settings) as y:
            await stock(y.r, shop)
            await y.r.sync("shop")
            calls = model.calls
            for left in await y.r.queue.list("shop"):
                await y.r.queue.cancel(left.id)
            y.tasks.update(TASKS)
            job = (await y.r.queue.enqueue_extraction("shop", everything=True, force=True, budget_tokens=1)).id

            async def is_over() -> bool:
                return (await y.job(job)).state not in ("waiting", "running")

            async with y.working(extract=1):
                await y.until(is_over)
            ended = await y.job(job)
            [carried] = await y.r.extraction.list_attached("shop")
    assert (ended.state, ended.waits, model.calls) == ("done", 0, calls)
    assert carried.pending == 1
