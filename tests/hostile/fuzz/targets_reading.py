"""What connectors and the fetch layer read besides content: listings, RDF, XML, hints, headers, addresses."""

import asyncio
from contextlib import suppress

from multidict import CIMultiDict, CIMultiDictProxy

from rowen.connectors.catalog.dates import iso, moment
from rowen.connectors.catalog.text import plain
from rowen.connectors.datajson.record import is_record
from rowen.connectors.feed.document import read_json_feed
from rowen.connectors.feed.xml_feed import read_xml_feed
from rowen.connectors.files.gitignore import IgnoreRules, _TooManyError
from rowen.connectors.ldes.page import StreamBody, read_entry, read_page
from rowen.connectors.oai.answer import read as read_oai
from rowen.connectors.web.hints import read_entries, recommended
from rowen.errors import RowenError
from rowen.formats.charset import XmlDecoder, declared
from rowen.formats.json_records import Splitter
from rowen.formats.rdf.syntax import RdfBody, format_of, read_graph
from rowen.formats.xml import Reader, cut_up, plain_tree, read_xml
from rowen.model.url import canonical, key
from rowen.net.response import Response, media_type, sniff
from rowen.net.robots import read_rules
from rowen.net.target import join, parse, redact
from tests.hostile.fuzz.harness import target

_JSON = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b":",
    b",",
    b'"dataset":[',
    b'{"title":"',
    b'"identifier":',
    b"\\u0000",
    b"\\",
    b"null",
)
_DATA_JSON = b"""{"conformsTo": "x", "dataset": [{"identifier": "a", "title": "A",
"distribution": [{"downloadURL": "u"}]}, {"identifier": "b", "title": "B"},
{"identifier": "c", "title": "C"}], "catalog": [{"dataset": []}]}"""
_OAI = b"""<?xml version="1.0"?><OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><responseDate>2026-01-01T00:00:00Z
</responseDate><ListRecords><record><header><identifier>a</identifier><datestamp>2026-01-01</datestamp></header><metadata>
<dc><title>A &amp; B</title></dc></metadata></record><record><header><identifier>b</identifier></header></record>
<resumptionToken completeListSize="9">t</resumptionToken></ListRecords></OAI-PMH>"""
_XML = (
    b"<a>",
    b"</a>",
    b"<record>",
    b"<header>",
    b"<!--",
    b"<![CDATA[",
    b"<!DOCTYPE a>",
    b"&x;",
    b"&#0;",
    b'xmlns:a="',
    b"<?",
)
_TURTLE = b"""@prefix dcat: <http://www.w3.org/ns/dcat#> .
@prefix dct: <http://purl.org/dc/terms/> .
<https://example.org/d> a dcat:Dataset ; dct:title "A"@en, "B" ; dcat:distribution [ dct:format "csv" ] .

<https://example.org/e> dct:title "C" ; dct:created "2026"^^<http://www.w3.org/2001/XMLSchema#gYear> .
"""
_TRIPLES = b"""<https://example.org/a> <http://purl.org/dc/terms/title> "A"@en .
_:b <urn:p> _:c .
<urn:a> <urn:b> "\\u00e9" .
"""
_RDF_XML = b"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:dct="http://purl.org/dc/terms/">
<rdf:Description rdf:about="https://example.org/a"><dct:title xml:lang="en">A</dct:title></rdf:Description></rdf:RDF>"""
_JSON_LD = b"""{"@context": ["https://example.org/c", {"x": "urn:x:"}], "@id": "urn:a", "@type": "Dataset",
"title": "A", "distribution": [{"@type": "Distribution", "x:y": {"@value": "1", "@language": "en"}}]}"""
_RDF = (
    *(
        b"@prefix a: <urn:a:> .\n",
        b"<urn:a>",
        b'"',
        b'"""',
        b"'''",
        b"[",
        b"]",
        b"(",
        b")",
        b" ; ",
        b" , ",
        b" .\n",
        b"_:a ",
    ),
    *(b"@en", b"^^", b"a:b ", b"<<", b">>", b"{", b"}", b"\\u0000", b"\\uD800", b"<http://[", b"@base <x> .\n", b"# "),
)
_SITEMAP = b"""<?xml version="1.0"?><urlset><url><loc>https://example.org/a</loc><lastmod>2026-01-01</lastmod></url>
<sitemap><loc><![CDATA[https://example.org/s.xml]]></loc></sitemap></urlset>"""
_TAGS = (
    b"<url>",
    b"</url>",
    b"<loc>",
    b"</loc>",
    b"<lastmod>",
    b"<![CDATA[",
    b"]]>",
    b"<sitemap>",
    b" ",
    b"9999-12-31",
    b"\n",
)
_ROBOTS = b"""User-agent: *
Disallow: /a*b$
Allow: /
Crawl-delay: 1
Sitemap: https://example.org/s.xml

User-agent: Rowen/1.0
"""


