import pytest

from rowen.errors import ItemError
from rowen.formats.charset import decode

TEXT = "Größe, naïve façade, çà et là: déjà vu. Über die Straße."


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1"])
def test_text_in_common_encodings_needs_no_charset(encoding: str):
    assert decode(TEXT.encode(encoding)) == TEXT


def test_utf16_without_a_mark_is_seen_by_its_nuls():
    assert decode("plain words, no mark".encode("utf-16-le")) == "plain words, no mark"


def test_the_origins_charset_comes_before_all_others():
    assert decode(b'<meta charset="utf-8">\xe9', charset="ISO-8859-1", media_type="text/html").endswith("é")


def test_a_charset_that_does_not_fit_is_not_believed():
    assert decode(TEXT.encode(), charset="us-ascii-nonsense") == TEXT
    assert decode(TEXT.encode("latin-1"), charset="utf-8") == TEXT


def test_a_page_names_its_charset_in_a_meta_element():
    body = '<html><head><meta http-equiv="content-type" content="text/html; charset=windows-1251">Привет'.encode(
        "cp1251"
    )

    assert decode(body, media_type="text/html").endswith("Привет")


def test_a_meta_element_cannot_claim_utf16():
    assert decode('<meta charset="utf-16">é'.encode(), media_type="text/html").endswith("é")


def test_python_names_its_encoding_in_a_comment():
    body = "#!/bin/python\n# -*- coding: koi8-r -*-\n# Привет".encode("koi8-r")

    assert decode(body, media_type="text/x-python").endswith("Привет")


def test_xml_names_its_encoding_in_its_first_line():
    body = '<?xml version="1.0" encoding="iso-8859-2"?><a>žluťoučký</a>'.encode("iso-8859-2")

    assert "žluťoučký" in decode(body, media_type="application/xml")


def test_an_old_code_page_can_be_named():
    assert decode("äöü".encode("cp437"), charset="CP437") == "äöü"


def test_japanese_without_a_charset_is_detected():
    text = "日本語のテキストです。文字コードの判定を試します。"

    assert decode(text.encode("shift_jis")) == text


def test_a_character_cut_in_half_costs_only_itself():
    text = decode(TEXT.encode() * 3 + b"\xe2\x82")

    assert text == TEXT * 3 + "�"


@pytest.mark.parametrize("body", [b"\x7fELF\x02\x01\x00\x00", b"\x89PNG\r\n\x1a\n" + bytes(range(32)), b"text\x00more"])
def test_a_binary_body_is_refused(body: bytes):
    with pytest.raises(ItemError, match=r"notes\.txt is binary") as caught:
        decode(body, media_type="text/plain", name="notes.txt")

    assert caught.value.hint


def test_bytes_of_no_encoding_are_refused():
    with pytest.raises(ItemError, match="unknown character encoding"):
        decode(bytes(range(128, 256)) * 2)


def test_a_hostile_charset_label_is_not_looked_up():
    assert decode(b"abc", charset="punycode") == "abc"
    assert decode(b"abc", charset="zlib") == "abc"
    assert decode(b"abc", charset="../../etc") == "abc"
