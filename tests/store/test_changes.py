"""The change log: numbers become visible in order, also with concurrent writers."""

import asyncio

from rowen.model.source import Source
from rowen.store import changes, sources
from rowen.store.changes import Line
from rowen.store.database import Database
from tests.conftest import House


async def _database(house: House) -> Database:
    database = Database(house.settings())
    await database.open()
    return database


async def _source(database: Database) -> Source:
    async with database.connection() as c:
        return await sources.add(c, "s", kind="scripted", url="scripted:s", options={}, schedule=None)


def lines(writer: int, count: int) -> list[Line]:
    return [Line("created", bytes([writer, n]), f"https://example.org/{writer}/{n}", "") for n in range(count)]


async def test_a_reader_never_sees_a_number_before_a_smaller_one(house: House) -> None:
    database = await _database(house)
    source = await _source(database)
    done = asyncio.Event()

    async def write(writer: int) -> None:
        for n in range(15):
            async with database.transaction() as c:
                await changes.append(c, source, None, lines(writer, 1 + n % 3))
                await asyncio.sleep(0.001 * (writer % 3))

    async def watch() -> list[int]:
        seen: list[int] = []
        while not done.is_set() or len(seen) < await _last(database):
            async with database.connection() as c:
                seen.extend(change.number for change in await changes.read(c, after=seen[-1] if seen else 0))
        return seen

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(write(writer) for writer in range(6)))
    done.set()
    seen = await watching
    await database.close()

    assert seen == list(range(1, 6 * 30 + 1))


async def _last(database: Database) -> int:
    async with database.connection() as c:
        return await changes.last_number(c)


async def test_a_transaction_that_fails_leaves_no_gap(house: House) -> None:
    database = await _database(house)
    source = await _source(database)
    try:
        async with database.transaction() as c:
            await changes.append(c, source, None, lines(1, 2))
            raise RuntimeError
    except RuntimeError:
        pass
    async with database.transaction() as c:
        await changes.append(c, source, None, lines(1, 1))

    assert await _last(database) == 1
    await database.close()


async def test_a_follower_hears_of_a_change_when_it_is_committed(house: House) -> None:
    database = await _database(house)
    source = await _source(database)
    heard: list[int] = []

    async def follow() -> None:
        async for change in changes.follow(database, after=0):
            heard.append(change.number)
            if change.number == 3:
                return

    following = asyncio.create_task(follow())
    for n in range(3):
        async with database.transaction() as c:
            await changes.append(c, source, None, lines(n, 1))
    await asyncio.wait_for(following, 20)
    await database.close()

    assert heard == [1, 2, 3]
