"""RDFa 1.1 in HTML: a piece of a page, and the Turtle that it must give, up to the names of blank nodes."""

import pyoxigraph as ox
import pytest

from rowen.formats.rdf.graph import Blank, Literal, Term
from rowen.formats.rdf.rdfa import read_rdfa

PAGE = "http://ex.org/dir/page"
PREFIXES = """
@prefix : <http://ex.org/dir/> . @prefix v: <http://v.org/#> . @prefix foaf: <http://xmlns.com/foaf/0.1/> .
@prefix dc: <http://purl.org/dc/terms/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> . @prefix rdfa: <http://www.w3.org/ns/rdfa#> .
@prefix xhv: <http://www.w3.org/1999/xhtml/vocab#> .
"""
V = 'prefix="v: http://v.org/#"'

CASES = {
    # Subjects and literals.
    "a property of the page itself": ('<p property="dc:title">Hay</p>', '<page> dc:title "Hay" .'),
    "about names the subject": ('<p about="a" property="dc:title">Hay</p>', ':a dc:title "Hay" .'),
    "an empty about is the page": ('<p about="" property="dc:title">Hay</p>', '<page> dc:title "Hay" .'),
    "about of a parent holds for its children": (
        '<div about="#a"><p><b property="dc:title">Hay</b></p></div>',
        '<page#a> dc:title "Hay" .',
    ),
    "text is that of all descendants, letter by letter": (
        '<p about="a" property="dc:title"> Dry <b>hay</b>\n&amp; straw </p>',
        ':a dc:title """ Dry hay\n& straw """ .',
    ),
    "a no-break space stays": ('<p property="dc:title">a&nbsp;b</p>', '<page> dc:title "a\u00a0b" .'),
    "content takes the place of the text": ('<p property="dc:title" content="Hay">x</p>', '<page> dc:title "Hay" .'),
    "several properties": ('<p property="dc:title dc:subject">Hay</p>', '<page> dc:title "Hay" ; dc:subject "Hay" .'),
    "resource is the value of a property": ('<p property="dc:source" resource="b">x</p>', "<page> dc:source :b ."),
    "href is the value of a property": ('<a property="dc:source" href="b">x</a>', "<page> dc:source :b ."),
    "src is the value of a property": ('<img property="dc:source" src="b.png">', "<page> dc:source <b.png> ."),
    "resource is stronger than href": (
        '<a property="dc:source" href="/page.html" resource="http://ex.org/id/1">x</a>',
        "<page> dc:source <http://ex.org/id/1> .",
    ),
    "content is stronger than href": ('<a property="dc:title" content="Hay" href="b">x</a>', ':b dc:title "Hay" .'),
    "an element without any attribute changes nothing": ("<p>Hay</p>", ""),
    # Types.
    "a type of a named resource": ('<div resource="a" typeof="foaf:Person"></div>', ":a a foaf:Person ."),
    "a type without a name makes a node": (
        '<div typeof="foaf:Person"><b property="foaf:name">A</b></div>',
        '[] a foaf:Person ; foaf:name "A" .',
    ),
    "several types": ('<div about="a" typeof="foaf:Person dc:Agent"></div>', ":a a foaf:Person, dc:Agent ."),
    "property and typeof together chain": (
        '<div about="a"><div property="foaf:knows" typeof="foaf:Person"><b property="foaf:name">B</b></div></div>',
        ':a foaf:knows [ a foaf:Person ; foaf:name "B" ] .',
    ),
    "property, typeof and resource chain to the resource": (
        (
            '<div about="a"><div property="foaf:knows" typeof="foaf:Person" resource="b">'
            '<b property="foaf:name">B</b></div></div>'
        ),
        ':a foaf:knows :b . :b a foaf:Person ; foaf:name "B" .',
    ),
    "property with typeof and about types the subject": (
        '<div about="a" property="foaf:name" typeof="foaf:Person">A</div>',
        ':a a foaf:Person ; foaf:name "A" .',
    ),
    "property with content and typeof": (
        '<div property="foaf:name" content="A" typeof="foaf:Person" resource="a"></div>',
        ':a a foaf:Person ; foaf:name "A" .',
    ),
    "a type of the body is that of the page": ("BODY typeof='foaf:Document'", "<page> a foaf:Document ."),
    "a resource without a property is the subject below": (
        '<div resource="a"><b property="dc:title">A</b></div>',
        ':a dc:title "A" .',
    ),
    "a bare link is the subject of what it holds": (
        '<a href="b"><b property="dc:title">B</b></a>',
        ':b dc:title "B" .',
    ),
    # Relations.
    "rel with a resource": ('<a about="a" rel="foaf:knows" href="b">x</a>', ":a foaf:knows :b ."),
    "rev with a resource": ('<a about="a" rev="foaf:knows" href="b">x</a>', ":b foaf:knows :a ."),
    "rel and rev": (
        '<a about="a" rel="foaf:knows" rev="foaf:made" href="b"></a>',
        ":a foaf:knows :b . :b foaf:made :a .",
    ),
    "a hanging rel is completed by each resource below": (
        '<div about="a" rel="foaf:knows"><b resource="b"></b><i><b resource="c"></b></i></div>',
        ":a foaf:knows :b, :c .",
    ),
    "a hanging rev": ('<div about="a" rev="foaf:knows"><b about="b"></b></div>', ":b foaf:knows :a ."),
    "a hanging rel is completed by a node for literals": (
        '<div about="a" rel="foaf:knows"><b property="foaf:name">B</b><b property="foaf:nick">b</b></div>',
        ':a foaf:knows [ foaf:name "B" ; foaf:nick "b" ] .',
    ),
    "rel with a type makes a node": (
        '<div about="a"><div rel="foaf:knows" typeof="foaf:Person"><b property="foaf:name">B</b></div></div>',
        ':a foaf:knows [ a foaf:Person ; foaf:name "B" ] .',
    ),
    "a type beside about and a hanging rel is that of the subject": (
        '<div about="a" rel="foaf:knows" typeof="foaf:Person"><b property="foaf:name">B</b></div>',
        ':a a foaf:Person ; foaf:knows [ foaf:name "B" ] .',
    ),
    "rel, about and typeof type the subject": (
        '<a about="a" typeof="foaf:Person" rel="foaf:knows" href="b"></a>',
        ":a a foaf:Person ; foaf:knows :b .",
    ),
    "rel of a browser says nothing": ('<a rel="nofollow" href="b">x</a>', ""),
    "rel of a browser beside property does not count": (
        '<a rel="nofollow" property="dc:source" href="b">x</a>',
        "<page> dc:source :b .",
    ),
    "rel and property speak of the same subject": (
        '<a about="a" rel="foaf:knows" property="foaf:name" href="b">B</a>',
        ':a foaf:knows :b ; foaf:name "B" .',
    ),
    "the terms that every page has": ('<a rel="license" href="b">x</a>', "<page> xhv:license :b ."),
    # Names.
    "prefix declares": (f'<p {V} property="v:x">1</p>', '<page> v:x "1" .'),
    "a prefix is not case-sensitive": ('<p prefix="Vv: http://v.org/#" property="vV:x">1</p>', '<page> v:x "1" .'),
    "a prefix of a child is stronger": (
        f'<div {V}><p prefix="v: http://w.org/" property="v:x">1</p><p property="v:x">2</p></div>',
        '<page> <http://w.org/x> "1" ; v:x "2" .',
    ),
    "xmlns declares too": ('<p xmlns:v="http://v.org/#" property="v:x">1</p>', '<page> v:x "1" .'),
    "an IRI stands for itself": ('<p property="http://v.org/#x">1</p>', '<page> v:x "1" .'),
    "a prefix that nobody declared is an IRI of its own": ('<p property="urn:x">1</p>', '<page> <urn:x> "1" .'),
    "a word without a vocabulary says nothing": ('<p property="title">1</p>', ""),
    "vocab gives words a meaning": (
        '<div vocab="http://v.org/#"><p property="x">1</p></div>',
        '<page> rdfa:usesVocabulary v: ; v:x "1" .',
    ),
    "an empty vocab takes it away": (
        '<div vocab="http://v.org/#"><div vocab=""><p property="x">1</p></div></div>',
        "<page> rdfa:usesVocabulary v: .",
    ),
    "a CURIE as a resource": (f'<p {V} about="v:a" property="dc:title">A</p>', 'v:a dc:title "A" .'),
    "a safe CURIE as a resource": (f'<p {V} about="[v:a]" property="dc:title">A</p>', 'v:a dc:title "A" .'),
    "a safe CURIE that is none is ignored": ('<p about="[x:a]" property="dc:title">A</p>', '<page> dc:title "A" .'),
    "href is never a CURIE": (f'<a {V} property="dc:source" href="v:a">x</a>', "<page> dc:source <v:a> ."),
    "a named blank node is one node": (
        '<p about="_:x" property="dc:title">A</p><p resource="_:x" property="dc:source"></p>',
        '_:x dc:title "A" . <page> dc:source _:x .',
    ),
    "base moves all addresses": ("BASE http://b.org/x/", '<http://b.org/x/a> dc:title "A" .'),
    "an absolute IRI is not normalised": (
        '<p about="HTTP://Ex.org" property="dc:title">A</p>',
        '<HTTP://Ex.org> dc:title "A" .',
    ),
    "a reference to above": ('<p about="../a#b" property="dc:title">A</p>', '<http://ex.org/a#b> dc:title "A" .'),
    # Languages and datatypes.
    "lang": ('<p lang="nl" property="dc:title">Hooi</p>', '<page> dc:title "Hooi"@nl .'),
    "lang is inherited": ('<div lang="nl"><p property="dc:title">Hooi</p></div>', '<page> dc:title "Hooi"@nl .'),
    "lang is stronger than xml:lang": (
        '<p lang="nl" xml:lang="fr" property="dc:title">Hooi</p>',
        '<page> dc:title "Hooi"@nl .',
    ),
    "an empty lang takes it away": (
        '<div lang="nl"><p lang="" property="dc:title">Hooi</p></div>',
        '<page> dc:title "Hooi" .',
    ),
    "content has the language too": (
        '<p lang="nl" property="dc:title" content="Hooi"></p>',
        '<page> dc:title "Hooi"@nl .',
    ),
    "a datatype": ('<p property="v:n" prefix="v: http://v.org/#" datatype="xsd:integer">3</p>', "<page> v:n 3 ."),
    "a datatype has no language": (
        '<p lang="nl" property="dc:date" datatype="xsd:date" content="2020-01-02">x</p>',
        '<page> dc:date "2020-01-02"^^xsd:date .',
    ),
    "an empty datatype is none": ('<a property="dc:title" datatype="" href="b">B</a>', ':b dc:title "B" .'),
    "XML as a literal": (
        '<p property="dc:title" datatype="rdf:XMLLiteral">a <b>b</b></p>',
        '<page> dc:title "a <b>b</b>"^^rdf:XMLLiteral .',
    ),
    "HTML as a literal": (
        '<p property="dc:title" datatype="rdf:HTML">a <br>b</p>',
        '<page> dc:title "a <br>b"^^rdf:HTML .',
    ),
    "datetime tells its type: date": (
        '<time property="dc:date" datetime="2020-01-02">x</time>',
        '<page> dc:date "2020-01-02"^^xsd:date .',
    ),
    "datetime tells its type: moment": (
        '<time property="dc:date" datetime="2020-01-02T03:04:05Z">x</time>',
        '<page> dc:date "2020-01-02T03:04:05Z"^^xsd:dateTime .',
    ),
    "datetime tells its type: year, month, time and length": (
        (
            '<time property="dc:date">2020</time><time property="dc:date">2020-01</time>'
            '<time property="dc:date">03:04:05</time><time property="dc:date">P1DT2H</time>'
        ),
        '<page> dc:date "2020"^^xsd:gYear, "2020-01"^^xsd:gYearMonth, "03:04:05"^^xsd:time, "P1DT2H"^^xsd:duration .',
    ),
    "a time that is none is a text": ('<time property="dc:date">soon</time>', '<page> dc:date "soon" .'),
    "content is stronger than datetime": (
        '<time property="dc:date" content="x" datetime="2020-01-02">y</time>',
        '<page> dc:date "x" .',
    ),
    "a datatype beside datetime": (
        '<time property="dc:date" datatype="xsd:dateTime" datetime="2020-01-02T03:04:05">y</time>',
        '<page> dc:date "2020-01-02T03:04:05"^^xsd:dateTime .',
    ),
    # Lists.
    "inlist collects": (
        '<div about="a"><p inlist property="dc:creator">A</p><i><p inlist property="dc:creator">B</p></i></div>',
        ':a dc:creator ("A" "B") .',
    ),
    "inlist with rel": (
        '<div about="a"><b inlist rel="dc:creator" resource="b"></b><b inlist rel="dc:creator" resource="c"></b></div>',
        ":a dc:creator (:b :c) .",
    ),
    "a hanging list": (
        '<div about="a" inlist rel="dc:creator"><b resource="b"></b><b resource="c"></b></div>',
        ":a dc:creator (:b :c) .",
    ),
    "a hanging list that nobody fills is empty": (
        '<div about="a" inlist rel="dc:creator"></div>',
        ":a dc:creator () .",
    ),
    "lists of two subjects stay apart": (
        (
            '<div about="a"><p inlist property="dc:creator">A</p></div>'
            '<div about="b"><p inlist property="dc:creator">B</p></div>'
        ),
        ':a dc:creator ("A") . :b dc:creator ("B") .',
    ),
    "a list of the page": ('<p inlist property="dc:creator">A</p>', '<page> dc:creator ("A") .'),
}


