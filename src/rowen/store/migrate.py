"""Manage the schema of the database: migrations, the tables of the queue, interrupted restores, and a pgvector test.

Numbered SQL migrations are applied in order under an advisory lock. The tables of the queue come from Procrastinate's
own SQL files: a new database gets the whole schema, and later releases add their steps. `pg_restore` has its own
transaction, so the present schema can only be renamed before it and dropped afterwards. If that process dies, the next
process that opens the database finishes or undoes the restore.
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
from typing import TypeAlias

import psycopg
from psycopg import AsyncConnection, errors
from psycopg.rows import TupleRow

from rowen.errors import NewerDatabaseError, StoreUnavailableError, StoreUnfitError
from rowen.store.locks import Lock, hold, try_hold, try_session
from rowen.store.rows import all_rows, scalar

log = logging.getLogger(__name__)

SCHEMA = "rowen"
# The first pgvector with iterative scans, which continue if a filter removes most of the nearest vectors.
MINIMUM_VECTOR = (0, 8)
# From this migration on, migrations need the tables of the queue.
_QUEUE_STEP = 15
_VECTOR_STATEMENTS = (
    "SELECT '[1,2]'::vector <=> '[2,1]'::vector",
    "SELECT '[1,2]'::halfvec <=> '[2,1]'::halfvec",
    "SELECT l2_norm('[1,2]'::halfvec)",
)
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

# Not imported: `store.database` imports this module.
Connection: TypeAlias = AsyncConnection[TupleRow]
Run: TypeAlias = Callable[[Connection, str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered migration of the schema."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """The checksum of the SQL, which detects an edited migration."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


@cache
def migrations() -> tuple[Migration, ...]:
    """Return all migrations that this program knows, in order."""
    files = (f for f in resources.files("rowen.store.migrations").iterdir() if f.name.endswith(".sql"))
    steps = [Migration(int(f.name[:4]), f.name[5:-4], f.read_text("utf-8")) for f in files]
    return tuple(sorted(steps, key=lambda step: step.number))


def latest() -> int:
    """Return the number of the last migration that this program knows."""
    return max(step.number for step in migrations())


async def migrate(c: Connection) -> list[int]:
    """Bring the database up to date; return the numbers of the migrations that were applied."""
    if await _exists(c, schema_aside(SCHEMA)):
        await settle_restore(c, SCHEMA)
    applied = await _applied(c)
    missing = [step for step in migrations() if step.number not in applied]
    if not missing and await is_queue_current(c, SCHEMA):
        return []
    async with c.transaction():
        await hold(c, Lock.MIGRATE)
        if not await _exists(c, SCHEMA):
            try:
                await c.execute(f"create schema if not exists {SCHEMA}")
            except errors.InsufficientPrivilege:
                raise StoreUnfitError(
                    "This user may not create a schema in the database. Nothing was changed.",
                    hint="Let its owner run once: grant create on database NAME to USER;",
                ) from None
        await _need_vector(c)
        await c.execute(
            f"create table if not exists {SCHEMA}.migration (number integer primary key, name text not null,"
            " checksum text not null, applied_at timestamptz not null default now())"
        )
        applied = await _applied(c)
        missing = [step for step in missing if step.number not in applied]
        await c.execute(f"set local search_path to {SCHEMA}, public")
        record = f"insert into {SCHEMA}.migration (number, name, checksum) values (%s, %s, %s)"  # noqa: S608 (a constant)
        early = [step for step in missing if step.number < _QUEUE_STEP]
        for steps in (early, missing[len(early) :]):
            for step in steps:
                await c.execute(step.sql.encode())
                await c.execute(record, [step.number, step.name, step.checksum])
            if steps is early:
                await prepare_queue(c)
    return [step.number for step in missing]


async def _exists(c: Connection, schema: str) -> bool:
    return bool(await scalar(c, "select to_regnamespace(%s) is not null", [schema]))


async def _applied(c: Connection) -> set[int]:
    """Return the numbers of applied migrations; raise if a newer program applied some."""
    if await scalar(c, "select to_regclass(%s)", [f"{SCHEMA}.migration"]) is None:
        return set()
    applied = {number for (number,) in await all_rows(c, f"select number from {SCHEMA}.migration")}  # noqa: S608
    newest = max(applied, default=0)
    if newest > latest():
        raise NewerDatabaseError(
            f"The database is at schema {newest}, this program knows up to {latest()}. Nothing was changed.",
            hint="Upgrade Rowen, or point ROWEN_HOME or ROWEN_DATABASE_URL to another database.",
        )
    return applied


