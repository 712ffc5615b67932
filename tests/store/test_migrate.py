"""Migrations: applied once, in order, by one process at a time; a newer database is refused."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from rowen.errors import NewerDatabaseError, StoreUnavailableError, StoreUnfitError
from rowen.settings import Settings
from rowen.store import migrate
from rowen.store.database import Database
from tests.conftest import House, Server


@pytest.fixture
def empty(server: Server) -> Iterator[str]:
    name = server.create()
    yield server.conninfo(name)
    server.drop(name)


async def opened(conninfo: str) -> None:
    database = Database(Settings(database_url=conninfo, database_patience_s=5))
    await database.open()
    await database.close()


async def test_several_processes_may_migrate_an_empty_database_at_once(empty: str) -> None:
    await asyncio.gather(*(opened(empty) for _ in range(5)))

    house = House(empty, None)  # type: ignore[arg-type]
    assert house.query("select max(number) from migration") == [(migrate.latest(),)]


async def test_a_database_newer_than_the_program_is_refused_and_left_alone(house: House) -> None:
    house.execute("insert into migration (number, name, checksum) values (9999, 'from the future', '')")

    with pytest.raises(NewerDatabaseError, match="at schema 9999") as caught:
        await opened(house.conninfo)

    assert "Upgrade Rowen" in (caught.value.hint or "")


async def test_a_server_without_pgvector_is_refused_with_the_way_out(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "MINIMUM_VECTOR", (99, 0))

    with pytest.raises(StoreUnfitError, match="or later") as caught:
        await opened(empty)

    assert "ROWEN_DATABASE_URL" in (caught.value.hint or "")


async def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(StoreUnavailableError) as caught:
        await opened("postgresql://someone:hunter2@127.0.0.1:9/none")

    assert "127.0.0.1" in str(caught.value)
    assert "hunter2" not in str(caught.value) + str(caught.value.__cause__)


def test_migrations_are_numbered_without_gaps() -> None:
    numbers = [step.number for step in migrate.migrations()]

    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_step_that_fails_leaves_nothing(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good = migrate.migrations()
    bad = migrate.Migration(len(good) + 1, "bad", "create table half (n integer); select broken;")
    steps: Callable[[], list[migrate.Migration]] = lambda: [*good, bad]  # noqa: E731
    monkeypatch.setattr(migrate, "migrations", steps)

    with pytest.raises(Exception, match="broken"):
        await opened(empty)

    house = House(empty, None)  # type: ignore[arg-type]
    assert house.query("select to_regclass('rowen.half'), to_regclass('rowen.item')") == [(None, None)]
