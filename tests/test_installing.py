"""What a newcomer installs: for the demo only what Rowen needs, and hints that name commands that work."""

import json
import shlex
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

from rowen.version import how_to_install

ROOT = Path(__file__).parent.parent


def planned(target: str, *variables: str) -> str:
    """What make would run in a clone where nothing is installed."""
    command = ["make", "--dry-run", "--always-make", target, *variables]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_demo_installs_no_tools_of_developers() -> None:
    demo, tests = planned("demo", "UV="), planned("setup", "UV=")

    assert "--editable ." in demo
    assert "[dev]" not in demo
    assert "--quiet" not in demo
    assert "--editable '.[dev]'" in tests
    assert "pipx install ." in demo


def test_uv_is_used_where_it_is_installed() -> None:
    demo = planned("demo", "UV=/opt/uv")

    assert "/opt/uv venv" in demo
    assert "/opt/uv pip install" in demo
    assert "-m pip" not in demo


@pytest.mark.parametrize("extra", ["documents", "export", "notify", "render"])
def test_the_hint_for_an_extra_names_its_packages_for_this_python(extra: str) -> None:
    *command, package = shlex.split(how_to_install(extra))

    assert command == [sys.executable, "-m", "pip", "install"] or command[:3] == ["uv", "pip", "install"]
    assert any(one.startswith(package.split(">")[0]) for one in requires("rowen") or [])


def test_the_hint_follows_how_rowen_was_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pipx_metadata.json").write_text(json.dumps({}))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    assert how_to_install("export").startswith("pipx inject rowen ")
    assert "pyarrow" in how_to_install("export")