def _response(data: bytes, url: str = "https://example.org/a", kind: str | None = None) -> Response:
    headers: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())
    return Response(url, 200, headers, data, media_type=kind, charset=declared(None, data))


def _rdf_body(data: bytes) -> RdfBody:
    return RdfBody(data, "https://example.org/a", charset=declared(None, data))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


@target("splitter", seeds=[_DATA_JSON, b'[{"title": "a"}, {"title": "b"}]'], tokens=_JSON)
def splitter(data: bytes) -> None:
    for size in (len(data) or 1, 700):
        cutting = Splitter(frozenset({"dataset"}), frozenset({"catalog"}), is_record=is_record)
        for at in range(0, len(data), size):
            list(cutting.feed(data[at : at + size]))
        list(cutting.finish())
        cutting.close()


@target("catalog-xml", seeds=[_OAI], tokens=_XML)
def catalog_xml(data: bytes) -> None:
    for found in read_xml(data, Reader(frozenset({"record"}), within=frozenset({"metadata"}))):
        plain_tree(found.tree, {})


@target("xml-records", seeds=[_OAI], tokens=_XML)
def xml_records(data: bytes) -> None:
    around = frozenset({"ListRecords"})
    if cut := asyncio.run(cut_up(data, around, charset=None)):
        found, left = (read_xml(body, Reader(within=around)) for body in (data, cut.rest))
        assert len(cut.records) + len(left) == len(found), "not the records that a reader finds"
        for one in cut.records:
            one.found()


@target("oai-answer", seeds=[_OAI], tokens=_XML)
def oai(data: bytes) -> None:
    asyncio.run(read_oai(_response(data), "it"))


@target(
    "xml-charset",
    seeds=[_OAI, _OAI.decode().encode("utf-16")],
    tokens=[b"encoding='", b"&#", b"&#x", b"\xff", b"utf-16"],
)
def xml_charset(data: bytes) -> None:
    decoder = XmlDecoder("latin-1")
    assert len(decoder.feed(data) + decoder.close()) <= len(data) + 16, "more characters than bytes"


@target(
    "rdf", seeds=[_TURTLE, _TRIPLES, _RDF_XML, _JSON_LD], tokens=[*_RDF, *_XML, *_JSON, b'"@context":"x",', b'"@id":']
)
def rdf(data: bytes) -> None:
    given = _rdf_body(data)
    format_of(given)
    graph = read_graph(given, most_triples=100_000).graph
    for node in list(graph)[:50]:
        # Connectors let a record that is nested too deeply cost itself.
        with suppress(ValueError, RecursionError):
            graph.written(node)


@target("turtle", seeds=[_TURTLE, _TRIPLES], tokens=_RDF)
def turtle(data: bytes) -> None:
    read_graph(_rdf_body(data), option="turtle", most_triples=100_000)
    read_graph(_rdf_body(data), option="ntriples", most_triples=100_000)


@target(
    "sitemap",
    seeds=[_SITEMAP, b"https://example.org/a\nhttps://example.org/b\n"],
    tokens=_TAGS,
)
def sitemap(data: bytes) -> None:
    read_entries(data)


@target(
    "robots", seeds=[_ROBOTS], tokens=[b"Disallow: ", b"Allow: ", b"User-agent: ", b"*", b"$", b"\n", b"%", b"/", b"#"]
)
def robots(data: bytes) -> None:
    rules = read_rules(data)
    for path in ("", "/", "/a/b", "/" + "a" * 500):
        rules.allows(f"https://example.org{path}")


@target(
    "llms",
    seeds=[b"# Site\n\n- [A](https://example.org/a): x\n- [B](/b 't')\n"],
    tokens=[b"[a](", b"](", b"<", b">", b")", b" "],
)
def llms(data: bytes) -> None:
    recommended(data, "https://example.org/llms.txt")


@target(
    "media",
    seeds=[
        b"<!-- a --><html>",
        b'{"a": 1}',
        b"%PDF-1.4",
        b"PK\x03\x04" + b"\0" * 26 + b"mimetypeapplication/epub+zipPK",
    ],
    tokens=[b"<!--", b"-->", b"<html", b"<meta charset=", b" ", b"PK", b"mimetype", b"<?xml encoding='"],
)
def media(data: bytes) -> None:
    sniff(data)
    kind = data[:200].decode("latin-1")
    media_type(kind, data)
    declared(kind, data)


