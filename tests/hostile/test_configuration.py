"""A `rowen.toml` that lies in a stranger's folder decides nothing that could cost, send, run or delete anything."""

import os
from pathlib import Path
from typing import Any

import pytest

from rowen.errors import ConfigurationError
from rowen.settings import Settings, load
from tests.cli.conftest import Cli
from tests.conftest import ScratchDatabase

# All that a folder may decide: how long to wait, and how many sources to take side by side.
HARMLESS = {"database_patience_s", "embed_wait_s", "embedder_question_limit_s", "side_by_side"}

SAMPLES: dict[str, Any] = {
    "allow_addresses": "0.0.0.0/0",
    "allow_addresses_for": "stranger.example=0.0.0.0/0",
    "browser": "/tmp/browser",
    "config": "other.toml",
    "cors_origins": "https://stranger.example",
    "database_url": "postgresql://stranger.example/rowen",
    "embedded_user": "games",
    "embedder": "openai",
    "embedder_key": "env:AWS_SECRET_ACCESS_KEY",
    "embedder_model": "theirs",
    "embedder_url": "https://stranger.example/v1",
    "home": "theirs",
    "host": "0.0.0.0",
    "hosts": "stranger.example",
    "llm": "openai",
    "llm_answer_tokens": 100,
    "llm_context_tokens": 1000,
    "llm_key": "env:AWS_SECRET_ACCESS_KEY",
    "llm_model": "theirs",
    "llm_price": "1/2",
    "llm_url": "https://stranger.example/v1",
    "log": "json",
    "model_hub": "https://stranger.example",
    "push_key": "env:STRANGERS_KEY",
    "no_proxy": "*",
    "oidc_audience": "theirs",
    "oidc_client": "theirs",
    "oidc_client_secret": "env:STRANGERS_KEY",
    "oidc_issuer": "https://stranger.example",
    "oidc_roles": "stranger=admin",
    "oidc_roles_claim": "theirs",
    "probe": False,
    "public_url": "https://rowen.example",
    "trust_database": True,
    "proxies": "0.0.0.0/0",
    "proxy": "http://stranger.example:3128",
    "redacted_keys": "nothing",
    "request_limit_bytes": 1_000_000_000,
    "user_agent": "stranger",
    "answers_kept_days": 7,
}


@pytest.fixture(autouse=True)
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """We stand in a stranger's folder; our own file, elsewhere, is empty."""
    (tmp_path / "stranger").mkdir()
    monkeypatch.chdir(tmp_path / "stranger")
    own = tmp_path / "own.toml"
    own.write_text("")
    monkeypatch.setenv("ROWEN_CONFIG", str(own))
    monkeypatch.delenv("ROWEN_EMBEDDER")
    return own


def line(name: str) -> str:
    value = SAMPLES.get(name, 1)
    return f"{name} = {str(value).lower() if isinstance(value, bool) else repr(value)}\n"


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_a_folder_sets_only_what_is_listed_as_harmless(name: str) -> None:
    Path("rowen.toml").write_text(line(name))

    if name in HARMLESS:
        assert getattr(load(), name) == 1
        return
    with pytest.raises(ConfigurationError, match=f"{name!r}") as caught:
        load()
    assert str(Path("rowen.toml").absolute()) in str(caught.value)
    assert os.environ["ROWEN_CONFIG"] in (caught.value.hint or "")


@pytest.mark.parametrize("name", sorted(set(Settings.model_fields) - {"config"}))
def test_the_user_s_own_file_may_set_everything(name: str, own_file: Path) -> None:
    own_file.write_text(line(name))

    assert name in load().model_fields_set


@pytest.mark.parametrize("alias", ["https_proxy", "rowen_proxy", "rowen_no_proxy", "no_proxy"])
def test_another_name_of_a_setting_is_no_way_round(alias: str) -> None:
    Path("rowen.toml").write_text(f'{alias} = "http://stranger.example:3128"\n')

    with pytest.raises(ConfigurationError, match=alias):
        load()


def test_settings_made_without_load_are_bound_by_the_same_rule() -> None:
    Path("rowen.toml").write_text('browser = "/tmp/browser"\n')

    with pytest.raises(ConfigurationError, match="browser"):
        Settings()


def test_the_folder_comes_after_the_user_s_file_and_before_the_environment(
    own_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_file.write_text("side_by_side = 2\nembed_wait_s = 2\nhost_delay_s = 2\n")
    Path("rowen.toml").write_text("side_by_side = 3\nembed_wait_s = 3\n")
    monkeypatch.setenv("ROWEN_EMBED_WAIT_S", "4")

    found = load()

    assert (found.host_delay_s, found.side_by_side, found.embed_wait_s) == (2, 3, 4)


def test_a_folder_s_file_that_the_user_names_is_the_user_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("rowen.toml").write_text("deletion_floor = 3\n")
    monkeypatch.setenv("ROWEN_CONFIG", "rowen.toml")

    assert load().deletion_floor == 3


def test_a_file_that_the_user_names_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWEN_CONFIG", "nowhere.toml")

    with pytest.raises(ConfigurationError, match=r"nowhere\.toml"):
        load()


def test_without_a_named_file_the_one_in_the_configuration_folder_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROWEN_CONFIG")
    monkeypatch.setattr("platformdirs.user_config_dir", lambda *_, **__: str(tmp_path / "configuration"))
    assert load().deletion_floor == 10
    (tmp_path / "configuration").mkdir()
    (tmp_path / "configuration" / "rowen.toml").write_text("deletion_floor = 4\n")

    assert load().deletion_floor == 4


@pytest.mark.parametrize("text", ["a = " + "[" * 30_000, "# " + "x" * 2_000_000, "a = '\udcff'"])
def test_a_file_that_is_deep_large_or_no_text_is_refused_by_name(text: str) -> None:
    Path("rowen.toml").write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(ConfigurationError, match=r"rowen\.toml"):
        load()


def test_a_pipe_in_place_of_the_file_holds_nobody_up() -> None:
    os.mkfifo("rowen.toml")

    with pytest.raises(ConfigurationError, match=r"rowen\.toml"):
        load()


def test_a_stranger_s_folder_runs_no_program_and_sends_no_key(cli: Cli, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    program.chmod(0o755)
    cli.write({"rowen.toml": f'browser = "{program}"\n', "docs/hay.md": "# Hay\n"})

    done = cli("sync", "./docs")

    assert done.code == 2
    assert "'browser'" in done.err
    assert not (tmp_path / "ran").exists()


def test_doctor_tells_where_each_setting_came_from_and_no_secret(
    cli: Cli, database: ScratchDatabase, own_file: Path
) -> None:
    own_file.write_text('host_delay_s = 3\nproxy = "http://me:hunter2@proxy.example:3128"\n')
    cli.write({"rowen.toml": "side_by_side = 2\n"})

    done = cli("doctor", "--json", "--home", str(cli.folder / "flagged"), ROWEN_CONFIG=str(own_file))

    found = {fact["check"]: fact["found"] for fact in done.facts if fact["check"].startswith("setting ")}
    assert found["setting host_delay_s"] == f"3.0, from {own_file}"
    assert found["setting proxy"] == f"(hidden), from {own_file}"
    assert found["setting side_by_side"] == f"2, from {cli.folder / 'rowen.toml'}"
    assert found["setting workers"] == "0, from ROWEN_WORKERS"
    assert found["setting home"] == f"{cli.folder / 'flagged'}, from a flag"
    assert found["setting database_url"] == "(hidden), from ROWEN_DATABASE_URL"
    assert "setting lease_s" not in found
    assert "hunter2" not in done.out + done.err
