"""status, runs, run, db, doctor, and what happens when the database is not there."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Cli


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rowen-cli-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def embedded(home: Path) -> Cli:
    """The command with an embedded server, shared by the tests that need one."""
    return Cli(home, {"ROWEN_HOME": str(home / "home with spaces")})


def test_status_shows_sources_and_database(docs: Cli) -> None:
    docs("add", "./docs", "--name", "twin")

    facts = docs("status", "--json").facts
    plain = docs("status")

    assert [fact.get("name") for fact in facts] == ["docs", "twin", None, None, None]
    assert (facts[0]["items"], facts[0]["last_status"], facts[1]["last_status"]) == (3, "completed", None)
    assert facts[2]["health"]["queue"] == {"ready": 0, "later": 0, "running": 0, "paused": False}
    assert 0 <= facts[3]["freshness"]["stale"] == facts[0]["stale"] < 0.01
    assert facts[1]["stale"] is None
    assert facts[4]["database"]["schema"] >= 1
    shown = ["source", "source", "queue", "freshness", "database"]
    assert [line.split("\t")[0] for line in plain.out.splitlines()] == shown
    assert "twin: not read yet; `rowen sync twin` does." in plain.err


def test_runs_are_listed_newest_first_and_one_is_shown(docs: Cli) -> None:
    docs("sync")

    listed = docs("runs", "docs", "--json")
    one = docs("run", "1", "--json")
    shown = docs("run", "1")

    assert [(fact["run"], fact["unchanged"]) for fact in listed.facts] == [(2, 3), (1, 0)]
    assert one.facts[0]["created"] == 3
    assert "created\t3" in shown.out.splitlines()
    assert docs("run", "99").code == 4
    assert docs("run", "first").code == 2


def test_the_embedded_server_starts_when_needed_and_stops_after(embedded: Cli) -> None:
    before = embedded("db", "status", "--json")
    where = embedded("db", "url")
    after = embedded("db", "status", "--json")
    stopped = embedded("db", "stop", "--json")

    assert (before.code, before.facts[0]["running"]) == (0, False)
    assert "home with spaces" in where.out
    assert (after.facts[0]["running"], after.facts[0]["version"]) == (False, "18")
    assert stopped.facts == [{"stopped": False}]


def test_doctor_finds_no_problems_in_a_healthy_installation(embedded: Cli) -> None:
    done = embedded("doctor", "--json", ROWEN_WORKERS="1")

    assert done.code == 0
    found = {fact["check"]: fact["ok"] for fact in done.facts if not fact["check"].startswith("setting ")}
    checks = ["python", "home", "disk", "connectors", "database", "connections", "vectors", "workers", "embedder"]
    assert found == dict.fromkeys(checks, True)


def test_doctor_reports_a_source_with_a_missing_root_and_a_repair(docs: Cli) -> None:
    (docs.folder / "docs").rename(docs.folder / "elsewhere")

    done = docs("doctor")

    assert done.code == 1
    assert "wrong source docs: " in done.out
    assert "`rowen remove docs`" in done.out
    assert "1 problem found." in done.err


def test_doctor_continues_without_a_database(cli: Cli) -> None:
    done = cli("doctor", "--json", ROWEN_DATABASE_URL=_nobody(cli))

    found = {fact["check"]: fact for fact in done.facts}
    assert done.code == 1
    assert not found["database"]["ok"]
    assert found["database"]["hint"]
    assert found["workers"]["ok"]


def test_an_unreachable_database_gives_1_and_no_traceback(cli: Cli) -> None:
    done = cli("sources", "--json", "--database-url", _nobody(cli))
    loud = cli("sources", "-vv", "--database-url", _nobody(cli))

    assert done.code == 1
    assert "`rowen doctor`" in done.error["hint"]
    assert "Traceback" not in done.err
    assert "Traceback" in loud.err


def test_an_external_server_is_not_stopped(cli: Cli) -> None:
    assert cli("db", "stop").code == 5


def test_an_invalid_setting_is_named(cli: Cli) -> None:
    done = cli("sources", ROWEN_LEASE_S="soon")

    assert done.code == 2
    assert "ROWEN_LEASE_S" in done.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_doctor_reports_a_home_that_is_not_writable(cli: Cli) -> None:
    done = cli("doctor", "--home", "/proc/nowhere")

    assert "wrong home" in done.out


def _nobody(cli: Cli) -> str:
    return f"host={cli.folder} port=1 dbname=none user=nobody"


def test_logs_are_json_lines_if_configured(docs: Cli) -> None:
    done = docs("sync", "-v", "-q", ROWEN_LOG="json")

    lines = [json.loads(line) for line in done.err.splitlines()]
    closed = next(line for line in lines if line["event"] == "run closed")
    assert (closed["level"], closed["logger"], closed["source"]) == ("info", "rowen.harvest.run", "docs")
    assert closed["at"].endswith("+00:00")


def test_an_unknown_log_format_is_refused(docs: Cli) -> None:
    assert docs("sources", ROWEN_LOG="xml").code == 2


def test_psql_of_the_package_is_used_if_none_is_installed(docs: Cli) -> None:
    done = docs("db", "psql", "--", "-Atc", "select name from rowen.source", PATH="/nowhere")

    assert (done.code, done.out, done.err) == (0, "docs\n", "")
