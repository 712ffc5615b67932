"""Advisory locks: no two of them have the same keys, and all are in the registry."""

import asyncio
import re
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable

import pytest

from rowen.store.locks import ALL_PASSAGES, Lock, hold_shared
from rowen.store.search import embeddings
from tests.conftest import ScratchDatabase

REGISTRY = "store/locks.py"
# What the SQL of PostgreSQL calls these locks: pg_advisory_lock, pg_try_advisory_xact_lock_shared, pg_advisory_unlock.
ADVISORY = re.compile(r"pg_(?:try_)?advisory_\w*", re.IGNORECASE)

# Programs of before the registry have these keys; they may use the database together with this one.
FORMER = {
    Lock.RUN: "5402487, 7",
    Lock.EMBEDDING: "5402488, 7",
    Lock.STATEMENT_TARGET: "hashtext('rowen.statement_target'), hashtext('7')",
    Lock.PUSH: "hashtextextended('rowen.push ' || '7', 0)",
    **{
        lock: f"hashtext('rowen.{lock.name.lower()}')"
        for lock in Lock
        if lock not in (Lock.RUN, Lock.EMBEDDING, Lock.EXTRACTION, Lock.WORKER, Lock.STATEMENT_TARGET, Lock.PUSH)
    },
}


def keys(database: ScratchDatabase, expression: str) -> tuple[int, ...]:
    """Return the keys as numbers, as PostgreSQL computes them."""
    [row] = database.query(f"select {expression}")
    return row


def files(folder: Traversable, name: str = "") -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        path = f"{name}/{entry.name}".lstrip("/")
        if entry.is_dir():
            yield from files(entry, path)
        elif path.endswith((".py", ".sql")):
            yield path, entry.read_text("utf-8")


def test_no_statement_names_an_advisory_lock_outside_of_the_registry() -> None:
    naming = {path: ADVISORY.findall(text) for path, text in files(resources.files("rowen"))}

    assert naming.pop(REGISTRY)
    assert {path: names for path, names in naming.items() if names} == {}


def test_no_two_locks_have_the_same_keys(database: ScratchDatabase) -> None:
    # Locks of two keys are told apart by the first, those of one key by all of it.
    firsts = {lock: keys(database, lock.value.replace("%s", "'1'"))[0] for lock in Lock}
    pairs = {lock for lock in Lock if len(keys(database, lock.value.replace("%s", "'1'"))) == 2}

    assert pairs
    assert set(Lock) - pairs
    for kind in (pairs, set(Lock) - pairs):
        assert len({firsts[lock] for lock in kind}) == len(kind)


@pytest.mark.parametrize("lock", FORMER, ids=lambda lock: lock.name)
def test_the_keys_of_locks_never_change(database: ScratchDatabase, lock: Lock) -> None:
    assert keys(database, lock.value.replace("%s", "'7'")) == keys(database, FORMER[lock])


async def test_a_source_is_extracted_while_the_model_of_the_same_number_embeds(database: ScratchDatabase) -> None:
    async with database.open() as r:
        pool = r._engine.database
        claim = await embeddings.Claim.take(pool, 1)
        assert claim is not None
        async with pool.alone(Lock.EXTRACTION, 1) as is_mine:
            second = await embeddings.Claim.take(pool, 1)
        await claim.release()

    assert (is_mine, second) == (True, None)


async def test_the_extraction_of_a_source_does_not_block_stored_passages(database: ScratchDatabase) -> None:
    async with database.open() as r:
        pool = r._engine.database
        async with pool.alone(Lock.EXTRACTION, ALL_PASSAGES) as is_mine, pool.transaction() as c:
            async with asyncio.timeout(30):
                await hold_shared(c, Lock.EMBEDDING, ALL_PASSAGES)

    assert is_mine


async def test_a_cancelled_extraction_releases_its_source(database: ScratchDatabase) -> None:
    async with database.open() as r:
        pool = r._engine.database
        inside = asyncio.Event()

        async def stay() -> None:
            async with pool.alone(Lock.EXTRACTION, 1):
                inside.set()
                await asyncio.Event().wait()

        staying = asyncio.create_task(stay())
        async with asyncio.timeout(30):
            await inside.wait()
            async with pool.alone(Lock.EXTRACTION, 1) as while_it_stays:
                pass
            staying.cancel()
            await asyncio.gather(staying, return_exceptions=True)
            # The server ends the session a moment after its connection was closed.
            is_free = False
            while not is_free:
                async with pool.alone(Lock.EXTRACTION, 1) as is_free:
                    pass

    assert not while_it_stays