async def _need_vector(c: Connection) -> None:
    """Add pgvector to the database; raise if it is missing or too old."""
    query = """
        select coalesce((select extversion from pg_extension where extname = 'vector'),
                (select default_version from pg_available_extensions where name = 'vector'))
    """
    version: str | None = await scalar(c, query)
    if version is None or tuple(int(part) for part in version.split(".")[:2]) < MINIMUM_VECTOR:
        raise StoreUnfitError(
            f"The server has {'no pgvector' if version is None else f'pgvector {version}'};"
            " Rowen needs 0.8 or later. Nothing was changed.",
            hint="Install pgvector 0.8+ on that server, or unset ROWEN_DATABASE_URL to use the embedded one.",
        )
    try:
        await c.execute("create extension if not exists vector with schema public")
    except errors.InsufficientPrivilege:
        raise StoreUnfitError(
            "pgvector is installed, but this user may not add it to the database. Nothing was changed.",
            hint="Let an administrator run once, in that database: create extension vector with schema public;",
        ) from None


async def is_queue_current(c: Connection, schema: str) -> bool:
    """Return whether all migrations of the installed queue package are applied."""
    if await scalar(c, "select to_regclass(%s)", [f"{schema}.queue_migration"]) is None:
        return False
    rows = await all_rows(c, f"select name from {schema}.queue_migration".encode())  # noqa: S608 (a constant)
    return set(_steps()) <= {name for (name,) in rows}


async def prepare_queue(c: Connection) -> None:
    """Create or update the tables of the queue in the schema of the search path."""
    await c.execute(
        "create table if not exists queue_migration (name text primary key, applied_at timestamptz not null"
        " default now())"
    )
    applied = {name for (name,) in await all_rows(c, "select name from queue_migration")}
    missing = [name for name in _steps() if name not in applied]
    files = [_sql() / "migrations" / name for name in missing] if applied else [_sql() / "schema.sql"]
    for file in files:
        await c.execute(file.read_bytes())
    await c.execute("insert into queue_migration (name) select unnest(%s::text[])", [missing])


def _sql() -> Path:
    """Return the SQL folder of the queue package without importing it, which takes longer than most commands."""
    spec = find_spec("procrastinate")
    assert spec is not None  # noqa: S101 (it is installed with us)
    assert spec.origin is not None  # noqa: S101 (it is a package of files)
    return Path(spec.origin).parent / "sql"


def _steps() -> list[str]:
    """Return the names of the queue package's migrations, in order."""
    return sorted(file.name for file in (_sql() / "migrations").glob("*.sql"))


def schema_aside(schema: str) -> str:
    """Return the name that a schema has while a dump is restored in its place."""
    return f"{schema}_before_restore"


async def hold_restore(c: Connection) -> None:
    """Block other restores, and the repair of an interrupted one, until the connection ends; raise if one runs."""
    if not await try_session(c, Lock.RESTORE):
        raise _busy()


async def settle_restore(c: Connection, schema: str) -> None:
    """Undo or finish a restore whose process died; raise if a restore is running."""
    try:
        await _settle(c, schema)
    except errors.DuplicateSchema:
        # The program that read the dump outlived the process that started it, and has just finished.
        await _settle(c, schema)


async def _settle(c: Connection, schema: str) -> None:
    async with c.transaction():
        if not await try_hold(c, Lock.RESTORE):
            raise _busy()
        if not await _exists(c, schema_aside(schema)):
            return
        if await _exists(c, schema):
            await c.execute(f"drop schema {schema_aside(schema)} cascade".encode())
            log.warning("finished an interrupted restore")
        else:
            await c.execute(f"alter schema {schema_aside(schema)} rename to {schema}".encode())
            log.warning("undid an interrupted restore; the database is as before, so restore it again")


def _busy() -> StoreUnavailableError:
    return StoreUnavailableError(
        "A dump is being restored into this database.", hint="Wait until that is done, and try again."
    )


async def _execute(c: Connection, statement: str) -> None:
    await c.execute(statement.encode())


async def check_vectors(c: Connection, *, run: Run = _execute) -> None:
    """Compute a few distances, to check that the server's pgvector works on its CPU.

    The bundled pgvector is built for newer processors and does not check for them: on others the first distance kills
    the backend, and the server restarts, which breaks all connections. So this runs on the first connection, before
    there are others. The extension `vector` must exist.
    """
    for statement in _VECTOR_STATEMENTS:
        try:
            await run(c, statement)
        except psycopg.OperationalError as problem:
            # A server that ends a connection on purpose gives a code; a killed backend gives none.
            if c.closed and problem.sqlstate is None:
                raise StoreUnfitError(
                    f"The server died while it computed {statement.removeprefix('SELECT ')}: its pgvector was built"
                    f" for another processor than {_cpu(c)}.",
                    hint="Use a PostgreSQL whose pgvector was built for this machine: name it in ROWEN_DATABASE_URL.",
                ) from problem
            raise StoreUnavailableError(
                f"The database could not compute with vectors: {problem}", hint="Is the server running? Try again."
            ) from problem
        except psycopg.ProgrammingError as problem:
            raise StoreUnfitError(
                f"The server's pgvector lacks something that Rowen needs: {problem}",
                hint="Update pgvector to 0.8 or later.",
            ) from problem


def _cpu(c: Connection) -> str:
    host = c.info.get_parameters().get("host", "")
    if not host.startswith("/") and host not in _LOOPBACK:
        return f"that of {host}"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
