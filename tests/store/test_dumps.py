"""Dumps of a database, and their restoration."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from rowen import NotFoundError, RefusedError, StoreError, UsageError
from rowen.errors import StoreUnavailableError
from rowen.store.migrate import hold_restore, schema_aside
from tests.conftest import ScratchDatabase
from tests.logical import index_of


async def test_a_restored_dump_continues_where_it_ended(
    new_database: Callable[[], ScratchDatabase], tmp_path: Path
) -> None:
    original, copy = new_database(), new_database()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "hay.md").write_text("# Hay\n\nCut it dry.\n")
    dump = tmp_path / "rowen.dump"

    async with original.open() as r:
        await r.sync(str(tmp_path / "docs"))
        size_bytes = await r.database.dump(dump)
    async with copy.open() as r:
        await r.database.restore(dump)
    async with copy.open() as r:
        again = await r.sync("docs")
        [hit] = await r.search("hay")

    assert size_bytes == dump.stat().st_size > 0
    assert dump.stat().st_mode & 0o077 == 0
    assert index_of(copy) == index_of(original)
    assert (again.stats.unchanged, again.stats.rows_written, hit.title) == (1, 0, "Hay")
    assert list(tmp_path.glob("*.part")) == list(tmp_path.glob(".*.part")) == []

    async with copy.open() as r:
        with pytest.raises(RefusedError, match="has sources"):
            await r.database.restore(dump)
        with pytest.raises(RefusedError, match="exists already"):
            await r.database.dump(dump)


async def test_a_file_that_is_no_dump_changes_nothing(database: ScratchDatabase, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hay")

    async with database.open() as r:
        with pytest.raises(UsageError, match="is not a dump of Rowen"):
            await r.database.restore(tmp_path / "notes.txt")
        with pytest.raises(NotFoundError):
            await r.database.restore(tmp_path / "nothere")
        assert await r.sources.list() == []


async def test_a_truncated_dump_leaves_the_database_unchanged(database: ScratchDatabase, tmp_path: Path) -> None:
    dump = tmp_path / "rowen.dump"
    async with database.open() as r:
        await r.database.dump(dump)
        dump.write_bytes(dump.read_bytes()[: dump.stat().st_size * 9 // 10])

        with pytest.raises((StoreError, UsageError)):
            await r.database.restore(dump)

        assert await r.sources.list() == []
    assert database.query("select count(*) from pg_namespace where nspname like 'rowen%'") == [(1,)]


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
import rowen
from rowen.settings import Settings
from rowen.store.server import dumps

run = dumps._run

async def run_and_die(command, conninfo):
    if sys.argv[3] == "after":
        await run(command, conninfo)
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with rowen.open(Settings(database_url=sys.argv[1], workers=0)) as r:
        dumps._run = run_and_die
        await r.database.restore(Path(sys.argv[2]))

asyncio.run(main())
"""


@pytest.mark.parametrize(("when", "sources"), [("before", 0), ("after", 1)])
async def test_a_killed_restore_is_undone_or_finished_when_the_database_is_opened_next(
    new_database: Callable[[], ScratchDatabase],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    when: str,
    sources: int,
) -> None:
    original, copy = new_database(), new_database()
    (tmp_path / "hay.md").write_text("# Hay\n")
    dump = tmp_path / "rowen.dump"
    async with original.open() as r:
        await r.sync(str(tmp_path / "hay.md"))
        await r.database.dump(dump)
    async with copy.open() as r:
        await r.access.add_token("mine")

    killed = subprocess.run(
        [sys.executable, "-c", KILLED, copy.conninfo, str(dump), when], timeout=60, env=dict(os.environ), check=False
    )
    left = copy.query("select to_regnamespace(%s) is not null", schema_aside("rowen"))
    async with copy.open() as r:
        stored, tokens = await r.sources.list(), await r.access.list_tokens()
        if not stored:
            await r.database.restore(dump)
    async with copy.open() as r:
        again = await r.sources.list()

    assert (killed.returncode, left) == (-9, [(True,)])
    assert (len(stored), len(again)) == (sources, 1)
    assert [token.name for token in tokens] == (["mine"] if not sources else [])
    assert copy.query("select to_regnamespace(%s)", schema_aside("rowen")) == [(None,)]
    assert "an interrupted restore" in caplog.text


async def test_a_running_restore_is_left_alone(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await r.sources.list()
    async with await psycopg.AsyncConnection.connect(database.conninfo, autocommit=True) as c:
        await hold_restore(c)
        await c.execute(f"alter schema rowen rename to {schema_aside('rowen')}".encode())

        with pytest.raises(StoreUnavailableError, match="is being restored"):
            async with database.open() as r:
                await r.sources.list()

        await c.execute(f"alter schema {schema_aside('rowen')} rename to rowen".encode())
