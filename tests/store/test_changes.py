"""The change log: numbers become visible in order, also with concurrent writers."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, closing
from datetime import timedelta
from itertools import takewhile
from random import Random
from typing import Any

import psycopg
import pytest

from rowen.errors import StoreError, StoreUnavailableError
from rowen.model.source import Source
from rowen.store import changes, sources
from rowen.store.changes import LogLine
from rowen.store.database import Database
from rowen.store.listener import Listener
from tests.conftest import House, Server


async def _database(house: House) -> Database:
    database = Database(house.settings())
    await database.open()
    return database


async def _source(database: Database) -> Source:
    async with database.connection() as c:
        return await sources.add(c, "s", kind="scripted", url="scripted:s", options={}, schedule=None)


def lines(writer: int, count: int) -> list[LogLine]:
    return [LogLine("created", bytes([writer, n]), f"https://example.org/{writer}/{n}", "") for n in range(count)]


async def test_a_reader_never_sees_a_number_before_a_smaller_one(house: House) -> None:
    database = await _database(house)
    source = await _source(database)
    done = asyncio.Event()

    async def write(writer: int) -> None:
        for n in range(15):
            async with database.transaction() as c:
                await changes.append(c, source, None, lines(writer, 1 + n % 3))
                await asyncio.sleep(0.001 * (writer % 3))

    async def write_all() -> None:
        await asyncio.gather(*(write(writer) for writer in range(6)))
        done.set()

    async def watch() -> list[int]:
        seen: list[int] = []
        while not done.is_set() or len(seen) < await _last(database):
            async with database.connection() as c:
                found = await changes.read_after(c, seen[-1] if seen else 0)
                assert found.reached == max([*seen, *(change.number for change in found.lines)], default=0)
                seen.extend(change.number for change in found.lines)
        return seen

    # Workers of a pool that nobody closes outlive the loop: a failure here would hang instead of being told.
    try:
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(watch())
            tasks.create_task(write_all())
    finally:
        await database.close()

    assert watching.result() == list(range(1, 6 * 30 + 1))


async def _last(database: Database) -> int:
    async with database.connection() as c:
        return await changes.last_number(c)


async def test_times_never_fall_although_an_older_transaction_logs_later(house: House) -> None:
    database = await _database(house)
    source = await _source(database)
    async with database.transaction() as older:
        await older.execute("select now()")
        async with database.transaction() as newer:
            await changes.append(newer, source, None, lines(1, 1))
        await changes.append(older, source, None, lines(2, 1))
    async with database.connection() as c:
        first, second = (await changes.read_after(c, 0)).lines
        before = [await changes.number_before(c, moment) for moment in (first.at, second.at + timedelta(seconds=1))]
        last = [await changes.number_of_last(c, count) for count in (1, 2, 3)]
    await database.close()

    assert first.at <= second.at
    assert (before, last) == ([0, 2], [1, 0, 0])


async def test_ranges_of_the_log_are_bounded_and_only_the_one_that_ends_it_is_the_last(house: House) -> None:
    database = await _database(house)
    await append(database, await _source(database), 3)
    async with database.connection() as c:
        ranges = [
            await changes.next_range(c, after, lines=lines)
            for after, lines in ((0, 2), (2, 2), (0, 3), (0, None), (7, 2))
        ]
    await database.close()

    assert ranges == [(0, 2, False), (2, 3, True), (0, 3, True), (0, 3, True), (7, 7, True)]


async def test_the_last_lines_begin_after_the_number_before_them(house: House) -> None:
    database = await _database(house)
    await append(database, await _source(database), 5)
    async with database.connection() as c:
        of_all = [await changes.number_of_last(c, count) for count in (1, 2, 5, 6)]
        of_source = [await changes.number_of_last(c, 2, source=name) for name in ("s", "another")]
    await database.close()

    assert (of_all, of_source) == ([4, 3, 0, 0], [3, 0])


async def test_the_bounds_of_a_period_belong_to_it(house: House) -> None:
    database = await _database(house)
    source = await _source(database)
    await append(database, source, 1, 1)
    async with database.connection() as c:
        first, second = (await changes.read_after(c, 0)).lines
        moments = (first.at - timedelta(microseconds=1), first.at, second.at, second.at + timedelta(microseconds=1))
        since = [[line.number for line in await changes.newest(c, limit=9, since=moment)] for moment in moments]
        until = [[line.number for line in await changes.newest(c, limit=9, until=moment)] for moment in moments]
        before = [await changes.number_before(c, moment) for moment in moments]
    await database.close()

    assert since == [[2, 1], [2, 1], [2], []]
    assert until == [[], [1], [2, 1], [2, 1]]
    assert before == [0, 0, 1, 2]


async def test_workers_are_woken_by_a_change_only_where_a_webhook_is_active(house: House) -> None:
    database = await _database(house)
    source = await _source(database)
    woken = []
    with psycopg.connect(house.conninfo, autocommit=True) as listening:
        listening.execute("listen rowen_change")
        listening.execute("listen rowen_due")
        for state in ("active", "paused"):
            house.execute("delete from webhook")
            house.execute(
                "insert into webhook (name, url, secrets, after, state)"
                f" values ('team', 'https://example.org', '{{}}', 0, '{state}')"
            )
            await append(database, source, 1)
            listening.execute("select pg_notify('rowen_change', 'end')")
            with closing(listening.notifies(timeout=20)) as notices:
                woken.append([notice.channel for notice in takewhile(lambda each: each.payload != "end", notices)])
    await database.close()

    assert woken == [["rowen_change", "rowen_due"], ["rowen_change"]]


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


async def append(database: Database, source: Source, *counts: int) -> None:
    for writer, count in enumerate(counts):
        async with database.transaction() as c:
            await changes.append(c, source, None, lines(writer, count))


async def numbers(listener: Listener, upto: int, *, since: int = 0, batch: int = 500) -> list[int]:
    """What a reader hears until it has heard a number."""
    heard: list[int] = []
    async with aclosing(listener.follow(since, batch=batch)) as batches:
        async for lines in batches:
            assert len(lines) <= batch
            heard += [line.number for line in lines]
            if heard[-1] >= upto:
                break
    return heard


def listening(house: House) -> int:
    [(count,)] = house.query(
        "select count(*) from pg_stat_activity where query = %s and datname = current_database()", changes.LISTEN
    )
    return int(count)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.sleep(0.02)


async def test_a_follower_hears_of_a_change_when_it_is_committed(house: House) -> None:
    database = await _database(house)
    source = await _source(database)

    following = asyncio.create_task(numbers(Listener(database), 3))
    await append(database, source, 1, 1, 1)
    heard = await asyncio.wait_for(following, 60)
    await database.close()

    assert heard == [1, 2, 3]


async def test_fifty_readers_share_one_connection_and_leave_none_behind(house: House) -> None:
    database = await _database(house)
    source = await _source(database)
    listener = Listener(database)
    await append(database, source, 3)

    readers = [asyncio.create_task(numbers(listener, 5)) for _ in range(50)]
    await until(lambda: listening(house) == 1)
    [(connections,)] = house.query("select count(*) from pg_stat_activity where application_name = 'rowen'")
    await append(database, source, 1, 1)
    heard = await asyncio.wait_for(asyncio.gather(*readers), 20)

    assert heard == [[1, 2, 3, 4, 5]] * 50
    assert connections <= 1 + 8
    assert listening(house) == 0
    await database.close()


async def test_readers_that_have_seen_the_same_lines_share_one_read_whatever_source_they_follow(
    house: House, statements: list[str]
) -> None:
    database = await _database(house)
    source = await _source(database)
    listener = Listener(database)
    heard: asyncio.Queue[int] = asyncio.Queue()

    async def follow(only: str | None) -> None:
        async with aclosing(listener.follow(0, source=only)) as batches:
            async for lines in batches:
                for line in lines:
                    heard.put_nowait(line.number)

    readers = [asyncio.create_task(follow(only)) for only in ("s", None) * 10]
    readers.append(asyncio.create_task(follow("another")))
    await append(database, source, 1)
    async with asyncio.timeout(20):
        first = [await heard.get() for _ in range(20)]
        await until(lambda: listening(house) == 1)
        statements.clear()
        await append(database, source, 1)
        second = [await heard.get() for _ in range(20)]
    reads = [one for one in statements if "where number >" in one]
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    await database.close()

    assert (set(first), set(second)) == ({1}, {2})
    assert len(reads) <= 2


async def test_readers_that_share_a_read_do_not_share_the_end_of_one_of_them_or_its_failure(house: House) -> None:
    database = await _database(house)
    source = await _source(database)
    await append(database, source, 1)
    listener = Listener(database, random=Random(0))
    failing = 1
    reading = listener._read_batch

    async def read(*about: Any) -> changes.LogBatch:
        nonlocal failing
        await asyncio.sleep(0)
        if failing:
            failing -= 1
            raise StoreUnavailableError("The server is gone.")
        return await reading(*about)

    listener._read_batch = read  # type: ignore[method-assign]
    readers = [asyncio.create_task(numbers(listener, 1)) for _ in range(3)]
    await asyncio.sleep(0)
    readers[0].cancel()
    heard = await asyncio.wait_for(asyncio.gather(*readers, return_exceptions=True), 20)
    await database.close()

    assert isinstance(heard[0], asyncio.CancelledError)
    assert heard[1:] == [[1], [1]]


async def test_a_long_log_comes_in_batches_and_a_reader_may_begin_anywhere(house: House) -> None:
    database = await _database(house)
    source = await _source(database)
    await append(database, source, 12, 9)
    listener = Listener(database)

    assert await numbers(listener, 21, batch=5) == list(range(1, 22))
    assert await numbers(listener, 21, since=18, batch=3) == [19, 20, 21]
    await database.close()


async def test_a_slow_reader_holds_nothing_up_and_misses_nothing(house: House) -> None:
    database = await _database(house)
    source = await _source(database)
    listener = Listener(database)
    await append(database, source, 1)
    async with aclosing(listener.follow(0, batch=10)) as slow:
        first = await asyncio.wait_for(anext(slow), 20)

        quick = asyncio.create_task(numbers(listener, 201))
        await append(database, source, *[40] * 5)
        assert await asyncio.wait_for(quick, 20) == list(range(1, 202))

        rest: list[int] = []
        while len(rest) < 200:
            batch = await asyncio.wait_for(anext(slow), 20)
            assert len(batch) <= 10
            rest += [line.number for line in batch]
    await database.close()

    assert [line.number for line in first] == [1]
    assert rest == list(range(2, 202))


async def test_a_reader_of_one_source_passes_over_the_lines_of_others_once(house: House) -> None:
    database = await _database(house)
    source = await _source(database)
    async with database.connection() as c:
        other = await sources.add(c, "o", kind="scripted", url="scripted:o", options={}, schedule=None)
    await append(database, source, 2)
    await append(database, other, 30)

    async with database.connection() as c:
        first = await changes.read_after(c, 0, limit=5, **of("s"))
        again = await changes.read_after(c, first.reached, limit=5, **of("s"))
        full = await changes.read_after(c, 0, limit=5, **of("o"))
        beyond = await changes.read_after(c, 99)
    await database.close()

    assert ([line.number for line in first.lines], first.reached, first.is_all) == ([1, 2], 32, True)
    assert (again.lines, again.reached) == ([], 32)
    assert (len(full.lines), full.reached, full.is_all) == (5, 7, False)
    assert beyond == ([], 99, True)


def of(source: str) -> dict[str, Any]:
    where, values = changes.of_source(source)
    return {"where": where, "values": values}


async def test_readers_outlive_a_restart_of_the_server(house: House, server: Server) -> None:
    if server.embedded is None:
        pytest.skip("the server is not ours to restart")
    database = await _database(house)
    source = await _source(database)
    await append(database, source, 1)
    listener = Listener(database)
    async with aclosing(listener.follow(0)) as reader:
        await anext(reader)
        waiting = asyncio.create_task(anext(reader))
        await until(lambda: listening(house) == 1)

        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.revive)
        await _until_it_answers(database)
        await append(database, source, 2)
        after = await asyncio.wait_for(waiting, 60)

    await database.close()
    assert [line.number for line in after] == [2, 3]


async def _until_it_answers(database: Database) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await _last(database)
            except StoreError:
                await asyncio.sleep(0.1)
            else:
                return


async def test_an_outage_that_lasts_is_told_to_readers(house: House) -> None:
    database = await _database(house)
    listener = Listener(database, give_up_s=0, random=Random(0))
    await database._pool.close()  # type: ignore[union-attr]

    with pytest.raises(StoreUnavailableError):
        await asyncio.wait_for(numbers(listener, 1), 20)
    await database.close()


async def test_closing_the_listener_ends_its_readers_and_their_connection(house: House) -> None:
    database = await _database(house)
    source = await _source(database)
    await append(database, source, 2)
    listener = Listener(database)
    readers = [asyncio.create_task(numbers(listener, 99)) for _ in range(3)]
    await until(lambda: listening(house) == 1)

    await listener.close()

    assert await asyncio.wait_for(asyncio.gather(*readers), 20) == [[1, 2]] * 3
    await until(lambda: listening(house) == 0)
    await database.close()


async def test_a_reader_that_is_cancelled_frees_the_connection(house: House) -> None:
    database = await _database(house)
    reader = asyncio.create_task(numbers(Listener(database), 99))
    await until(lambda: listening(house) == 1)

    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)

    await until(lambda: listening(house) == 0)
    await database.close()
