"""When one stage of the flow fails, the others end too, although a cancellation can get lost on its way."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from rowen import Checkpoint, Fetched, Known, Observation, concurrency
from rowen.errors import StoreUnavailableError
from rowen.settings import Settings
from rowen.store.database import Database
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page
from tests.refresh.machine import failing_at


class Deaf(Scripted):
    """A source that does not hear the first cancellation, and never ends."""

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        number = 0
        heard = True
        while True:
            number += 1
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if not heard:
                    raise
                heard = False
            yield Fetched(page(number))
            yield Checkpoint(number)


# By their words: of a number nobody knows whose statement it is, and the background puts up with a failure.
@pytest.mark.parametrize("statement", ["insert into item ", "insert into chunk", "insert into change", "cursor ="])
async def test_a_source_that_ignores_cancellation_does_not_hang_a_failed_run(
    database: ScratchDatabase, kinds: Any, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    kinds(Deaf)
    monkeypatch.setattr(concurrency, "PERSISTENCE_S", 0.1)
    async with database.open() as r:
        await r.sources.add("scripted:one", name="one")
        with failing_at(statement), pytest.raises(StoreUnavailableError):
            async with asyncio.timeout(60):
                await r.sync("one")


async def test_a_cancellation_that_meets_a_connection_from_the_pool_is_not_lost(database: ScratchDatabase) -> None:
    held = Database(Settings(database_url=database.conninfo))
    await held.open()
    assert held._pool is not None
    await held._pool.resize(min_size=1, max_size=1)

    async def work() -> None:
        async with held.connection():
            pass
        await asyncio.Event().wait()

    for steps in range(60):
        async with held.connection():
            task = asyncio.create_task(work())
            await asyncio.sleep(0.001)
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=30)

        assert done, f"cancelled {steps} steps after the connection was given back"
    await held.close()


async def test_a_connection_whose_pipeline_was_cancelled_commits_what_the_next_borrower_writes(
    database: ScratchDatabase,
) -> None:
    """A search sends its statements in a pipeline; one left open would hold the locks of later writes."""
    held = Database(Settings(database_url=database.conninfo))
    await held.open()
    assert held._pool is not None
    await held._pool.resize(min_size=1, max_size=1)
    database.execute("create table mark (number integer)")

    async def ask() -> None:
        async with held.connection() as c, c.pipeline(), c.transaction():
            await c.execute("select 1")
            found = await c.execute("select 2")
            await found.fetchall()

    for steps in range(120):
        task = asyncio.create_task(ask())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=30)
        async with held.connection() as c:
            await c.execute("insert into mark values (%s)", [steps])
            [(written,)] = database.query("select count(*) from mark")

        assert written == steps + 1, f"cancelled {steps} steps after it began"
    await held.close()
