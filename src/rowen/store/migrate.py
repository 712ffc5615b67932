"""The schema of the database: migrations, the tables of the queue, interrupted restores, and pgvector's self test.

Numbered SQL migrations are applied in order under an advisory lock. The tables of the queue come from Procrastinate's
own SQL files: a new database gets the whole schema, and later releases add their steps. A dump is restored by a program
in a transaction of its own, so the present schema can only be renamed before and dropped afterwards. If that process
dies, the next one to open the database finishes or undoes the restore.
"""

import hashlib
import logging
import platform
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rowen.errors import NewerDatabaseError, StoreUnavailableError, StoreUnfitError
from rowen.store.locks import Lock, hold, try_hold, try_session
from rowen.store.rows import all_rows, scalar

log = logging.getLogger(__name__)


def schema_aside(schema: str) -> str:
    """Return the name of a schema while a dump is restored in its place."""
    return f"{schema}_before_restore"


async def hold_restore(connection: AsyncConnection[TupleRow]) -> None:
    """Block other restores, and the repair of this one, as long as the connection lives."""
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
        if await scalar(connection, "select to_regnamespace(%s) is null", [schema_aside(schema)]):
            return
        if await scalar(connection, "select to_regnamespace(%s) is null", [schema]):
            await connection.execute(f"alter schema {schema_aside(schema)} rename to {schema}".encode())
            log.warning("undid a restore that was broken off: the database is as it was before; restore again")
        else:
            await connection.execute(f"drop schema {schema_aside(schema)} cascade".encode())
            log.warning("finished a restore that was broken off at its end: everything is restored")


def _busy() -> StoreUnavailableError:
    return StoreUnavailableError(
        "A dump is being restored into this database.", hint="Wait until that is done, and try again."
    )


async def is_queue_current(connection: AsyncConnection[TupleRow], schema: str) -> bool:
    """Return whether all steps of the installed package have been applied."""
    if await scalar(connection, "select to_regclass(%s)", [f"{schema}.queue_migration"]) is None:
        return False
    rows = await all_rows(connection, f"select name from {schema}.queue_migration".encode())  # noqa: S608 (a constant)
    return set(_steps()) <= {name for (name,) in rows}


async def prepare_queue(connection: AsyncConnection[TupleRow]) -> None:
    """Create or update the tables of the queue; the search path names our schema."""
    await connection.execute(
        "create table if not exists queue_migration (name text primary key, applied_at timestamptz not null"
        " default now())"
    )
    applied = {name for (name,) in await all_rows(connection, "select name from queue_migration")}
    missing = [name for name in _steps() if name not in applied]
    files = [_sql() / "migrations" / name for name in missing] if applied else [_sql() / "schema.sql"]
    for file in files:
        await connection.execute(file.read_bytes())
    await connection.execute("insert into queue_migration (name) select unnest(%s::text[])", [missing])


def _sql() -> Path:
    """Return the package's folder of SQL without importing the package, which takes longer than most commands."""
    found = find_spec("procrastinate")
    assert found is not None  # noqa: S101 (it is installed with us)
    assert found.origin is not None  # noqa: S101 (it is a package of files)
    return Path(found.origin).parent / "sql"


def _steps() -> list[str]:
    """Return the names of the package's steps, in order."""
    return sorted(file.name for file in (_sql() / "migrations").glob("*.sql"))


_VECTOR_STATEMENTS = (
    "SELECT '[1,2]'::vector <=> '[2,1]'::vector",
    "SELECT '[1,2]'::halfvec <=> '[2,1]'::halfvec",
    "SELECT l2_norm('[1,2]'::halfvec)",
)
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

Run = Callable[[AsyncConnection[TupleRow], str], Awaitable[object]]


async def _execute(connection: AsyncConnection[TupleRow], statement: str) -> None:
    await connection.execute(statement.encode())


async def check_vectors(connection: AsyncConnection[TupleRow], *, run: Run = _execute) -> None:
    """Compute a few distances, to find out whether the server's pgvector runs on its CPU.

    The bundled pgvector is built for newer processors and does not check: on others the first distance that is computed
    kills the backend, and the server restarts with all connections lost. So the first connection tries, before there
    are others. The extension `vector` must exist.
    """
    try:
        for statement in _VECTOR_STATEMENTS:
            await _check_statement(connection, statement, run)
    except psycopg.OperationalError as problem:
        raise StoreUnavailableError(
            f"The database could not be asked about vectors: {problem}", hint="Is the server running? Try again."
        ) from problem


async def _check_statement(connection: AsyncConnection[TupleRow], statement: str, run: Run) -> None:
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


