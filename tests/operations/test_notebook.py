"""What somebody types into a notebook: no `with`, one name, values that fit a line."""

import os
import subprocess
import sys
from pathlib import Path

import rowen
from tests.conftest import ScratchDatabase

SCRIPT = """
import rowen, sys
r = rowen.open_blocking()
run = r.sync(sys.argv[1])
answer = r.search("hay", sources="docs")
print([run, answer, answer[0], *r.sources.list(), r.get(sys.argv[1] + "/hay.md"), *r.changes()])
print(rowen.Run.__module__, r)
"""

INTERRUPTED = """
import asyncio, rowen, signal, sys, threading

async def interrupted():
    r.rowen._engine.workers.prepare = never
    return await r.rowen.sync(sys.argv[1])

async def never(tasks):
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    await asyncio.sleep(60)

# A shell starts background jobs with SIGINT ignored, which their processes inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
r = rowen.open_blocking()
try:
    r.call(interrupted())
except KeyboardInterrupt:
    del r.rowen._engine.workers.prepare
print(*[run.status for run in r.runs.list()], r.sync("docs").status)
"""


def test_the_api_is_shown_by_dir() -> None:
    assert set(dir(rowen)) == set(rowen.__all__)


def test_it_is_open_without_with_and_closed_when_the_program_ends(database: ScratchDatabase, tmp_path: Path) -> None:
    done = typed(SCRIPT, database, tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert "<Run docs · completed · 1 item · 0 requests>" in done.stdout
    assert "<Answer 1 hit · Hay>" in done.stdout
    assert "<BlockingRowen open>" in done.stdout
    assert max(map(len, done.stdout.split(", <"))) < 250


def test_ctrl_c_cancels_what_was_asked_for_and_the_next_question_is_answered(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    done = typed(INTERRUPTED, database, tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, "failed completed\n", "")


def typed(script: str, database: ScratchDatabase, tmp_path: Path) -> "subprocess.CompletedProcess[str]":
    """Run a script over a folder with one file."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "hay.md").write_text("# Hay\n\n" + "Cut it dry. " * 300)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ROWEN_")},
        "ROWEN_DATABASE_URL": database.conninfo,
        "ROWEN_WORKERS": "0",
        "ROWEN_EMBEDDER": "none",
        "ROWEN_CONFIG": os.devnull,
        "ROWEN_HOME": str(tmp_path / "home"),
    }

    command = [sys.executable, "-W", "error", "-c", script, str(docs)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_closing_twice_is_closing_once(database: ScratchDatabase) -> None:
    with rowen.open_blocking(database.settings()) as r:
        assert r.sources.list() == []
        r.close()

    assert repr(r) == "<BlockingRowen closed>"
