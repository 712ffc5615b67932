"""Whether the server's pgvector runs on its CPU.

The bundled pgvector is built for newer processors and does not check: on others the first distance that is computed
kills the backend, and the server restarts with everybody's connections lost. So the first connection tries, before
there are others.
"""

import platform
from collections.abc import Awaitable, Callable
from pathlib import Path

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rowen.errors import StoreUnavailableError, StoreUnfitError

__all__ = ["check_vectors"]

_STATEMENTS = (
    "SELECT '[1,2]'::vector <=> '[2,1]'::vector",
    "SELECT '[1,2]'::halfvec <=> '[2,1]'::halfvec",
    "SELECT l2_norm('[1,2]'::halfvec)",
)
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

Run = Callable[[AsyncConnection[TupleRow], str], Awaitable[object]]


async def _execute(connection: AsyncConnection[TupleRow], statement: str) -> None:
    await connection.execute(statement.encode())


async def check_vectors(connection: AsyncConnection[TupleRow], *, run: Run = _execute) -> None:
    """Compute a few distances; the extension `vector` is there."""
    try:
        for statement in _STATEMENTS:
            await _check(connection, statement, run)
    except psycopg.OperationalError as problem:
        raise StoreUnavailableError(
            f"The database could not be asked about vectors: {problem}", hint="Is the server running? Try again."
        ) from problem


async def _check(connection: AsyncConnection[TupleRow], statement: str, run: Run) -> None:
    try:
        await run(connection, statement)
    except psycopg.OperationalError as problem:
        # A server that ends a connection on purpose says why, in a code; a killed backend says nothing.
        if not connection.closed or problem.sqlstate is not None:
            raise
        raise StoreUnfitError(
            f"The server died while it computed {statement.removeprefix('SELECT ')}: its pgvector was built for "
            f"another processor than {_cpu(connection)}.",
            hint="Use a PostgreSQL whose pgvector was built for this machine: name it in ROWEN_DATABASE_URL.",
        ) from problem
    except psycopg.ProgrammingError as problem:
        raise StoreUnfitError(
            f"The server's pgvector lacks something that Rowen needs: {problem}",
            hint="Update pgvector to 0.8 or later.",
        ) from problem


def _cpu(connection: AsyncConnection[TupleRow]) -> str:
    host = connection.info.get_parameters().get("host", "")
    if not host.startswith("/") and host not in _LOOPBACK:
        return f"that of {host}"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
