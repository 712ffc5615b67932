"""Which addresses lead to files."""

from pathlib import Path

import pytest

from rowen.connectors.files import Files
from rowen.errors import UsageError
from tests.connectors.worlds import write


def test_addresses_that_lead_somewhere_become_one_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"docs/a b.md": "A", "docs/a.zip": ""})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    url = f"{tmp_path.as_uri()}/docs"

    for address in ("docs", "docs/", "./docs", "~/docs", f"{tmp_path}/docs//", "docs/../docs", url, url + "/"):
        assert Files.recognise(address) == url
    assert Files.recognise(f"/{tmp_path}/docs") == url
    assert Files.recognise(f"file://localhost{tmp_path}/docs") == url
    assert Files.recognise("docs/a b.md") == Files.recognise(f"{url}/a%20b.md") == f"{url}/a%20b.md"
    assert Files.recognise("docs/a.zip") == f"{url}/a.zip"
    assert Files.recognise("/") == "file:///"


@pytest.mark.parametrize("address", ["./nowhere", "/no/where", "~/nowhere", "no/where", "file:///nowhere", "./a\0b"])
def test_a_path_that_leads_nowhere_is_named(address: str) -> None:
    with pytest.raises(UsageError) as refused:
        Files.recognise(address)

    assert repr(address) in str(refused.value)


@pytest.mark.parametrize("address", ["", "nowhere", "https://example.org/a", "example.org/a", "me@example.org:a/b"])
def test_what_looks_like_no_path_is_left_to_others(address: str) -> None:
    assert Files.recognise(address) is None


def test_a_file_that_cannot_be_read_as_text_is_left_to_others(tmp_path: Path) -> None:
    write(tmp_path, {"picture.png": "x"})

    assert Files.recognise(str(tmp_path / "picture.png")) is None
