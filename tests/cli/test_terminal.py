"""What a terminal gets: tables, colours, progress, questions."""

import os
import pty
import subprocess
import sys

from tests.cli.conftest import PATIENCE_S, Cli


def on_a_terminal(cli: Cli, *arguments: str, typed: str = "", **settings: str) -> tuple[int, str]:
    """Run the command with all three streams on one terminal."""
    ours, theirs = pty.openpty()
    environment = {**cli.environment, "TERM": "xterm-256color", "COLUMNS": "100", **settings}
    with subprocess.Popen(
        [sys.executable, "-m", "rowen", *arguments],
        cwd=cli.folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        shown = b""
        while piece := _read(ours):
            shown += piece
        code = process.wait(timeout=PATIENCE_S)
    os.close(ours)
    return code, shown.decode()


def _read(terminal: int) -> bytes:
    """What is there; nothing once the other side is closed, which Linux reports as an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_a_terminal_gets_a_table_with_colours(docs: Cli) -> None:
    code, shown = on_a_terminal(docs, "sources")

    assert code == 0
    assert "last run" in shown
    assert "\x1b[1mdocs" in shown


def test_no_color_is_honoured(docs: Cli) -> None:
    _, shown = on_a_terminal(docs, "sync", "-q", NO_COLOR="1")

    assert "3 unchanged" in shown
    assert "\x1b[32m" not in shown


def test_sync_shows_progress_and_then_the_run_line(docs: Cli) -> None:
    docs.write({f"docs/{number}.md": f"# Note {number}\n" for number in range(50)})

    code, shown = on_a_terminal(docs, "sync")

    assert code == 0
    assert "━" in shown
    assert "50 created" in shown.splitlines()[-1]


def test_remove_asks_and_accepts_a_refusal(docs: Cli) -> None:
    code, shown = on_a_terminal(docs, "remove", "docs", typed="n\n")

    assert code == 5
    assert "Remove 'docs' and its 3 items from the index?" in shown
    assert docs("sources", "--json").facts[0]["items"] == 3


def test_remove_goes_ahead_on_yes(docs: Cli) -> None:
    code, shown = on_a_terminal(docs, "remove", "docs", typed="y\n")

    assert code == 0
    assert "docs removed, with 3 items" in shown