def page_of(piece: str) -> str:
    if piece.startswith("BODY "):
        return f"<html><head></head><body {piece[5:]}></body></html>"
    if piece.startswith("BASE "):
        return f"<head><base href='{piece[5:]}'></head><body><p about='a' property='dc:title'>A</p></body>"
    return f"<!doctype html><html><head><title>x</title></head><body>{piece}</body></html>"


def term(value: Term) -> ox.NamedNode | ox.BlankNode | ox.Literal:
    if isinstance(value, Literal):
        datatype = ox.NamedNode(value.datatype) if value.datatype else None
        return ox.Literal(value.text, language=value.language, datatype=datatype)
    return ox.BlankNode(value[2:].replace(".", "")) if isinstance(value, Blank) else ox.NamedNode(value)


def canonical(triples: list[ox.Triple]) -> set[str]:
    data = ox.Dataset(ox.Quad(*triple) for triple in triples)
    data.canonicalize(ox.CanonicalizationAlgorithm.RDFC_1_0)
    return {str(quad) for quad in data}


@pytest.mark.parametrize("name", CASES)
def test_a_piece_of_a_page_states_what_it_should(name: str) -> None:
    piece, turtle = CASES[name]

    found = read_rdfa(page_of(piece), PAGE)

    wanted = [quad.triple for quad in ox.parse(PREFIXES + turtle, ox.RdfFormat.TURTLE, base_iri=PAGE)]
    assert canonical([ox.Triple(*map(term, triple)) for triple in found]) == canonical(wanted)  # type: ignore[arg-type]
