"""XML in any pieces gives its records; what is dangerous or broken is refused, what is only untidy is read."""

from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.errors import SourceError
from rowen.formats import UnreadableError, xml
from rowen.formats.xml import Reader, XmlElement, elements, local, plain_tree, read_xml, said

RECORDS = frozenset({"record"})
OAI = "http://www.openarchives.org/OAI/2.0/"
words = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=60)


def fed(body: bytes, *sizes: int, reader: Reader | None = None) -> list[XmlElement]:
    reader = reader or Reader(RECORDS)
    found, at = [], 0
    for size in [*sizes, len(body)]:
        found += reader.feed(body[at : at + size])
        at += size
    return [*found, *reader.close()]


def texts(body: bytes, *sizes: int) -> list[str]:
    return [said(found.tree) for found in fed(body, *sizes)]


@given(st.lists(words), st.lists(st.integers(1, 50)), st.sampled_from(["utf-8", "utf-16", "utf-8-sig"]))
def test_any_document_in_any_pieces_gives_its_records(wanted: list[str], sizes: list[int], charset: str) -> None:
    inner = "".join(f"<record n='1'><t>{escape(text)}</t><record>x</record></record><!-- y -->" for text in wanted)
    body = f"<list><other>no</other>{inner}</list>".encode(charset)

    found = fed(body, *sizes)

    assert [one.tree.findtext("t") or "" for one in found] == [text.replace("\r", "\n") for text in wanted]
    assert all(one.why is None and one.tree.findtext("record") == "x" for one in found)


@given(st.lists(words, min_size=1), st.integers(1, 60))
def test_a_document_cut_off_anywhere_is_never_taken_for_whole(wanted: list[str], lost: int) -> None:
    body = f"<list>{''.join(f'<record>{escape(text)}</record>' for text in wanted)}</list>".encode()

    with pytest.raises(SourceError):
        fed(body[:-lost], 7, 100)


async def test_pieces_may_come_from_a_connection() -> None:
    async def pieces():  # type: ignore[no-untyped-def]
        for byte in b"<list><record>1</record><record>2</record></list>":
            yield bytes([byte])

    assert [said(found.tree) async for found in elements(pieces(), Reader(RECORDS))] == ["1", "2"]


def test_namespaces_are_those_of_the_document_whatever_its_prefixes() -> None:
    body = f'<x:list xmlns:x="{OAI}" xmlns:n="urn:n"><x:record n:a="1"><n:t>word</n:t></x:record></x:list>'.encode()
    reader = Reader(frozenset({f"{{{OAI}}}record", "{urn:other}t"}))

    (found,) = fed(body, reader=reader)

    assert found.tree.tag == f"{{{OAI}}}record"
    assert found.tree.get("{urn:n}a") == "1"
    assert found.tree.findtext("{*}t") == "word"
    assert reader.root is not None
    assert local(reader.root) == "list"


def test_children_of_a_list_and_heads_are_given_as_they_come() -> None:
    reader = Reader(within=frozenset({"results"}), heads=frozenset({"results"}))

    found = read_xml(b'<a><results count="2"><b>1</b><c>2</c></results><d>3</d></a>', reader)

    assert [(one.tree.tag, one.tree.get("count"), said(one.tree)) for one in found] == [
        ("results", "2", ""),
        ("b", None, "1"),
        ("c", None, "2"),
    ]


def test_an_entity_bomb_is_refused_before_it_goes_off() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><a><record>&b;</record></a>'

    with pytest.raises(SourceError, match="type definition"):
        fed(bomb)


def test_what_lies_outside_is_never_fetched() -> None:
    outside = b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><a><record>&x;</record></a>'

    with pytest.raises(SourceError, match="type definition"):
        fed(outside)


@pytest.mark.parametrize("page", [b"<!DOCTYPE html><p>Maintenance", b"\n<html><body>Soon back</body></html>"])
def test_a_web_page_is_told_from_broken_data(page: bytes) -> None:
    with pytest.raises(SourceError, match="web page") as problem:
        fed(page)

    assert not isinstance(problem.value, UnreadableError)


@pytest.mark.parametrize("body", [b"", b"  \n", b"no markup", b"<a><b></a>", b"<a>&nbsp;</a>", b"<a b=1/>", b"<a"])
def test_what_is_no_xml_is_unreadable(body: bytes) -> None:
    with pytest.raises(UnreadableError, match=r"ends too early|broken XML"):
        fed(body)


