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
from rowen.model.sources import Source
from rowen.store import changes, sources
from rowen.store.changes import LogLine
from rowen.store.database import Database
from rowen.store.listener import Listener
from tests.conftest import ScratchDatabase, Server


async def _database(database: ScratchDatabase) -> Database:
    pool = Database(database.settings())
    await pool.open()
    return pool


async def _source(pool: Database) -> Source:
    async with pool.connection() as c:
        return await sources.add(c, "s", kind="scripted", url="scripted:s", options={}, schedule=None)


def lines(writer: int, count: int) -> list[LogLine]:
    return [LogLine("created", bytes([writer, n]), f"https://example.org/{writer}/{n}", "") for n in range(count)]


async def test_a_reader_never_sees_a_number_before_a_smaller_one(database: ScratchDatabase) -> None:
    pool = await _database(database)
    source = await _source(pool)
    done = asyncio.Event()

    async def write(writer: int) -> None:
        for n in range(15):
            async with pool.transaction() as c:
                await changes.append(c, source, None, lines(writer, 1 + n % 3))
                await asyncio.sleep(0.001 * (writer % 3))

    async def write_all() -> None:
        await asyncio.gather(*(write(writer) for writer in range(6)))
        done.set()

    async def watch() -> list[int]:
        seen: list[int] = []
        while not done.is_set() or len(seen) < await _last(pool):
            async with pool.connection() as c:
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
        await pool.close()

    assert watching.result() == list(range(1, 6 * 30 + 1))


async def _last(pool: Database) -> int:
    async with pool.connection() as c:
        return await changes.last_number(c)


async def test_times_never_fall_although_an_older_transaction_logs_later(database: ScratchDatabase) -> None:
    pool = await _database(database)
    source = await _source(pool)
    async with pool.transaction() as older:
        await older.execute("select now()")
        async with pool.transaction() as newer:
            await changes.append(newer, source, None, lines(1, 1))
        await changes.append(older, source, None, lines(2, 1))
    async with pool.connection() as c:
        first, second = (await changes.read_after(c, 0)).lines
        before = [await changes.number_before(c, moment) for moment in (first.at, second.at + timedelta(seconds=1))]
        last = [await changes.number_of_last(c, count) for count in (1, 2, 3)]
    await pool.close()

    assert first.at <= second.at
    assert (before, last) == ([0, 2], [1, 0, 0])


async def test_ranges_of_the_log_are_bounded_and_only_the_one_that_ends_it_is_the_last(
    database: ScratchDatabase,
) -> None:
    pool = await _database(database)
    await append(pool, await _source(pool), 3)
    async with pool.connection() as c:
        ranges = [
            await changes.next_range(c, after, lines=lines)
            for after, lines in ((0, 2), (2, 2), (0, 3), (0, None), (7, 2))
        ]
    await pool.close()

    assert ranges == [(0, 2, False), (2, 3, True), (0, 3, True), (0, 3, True), (7, 7, True)]


async def test_the_last_lines_begin_after_the_number_before_them(database: ScratchDatabase) -> None:
    pool = await _database(database)
    await append(pool, await _source(pool), 5)
    async with pool.connection() as c:
        of_all = [await changes.number_of_last(c, count) for count in (1, 2, 5, 6)]
        of_source = [await changes.number_of_last(c, 2, source=name) for name in ("s", "another")]
    await pool.close()

    assert (of_all, of_source) == ([4, 3, 0, 0], [3, 0])


async def test_the_bounds_of_a_period_belong_to_it(database: ScratchDatabase) -> None:
    pool = await _database(database)
    source = await _source(pool)
    await append(pool, source, 1, 1)
    async with pool.connection() as c:
        first, second = (await changes.read_after(c, 0)).lines
        moments = (first.at - timedelta(microseconds=1), first.at, second.at, second.at + timedelta(microseconds=1))
        since = [[line.number for line in await changes.newest(c, limit=9, since=moment)] for moment in moments]
        until = [[line.number for line in await changes.newest(c, limit=9, until=moment)] for moment in moments]
        before = [await changes.number_before(c, moment) for moment in moments]
    await pool.close()

    assert since == [[2, 1], [2, 1], [2], []]
    assert until == [[], [1], [2, 1], [2, 1]]
    assert before == [0, 0, 1, 2]


