"""An address is parsed once: its scheme tells a URL from a path, however it is spelled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.model.url import Address


@pytest.mark.parametrize(
    ("typed", "scheme", "text"),
    [
        ("https://example.org/A", "https", "https://example.org/A"),
        ("HTTP://example.org/A", "http", "http://example.org/A"),
        ("HTTP:/etc/passwd", "http", "http:/etc/passwd"),
        (" \tHttps://example.org\n", "https", "https://example.org"),
        ("ht\ntp://example.org", "http", "http://example.org"),
        ("File:/etc", "file", "file:/etc"),
        ("GIT+file:///x", "git+file", "git+file:///x"),
        ("pkg:npm/x", "pkg", "pkg:npm/x"),
        ("notes:today", "notes", "notes:today"),
        ("x:/../../etc", "x", "x:/../../etc"),
        ("/etc/passwd", "", "/etc/passwd"),
        ("./notes:today", "", "./notes:today"),
        (" notes/x ", "", " notes/x "),
        ("example.org:8080/x", "", "example.org:8080/x"),
        ("localhost:8000", "", "localhost:8000"),
        ("git@example.org:x/y.git", "", "git@example.org:x/y.git"),
        ("2026-10:30.md", "", "2026-10:30.md"),
        ("\u212ay:x", "", "\u212ay:x"),  # the sign of kelvin, which is a `k` where case is ignored
        ("", "", ""),
    ],
)
def test_a_scheme_is_told_in_any_spelling_and_a_path_stays_as_it_was_typed(typed: str, scheme: str, text: str) -> None:
    assert Address.of(typed) == Address(text, scheme)


@given(st.text())
def test_what_was_parsed_is_parsed_to_the_same_once_more(typed: str) -> None:
    once = Address.of(typed)
    assert Address.of(once.text) == once


@given(st.sampled_from(["http", "https", "file", "git+http", "git+file", "ssh", "pkg", "ckan", "x"]), st.data())
def test_no_spelling_of_a_scheme_makes_a_path(scheme: str, data: st.DataObject) -> None:
    spelled = "".join(data.draw(st.sampled_from([letter, letter.upper()])) for letter in scheme)
    around = data.draw(st.sampled_from(["", " ", "\t", "\n", "\x00", "\x1f "]))
    found = Address.of(f"{around}{spelled}:{data.draw(st.text(alphabet='/.abc', min_size=1))}")
    assert found.scheme == scheme
    assert found.is_web == (scheme in ("http", "https"))
    assert found.is_file == (scheme == "file")
    assert found.is_network == (scheme in ("http", "https", "git+http", "pkg"))


def test_a_path_is_given_only_by_what_names_a_file_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    paths = {"~/x": "/home/ada/x", "x": "x", "FILE:///a%20b": "/a b", "file:/a": "/a", "file://localhost/a": "/a"}
    paths |= {"file:~/x": "/home/ada/x"}
    assert {typed: Address.of(typed).path for typed in paths} == paths
    for typed in ("https://example.org/x", "pkg:npm/x", "git+file:///x", "file://elsewhere/x"):
        with pytest.raises(ValueError, match=r"not a path|another machine"):
            _ = Address.of(typed).path
