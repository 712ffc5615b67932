"""No control character of somebody else's reaches a terminal: not in logs, not in JSON, not in tracebacks."""

import io
import json
import logging
import re
import sys

import pytest

from rowen.interfaces.cli.output import Output
from rowen.interfaces.cli.session import start_logging
from tests.cli.conftest import Cli
from tests.portals.site import Page, Site

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
EVIL = "a\x1b]0;owned\x07b\x9b31mc\x7fd\u202ee\u2066f\u2028g\u200fh\U000e0041i\x00j\rk"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What -v writes to stderr."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    start_logging(1)
    return stream


def test_json_escapes_what_commands_a_terminal_and_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).emit({EVIL: [EVIL, "Grüße, 草"]})

    printed = capsys.readouterr().out
    assert not CONTROLS.search(printed)
    assert json.loads(printed) == {EVIL: [EVIL, "Grüße, 草"]}
    assert "Grüße, 草" in printed


def test_an_error_as_json_is_escaped_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).fail(EVIL, exit_code=1, hint=EVIL)

    [printed] = capsys.readouterr().err.splitlines()
    assert not CONTROLS.search(printed)
    assert json.loads(printed)["error"] == EVIL


def test_an_error_for_people_has_no_controls(capsys: pytest.CaptureFixture[str]) -> None:
    Output().fail(EVIL, exit_code=1, hint=EVIL)

    printed = capsys.readouterr().err
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", printed)


def test_a_log_line_stays_one_line_without_controls(written: io.StringIO) -> None:
    logging.getLogger("rowen.test").error(
        "asked %s", EVIL + "\n12:00:00 rowen.net: all is well", extra={"fields": {"url": EVIL + "\nforged"}}
    )

    printed = written.getvalue()
    assert not CONTROLS.search(printed)
    assert printed.count("\n") == 1


def test_a_traceback_in_the_log_is_cleaned_and_set_in(written: io.StringIO) -> None:
    try:
        raise ValueError(EVIL + "\n12:00:00 rowen.net: all is well")
    except ValueError:
        logging.getLogger("rowen.test").exception("broke off")

    printed = written.getvalue()
    assert not CONTROLS.search(printed)
    assert [line for line in printed.splitlines() if re.match(r"\d\d:\d\d:\d\d ", line)] == printed.splitlines()[:1]


def test_the_command_shows_no_controls_of_a_site_whatever_it_is_asked(cli: Cli) -> None:
    site = Site()
    site.put("/", "Hay \x1b[31m\x9b31m\u202e", "Dry \x1b]0;owned\x07 grass \x9d", links=("/%1b%5b31m", "/gone"))
    site.pages["/gone"] = Page(status=302, headers={"Location": "/x\u009b31m"})
    settings = {"ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8", "ROWEN_PROBE": "false", "ROWEN_HOST_DELAY_S": "0"}
    try:
        done = [
            cli(*words, **settings)
            for words in (
                ("sync", site.url, "-vv"),
                ("search", "grass", "--json", "-vv"),
                ("get", f"{site.url}/", "--json"),
                ("sync", f"{site.url}/\x1b[31m\u202e", "-vv", "--json"),
                ("get", "\x1b[31m\u202e", "-vv"),
            )
        ]
    finally:
        site.close()

    assert any("Dry" in one.out for one in done)
    assert [CONTROLS.findall(one.out + one.err) for one in done] == [[]] * len(done)


def test_a_stream_of_another_encoding_does_not_bring_them_back(cli: Cli) -> None:
    cli.write({"docs/hay.md": "# Hay\n\n\u202edry\u2066 \u200fgrass Grüße\n"})
    cli("sync", "./docs")

    done = cli("search", "hay", "--json", PYTHONIOENCODING="ascii")

    assert done.code == 0
    assert not CONTROLS.search(done.out)
    assert "\u202e" in done.facts[0]["text"]
