"""Ctrl-C, once and twice, on a folder that is too large to be done in a moment."""

import json
import os
import signal
import subprocess

import pytest

from tests.cli.conftest import PATIENCE_S, Cli, Done
from tests.conftest import ScratchDatabase

FILES = 6_000


@pytest.fixture
def large(cli: Cli) -> Cli:
    folder = cli.folder / "large"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nHay bale number {number}.\n")
    return cli


def interrupt(process: "subprocess.Popen[str]", database: ScratchDatabase, *, number: signal.Signals) -> str:
    """Send the first signal as soon as something is stored, to all of the group; returns what is said to it."""
    while not database.query("select 1 from item limit 1"):
        assert process.poll() is None
    os.killpg(process.pid, number)
    assert process.stderr is not None
    return process.stderr.readline()


def end(process: "subprocess.Popen[str]") -> Done:
    out, err = process.communicate(timeout=PATIENCE_S)
    return Done(process.returncode, out, err)


def test_the_first_ctrl_c_ends_the_run_cleanly_and_keeps_what_was_read(large: Cli, database: ScratchDatabase) -> None:
    with large.start("sync", "./large", "--json") as process:
        said = interrupt(process, database, number=signal.SIGINT)
        done = end(process)

    assert json.loads(said)["remark"] == "Stopping after the work in flight; Ctrl-C again ends at once."
    assert done.code == 130
    [fact] = done.facts
    assert (fact["status"], fact["complete"], fact["deleted"]) == ("cancelled", False, 0)
    assert 0 < fact["created"] < FILES
    [(stored,)] = database.query("select count(*) from item")
    assert stored == fact["created"]

    whole = large("sync", "--json").facts[0]
    assert (whole["status"], whole["unchanged"] + whole["created"]) == ("completed", FILES)
    assert whole["unchanged"] == stored


def test_a_ctrl_c_that_a_terminal_sends_to_all_costs_no_page_that_is_being_read(
    cli: Cli, database: ScratchDatabase
) -> None:
    folder = cli.folder / "large"
    folder.mkdir()
    for number in range(100):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\n" + "Hay bale.\n\n" * 10_000)
    with cli.start("sync", "./large", "--json", ROWEN_WORKERS="2") as process:
        interrupt(process, database, number=signal.SIGINT)
        done = end(process)

    assert done.code == 130
    assert "Traceback" not in done.err
    assert (done.facts[0]["status"], done.facts[0]["failed"]) == ("cancelled", 0)
    assert done.facts[0]["created"]
    assert database.query("select * from quarantine") == []


def test_the_second_ctrl_c_ends_at_once_and_without_damage(large: Cli, database: ScratchDatabase) -> None:
    with large.start("sync", "./large", "--json") as process:
        interrupt(process, database, number=signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        done = end(process)

    assert (done.code, done.out) == (130, "")
    assert "Traceback" not in done.err

    whole = large("sync", "--json").facts[0]
    assert (whole["status"], whole["unchanged"] + whole["created"]) == ("completed", FILES)
    assert database.query("select count(*) from item") == database.query("select count(*) from change") == [(FILES,)]


def test_ctrl_c_ends_a_follower_without_output(docs: Cli) -> None:
    with docs.start("changes", "--follow", "--json") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        done = end(process)

    assert (done.code, done.err) == (130, "")