SCHEMA = "rowen"
# The first pgvector that goes on looking where a filter takes most of the nearest away (iterative scans).
MINIMUM_VECTOR = (0, 8)
# From this step on, ours build on the tables of the queue.
_QUEUE_STEP = 15


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """The checksum that reveals an edited migration."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


@cache
def migrations() -> tuple[Migration, ...]:
    """Return all steps that this program knows, in order."""
    files = (f for f in resources.files("rowen.store.migrations").iterdir() if f.name.endswith(".sql"))
    steps = [Migration(int(f.name[:4]), f.name[5:-4], f.read_text("utf-8")) for f in files]
    return tuple(sorted(steps, key=lambda step: step.number))


def latest() -> int:
    """Return the number of the last step that this program knows."""
    return max(step.number for step in migrations())


async def migrate(connection: AsyncConnection[TupleRow]) -> list[int]:
    """Bring the database up to date; return the numbers applied now."""
    if await scalar(connection, "select to_regnamespace(%s) is not null", [schema_aside(SCHEMA)]):
        await settle_restore(connection, SCHEMA)
    applied = await _applied(connection)
    await _refuse_newer(applied)
    missing = [step for step in migrations() if step.number not in applied]
    if not missing and await is_queue_current(connection, SCHEMA):
        return []
    async with connection.transaction():
        await hold(connection, Lock.MIGRATE)
        await _prepare(connection)
        applied = await _applied(connection)
        await _refuse_newer(applied)
        missing = [step for step in missing if step.number not in applied]
        await connection.execute(f"set local search_path to {SCHEMA}, public")
        for step in missing:
            if step.number < _QUEUE_STEP:
                await _apply(connection, step)
        await prepare_queue(connection)
        for step in missing:
            if step.number >= _QUEUE_STEP:
                await _apply(connection, step)
    return [step.number for step in missing]


async def _applied(connection: AsyncConnection[TupleRow]) -> set[int]:
    if await scalar(connection, "select to_regclass(%s)", [f"{SCHEMA}.migration"]) is None:
        return set()
    rows = await all_rows(connection, f"select number from {SCHEMA}.migration")  # noqa: S608 (a constant)
    return {number for (number,) in rows}


async def _refuse_newer(applied: set[int]) -> None:
    newest = max(applied, default=0)
    if newest > latest():
        raise NewerDatabaseError(
            f"The database is at schema {newest}, this program knows up to {latest()}. Nothing was changed.",
            hint="Upgrade Rowen, or point ROWEN_HOME or ROWEN_DATABASE_URL to another database.",
        )


async def _prepare(connection: AsyncConnection[TupleRow]) -> None:
    if not await scalar(connection, "select to_regnamespace(%s) is not null", [SCHEMA]):
        await _make_schema(connection)
    await _need_vector(connection)
    await connection.execute(
        f"create table if not exists {SCHEMA}.migration (number integer primary key, name text not null,"
        " checksum text not null, applied_at timestamptz not null default now())"
    )


async def _make_schema(connection: AsyncConnection[TupleRow]) -> None:
    try:
        await connection.execute(f"create schema if not exists {SCHEMA}")
    except psycopg.errors.InsufficientPrivilege:
        raise StoreUnfitError(
            "This user may not make a schema in the database. Nothing was changed.",
            hint="Let its owner run once: grant create on database NAME to USER;",
        ) from None


async def _need_vector(connection: AsyncConnection[TupleRow]) -> None:
    version: str | None = await scalar(
        connection,
        "select coalesce((select extversion from pg_extension where extname = 'vector'),"
        " (select default_version from pg_available_extensions where name = 'vector'))",
    )
    if version is None or tuple(int(part) for part in version.split(".")[:2]) < MINIMUM_VECTOR:
        raise StoreUnfitError(
            f"The server has {'no pgvector' if version is None else f'pgvector {version}'};"
            " Rowen needs 0.8 or later. Nothing was changed.",
            hint="Install pgvector 0.8+ on that server, or unset ROWEN_DATABASE_URL to use the embedded one.",
        )
    try:
        await connection.execute("create extension if not exists vector with schema public")
    except psycopg.errors.InsufficientPrivilege:
        raise StoreUnfitError(
            "pgvector is there, but this user may not add it to the database. Nothing was changed.",
            hint="Let an administrator run once, in that database: create extension vector with schema public;",
        ) from None


async def _apply(connection: AsyncConnection[TupleRow], step: Migration) -> None:
    await connection.execute(step.sql.encode())
    await connection.execute(
        f"insert into {SCHEMA}.migration (number, name, checksum) values (%s, %s, %s)",  # noqa: S608 (a constant)
        [step.number, step.name, step.checksum],
    )
