"""Connections of the pool: one that was just used is not probed, and a dead one is replaced."""

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

from rowen import Raw
from rowen.store import database as database_module
from rowen.store.database import Database
from rowen.store.rows import scalar
from tests.cancelling import cancelled_at_each_wait
from tests.conftest import ScratchDatabase

PID = "select pg_backend_pid()"


async def _pid(pool: Database) -> int:
    async with pool.connection() as c:
        return int(await scalar(c, PID))


# More than the pool has connections, which it lends in turn.
ROUND = 20


async def test_a_connection_that_was_just_used_is_not_probed(
    database: ScratchDatabase, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Database(database.settings())
    await pool.open()
    try:
        for _ in range(ROUND):
            await _pid(pool)
        statements.clear()
        await _pid(pool)
        executed = list(statements)
        monkeypatch.setattr(database_module, "TRUSTED_S", -1.0)
        statements.clear()
        await _pid(pool)
    finally:
        await pool.close()

    assert executed == [PID]
    assert statements == ["", PID]


async def test_a_session_that_the_server_ended_is_replaced_before_its_next_use(database: ScratchDatabase) -> None:
    pool = Database(database.settings())
    await pool.open()
    try:
        before = await _pids(pool, 2)
        database.query("select pg_terminate_backend(pid, 5000) from pg_stat_activity where pid = any(%s)", list(before))
        after = {await _pid(pool) for _ in range(ROUND)}
    finally:
        await pool.close()

    assert len(before) == 2
    assert before.isdisjoint(after)


async def _pids(pool: Database, number: int) -> set[int]:
    """Return the sessions of so many connections lent at the same time; the pool has as many afterwards."""
    async with AsyncExitStack() as lent:
        connections = [await lent.enter_async_context(pool.connection()) for _ in range(number)]
        return {int(await scalar(c, PID)) for c in connections}


async def test_a_cancelled_task_that_continues_gets_a_connection(database: ScratchDatabase) -> None:
    async def fail() -> None:
        raise LookupError

    pool = Database(database.settings())
    await pool.open()
    try:
        # In Python 3.11 the task of a group that failed counts as being cancelled from then on.
        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
        caught = asyncio.create_task(_cancelled_and_going_on(pool))
        await asyncio.sleep(0)
        caught.cancel()

        assert await _pid(pool)
        assert await caught
    finally:
        await pool.close()


async def _cancelled_and_going_on(pool: Database) -> int:
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    return await _pid(pool)


async def test_everything_else_is_closed_if_one_part_fails_to_close(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Any) -> None:
        raise LookupError("no way to close")

    async with database.open(workers=1) as r:
        await r.sources.list()
        engine = r._engine
        await engine.workers.read(Raw("https://example.org/1", b"word " * 10_000, name="page.md"))
        [worker] = engine.workers._all
        process = worker._process
        with monkeypatch.context() as broken:
            broken.setattr(type(engine.embedders), "close", fail)
            with pytest.raises(LookupError):
                await engine.close()

    assert process is not None
    assert process.returncode is not None
    assert engine.database._pool is None


async def test_a_cancelled_close_of_a_database_leaves_no_task(database: ScratchDatabase) -> None:
    async def opened_and_closed() -> None:
        pool = Database(database.settings())
        await pool.open()
        try:
            await _pid(pool)
        finally:
            await pool.close()

    waits = 0
    async for number in cancelled_at_each_wait(opened_and_closed):
        waits = number
        assert not [task for task in asyncio.all_tasks() if "pool" in task.get_name()], number

    assert waits > 5
