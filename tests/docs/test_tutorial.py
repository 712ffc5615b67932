"""The tutorial works: its commands are run one after the other, and show what it says that they show."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowen.store.server.embedded import EmbeddedServer
from tests.docs.markdown import ROOT, Step, blocks, steps
from tests.docs.shell import Shell

TUTORIAL = ROOT / "docs" / "tutorial.md"

_VOLATILE = (
    (re.compile(r"\d+\.\d+ s\b"), "0 s"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "MOMENT"),
    (re.compile(r"just now|\d+ \w+ ago"), "AGO"),
    (re.compile(r"\s+"), " "),
)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rowen-tutorial-") as name:
        Path(name).chmod(0o755)  # root lends the server another account, which has to pass through here
        (Path(name) / "work").mkdir()
        yield Path(name).resolve()


def test_every_command_of_the_tutorial_does_what_the_tutorial_says(folder: Path) -> None:
    work = folder / "work"
    shell = Shell(work, {"ROWEN_HOME": str(folder / "home")})
    told = [step for block in blocks(TUTORIAL, "console") for step in steps(block)]
    # A member keeps the server running from one command to the next: the same answers, sooner.
    with EmbeddedServer(folder / "home"):
        for step, following in zip(told, [*told[1:], None], strict=True):
            shown = shell.run(step.command).replace(str(work), "…")

            asked_for_status = following is not None and following.command == "echo $?"
            assert shell.status == 0 or asked_for_status, f"$ {step.command}\n{shown}"
            assert missing(step, shown) == [], f"$ {step.command}\n{shown}"

    assert len(told) > 30


def missing(step: Step, shown: str) -> list[str]:
    """The documented lines that were not shown, in their order; `...` stands for any others."""
    lines = iter([settled(line) for line in shown.splitlines()])
    return [line for line in step.shown if settled(line) not in ("", "...") and not _comes(settled(line), lines)]


def _comes(wanted: str, lines: Iterator[str]) -> bool:
    if wanted.endswith(" ..."):
        return any(line.startswith(wanted.removesuffix("...")) for line in lines)
    return wanted in lines


def settled(line: str) -> str:
    for pattern, word in _VOLATILE:
        line = pattern.sub(word, line)
    return line.strip()
