import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.formats.charset import declared as charset
from rowen.net.response import media_type, sniff
from tests.hostile.clock import costs_at_most

PAGE = b"\n<!-- hello -->\n<!DOCTYPE HTML>\n<html><title>x</title>"


def packed(*entries: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return out.getvalue()


@pytest.mark.parametrize(
    ("declared", "body", "expected"),
    [
        ("text/html; charset=utf-8", PAGE, "text/html"),
        ("TEXT/HTML", b"plain", "text/html"),
        (None, PAGE, "text/html"),
        ("", PAGE, "text/html"),
        ("nonsense", PAGE, "text/html"),
        ("text/plain", PAGE, "text/html"),
        ("text/plain", b"# a heading", "text/plain"),
        ("text/plain", b"[1] a footnote", "text/plain"),
        ("text/markdown", b"<html> is a tag", "text/markdown"),
        ("text/x-python", PAGE, "text/x-python"),
        ("application/octet-stream", b"%PDF-1.7 ...", "application/pdf"),
        ("text/html", b"%PDF-1.7 ...", "application/pdf"),
        ("application/pdf", PAGE, "text/html"),
        ("application/json", PAGE, "text/html"),
        ("application/xhtml+xml", PAGE, "application/xhtml+xml"),
        ("application/octet-stream", b' {"a": 1} ', "application/json"),
        (None, b'[{"a": 1}]', "application/json"),
        (None, b'<?xml version="1.0"?><rss/>', "application/xml"),
        ("application/rss+xml", b'<?xml version="1.0"?><rss/>', "application/rss+xml"),
        (None, b'<?xml version="1.0"?><html xmlns="x"/>', "text/html"),
        (None, "\ufeff<html>".encode(), "text/html"),
        (None, "<html>".encode("utf-16"), "text/html"),
        ("application/vnd.oasis.opendocument.text", b"PK\x03\x04....", "application/vnd.oasis.opendocument.text"),
        ("application/octet-stream", b"\x00\x01\x02", "application/octet-stream"),
        (None, b"", None),
        ("text/html", b"", "text/html"),
    ],
)
def test_the_media_type_follows_the_body(declared: str | None, body: bytes, expected: str | None):
    assert media_type(declared, body) == expected


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([("mimetype", b"application/epub+zip"), ("OEBPS/x", b"")], "application/epub+zip"),
        (
            [("mimetype", b"application/vnd.oasis.opendocument.text"), ("x", b"")],
            "application/vnd.oasis.opendocument.text",
        ),
        (
            [("_rels/.rels", b""), ("word/document.xml", b"")],
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        ),
        (
            [("pad", bytes(200_000)), ("xl/workbook.xml", b"")],
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        ),
        ([("data.csv", b"a,b")], "application/zip"),
    ],
)
def test_packed_documents_are_distinguished(entries: list[tuple[str, bytes]], expected: str):
    assert sniff(packed(*entries)) == expected


@pytest.mark.parametrize(
    ("declared", "body", "expected"),
    [
        ("text/html; charset=UTF-8", b"x", "utf-8"),
        ('text/html; charset="koi8-r"', b"x", "koi8-r"),
        ("text/html; charset=ISO-8859-1", b"x", "cp1252"),
        ("text/html; charset=utf-8", "\ufeffx".encode("utf-16-le"), "utf-16"),
        ("text/html; charset=latin1", "\ufeffx".encode(), "utf-8"),
        ("text/html; charset=no-such-thing", b'<meta charset="shift_jis">', "shift_jis"),
        ("text/html; charset=hex", b"x", None),
        ("text/html", b'<meta http-equiv="Content-Type" content="text/html; charset=gb2312">', "gb2312"),
        ("text/html", b'<meta charset="utf-16">', "utf-8"),
        (None, b"<?xml version='1.0' encoding='ISO-8859-2'?>", "iso8859-2"),
        ("text/html", b"x", None),
        (None, b"", None),
    ],
)
def test_the_charset_is_found_where_it_is_declared(declared: str | None, body: bytes, expected: str | None):
    assert charset(declared, body) == expected


@given(st.text(max_size=60), st.binary(max_size=400))
def test_nothing_makes_it_fail(declared: str, body: bytes):
    media_type(declared, body)
    found = charset(f"text/html; charset={declared}", body)

    assert found is None or isinstance(body.decode(found, "replace"), str)


def test_a_page_of_comments_does_not_take_for_ever():
    with costs_at_most(1):
        sniff(b"<!---->" * 200)
        sniff(b"<!--" * 300)
        charset("text/html", b"<meta " * 300)
