"""The tables of the queue: Procrastinate's own SQL files, applied by us, in our schema.

The package brings its whole schema in one file, and a file for each step that led to it. A new database gets the
whole; which steps that stands for is written down, and a later release of the package adds those that are missing.
"""

from importlib.util import find_spec
from pathlib import Path

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rowen.store.rows import all_rows, scalar

__all__ = ["is_current", "prepare_queue"]


async def is_current(connection: AsyncConnection[TupleRow], schema: str) -> bool:
    """Whether all steps that the installed package knows have been applied."""
    if await scalar(connection, "select to_regclass(%s)", [f"{schema}.queue_migration"]) is None:
        return False
    rows = await all_rows(connection, f"select name from {schema}.queue_migration".encode())  # noqa: S608 (a constant)
    return set(_steps()) <= {name for (name,) in rows}


async def prepare_queue(connection: AsyncConnection[TupleRow]) -> None:
    """Make the tables of the queue, or bring them up to date; the search path names our schema."""
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
    """The package's folder of SQL, found without importing the package, which takes longer than most commands."""
    found = find_spec("procrastinate")
    assert found is not None  # noqa: S101 (it is installed with us)
    assert found.origin is not None  # noqa: S101 (it is a package of files)
    return Path(found.origin).parent / "sql"


def _steps() -> list[str]:
    """The names of the package's steps, in order."""
    return sorted(file.name for file in (_sql() / "migrations").glob("*.sql"))
