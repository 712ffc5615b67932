import ada_url
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.errors import BadUrlError
from rowen.net.target import join, parse, redact

PIECES = st.sampled_from(
    [
        "/",
        "//",
        "/.",
        "..",
        "%2e",
        "%2F",
        "%",
        "a",
        "B",
        "1",
        "?",
        "&",
        "=",
        "'",
        "~",
        "@",
        ":",
        "|",
        "[",
        "\\",
        " ",
        "é",
        "#x",
    ]
)
HOSTS = st.sampled_from(
    [
        "example.org",
        "EXAMPLE.org",
        "127.0.0.1",
        "127.1",
        "1",
        "a.0x1",
        "xn--a",
        "münchen.de",
        "u:p@h.example",
        "[::1]",
        "",
    ]
)


@given(
    st.sampled_from(["http://", "https://", "HTTP://", "ftp://"]),
    HOSTS,
    st.sampled_from(["", ":80", ":443", ":8080", ":0", ":08", ":65536"]),
    st.lists(PIECES, max_size=6),
)
def test_the_short_way_and_the_parser_agree(scheme: str, host: str, port: str, rest: list[str]):
    url = scheme + host + port + "/" + "".join(rest)
    try:
        parsed = ada_url.URL(url)
    except ValueError:
        parsed = None

    if parsed is None or parsed.protocol not in ("http:", "https:"):
        with pytest.raises(BadUrlError):
            parse(url)
    else:
        parsed.hash, parsed.username, parsed.password = "", "", ""
        target = parse(url)
        assert (target.url, target.host, target.origin) == (parsed.href.rstrip("#"), parsed.host, parsed.origin)


def test_unicode_hosts_and_paths_take_their_ascii_form():
    target = parse("https://Bücher.Example:443/straße?q=ü#teil")

    assert target.url == "https://xn--bcher-kva.example/stra%C3%9Fe?q=%C3%BC"
    assert target.host == "xn--bcher-kva.example"
    assert target.origin == "https://xn--bcher-kva.example"


def test_percent_encoded_characters_stay_as_they_are():
    assert parse("https://a.example/x%2Cy?sig=a%2Bb%2F%3D").url == "https://a.example/x%2Cy?sig=a%2Bb%2F%3D"


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "ftp://a/",
        "mailto:a@b",
        "/x",
        "",
        "http://",
        "http://a b/",
    ],
)
def test_urls_that_http_cannot_fetch_are_refused(url: str):
    with pytest.raises(BadUrlError):
        parse(url)


def test_user_information_becomes_a_login_and_leaves_the_url():
    target = parse("https://us%20er:p%40ss@a.example/x")

    assert target.url == "https://a.example/x"
    assert target.login == "Basic dXMgZXI6cEBzcw=="


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/next", "https://a.example/next"),
        ("//b.example/next", "https://b.example/next"),
        ("?page=2", "https://a.example/dir/page?page=2"),
        ("other#part", "https://a.example/dir/other"),
        ("/straße", "https://a.example/stra%C3%9Fe"),
        ("/caf\udce9", "https://a.example/caf%E9"),
        (" /next\t", "https://a.example/next"),
        (" /straße ", "https://a.example/stra%C3%9Fe"),
        ("https://x:y@b.example/", "https://b.example/"),
    ],
)
def test_redirects_are_joined_as_browsers_do(location: str, expected: str):
    target = join(parse("https://a.example/dir/page"), location)

    assert (target.url, target.login) == (expected, None)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:secret@a.example/x#frag", "https://a.example/x"),
        ("https://a.example/?q=1&api_key=S&page=2", "https://a.example/?q=1&api_key=…&page=2"),
        ("https://a.example/?access_token=S&X-Amz-Signature=S", "https://a.example/?access_token=…&X-Amz-Signature=…"),
        ("https://a.example/?author=me&design=x&compass=n", "https://a.example/?author=me&design=x&compass=n"),
        ("http://u:p@[broken/?password=S", "http://[broken/?password=…"),
    ],
)
def test_messages_show_urls_without_secrets(url: str, shown: str):
    assert redact(url) == shown
