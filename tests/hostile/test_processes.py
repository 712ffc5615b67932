"""Nothing in a folder that is harvested runs, and what reads it can neither write, send nor start anything."""

import asyncio
import importlib.metadata
import os
import pickle
import pty
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rowen import programs
from rowen.connectors.packages.lookup import registry_of
from rowen.connectors.packages.options import PackageAddress
from rowen.errors import ItemError, UsageError
from rowen.harvest import parse_worker, sandbox
from rowen.harvest.parse_pool import Workers
from rowen.harvest.parse_worker import Passages
from rowen.harvest.sandbox import refused_on
from rowen.interfaces.rest.derived import Requirement
from rowen.model.access import Scope
from tests.conftest import ScratchDatabase
from tests.docs.markdown import ROOT
from tests.hostile import inside
from tests.hostile.clock import slowness
from tests.hostile.watchdog import LIMIT_S, beats, steps, unblocked_loop


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Not in the folder of the tests, whose functions workers could not import from where one stands."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))


PLANTED = """
import os, pathlib
pathlib.Path({trace!r}).write_text("ran")
"""
LARGE = "# Title\n\n" + "Some words about hay.\n" * 10_000


def plant(folder: Path, trace: Path) -> None:
    """Modules of names that Python, Rowen and its packages import, a plug-in, and programs."""
    code = PLANTED.format(trace=str(trace))
    for name in ("resource", "rowen", "struct", "signal", "msgspec", "turbohtml", "pypdfium2", "sitecustomize"):
        (folder / f"{name}.py").write_text(code)
    (folder / "evil.dist-info").mkdir()
    (folder / "evil.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    (folder / "evil.dist-info/entry_points.txt").write_text("[rowen.connectors]\nevil = evil:Evil\n")
    (folder / "evil.py").write_text(code)
    for program in ("git", "npm", "chromium", "postgres"):
        (folder / program).write_text(f"#!/bin/sh\ntouch {trace}\n")
        (folder / program).chmod(0o755)


ROWEN = [str(Path(sys.executable).with_name("rowen"))]
MODULE = [sys.executable, "-m", "rowen"]


@pytest.mark.parametrize("command", [ROWEN, MODULE])
def test_syncing_the_folder_that_one_stands_in_runs_nothing_of_it(
    database: ScratchDatabase, tmp_path: Path, command: list[str]
) -> None:
    folder, trace = tmp_path / "untrusted", tmp_path / "trace"
    folder.mkdir()
    plant(folder, trace)
    if command == MODULE:
        # Python looks here for what it is told to run itself, before any code of ours.
        (folder / "rowen.py").unlink()
    (folder / "large.md").write_text(LARGE)

    done = subprocess.run(
        [*command, "sync", "."],
        cwd=folder,
        env={
            "PATH": f".:{os.environ['PATH']}",
            "ROWEN_DATABASE_URL": database.conninfo,
            "ROWEN_HOME": str(tmp_path / "home"),
            "ROWEN_EMBEDDER": "none",
            "ROWEN_WORKERS": "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, trace.exists()) == (0, False), done.stderr
    assert "created" in done.stdout


async def test_a_worker_has_no_keys_and_stands_in_a_neutral_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("ROWEN_EMBEDDER_KEY", "secret")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    seen = await in_worker(inside.spied)

    assert seen["folder"] == programs.NEUTRAL_FOLDER
    assert str(tmp_path) not in seen["path"]
    # The tests' own number is set where the function is imported.
    assert set(seen["names"]) - {"ROWEN_TEST_SEED"} <= {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ"}


async def in_worker(function: Any, *arguments: Any) -> Any:
    """Call a function of the tests where hostile bytes are read."""
    workers = Workers(1)
    try:
        return await workers.call(function, "x" * 100_000, *arguments)
    finally:
        await workers.close()


needs_locks = pytest.mark.skipif(sys.platform != "linux", reason="these locks are Linux's")


@needs_locks
async def test_a_worker_can_neither_write_nor_read_what_is_not_python_s(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")

    assert await in_worker(inside.attempt_to_write, str(tmp_path / "new")) == "PermissionError"
    assert await in_worker(inside.attempt_to_read, str(tmp_path / "secret")) == "PermissionError"
    assert not (tmp_path / "new").exists()


@needs_locks
async def test_a_worker_can_neither_connect_nor_start_a_program() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert await in_worker(inside.attempt_to_connect, listening.getsockname()[1]) == "PermissionError"
    assert await in_worker(inside.attempt_to_run, "/bin/true") == "PermissionError"


@needs_locks
async def test_each_system_call_that_no_parser_needs_is_refused_to_a_worker() -> None:
    assert await in_worker(inside.make_refused_calls) == []
    assert {"socket", "fork", "kill", "chmod", "unshare", "keyctl"} <= set(refused_on("x86_64"))
    assert set(refused_on("aarch64")) <= set(refused_on("x86_64"))


@needs_locks
async def test_a_worker_reaches_neither_its_parent_nor_a_file_of_the_user(tmp_path: Path) -> None:
    mine = tmp_path / "secret"
    mine.write_text("secret")
    mine.chmod(0o600)
    before = mine.stat()

    assert await in_worker(inside.reach_out, os.getpid(), str(mine)) == []

    assert (mine.stat().st_mode, mine.stat().st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


async def test_a_worker_may_begin_threads() -> None:
    assert await in_worker(inside.begin_a_thread) == "done"


async def test_a_worker_inherits_no_open_files(tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as file, socket.socket() as sock:
        os.set_inheritable(file.fileno(), True)
        sock.set_inheritable(True)

        # Pipes to and from its parent, and where it tells of bugs.
        assert await in_worker(inside.list_open_files) == [0, 1, 2]


TERMINAL = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from rowen.harvest.parse_pool import Workers
from tests.hostile import inside

async def ask():
    workers = Workers(1)
    try:
        print(await workers.call(inside.say_where_errors_go, "x" * 100_000))
    finally:
        await workers.close()

asyncio.run(ask())
"""


def test_a_worker_neither_writes_to_a_terminal_nor_reads_what_is_typed_there() -> None:
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", TERMINAL, str(ROOT)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
            timeout=60,
            check=True,
        )
    finally:
        os.close(ours)
        os.close(theirs)

    assert done.stdout.strip() == "False"


@needs_locks
def test_all_locks_hold_on_this_kernel() -> None:
    code = "from rowen.harvest.sandbox import lock_in; print(*lock_in())"
    done = subprocess.run(programs.isolated_python(code), capture_output=True, text=True, timeout=30, check=True)
    kernel = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    expected = {"limits", "landlock", "seccomp"} if kernel >= (5, 13) else {"limits", "seccomp"}

    assert set(done.stdout.split()) >= (expected if os.environ.get("CI") else {"limits"}), sandbox.__doc__


async def test_a_worker_that_was_taken_over_does_not_get_out_through_its_answer(tmp_path: Path) -> None:
    trace = tmp_path / "trace"

    with pytest.raises(ItemError, match="crashed"):
        await in_worker(inside.answer_evil, f"touch {trace}")

    assert not trace.exists()


@pytest.mark.parametrize(
    "name", ["rowen.programs.run", "builtins.eval", "subprocess.Popen", "rowen.interfaces.cli.app.main"]
)
def test_only_facts_are_unpickled(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    evil = b"\x80\x04\x8c" + bytes([len(module)]) + module.encode()
    evil += b"\x8c" + bytes([len(attribute)]) + attribute.encode() + b"\x93)R."

    with pytest.raises(pickle.UnpicklingError):
        parse_worker.unpickle(evil, "rowen")


def build(module: str, name: str, made_of: bytes, state: bytes) -> bytes:
    """Return a pickle that names a class, makes something of it, and sets its attributes."""
    return b"\x80\x04c" + f"{module}\n{name}\n".encode() + made_of + state + b"b."


def text(value: str) -> bytes:
    return b"X" + len(value).to_bytes(4, "little") + value.encode()


@pytest.mark.parametrize(
    "evil",
    [
        build(
            "rowen.interfaces.rest.derived",
            "Requirement",
            b"",
            b"N}" + text("check") + b"crowen.errors\nRowenError\ns\x86",
        ),
        build("rowen.harvest.parse_worker", "Passages", b"", b"N}" + text("url") + b"K\x01s\x86"),
        build("rowen.errors", "UsageError", b"", b"N}" + text("http_status") + b"K\xc8s\x86"),
        build("rowen.model.access", "Scope", text("read") + b"\x85R", b"}" + text("_value_") + text("admin") + b"s"),
        build("collections", "Counter", b"", b"N}" + text("update") + b"K\x01s\x86"),
        b"\x80\x04crowen.settings\nSettings\n)R.",
        b"\x80\x04crowen.operations\nRowen\nN\x85R.",
        b"\x80\x04crowen.harvest.parse_pool\nWorkers\n)R.",
    ],
)
def test_no_answer_changes_what_the_parent_works_with(evil: bytes) -> None:
    """A worker that sets attributes of a class would decide what the server does, such as whom it lets in."""
    before = {one: dict(vars(one)) for one in (Requirement, Passages, UsageError, Scope, Scope.READ, Counter)}

    with pytest.raises(pickle.UnpicklingError):
        parse_worker.unpickle(evil, "rowen")

    assert {one: dict(vars(one)) for one in before} == before
    assert parse_worker.unpickle(pickle.dumps([Scope.READ, Counter("ab"), UsageError("no")]), "rowen")[0] is Scope.READ


async def test_what_a_function_raises_on_purpose_comes_back_whole() -> None:
    with pytest.raises(UsageError, match="no") as ours:
        await in_worker(inside.raise_on_purpose, "ours")
    with pytest.raises(UnicodeDecodeError, match="bad"):
        await in_worker(inside.raise_on_purpose, "python's")

    assert ours.value.hint == "try"


async def test_a_function_that_never_ends_costs_its_call_and_nothing_else() -> None:
    workers = Workers(1, time_limit_s=3)
    try:
        with pytest.raises(ItemError, match="took longer"):
            await workers.call(inside.spin, "x" * 100_000)
        assert await workers.call(len, "x" * 100_000) == 100_000
    finally:
        await workers.close()


async def test_npm_is_not_asked_in_the_folder_that_one_stands_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "npm").write_text("#!/bin/sh\necho http://registry.example/$(pwd)\n")
    (tools / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)

    url = await registry_of(PackageAddress("npm", "haytools"))

    assert url == "http://registry.example//"


def test_a_relative_path_leads_to_no_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".::{tmp_path}/../{tmp_path.name}x")

    assert programs.find("git") is None
    assert "." not in programs.environment()["PATH"].split(":")


def test_plug_ins_of_the_current_folder_are_not_found(tmp_path: Path) -> None:
    plant(tmp_path, tmp_path / "trace")
    (tmp_path / "rowen.py").unlink()

    done = subprocess.run(
        [sys.executable, "-m", "rowen", "add", "x", "--kind", "evil"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "ROWEN_HOME": str(tmp_path / "home"), "ROWEN_EMBEDDED_LINGER_S": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2, done.stderr
    assert not (tmp_path / "trace").exists()
    assert "evil" not in [point.name for point in importlib.metadata.entry_points(group="rowen.connectors")]


@pytest.mark.unwatched
def test_the_watchdog_sees_a_blocked_loop() -> None:
    async def block() -> None:
        # By the very clock that is watched: no machine is quick enough to be through before.
        until_s = time.thread_time() + 2 * LIMIT_S * slowness()
        while time.thread_time() < until_s:
            pass

    with pytest.raises(pytest.fail.Exception, match="blocked"), unblocked_loop():
        asyncio.run(block())


@pytest.mark.unwatched
async def test_the_watchdog_sees_a_thread_that_keeps_the_loop_waiting() -> None:
    def hold() -> None:
        # One call, in which no other thread of Python goes on.
        numbers, spent_s = 1_000_000, 0.0
        while spent_s < 5 * LIMIT_S * slowness():
            before_s, numbers = time.thread_time(), 2 * numbers
            sum(range(numbers))
            spent_s = time.thread_time() - before_s

    with steps() as seen:
        async with beats(seen):
            await asyncio.to_thread(hold)

    assert any("kept waiting" in one for one in seen.blocks)
