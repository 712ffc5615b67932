"""Connections of the pool: one that was just used is not asked whether it lives, and one that died is replaced."""

import pytest

from rowen.store import database as database_module
from rowen.store.database import Database
from rowen.store.rows import scalar
from tests.conftest import House

PID = "select pg_backend_pid()"


async def _pid(database: Database) -> int:
    async with database.connection() as c:
        return int(await scalar(c, PID))


# More than the pool has connections, which it lends in turn.
ROUND = 20


async def test_a_connection_that_was_just_used_is_not_asked_whether_it_lives(
    house: House, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(house.settings())
    await database.open()
    try:
        for _ in range(ROUND):
            await _pid(database)
        statements.clear()
        await _pid(database)
        asked = list(statements)
        monkeypatch.setattr(database_module, "TRUSTED_S", -1.0)
        statements.clear()
        await _pid(database)
    finally:
        await database.close()

    assert asked == [PID]
    assert statements == ["", PID]


async def test_a_session_that_the_server_ended_is_replaced_before_anybody_uses_it(house: House) -> None:
    database = Database(house.settings())
    await database.open()
    try:
        before = {await _pid(database) for _ in range(ROUND)}
        house.query("select pg_terminate_backend(pid, 5000) from pg_stat_activity where pid = any(%s)", list(before))
        after = {await _pid(database) for _ in range(ROUND)}
    finally:
        await database.close()

    assert len(before) > 1
    assert before.isdisjoint(after)
