"""All advisory locks of the database, in one place so that no two have the same keys.

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

# The patience for a release: a healthy server answers within milliseconds, one behind a cut cable never does.
_RELEASE_S = 2.0

ALL_PASSAGES = 0
"""The second key of `Lock.EMBEDDING` that no model has: the lock of all passages and titles."""


class Lock(Enum):
    """The advisory locks, each with the SQL of its keys; `%s` stands for the parameter of the caller.

    PostgreSQL keeps locks of one key of 64 bits apart from those of two keys of 32 bits.
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
    """Count how many passages have a word."""
    WORDS = "hashtext('rowen.words')"
    """Build the index of words."""
    PRICE = "hashtext('rowen.price')"
    """Write the price of a request."""
    PUSH = "hashtextextended('rowen.push ' || %s, 0)"
    """Take a delivery of one sender, by its name."""

    # Two keys. The first, "Row", "Rox" and so on, distinguishes the locks of Rowen from those of other programs.
    RUN = f"{0x526F77}, %s::integer"
    """Held by a live run, by its number."""
    EMBEDDING = f"{0x526F78}, %s::integer"
    """Embed under a model, by its number, or store passages: `ALL_PASSAGES`."""
    # Earlier programs gave it the class of EMBEDDING, so that source 1 and model 1 excluded each other.
    EXTRACTION = f"{0x526F79}, %s::integer"
    """Extract the facts of a source, by its number."""
    WORKER = f"{0x526F7A}, %s::integer"
    """Held by a live worker, by its number; shared, since others only test whether it is held."""
    STATEMENT_TARGET = "hashtext('rowen.statement_target'), hashtext(%s)"
    """Send RDF statements to a SPARQL endpoint, by source, address and graph."""

    @property
    def class_key(self) -> str:
        """The first of two keys, as pg_locks shows it in `classid`."""
        return self.value.partition(",")[0]

    def tried(self, key: LiteralString = "%s") -> LiteralString:
        """Return the SQL expression that takes the lock until the end of the transaction, or is false."""
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
    """Wait for a lock, and hold it as long as the connection lives, or until it is released."""
    await c.execute(f"select pg_advisory_lock({lock.value})".encode(), key)


async def hold_session_shared(c: AsyncConnection[TupleRow], lock: Lock, *key: Any) -> None:
    """Wait for a share of a lock, and hold it as long as the connection lives."""
    await c.execute(f"select pg_advisory_lock_shared({lock.value})".encode(), key)


async def try_session(c: AsyncConnection[TupleRow], lock: Lock, *key: Any) -> bool:
    """Take a lock as long as the connection lives; return False if another session holds it."""
    return bool(await scalar(c, f"select pg_try_advisory_lock({lock.value})".encode(), key))


async def release_session(c: AsyncConnection[TupleRow], lock: Lock, *key: Any) -> None:
    """Release a lock that a session holds."""
    await c.execute(f"select pg_advisory_unlock({lock.value})".encode(), key)


async def release_at_end(c: AsyncConnection[TupleRow], lock: Lock, *key: Any) -> None:
    """Release a lock on a connection that is about to be closed; errors are ignored, as closing releases it too.

    Without this, the next holder could find the lock taken: the server ends a session after its client has left.
    """
    with suppress(psycopg.Error, TimeoutError):
        async with asyncio.timeout(_RELEASE_S):
            await release_session(c, lock, *key)
