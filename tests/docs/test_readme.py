"""The first page works: what it shows is shown, and its code runs."""

import html
import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import ScratchDatabase
from tests.docs.markdown import ROOT, blocks, steps
from tests.docs.shell import Shell
from tests.docs.terminal_picture import COMMANDS, PICTURE
from tests.docs.test_tutorial import missing

README = ROOT / "README.md"
PYTHON = ROOT / "docs" / "reference" / "python.md"

SAMPLES = [(page, number) for page in (README, PYTHON) for number in range(len(blocks(page, "python")))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the docs in it, as in a clone."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    return tmp_path


# How far a size in the README may be from what a run shows: every edit of the docs changes it a little.
TOLERANCE = 0.25
_SIZES = re.compile(r"(\d+(?:\.\d+)?) (kB|passages|created|unchanged|files)\b")


def unsized(text: str) -> str:
    return _SIZES.sub(r"N \2", text)


def sizes(text: str) -> dict[str, float]:
    return {unit: float(number) for number, unit in _SIZES.findall(text)}


def test_the_quick_start_shows_what_the_readme_says(database: ScratchDatabase, folder: Path) -> None:
    # All of the docs would be embedded, which takes a while and is shown by the tutorial.
    settings = {"ROWEN_DATABASE_URL": database.conninfo, "ROWEN_EMBEDDER": "none"}
    shell = Shell(folder, {"ROWEN_HOME": str(folder / "home"), **settings})
    [block] = blocks(README, "console")

    for told, step in zip(steps(block), steps(unsized(block)), strict=True):
        shown = shell.run(step.command)

        assert shell.status == 0, shown
        assert missing(step, unsized(shown)) == [], shown
        if wanted := sizes("\n".join(told.shown)):
            assert sizes(shown) == pytest.approx(wanted, rel=TOLERANCE)
    assert list(steps(block))


def test_the_picture_of_a_terminal_shows_its_commands_and_asks_nobody_for_a_font() -> None:
    drawn = PICTURE.read_text("utf-8")
    words = html.unescape("".join(re.findall(r"<text[^>]*>([^<]*)</text>", drawn))).replace("\xa0", " ")

    assert [command for command in COMMANDS if f"$ {command}" not in words] == []
    assert "1 updated · 1 unchanged · 1 deleted" in words
    assert re.findall(r"url\((?!#)", drawn) == []


@pytest.mark.parametrize(("page", "number"), SAMPLES, ids=lambda value: getattr(value, "name", str(value)))
def test_samples_of_python_run(
    page: Path,
    number: int,
    database: ScratchDatabase,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ROWEN_DATABASE_URL", database.conninfo)
    monkeypatch.setenv("ROWEN_HOME", str(folder / "home"))

    exec(compile(blocks(page, "python")[number], page.name, "exec"), {"__name__": "__main__"})

    assert capsys.readouterr().out.count("\n") > 1


def test_the_readme_is_short() -> None:
    assert README.read_text("utf-8").count("\n") < 150
