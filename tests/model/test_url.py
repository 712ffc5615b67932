"""The canonical form decides identity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.model.url import _parsed, canonical, file_url, key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://example.org/a", "https://example.org/a"),
        ("HTTPS://EXAMPLE.org:443/a", "https://example.org/a"),
        ("https://example.org", "https://example.org/"),
        ("https://example.org/a#part", "https://example.org/a"),
        ("https://example.org/a?utm_source=x&b=1", "https://example.org/a?b=1"),
        ("https://example.org/a?fbclid=x", "https://example.org/a"),
        ("https://example.org/%7Euser", "https://example.org/~user"),
        ("https://example.org/%c3%a4", "https://example.org/ä"),
        ("https://example.org/a/../b", "https://example.org/b"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
    ],
)
def test_spellings_of_one_address_are_one_item(one: str, other: str) -> None:
    assert key(one) == key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://example.org/Alpha", "https://example.org/alpha"),
        ("https://example.org/a?x=1&y=2", "https://example.org/a?y=2&x=1"),
        ("https://example.org/a", "https://example.org/a/"),
        ("https://example.org/#/route/one", "https://example.org/#/route/two"),
        ("https://example.org:8080/", "https://example.org/"),
        ("https://example.org/a%2Fb", "https://example.org/a/b"),
    ],
)
def test_addresses_that_may_differ_are_two_items(one: str, other: str) -> None:
    assert key(one) != key(other)


@given(st.text())
def test_no_text_is_an_error(text: str) -> None:
    assert len(key(text)) == 32


@given(
    st.from_regex(r"https?://[a-z]{1,8}\.org(:[0-9]{2,4})?/[a-zA-Z0-9%/._~-]{0,12}(\?[a-z=&]{0,8})?", fullmatch=True)
)
def test_the_canonical_form_is_its_own_canonical_form(url: str) -> None:
    assert canonical(canonical(url)) == canonical(url)


@given(st.binary(max_size=30))
def test_every_path_has_a_url_of_its_own(name: bytes) -> None:
    url = file_url(b"/" + name)

    assert url.isascii()
    assert url.startswith("file:///")
    assert canonical(url) == url


@given(
    st.sampled_from(["http", "https", "HTTP"]),
    st.from_regex(r"([a-z0-9-]{1,4}\.){0,2}[a-z0-9-]{1,5}|([0-9]{1,3}\.){3}[0-9]{1,3}", fullmatch=True),
    st.sampled_from(["", ":80", ":443", ":8080", ":54321", ":080", ":65536"]),
    st.from_regex(r"(/[A-Za-z0-9_.~%-]{0,4}){0,4}(\?[a-z=&]{0,4})?(#[a-z/!]{0,3})?", fullmatch=True),
)
def test_the_short_way_to_the_canonical_form_gives_what_the_long_way_gives(
    scheme: str, host: str, port: str, rest: str
) -> None:
    url = f"{scheme}://{host}{port}{rest}"
    try:
        expected = _parsed(url)
    except ValueError:
        return

    assert canonical(url) == expected
