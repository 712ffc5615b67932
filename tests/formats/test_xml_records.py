"""Records are cut out of XML as a reader would find them, and compared by all that decides what they say."""

import asyncio
from xml.etree.ElementTree import Element, canonicalize, tostring
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.formats.xml import CutDocument, Reader, cut_up, read_xml

LIST = frozenset({"list"})
letters = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=12)
odd = letters | st.sampled_from(
    ["<record>", "</record>", "]]", "-->", "/>", ">", "'", '"', "<!-- a -->", "<list>", " xmlns='x'"]
)
parts = st.one_of(
    odd.map(escape),
    odd.filter(lambda text: "]]" not in text).map(lambda text: f"<![CDATA[{text}]]>"),
    odd.filter(lambda text: "-" not in text).map(lambda text: f"<!--{text}-->"),
    st.just("<?record </record> ?>"),
    st.just("<p:record/>"),
    odd.map(lambda text: f"<record a={quoteattr(text)} />"),
)
records = st.recursive(
    st.lists(parts, max_size=3).map("".join),
    lambda inner: st.tuples(st.sampled_from(["record", "p:record", "records", "q"]), odd, inner, parts).map(
        lambda of: f"<{of[0]} a = {quoteattr(of[1])}\n>{of[2]}</{of[0]} >{of[3]}"
    ),
    max_leaves=6,
)
names = st.sampled_from(["record", "p:record", "other"])


def cut(body: bytes, charset: str | None = None) -> CutDocument | None:
    return asyncio.run(cut_up(body, LIST, charset=charset))


def same(tree: Element) -> str:
    return canonicalize(tostring(tree, encoding="unicode"))


@given(st.lists(st.tuples(names, records, parts), max_size=4), st.sampled_from(["utf-8", "utf-16"]))
def test_what_is_cut_out_is_what_a_reader_finds(inside: list[tuple[str, str, str]], charset: str) -> None:
    within = "".join(f"<{name}>{record}</{name}>{between}" for name, record, between in inside)
    body = f"<a xmlns='urn:a' b='>'><head/><p:list xmlns:p='urn:p' c=\" xmlns:p='no'\">{within}</p:list></a>".encode(
        charset
    )

    found = read_xml(body, Reader(within=LIST))
    cuts = cut(body)

    assert cuts is not None
    assert [same(one.found().tree) for one in cuts.records] == [same(one.tree) for one in found]
    assert [same(one.look()) for one in cuts.records] == [same(one.tree) for one in found]
    assert read_xml(cuts.rest, Reader(within=LIST)) == []


@pytest.mark.parametrize(
    "body",
    [
        b"<list><record></list>",
        b"<list><record/></list>junk",
        b"<list><p:record/></list>",
        b"<!DOCTYPE a><list><record/></list>",
        b"<other><record/></other>",
        b"",
        b"<list xmlns='" + b"x" * 600 + b"'><record/></list>",
    ],
)
def test_a_document_that_is_not_plain_is_not_cut(body: bytes) -> None:
    assert cut(body) is None


def test_another_namespace_around_a_record_makes_it_another_one() -> None:
    one, two = (cut(f"<list xmlns='urn:{name}'><record>a</record></list>".encode()) for name in "ab")

    assert one is not None
    assert two is not None
    assert one.records[0].text == two.records[0].text
    assert one.records[0].letters() != two.records[0].letters()


def test_what_stands_around_the_list_is_kept_and_decides_nothing() -> None:
    head = "<?xml version='1.0' encoding='latin-1'?>"
    bodies = [f"{head}<a n='{n}'><at>{n}</at><list><record>é</record></list></a>" for n in (1, 2)]
    one, two = (cut(body.encode("latin-1")) for body in bodies)

    assert one is not None
    assert two is not None
    assert one.records == two.records
    assert one.rest == b"<a n='1'><at>1</at><list></list></a>"