async def test_a_change_notifies_workers_only_if_a_webhook_is_active(database: ScratchDatabase) -> None:
    pool = await _database(database)
    source = await _source(pool)
    woken = []
    with psycopg.connect(database.conninfo, autocommit=True) as listening:
        listening.execute("listen rowen_change")
        listening.execute("listen rowen_due")
        for state in ("active", "paused"):
            database.execute("delete from webhook")
            database.execute(
                "insert into webhook (name, url, secrets, after, state)"
                f" values ('team', 'https://example.org', '{{}}', 0, '{state}')"
            )
            await append(pool, source, 1)
            listening.execute("select pg_notify('rowen_change', 'end')")
            with closing(listening.notifies(timeout=20)) as notices:
                woken.append([notice.channel for notice in takewhile(lambda each: each.payload != "end", notices)])
    await pool.close()

    assert woken == [["rowen_change", "rowen_due"], ["rowen_change"]]


async def test_a_transaction_that_fails_leaves_no_gap(database: ScratchDatabase) -> None:
    pool = await _database(database)
    source = await _source(pool)
    try:
        async with pool.transaction() as c:
            await changes.append(c, source, None, lines(1, 2))
            raise RuntimeError
    except RuntimeError:
        pass
    async with pool.transaction() as c:
        await changes.append(c, source, None, lines(1, 1))

    assert await _last(pool) == 1
    await pool.close()


async def append(pool: Database, source: Source, *counts: int) -> None:
    for writer, count in enumerate(counts):
        async with pool.transaction() as c:
            await changes.append(c, source, None, lines(writer, count))


async def numbers(listener: Listener, upto: int, *, since: int = 0, batch: int = 500) -> list[int]:
    """Return the numbers that a reader receives, up to a number."""
    heard: list[int] = []
    async with aclosing(listener.follow(since, batch=batch)) as batches:
        async for lines in batches:
            assert len(lines) <= batch
            heard += [line.number for line in lines]
            if heard[-1] >= upto:
                break
    return heard


def listening(database: ScratchDatabase) -> int:
    [(count,)] = database.query(
        "select count(*) from pg_stat_activity where query = %s and datname = current_database()", changes.LISTEN
    )
    return int(count)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.sleep(0.02)


async def test_a_follower_receives_a_change_when_it_is_committed(database: ScratchDatabase) -> None:
    pool = await _database(database)
    source = await _source(pool)

    following = asyncio.create_task(numbers(Listener(pool), 3))
    await append(pool, source, 1, 1, 1)
    heard = await asyncio.wait_for(following, 60)
    await pool.close()

    assert heard == [1, 2, 3]


async def test_fifty_readers_share_one_connection_and_leave_none_behind(database: ScratchDatabase) -> None:
    pool = await _database(database)
    source = await _source(pool)
    listener = Listener(pool)
    await append(pool, source, 3)

    readers = [asyncio.create_task(numbers(listener, 5)) for _ in range(50)]
    await until(lambda: listening(database) == 1)
    [(connections,)] = database.query("select count(*) from pg_stat_activity where application_name = 'rowen'")
    await append(pool, source, 1, 1)
    heard = await asyncio.wait_for(asyncio.gather(*readers), 20)

    assert heard == [[1, 2, 3, 4, 5]] * 50
    assert connections <= 1 + 8
    assert listening(database) == 0
    await pool.close()


async def test_readers_that_have_seen_the_same_lines_share_one_read_whatever_source_they_follow(
    database: ScratchDatabase, statements: list[str]
) -> None:
    pool = await _database(database)
    source = await _source(pool)
    listener = Listener(pool)
    heard: asyncio.Queue[int] = asyncio.Queue()

    async def follow(only: str | None) -> None:
        async with aclosing(listener.follow(0, source=only)) as batches:
            async for lines in batches:
                for line in lines:
                    heard.put_nowait(line.number)

    readers = [asyncio.create_task(follow(only)) for only in ("s", None) * 10]
    readers.append(asyncio.create_task(follow("another")))
    await append(pool, source, 1)
    async with asyncio.timeout(20):
        first = [await heard.get() for _ in range(20)]
        await until(lambda: listening(database) == 1)
        statements.clear()
        await append(pool, source, 1)
        second = [await heard.get() for _ in range(20)]
    reads = [statement for statement in statements if "where number >" in statement]
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    await pool.close()

    assert (set(first), set(second)) == ({1}, {2})
    assert len(reads) <= 2


async def test_a_reader_that_ends_or_fails_does_not_end_the_shared_read_of_others(
    database: ScratchDatabase,
) -> None:
    pool = await _database(database)
    source = await _source(pool)
    await append(pool, source, 1)
    listener = Listener(pool, random=Random(0))
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
    await pool.close()

    assert isinstance(heard[0], asyncio.CancelledError)
    assert heard[1:] == [[1], [1]]


