"""Numbered SQL migrations, applied in order under an advisory lock."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rowen.errors import NewerDatabaseError, StoreUnfitError
from rowen.store.locks import Lock, hold
from rowen.store.queue_schema import is_current, prepare_queue
from rowen.store.restoring import aside, settle_restore
from rowen.store.rows import all_rows, scalar

__all__ = ["SCHEMA", "latest", "migrate"]

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
        """What tells an edited migration from the one that was applied."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


@cache
def migrations() -> tuple[Migration, ...]:
    """All steps that this program knows, in order."""
    files = (f for f in resources.files("rowen.store.migrations").iterdir() if f.name.endswith(".sql"))
    steps = [Migration(int(f.name[:4]), f.name[5:-4], f.read_text("utf-8")) for f in files]
    return tuple(sorted(steps, key=lambda step: step.number))


def latest() -> int:
    """The number of the last step that this program knows."""
    return max(step.number for step in migrations())


async def migrate(connection: AsyncConnection[TupleRow]) -> list[int]:
    """Bring the database up to date; returns the numbers applied now."""
    if await scalar(connection, "select to_regnamespace(%s) is not null", [aside(SCHEMA)]):
        await settle_restore(connection, SCHEMA)
    applied = await _applied(connection)
    await _refuse_newer(applied)
    missing = [step for step in migrations() if step.number not in applied]
    if not missing and await is_current(connection, SCHEMA):
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
