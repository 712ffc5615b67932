"""A restore that was broken off: the schema that it put aside comes back, or goes if the restore had got through.

A dump is read by a program in a transaction of its own, so that what is there can only be renamed before and dropped
after it. Who dies in between leaves the schema under its other name, and the next one to open the database tidies up.
"""

import logging

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rowen.errors import StoreUnavailableError
from rowen.store.locks import Lock, try_hold, try_session
from rowen.store.rows import scalar

__all__ = ["aside", "hold_restore", "settle_restore"]

log = logging.getLogger(__name__)


def aside(schema: str) -> str:
    """The name of a schema while a dump is restored in its place."""
    return f"{schema}_before_restore"


async def hold_restore(connection: AsyncConnection[TupleRow]) -> None:
    """Let nobody else restore, or tidy up after this restore, as long as the connection lives."""
    if not await try_session(connection, Lock.RESTORE):
        raise _busy()


async def settle_restore(connection: AsyncConnection[TupleRow], schema: str) -> None:
    """Undo or finish a restore whose process died; one that is going on is left alone."""
    try:
        await _settle(connection, schema)
    except psycopg.errors.DuplicateSchema:
        # The program that read the dump outlived the process that started it, and has just got through.
        await _settle(connection, schema)


async def _settle(connection: AsyncConnection[TupleRow], schema: str) -> None:
    async with connection.transaction():
        if not await try_hold(connection, Lock.RESTORE):
            raise _busy()
        if await scalar(connection, "select to_regnamespace(%s) is null", [aside(schema)]):
            return
        if await scalar(connection, "select to_regnamespace(%s) is null", [schema]):
            await connection.execute(f"alter schema {aside(schema)} rename to {schema}".encode())
            log.warning("undid a restore that was broken off: the database is as it was before; restore again")
        else:
            await connection.execute(f"drop schema {aside(schema)} cascade".encode())
            log.warning("finished a restore that was broken off at its end: everything is restored")


def _busy() -> StoreUnavailableError:
    return StoreUnavailableError(
        "A dump is being restored into this database.", hint="Wait until that is done, and try again."
    )