@target(
    "url",
    seeds=[b"https://Example.org:443/a/../b%7e?utm_source=x&c=d#/e", b"file:///a%20b", b"http://[::1]/", b"pkg:pypi/a"],
    tokens=[
        b"://",
        b"%",
        b"%2e",
        b"//",
        b"@",
        b":",
        b"?",
        b"#",
        b"&",
        b"[",
        b"xn--",
        b"\\",
        b"\t",
        b"http:",
        b"utm_a=",
    ],
)
def url(data: bytes) -> None:
    text = _text(data)
    key(text)
    redact(text)
    with suppress(ValueError):
        canonical(text)
    join(parse("https://example.org/a/b"), text)
    parse(text)


@target(
    "dates",
    seeds=[b"2026-01-01T00:00:00+02:00", b"1 January 2026", b"1767225600000", b"20260101"],
    tokens=[b"Z", b"T", b"-0000"],
)
def dates(data: bytes) -> None:
    for value in (_text(data), *([float(data)] if data.isdigit() and len(data) < 300 else ())):
        written = iso(value)
        moment(value)
        assert written is None or iso(written) == written, "a date that was written is read as another one"


@target(
    "description",
    seeds=[b"<p>A <b>b</b><ul><li>c</ul>", b"a &amp; b\n\n- c"],
    tokens=[b"<p>", b"<b>", b"<", b"&amp;", b"<!--", b">"],
)
def description(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    assert len(plain(text)) <= 3 * len(text) + 16, "longer than what it came from"


@target(
    "gitignore",
    seeds=[b"*.pyc\n/a/**/b\n!c\n[a-z]?\\ \n"],
    tokens=[b"**", b"*", b"/", b"!", b"[", b"]", b"[!", b"\\", b"?", b"#", b"{"],
    allowed=(_TooManyError,),
)
def gitignore(data: bytes) -> None:
    rules = IgnoreRules(_text(data))
    for path in ("a", "a/b/c/d.pyc", "/".join("ab" * 50)):
        rules.verdict(path, folder=False)


@target(
    "feed",
    seeds=[
        b"<rss><channel><item><guid>1</guid><title>A</title><description>&lt;b&gt;</description></item></channel></rss>",
        b"<feed xmlns='http://www.w3.org/2005/Atom'><entry><id>a</id><title type='xhtml'><i/></title></entry></feed>",
    ],
    tokens=[b"<item>", b"</item>", b"<entry>", b"<dc:date>", b"&nbsp;", b"&", b"<![CDATA[", b"]]>", b"<!DOCTYPE rss>"],
    allowed=(RowenError,),
)
def feed(data: bytes) -> None:
    document = read_xml_feed(data, "https://a.example/feed", "https://a.example/feed", None)
    for entry in document.entries:
        entry.raw(language=None)


@target(
    "json feed",
    seeds=[b'{"items": [{"id": "1", "title": "A", "content_html": "<b>", "tags": ["x"], "authors": [{"name": "b"}]}]}'],
    tokens=[b'"items":', b'"id":', b"[", b"{", b"null", b'"date_modified":', b'"2024-01-01"'],
    allowed=(RowenError,),
)
def json_feed(data: bytes) -> None:
    for entry in read_json_feed(data, "https://a.example/feed", "https://a.example/feed").entries:
        entry.raw(language=None)


@target(
    "ldes",
    seeds=[
        b"@prefix t:<https://w3id.org/tree#>. <x> t:view <>; t:member <a>. <a> <b> [<c> 1].<> t:relation [t:node <n>].",
        (
            b"@prefix t:<https://w3id.org/tree#>. @prefix s:<http://www.w3.org/ns/shacl#>. <x> t:view <>; t:member <a>;"
            b" t:shape <S>. <S> s:closed true; s:or ([s:path <b>]); s:property"
            b" [s:path (<b> [s:inversePath <c>]); s:node <S>]. <a> <b> <a>."
        ),
    ],
    tokens=[
        b"s:zeroOrMorePath",
        b"s:and",
        b"(",
        b")",
        b"t:member",
        b"t:relation",
        b"[",
        b"]",
        b"<a>",
        b"<b>",
        b'"2024"',
        b"t:value",
        b"{",
        b"}",
        b"_:b",
    ],
    allowed=(RowenError,),
)
def ldes(data: bytes) -> None:
    given = StreamBody(data, "https://a.example/p", "application/trig", None)
    entry = read_entry(given, given.url, {})
    read_page(given, given.url, entry.stream, {}, None, True)
