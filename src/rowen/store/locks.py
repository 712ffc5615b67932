"""Define all advisory locks of the database, in one place so that no two have the same keys.

The keys of a lock never change, since two versions may use one database during an upgrade.
"""

import asyncio
from contextlib import suppress
from enum import Enum
from typing import Any, LiteralString

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rowen.store.rows import scalar

# The time limit of a release: a healthy server answers within milliseconds, a server behind a cut cable never.
_RELEASE_S = 2.0

ALL_PASSAGES = 0
"""A second key of `Lock.EMBEDDING` that is no model's id: it locks all passages and titles."""


class Lock(Enum):
    """The advisory locks, each with the SQL of its keys; `%s` stands for the caller's parameter.

    PostgreSQL keeps locks with one 64-bit key apart from locks with two 32-bit keys.
    """

    # One key.
    MIGRATE = "hashtext('rowen.migrate')"
    """Apply migrations."""
    RESTORE = "hashtext('rowen.restore')"
    """Restore a dump, or tidy up after a restore that was interrupted."""
    CHANGE = "hashtext('rowen.change')"
    """Append to the change log: the last lock of a transaction."""
    SOURCES = "hashtext('rowen.sources')"
    """Apply declarations of sources."""
    TICK = "hashtext('rowen.tick')"
    """Put due jobs into the queue, and delete expired rows."""
    TERMS = "hashtext('rowen.terms')"
    """Count the passages that contain each word."""
    WORDS = "hashtext('rowen.words')"
    """Build the word index."""
    PRICE = "hashtext('rowen.price')"
    """Store the price of a request."""
    PUSH = "hashtextextended('rowen.push ' || %s, 0)"
    """Accept a push delivery of one sender; the key is the sender's name."""

    # Two keys. The first, "Row", "Rox" and so on, distinguishes the locks of Rowen from those of other programs.
    RUN = f"{0x526F77}, %s::integer"
    """Held by a live run; the key is its id."""
    EMBEDDING = f"{0x526F78}, %s::integer"
    """Embed with a model; the key is its id, or `ALL_PASSAGES` to store passages and titles."""
    # Earlier versions used the first key of EMBEDDING, so that source 1 and model 1 excluded each other.
    EXTRACTION = f"{0x526F79}, %s::integer"
    """Extract the facts of a source; the key is its id."""
    WORKER = f"{0x526F7A}, %s::integer"
    """Held by a live worker, as a share, since others only test whether it is held; the key is the worker's id."""
    STATEMENT_TARGET = "hashtext('rowen.statement_target'), hashtext(%s)"
    """Send RDF statements to a SPARQL endpoint; the key is made of source, address and graph."""

    @property
    def class_key(self) -> str:
        """The first of two keys, as pg_locks shows it in `classid`."""
        return self.value.partition(",")[0]

    def tried(self, key: LiteralString = "%s") -> LiteralString:
        """Return the SQL expression that takes the lock until the end of the transaction; false if it is taken."""
        keys: LiteralString = self.value
        return "pg_try_advisory_xact_lock(" + keys.replace("%s", key) + ")"


async def hold(c: AsyncConnection[TupleRow], lock: Lock, *key: Any) -> None:
    """Wait for a lock, and hold it until the end of the transaction."""
    await c.execute(f"select pg_advisory_xact_lock({lock.value})".encode(), key)


async def hold_shared(c: AsyncConnection[TupleRow], lock: Lock, *key: Any) -> None:
    """Wait for a share of a lock, and hold it until the end of the transaction."""
    await c.execute(f"select pg_advisory_xact_lock_shared({lock.value})".encode(), key)


async def try_hold(c: AsyncConnection[TupleRow], lock: Lock, *key: Any) -> bool:
    """Take a lock until the end of the transaction; return False if another session holds it."""
    return bool(await scalar(c, f"select {lock.tried()}".encode(), key))


async def hold_session(c: AsyncConnection[TupleRow], lock: Lock, *key: Any) -> None:
    """Wait for a lock, and hold it until it is released or the connection ends."""
    await c.execute(f"select pg_advisory_lock({lock.value})".encode(), key)


async def hold_session_shared(c: AsyncConnection[TupleRow], lock: Lock, *key: Any) -> None:
    """Wait for a share of a lock, and hold it until the connection ends."""
    await c.execute(f"select pg_advisory_lock_shared({lock.value})".encode(), key)


async def try_session(c: AsyncConnection[TupleRow], lock: Lock, *key: Any) -> bool:
    """Take a lock until it is released or the connection ends; return False if another session holds it."""
    return bool(await scalar(c, f"select pg_try_advisory_lock({lock.value})".encode(), key))


async def release_session(c: AsyncConnection[TupleRow], lock: Lock, *key: Any) -> None:
    """Release a lock of this session."""
    await c.execute(f"select pg_advisory_unlock({lock.value})".encode(), key)


async def release_at_end(c: AsyncConnection[TupleRow], lock: Lock, *key: Any) -> None:
    """Release a lock on a connection that is about to be closed; ignore errors, as closing releases it too.

    Without this, the next holder could find the lock taken, since the server ends a session some time after its client
    has left.
    """
    with suppress(psycopg.Error, TimeoutError):
        async with asyncio.timeout(_RELEASE_S):
            await release_session(c, lock, *key)