async def test_a_long_log_is_read_in_batches_from_any_number(database: ScratchDatabase) -> None:
    pool = await _database(database)
    source = await _source(pool)
    await append(pool, source, 12, 9)
    listener = Listener(pool)

    assert await numbers(listener, 21, batch=5) == list(range(1, 22))
    assert await numbers(listener, 21, since=18, batch=3) == [19, 20, 21]
    await pool.close()


async def test_a_slow_reader_blocks_nobody_and_misses_nothing(database: ScratchDatabase) -> None:
    pool = await _database(database)
    source = await _source(pool)
    listener = Listener(pool)
    await append(pool, source, 1)
    async with aclosing(listener.follow(0, batch=10)) as slow:
        first = await asyncio.wait_for(anext(slow), 20)

        quick = asyncio.create_task(numbers(listener, 201))
        await append(pool, source, *[40] * 5)
        assert await asyncio.wait_for(quick, 20) == list(range(1, 202))

        rest: list[int] = []
        while len(rest) < 200:
            batch = await asyncio.wait_for(anext(slow), 20)
            assert len(batch) <= 10
            rest += [line.number for line in batch]
    await pool.close()

    assert [line.number for line in first] == [1]
    assert rest == list(range(2, 202))


async def test_a_reader_of_one_source_skips_the_lines_of_others_once(database: ScratchDatabase) -> None:
    pool = await _database(database)
    source = await _source(pool)
    async with pool.connection() as c:
        other = await sources.add(c, "o", kind="scripted", url="scripted:o", options={}, schedule=None)
    await append(pool, source, 2)
    await append(pool, other, 30)

    async with pool.connection() as c:
        first = await changes.read_after(c, 0, limit=5, **of("s"))
        again = await changes.read_after(c, first.reached, limit=5, **of("s"))
        full = await changes.read_after(c, 0, limit=5, **of("o"))
        beyond = await changes.read_after(c, 99)
    await pool.close()

    assert ([line.number for line in first.lines], first.reached, first.is_all) == ([1, 2], 32, True)
    assert (again.lines, again.reached) == ([], 32)
    assert (len(full.lines), full.reached, full.is_all) == (5, 7, False)
    assert beyond == ([], 99, True)


def of(source: str) -> dict[str, Any]:
    where, values = changes.of_source(source), {"source": source}
    return {"where": where, "values": values}


async def test_readers_outlive_a_restart_of_the_server(database: ScratchDatabase, server: Server) -> None:
    if server.embedded is None:
        pytest.skip("the server is not ours to restart")
    pool = await _database(database)
    source = await _source(pool)
    await append(pool, source, 1)
    listener = Listener(pool)
    async with aclosing(listener.follow(0)) as reader:
        await anext(reader)
        waiting = asyncio.create_task(anext(reader))
        await until(lambda: listening(database) == 1)

        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.revive)
        await _until_it_answers(pool)
        await append(pool, source, 2)
        after = await asyncio.wait_for(waiting, 60)

    await pool.close()
    assert [line.number for line in after] == [2, 3]


async def _until_it_answers(pool: Database) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await _last(pool)
            except StoreError:
                await asyncio.sleep(0.1)
            else:
                return


async def test_a_long_outage_is_raised_to_readers(database: ScratchDatabase) -> None:
    pool = await _database(database)
    listener = Listener(pool, give_up_s=0, random=Random(0))
    await pool._pool.close()  # type: ignore[union-attr]

    with pytest.raises(StoreUnavailableError):
        await asyncio.wait_for(numbers(listener, 1), 20)
    await pool.close()


async def test_closing_the_listener_ends_its_readers_and_their_connection(database: ScratchDatabase) -> None:
    pool = await _database(database)
    source = await _source(pool)
    await append(pool, source, 2)
    listener = Listener(pool)
    readers = [asyncio.create_task(numbers(listener, 99)) for _ in range(3)]
    await until(lambda: listening(database) == 1)

    await listener.close()

    assert await asyncio.wait_for(asyncio.gather(*readers), 20) == [[1, 2]] * 3
    await until(lambda: listening(database) == 0)
    await pool.close()


async def test_a_reader_that_is_cancelled_frees_the_connection(database: ScratchDatabase) -> None:
    pool = await _database(database)
    reader = asyncio.create_task(numbers(Listener(pool), 99))
    await until(lambda: listening(database) == 1)

    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)

    await until(lambda: listening(database) == 0)
    await pool.close()
