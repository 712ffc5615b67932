"""Defaults < your rowen.toml < the folder's < environment < flags, and every wrong setting is named."""

from pathlib import Path

import pytest

from rowen.errors import ConfigurationError
from rowen.settings import load, misspelt


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_each_place_beats_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load().side_by_side == 4
    Path("own.toml").write_text("side_by_side = 11\nrevisions_kept = 3\n")
    monkeypatch.setenv("ROWEN_CONFIG", "own.toml")
    assert load().side_by_side == 11
    Path("rowen.toml").write_text("side_by_side = 12\n")
    assert load().side_by_side == 12
    monkeypatch.setenv("ROWEN_SIDE_BY_SIDE", "13")
    assert load().side_by_side == 13
    assert load(side_by_side=14).side_by_side == 14
    assert load().revisions_kept == 3


def test_a_wrong_value_is_named_with_the_places_where_it_may_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWEN_WORKERS", "many")

    with pytest.raises(ConfigurationError, match="workers") as caught:
        load()
    assert "ROWEN_WORKERS" in (caught.value.hint or "")


def test_a_misspelt_setting_is_refused_not_ignored() -> None:
    Path("rowen.toml").write_text('hom = "elsewhere"\n')

    with pytest.raises(ConfigurationError, match="Unknown setting 'hom'") as caught:
        load()
    assert "home" in (caught.value.hint or "")


def test_a_file_that_is_no_toml_is_named() -> None:
    Path("rowen.toml").write_text("home = \n")

    with pytest.raises(ConfigurationError, match=r"rowen\.toml"):
        load()


def test_a_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWEN_DATABASE_URL", "postgresql://someone:hunter2@db/rowen")

    assert "hunter2" not in repr(load())


def test_addresses_are_given_as_a_list_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWEN_ALLOW_ADDRESSES", "127.0.0.0/8, ::1/128")

    assert [str(network) for network in load().allow_addresses] == ["127.0.0.0/8", "::1/128"]


def test_localhost_is_loopback_and_other_names_are_refused_with_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWEN_ALLOW_ADDRESSES", "localhost, 10.0.0.0/8")
    assert [str(one) for one in load().allow_addresses] == ["127.0.0.0/8", "::1/128", "10.0.0.0/8"]

    monkeypatch.setenv("ROWEN_ALLOW_ADDRESSES", "intranet.example")
    with pytest.raises(ConfigurationError, match=r"'intranet.example' is not a network, such as 127.0.0.0/8"):
        load()


def test_a_variable_that_is_nearly_a_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWEN_HOST_DELAYS", "1")
    monkeypatch.setenv("ROWEN_PORTAL_SECRET", "hay")

    assert misspelt()["ROWEN_HOST_DELAYS"] == "ROWEN_HOST_DELAY_S"
    assert "ROWEN_PORTAL_SECRET" not in misspelt()


@pytest.mark.parametrize("name", ["Library/2\r\nX-Key: 1", "Library/2\n", "\x00"])
def test_a_user_agent_with_control_characters_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="user_agent"):
        load(user_agent=name)
