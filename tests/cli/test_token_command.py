"""token, and what serve needs; called in this process, since four of them would take seconds."""

import json
import subprocess
import sys
from typing import Any

import pytest

from rowen.interfaces.cli.app import _call
from tests.conftest import ScratchDatabase


def test_tokens_are_made_listed_and_revoked_and_shown_once(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROWEN_DATABASE_URL", database.conninfo)
    monkeypatch.setenv("ROWEN_HOME", str(database.home))

    def facts(*words: str) -> tuple[int, list[dict[str, Any]]]:
        code = _call(["token", *words, "--json"])
        return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    _, [made] = facts("add", "dashboard", "--days", "30")
    _, listed = facts("list")

    assert (made["name"], made["scope"], made["secret"][:6]) == ("dashboard", "read", "rowen_")
    assert [(one["name"], "secret" in one) for one in listed] == [("dashboard", False)]
    assert [facts("revoke", "dashboard")[0], facts("revoke", "dashboard")[0]] == [0, 4]
    assert facts("add", "a b")[0] == 2


def test_the_server_is_imported_by_nothing_but_serve() -> None:
    code = (
        "import sys, rowen.interfaces.cli.app as app; app._call(['--help']);"
        " print([m for m in sys.modules if 'fastapi' in m])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert out.stdout.splitlines()[-1] == "[]"


def test_a_missing_extra_is_an_error_with_its_installation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("rowen.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)

    code = _call(["serve"])

    told = " ".join(capsys.readouterr().err.split())
    assert (code, "pip install" in told, "'uvicorn" in told, "rowen[" in told) == (2, True, True, False)
