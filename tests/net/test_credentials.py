from pathlib import Path

import pytest

from rowen.errors import ConfigurationError
from rowen.net.credentials import Credentials, resolve


def test_a_reference_to_the_environment_is_resolved_when_used(monkeypatch: pytest.MonkeyPatch):
    credentials = Credentials.of(
        "https://api.example/v1/", {"Authorization": "Bearer env:API_TOKEN", "X-Key": "env:API_TOKEN"}
    )
    monkeypatch.setenv("API_TOKEN", "s3cret")

    assert credentials.headers("https://api.example") == {"Authorization": "Bearer s3cret", "X-Key": "s3cret"}


def test_a_reference_to_a_file_is_read_without_its_line_end(tmp_path: Path):
    (tmp_path / "token").write_text("s3cret\n")

    assert resolve(f"file:{tmp_path}/token") == "s3cret"


def test_a_login_is_packed_for_basic_authentication():
    assert resolve("Basic env:LOGIN", {"LOGIN": "me:pass"}) == "Basic bWU6cGFzcw=="


def test_a_value_without_a_reference_stays_as_it_is():
    assert resolve("application/json") == "application/json"


def test_credentials_are_for_one_origin_only():
    credentials = Credentials.of("https://api.example/", {"Authorization": "x"})

    for other in ("http://api.example", "https://api.example:8443", "https://www.api.example", "https://evil.example"):
        assert credentials.headers(other) == {}


@pytest.mark.parametrize("reference", ["env:NOWHERE", "file:/nowhere/token", "Bearer env:NOWHERE"])
def test_a_missing_secret_is_named_by_its_place(reference: str):
    with pytest.raises(ConfigurationError, match=r"NOWHERE|/nowhere/token"):
        resolve(reference, {})


def test_a_secret_with_a_line_break_is_refused_without_being_shown():
    with pytest.raises(ConfigurationError) as refused:
        resolve("env:TOKEN", {"TOKEN": "s3cret\r\nX-Evil: 1"})

    assert "s3cret" not in str(refused.value)


def test_nothing_secret_is_in_the_text_form():
    assert "s3cret" not in repr(Credentials("https://a.example", {"Authorization": "s3cret"}))
