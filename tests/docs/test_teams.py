"""The unit and the container of the page for teams: what they start is there, and systemd can read it."""

import configparser
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from rowen.cli.app import app
from rowen.settings import Settings
from tests.docs.markdown import ROOT, blocks

PAGE = ROOT / "docs" / "teams.md"
# The program of the environment that runs the tests stands for the one of the unit.
PROGRAM = Path(sys.executable).with_name("rowen")


def unit() -> str:
    [text] = blocks(PAGE, "ini")
    return text


def section(name: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit())
    return dict(parser[name])


def container() -> dict[str, str]:
    """The instructions of the container file, the last of each."""
    [text] = blocks(PAGE, "dockerfile")
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return {word: rest for word, _, rest in (line.partition(" ") for line in lines)}


def commands() -> list[list[str]]:
    return [shlex.split(section("Service")["ExecStart"])[1:], json.loads(container()["CMD"])[1:]]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_what_a_unit_or_a_container_starts_is_a_command_with_these_options(words: list[str]) -> None:
    name, *arguments = words
    command = app.get_command(click.Context(app), name)

    assert command is not None
    assert command.make_context(name, arguments).args == []


def test_the_settings_of_both_are_settings() -> None:
    said = [section("Service")["Environment"], container()["ENV"], *blocks(PAGE, "sh")[0].splitlines()[1:]]
    names = {line.partition("=")[0].removeprefix("ROWEN_").lower() for line in said}

    assert {"home", "database_url"} == names
    assert names <= set(Settings.model_fields)


def test_systemd_can_read_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    path = tmp_path / "rowen-worker.service"
    path.write_text(unit().replace("/opt/rowen/bin/rowen", str(PROGRAM)))

    done = subprocess.run([program, "verify", "--man=no", path], capture_output=True, text=True, timeout=30)

    # It names every unit of the machine that it does not like; ours is not among them.
    assert [line for line in done.stderr.splitlines() if path.stem in line] == []
