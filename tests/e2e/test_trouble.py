"""What goes wrong on real machines: each has a clear error, and loses nothing else."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowen
from rowen.errors import StoreFullError, StoreUnavailableError
from rowen.settings import Settings
from tests.conftest import ScratchDatabase, Server
from tests.logical import contents, replayed
from tests.refresh.machine import at_statement


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nSomething about {number}.\n")
    return folder


def killed_sync(database: ScratchDatabase, folder: Path, statement: str) -> None:
    where = [database.conninfo, str(folder), statement, "1"]
    killed = subprocess.run([sys.executable, "-m", "tests.refresh.killed", *where], timeout=60)
    assert killed.returncode == -signal.SIGKILL


async def test_after_a_kill_the_next_sync_takes_over_at_once(database: ScratchDatabase, docs: Path) -> None:
    killed_sync(database, docs, statement="insert into chunk")
    async with database.open() as r:
        assert (await r.runs.list())[0].status == "running"
        run = await r.sync(str(docs))

        assert (run.status, len(contents(database))) == ("completed", 30)
        dead = (await r.runs.list())[1]
        assert dead.status == "failed"
        assert "ended without closing it" in (dead.error or "")
        assert replayed(database) == contents(database)


async def test_a_database_that_dies_in_the_middle_of_a_run_is_named(
    database: ScratchDatabase, docs: Path, server: Server
) -> None:
    if server.embedded is None:
        pytest.skip("only the session's own server may be killed")
    with at_statement("insert into item ", before=server.kill), pytest.raises(StoreUnavailableError) as caught:
        async with database.open() as r:
            await r.sync(str(docs))
    server.revive()
    async with database.open() as r:
        run = await r.sync(str(docs))

        assert "the next sync continues from there" in (caught.value.hint or "")
        assert (run.status, len(contents(database))) == ("completed", 30)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """160 MB at a place that the server's user can reach."""
    with tempfile.TemporaryDirectory(prefix="rowen-disk-") as name:
        Path(name).chmod(0o755)
        place = Path(name) / "disk"
        place.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", place], capture_output=True).returncode:
            pytest.skip("this machine does not let us mount a small disk")
        place.chmod(0o755)
        yield place
        subprocess.run(["umount", "-l", place], check=True)


async def test_a_full_disk_is_named_and_what_was_committed_is_kept(small_disk: Path, tmp_path: Path) -> None:
    docs = tmp_path / "big"
    docs.mkdir()
    for number in range(60):
        (docs / f"{number}.txt").write_bytes(os.urandom(400_000).hex().encode())
    settings = Settings(home=small_disk / "home", workers=0)
    async with rowen.open(settings) as r:
        with pytest.raises((StoreFullError, StoreUnavailableError)) as caught:
            await r.sync(str(docs))
    assert caught.value.hint
    ballast = sorted(docs.iterdir())
    for path in ballast[2:]:
        path.unlink()
    async with rowen.open(settings) as r:
        run = await r.sync(str(docs), accept_deletions=True)

        assert (run.status, run.stats.failed) == ("completed", 0)
