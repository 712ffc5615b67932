"""The embedded server stays up for a while after its last member, and never for longer."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped] # its stubs are another package
import pytest

import rowen
from rowen.store.server.embedded import EmbeddedServer

from .other_processes import PATIENCE_S, ask, end_servers_in, eventually, furnished, memory

SOON_S, LATER_S = 0.05, 60.0
REMOVAL_S = 4.0  # a keeper has begun to wait, and the program is removed, within that time


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rowen-test-", dir=memory()) as name:
        Path(name).chmod(0o755)
        with EmbeddedServer(Path(name)):
            pass
        yield Path(name) / "postgres"


@pytest.fixture
def home(template: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # Whatever starts the tests: nobody here is init's own child.
    monkeypatch.setattr(os, "getppid", lambda: 2)
    folder = Path(tempfile.mkdtemp(prefix="rowen-test-", dir=memory()))
    folder.chmod(0o755)
    yield furnished(folder / "home", template)
    for keeper in keepers(folder / "home"):
        keeper.kill()
    end_servers_in(folder)
    shutil.rmtree(folder, ignore_errors=True)


def keepers(home: Path) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if f"run_keeper({str(home)!r}" in " ".join(process.info["cmdline"] or ())
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def used(home: Path, linger_s: float) -> int | None:
    """Join and leave; return the process id of the server."""
    with EmbeddedServer(home, linger_s=linger_s):
        return EmbeddedServer(home).status().pid


def test_a_process_that_returns_in_time_finds_the_same_server_with_one_keeper(home: Path) -> None:
    first = used(home, LATER_S)
    assert EmbeddedServer(home).status().running

    again = [used(home, LATER_S) for _ in range(3)]

    assert {first} == set(again)
    assert len(keepers(home)) == 1


def test_an_idle_server_is_stopped_and_its_keeper_ends(home: Path) -> None:
    used(home, SOON_S)

    eventually(lambda: not EmbeddedServer(home).status().running)
    eventually(lambda: not keepers(home))


def test_each_leaving_process_restarts_the_wait_of_the_keeper(home: Path) -> None:
    used(home, LATER_S)
    before = (home / "postgres" / "keeper.lock").stat().st_mtime_ns

    used(home, LATER_S)

    assert (home / "postgres" / "keeper.lock").stat().st_mtime_ns > before


def test_a_keeper_leaves_a_used_server_alone_and_the_last_member_starts_another_keeper(home: Path) -> None:
    used(home, SOON_S)
    with EmbeddedServer(home, linger_s=LATER_S) as conninfo:
        eventually(lambda: not keepers(home))
        assert ask(conninfo, "SELECT 1") == 1

    assert EmbeddedServer(home).status().running
    assert len(keepers(home)) == 1


def test_a_server_whose_keeper_was_killed_gets_another_from_the_next_leaving_process(home: Path) -> None:
    used(home, LATER_S)
    [keeper] = keepers(home)
    keeper.kill()
    eventually(lambda: not keepers(home))

    used(home, SOON_S)

    eventually(lambda: not EmbeddedServer(home).status().running)


def test_a_process_without_linger_time_stops_a_server_left_to_a_keeper(home: Path) -> None:
    used(home, LATER_S)

    used(home, 0.0)

    assert not EmbeddedServer(home).status().running


def test_a_lingering_server_can_be_stopped_at_once(home: Path) -> None:
    used(home, LATER_S)

    assert EmbeddedServer(home).stop() is True
    assert EmbeddedServer(home).stop() is False


def test_a_lingering_server_that_was_killed_has_every_committed_row(home: Path) -> None:
    with EmbeddedServer(home, linger_s=LATER_S) as conninfo:
        ask(conninfo, "CREATE TABLE kept AS SELECT generate_series(1, 1000) AS number")
    pid = EmbeddedServer(home).status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    with EmbeddedServer(home) as conninfo:
        assert ask(conninfo, "SELECT count(*) FROM kept") == 1000


@pytest.mark.parametrize("call", ["getpid", "getppid"])
def test_a_process_started_by_init_leaves_no_keeper(home: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, call, lambda: 1)
        used(home, LATER_S)

    assert not EmbeddedServer(home).status().running
    assert not keepers(home)


def test_a_removed_home_ends_its_keeper(home: Path) -> None:
    used(home, 1.0)
    end_servers_in(home)
    shutil.rmtree(home)

    eventually(lambda: not keepers(home))


def test_a_keeper_holds_no_pipe_of_the_command_that_left_it(home: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from rowen.store.server.embedded import EmbeddedServer\n"
        "os.getppid = lambda: 2\n"
        f"with EmbeddedServer(Path(sys.argv[1]), linger_s={LATER_S}): pass"
    )

    # Who reads the output to its end would wait for the keeper, too.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(home)], capture_output=True, timeout=PATIENCE_S - 10, check=True
    )

    assert (done.stdout, done.stderr) == (b"", b"")
    assert len(keepers(home)) == 1


def installed(folder: Path) -> Path:
    """Copy the program into a folder to import from, with links to its dependencies."""
    site = folder / "site-packages"
    site.mkdir()
    shutil.copytree(Path(rowen.__file__).parent, site / "rowen", ignore=shutil.ignore_patterns("__pycache__"))
    for entry in Path(psutil.__file__).parents[1].iterdir():
        if not (site / entry.name).exists() and entry.suffix not in (".pth", ".py"):
            (site / entry.name).symlink_to(entry)
        elif entry.suffix == ".py":
            shutil.copy(entry, site)
    return site


LEAVES_A_KEEPER = """
import os, sys
from pathlib import Path
own = sys.argv[2]
sys.path[:] = [own, *(entry for entry in sys.path if "site-packages" not in entry and "/src" not in entry)]
import rowen
assert rowen.__file__.startswith(own)
from rowen.store.server.embedded import EmbeddedServer
os.getppid = lambda: 2
with EmbeddedServer(Path(sys.argv[1]), linger_s=float(sys.argv[3])): pass
"""


def waits(keeper: psutil.Process) -> bool:
    """Return whether a keeper has loaded the client library, and sleeps."""
    is_loaded = any("libpq" in memory_map.path or "psycopg" in memory_map.path for memory_map in keeper.memory_maps())
    return is_loaded and keeper.status() == psutil.STATUS_SLEEPING


def test_a_server_is_stopped_in_time_after_the_program_was_removed(home: Path, tmp_path: Path) -> None:
    site = installed(tmp_path)
    command = [sys.executable, "-I", "-c", LEAVES_A_KEEPER, str(home), str(site), str(REMOVAL_S)]
    subprocess.run(command, timeout=PATIENCE_S, check=True, cwd="/")
    [keeper] = keepers(home)
    eventually(lambda: waits(keeper))

    shutil.rmtree(site)
    ran_without_it = EmbeddedServer(home).status().running

    eventually(lambda: not keepers(home))
    assert ran_without_it
    assert not EmbeddedServer(home).status().running
