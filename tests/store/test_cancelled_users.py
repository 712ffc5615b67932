"""A task cancelled during a statement leaves no trace on the connection."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rowen.errors import BusyError
from rowen.model.runs import RunStats
from rowen.store import runs, sources
from rowen.store.database import Database
from rowen.store.locks import Lock
from rowen.store.rows import scalar
from rowen.store.search import embeddings
from rowen.store.search.embeddings import Claim
from tests.cancelling import cancelled_at_each_wait
from tests.conftest import ScratchDatabase

Use = Callable[[Database], Coroutine[Any, Any, Any]]


@asynccontextmanager
async def opened(database: ScratchDatabase) -> AsyncIterator[Database]:
    pool = Database(database.settings())
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close()


async def question(pool: Database) -> None:
    async with pool.connection() as c:
        await scalar(c, "select pg_sleep(0.005)::text")


async def transaction(pool: Database) -> None:
    async with pool.transaction() as c:
        await c.execute("create table rowen.half (number integer)")
        await c.execute("select pg_sleep(0.005)")
        await c.execute("drop table rowen.half")


async def many_rows(pool: Database) -> None:
    async with pool.connection() as c, c.cursor() as cursor:
        async for _ in cursor.stream("select repeat('x', 1000) from generate_series(1, 500)"):
            pass


async def copy_out(pool: Database) -> None:
    async with (
        pool.connection() as c,
        c.cursor().copy("copy (select repeat('x', 10000) from generate_series(1, 50)) to stdout") as copy,
    ):
        async for _ in copy:
            pass


async def copy_in(pool: Database) -> None:
    async with pool.transaction() as c:
        await c.execute("create temporary table heap (words text) on commit drop")
        async with c.cursor().copy("copy heap from stdin") as copy:
            for _ in range(5):
                await copy.write(b"x" * 100_000 + b"\n")


@pytest.mark.parametrize("use", [question, transaction, many_rows, copy_out, copy_in])
async def test_a_connection_returned_by_a_cancelled_task_works_for_the_next_one(
    database: ScratchDatabase, use: Use
) -> None:
    async with opened(database) as pool:
        assert pool._pool is not None
        await pool._pool.resize(min_size=1, max_size=1)
        pool._places = asyncio.Semaphore(1)
        waits = 0
        async for number in cancelled_at_each_wait(lambda: use(pool)):
            waits = number
            async with asyncio.timeout(30), pool.connection() as c:
                assert await scalar(c, "select %s::integer", [number]) == number
                assert await scalar(c, "select to_regclass('rowen.half')::text") is None
            if number >= 60:
                break

    assert waits > 1


async def test_a_lease_cancelled_while_taken_or_returned_leaves_the_source_free(
    database: ScratchDatabase,
) -> None:
    async with database.open() as r:
        await r.sources.add("https://example.org/", name="one", kind="web")
        pool = r._engine.database

        async with pool.connection() as c:
            source = await sources.get(c, "one")

        async def hold() -> None:
            lease = await runs.Lease.take(pool, source, mode="full", lease_s=60)
            # As a run does that is cancelled.
            await lease.close("failed", complete=False, stats=RunStats(), problem=None)

        waits = 0
        async for number in cancelled_at_each_wait(hold):
            waits = number
            async with asyncio.timeout(30):
                lease = await _taken(pool, source)
                await lease.close("failed", complete=False, stats=RunStats(), problem=None)
        assert waits > 5
        assert database.query("select count(*) from run where status = 'running'") == [(0,)]


async def _taken(pool: Database, source: Any) -> runs.Lease:
    """Return the lease, as soon as the server has noticed the end of the previous session."""
    while True:
        try:
            return await runs.Lease.take(pool, source, mode="full", lease_s=60)
        except BusyError:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("what", ["extraction", "embedding"])
async def test_a_claim_of_a_cancelled_task_is_released(database: ScratchDatabase, what: str) -> None:
    async with opened(database) as pool:

        async def extract() -> bool:
            async with pool.alone(Lock.EXTRACTION, 7) as is_mine:
                await asyncio.sleep(0)
                return is_mine

        async def embed() -> bool:
            claim = await Claim.take(pool, 7)
            if claim is None:
                return False
            try:
                await asyncio.sleep(0)
                return True
            finally:
                await claim.release()

        work = extract if what == "extraction" else embed
        waits = 0
        async for number in cancelled_at_each_wait(work):
            waits = number
            async with asyncio.timeout(30):
                while not await work():
                    await asyncio.sleep(0.01)
        assert waits > 1


async def test_a_cancelled_store_of_vectors_leaves_all_of_them_or_none(database: ScratchDatabase) -> None:
    async with opened(database) as pool:
        async with pool.connection() as c:
            model = await embeddings.register(c, "m", kind="k", model=None, wanted=None, url=None, weight=1.0)
        tried = 0

        async def store() -> None:
            nonlocal tried
            tried += 1
            claim = await Claim.take(pool, model.id)
            assert claim is not None
            try:
                await claim.store([(bytes([tried, part] * 16), [b"\0\0" * 8]) for part in range(40)])
            finally:
                await claim.release()

        waits = 0
        async for number in cancelled_at_each_wait(store):
            waits = number
            async with asyncio.timeout(30):
                while (claim := await Claim.take(pool, model.id)) is None:
                    await asyncio.sleep(0.01)
                await claim.release()

        # The server may have committed what was about to be heard of.
        whole = database.query("select count(*) from embedding group by substr(text_hash, 1, 1)")
        assert waits > 3
        assert (40,) in whole
        assert set(whole) == {(40,)}