def test_blanks_and_marks_before_the_declaration_are_no_trouble() -> None:
    document = b'<?xml version="1.0"?><a><record>1</record></a>'

    assert texts(b"\n\n " + document) == ["1"]
    assert texts(b"\xef\xbb\xbf\r\n" + document, 1, 1, 1) == ["1"]
    assert texts(b"\n\xef\xbb\xbf" + document, 2) == ["1"]


def test_what_follows_the_document_is_no_part_of_it() -> None:
    assert texts(b"<a><record>1</record></a>\n<br />\n<b>Warning</b>: session_start()") == ["1"]
    assert texts(b"<a><record>1</record></a>\0\0", 27) == ["1"]


@pytest.mark.parametrize("size", range(1, 12))
def test_control_characters_are_replaced_wherever_a_piece_ends(size: int) -> None:
    body = b"<a><record>a\x0bb\x00c&#x1F;d&#0;e&amp;f&#233;g&#xD800;h</record></a>"

    assert texts(body, *[size] * 60) == ["a�b�c�d�e&fég�h"]


@pytest.mark.parametrize(
    ("declared", "written"),
    [
        ("ISO-8859-1", "iso-8859-1"),
        ("windows-1252", "cp1252"),
        ("UTF-8", "utf-8"),
        ("x-none", "utf-8"),
        ("hex", "utf-8"),
    ],
)
def test_the_declared_charset_counts_if_there_is_one_like_it(declared: str, written: str) -> None:
    body = f"<?xml version='1.0' encoding='{declared}'?><a><record>Weidegräser</record></a>".encode(written)

    assert texts(body, 10) == ["Weidegräser"]


def test_the_charset_of_the_answer_counts_where_the_document_names_none() -> None:
    reader = Reader(RECORDS, charset="ISO-8859-1")

    assert said(fed("<a><record>Gräser</record></a>".encode("latin-1"), reader=reader)[0].tree) == "Gräser"


def test_wrong_bytes_cost_a_character() -> None:
    assert texts(b"<a><record>Gr\xe4ser</record><record>2</record></a>") == ["Gr�ser", "2"]


def test_a_record_that_is_too_large_costs_only_itself() -> None:
    body = b"<a><record><id>1</id><t>" + b"x" * 5000 + b"</t><u/></record><record><id>2</id></record></a>"

    found = fed(body, *[64] * 40, reader=Reader(RECORDS, most_chars=1000))

    assert [(one.tree.findtext("id"), one.why) for one in found] == [
        ("1", "The record is too large to be read."),
        ("2", None),
    ]


def test_a_record_nested_too_deeply_costs_only_itself() -> None:
    deep = b"<n>" * 300 + b"x" + b"</n>" * 300

    found = fed(b"<a><record><id>1</id>" + deep + b"<z>1</z></record><record>2</record></a>")

    assert [(one.tree.findtext("id"), one.why) for one in found] == [
        ("1", "The record is nested too deeply."),
        (None, None),
    ]


def test_an_answer_of_more_elements_than_can_be_held_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml, "MOST_ANSWER_ELEMENTS", 1000)
    body = b"<a>" + b"<record><b/></record>" * 501 + b"</a>"

    assert len(fed(body)) == 501
    with pytest.raises(UnreadableError, match="too large"):
        read_xml(body, Reader(RECORDS))


def test_a_document_nested_too_deeply_is_refused() -> None:
    with pytest.raises(UnreadableError, match="nested"):
        fed(b"<n>" * 3000)


def test_a_tag_without_end_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml, "MOST_TAG_BYTES", 10_000)

    with pytest.raises(UnreadableError, match="too long"):
        fed(b"<a b='" + b"x" * 100_000, *[1000] * 100)


def test_long_text_is_no_long_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml, "MOST_TAG_BYTES", 10_000)
    body = b"<a><record>" + b"x" * 100_000 + b"</record>" + b" " * 100_000 + b"</a>"

    assert texts(body, *[1000] * 199) == ["x" * 100_000]


def test_a_tree_becomes_plain_json_under_given_prefixes() -> None:
    tree = ET.fromstring(
        '<x:r xmlns:x="urn:x" xmlns="urn:y" x:n="1">lead <x:t>one</x:t> tail <x:t>two</x:t><empty/><v>9</v>'
        '<z xmlns="urn:z" k="v"/></x:r>'
    )

    plain = plain_tree(tree, {"urn:x": "x", "urn:y": ""}, leave_out=lambda child: local(child.tag) == "v")

    assert plain == {"@x:n": "1", "x:t": ["one", "two"], "empty": "", "{urn:z}z": {"@k": "v"}, "#text": "lead tail"}
