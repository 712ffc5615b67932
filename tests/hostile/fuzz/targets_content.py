"""Every reader of content: bytes of its format become a document and passages, or an `ItemError`."""

import pyoxigraph as ox

from rowen.content.chunks import split
from rowen.content.readers import read
from rowen.errors import ItemError
from rowen.formats.charset import decode
from rowen.model.items import Document, Raw
from rowen.model.rdf import StatementProfile
from tests.content.office_files import Sheet, docx, epub, item, opendocument, packed, paragraph, pdf, pptx, shape, xlsx
from tests.content.test_documents import ODF_STYLES, ODT, RTF
from tests.hostile.fuzz.harness import target

_XML = (b"<a>", b"</a>", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<!DOCTYPE a [", b'<!ENTITY a "b">', b"&a;", b"&#0;")
_WORD = (b"<w:p>", b"</w:p>", b"<w:tbl><w:tr><w:tc>", b"<w:r><w:t>", b'<w:gridSpan w:val="99999"/>', b"<w:ins>")
_MARKDOWN = (
    *(b"# ", b"## ", b"```", b"~~~", b"|", b"| --- |", b"- ", b"1. ", b"> ", b"---\n", b"===\n", b"[a](", b"](", b")"),
    *(b"[a]: b\n", b"![", b"*", b"_", b"`", b"<a href=", b"{#id}", b"\\", b"<http://", b"tags: [a, b]\n", b"    "),
)
_MD_SEED = b"""---
title: Hay
tags: [a, b]
---
# First cut {#one}

Mow [early](https://example.org/a "b"), *dry* it `well`.

| a | b |
| --- | --- |
| 1 | 2 |

- one
  - two

```python
def f():
    return 1
```

Second
------
End.
"""
_HTML_SEED = b"""<!DOCTYPE html><html lang=en><head><title>Hay | Farm</title><meta name=keywords content="a,b">
<meta name=robots content=index><link rel=canonical href="https://example.org/"></head><body><nav><a href=/a>A</a></nav>
<main><h1 id=one>Hay</h1><p>Mow <a href="b?c=d#e" title=t>early</a>, <em>dry</em> it.</p><table><tr><th colspan=2>x</th>
</tr><tr><td rowspan=2>1</td><td>2</td></tr><tr><td>3</td></tr></table><pre class="highlight-python">def f(): pass</pre>
<ul><li>one<ul><li>two</li></ul></li></ul><section id=s><h2>Second</h2><p>End &amp; all.</p></section></main></body>"""
_HTML = (
    *(b"<div>", b"</div>", b"<p>", b"<b>", b"<i>", b"<a href=x>", b"<table>", b"<tr>", b"<td colspan=1000>", b"<ul>"),
    *(b"<td rowspan=65534>", b"<li>", b"<pre>", b"<h1>", b"<h6 id=", b"<!--", b"-->", b"<script>", b"</script>"),
    *(b"<svg>", b"<math>", b"<template>", b"<select>", b"<font color=", b"&amp;", b"&#x", b"<base href=//x/>", b"\xa0"),
    *(b"<main>", b"<article>", b"<title>", b"<meta name=keywords content='", b"<frameset>", b"<plaintext>", b"<sup>"),
)
_RDFA_SEED = b"""<html lang=nl><base href=/x/><body prefix="v: http://v.org/#" vocab="http://w.org/" typeof="v:Besluit">
<div about="#a" rel="v:b v:c"><p resource="[v:d]" property="v:e" content=f>g</p><time property=h datetime=2020></time>
</div><i inlist rev="v:k" href="l;jsessionid=1#m"></i><b property="v:date" datatype="xsd:date">3/4/2020</b>"""
_RST_SEED = b"""Hay
===

.. |w| replace:: word |w|
.. _site: https://example.org/

Mow `early <https://example.org/>`_ |w| site_ :ref:`a <b>` ``code`` *em*.

.. note:: Look
   here.

.. code-block:: python
   :linenos:

   def f(): pass

+---+---+
| a | b |
+===+===+
| 1 | 2 |
+---+---+

=== ===
a   b
=== ===
1   2
=== ===

- one

  - two

:field: value

.. [1] note

>>> 1
1
"""
_RST = (
    *(b".. ", b"::\n\n  ", b".. note:: ", b"|w|", b".. |w| replace:: ", b".. _a: ", b"`", b"``", b"_", b"*", b"+---+"),
    *(
        b"=== ===\n",
        b"---\n",
        b":a:",
        b":a:`",
        b"- ",
        b"(a) ",
        b"   ",
        b"\n\n",
        b"| ",
        b".. [a] ",
        b"`a <",
        b">`_",
        b">>> ",
    ),
)
_BOOK = b"""{"cells": [{"cell_type": "markdown", "source": ["# Hay\\n", "Mow."]}, {"cell_type": "code",
"source": "1 + 1", "outputs": [{"data": {"text/plain": ["2"]}}]}],
"metadata": {"kernelspec": {"language": "python"}}, "nbformat": 4}"""
_JSON = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b":",
    b",",
    b'"a":',
    b"null",
    b"[[",
    b'{"a":',
    b"1e400",
    b'"\\ud800"',
    b"-",
    b"\\",
)
_CODE_SEED = b'''"""Doc."""
import os


class A:
    """x"""

    def f(self, a):
        if a:
            return {"b": [1, 2]}
        return """many
lines"""


def g():
    pass
'''


def _read(name: str, data: bytes, media_type: str | None = None) -> Document:
    document = read(Raw(f"https://example.org/{name}", data, name=name, media_type=media_type))
    for chunk in split(document.text):
        assert 0 < len(chunk.text) <= 1500, "a passage is too long"
    return document


@target("markdown", seeds=[_MD_SEED], tokens=_MARKDOWN)
def markdown(data: bytes) -> None:
    _read("a.md", data)


@target("html", seeds=[_HTML_SEED], tokens=_HTML)
def html(data: bytes) -> None:
    _read("a.html", data)


@target("rst", seeds=[_RST_SEED], tokens=_RST)
def rst(data: bytes) -> None:
    _read("a.rst", data)


@target(
    "csv", seeds=[b"a,b,c\n1,2,3\n", b'a;b\n"x;y";2\n', b"a\tb\n1\t2\n"], tokens=[b",", b";", b"\t", b'"', b"|", b"\n"]
)
def csv(data: bytes) -> None:
    _read("a.csv", data)
    _read("a.tsv", data)


@target("json", seeds=[b'{"a": [1, 2, {"b": "c"}]}', b"[" + b'{"id":1,"x":[1.5,2.5]},' * 30 + b"{}]"], tokens=_JSON)
def json(data: bytes) -> None:
    _read("a.json", data)
    _read("a.jsonl", data)


@target(
    "yaml", seeds=[b"a: &x [1, 2]\nb: *x\n", b"[a]\nb = 1\n"], tokens=[b"- ", b": ", b"&a ", b"*a", b"[", b"{", b"```"]
)
def yaml(data: bytes) -> None:
    _read("a.yaml", data)
    _read("a.toml", data)


@target("xml", seeds=[b"<?xml version='1.0'?><a b='c'><d>e</d></a>", b"<a>" + b"<b>c</b>" * 60 + b"</a>"], tokens=_XML)
def xml(data: bytes) -> None:
    _read("a.xml", data)


@target("notebook", seeds=[_BOOK], tokens=[*_JSON, b'"cells"', b'"source"', b'"outputs"', b'"level"'])
def notebook(data: bytes) -> None:
    _read("a.ipynb", data)


@target(
    "code",
    seeds=[_CODE_SEED],
    tokens=[b'"""', b"'''", b"def f():\n", b"    ", b"{", b"}", b"#", b"end\n", b"```", b"//"],
)
def code(data: bytes) -> None:
    _read("a.py", data)
    _read("a.c", data)


@target("plain", seeds=[b"# no heading\n\nWords. More words!\n", "日本語の文。次の文。".encode()], tokens=_MARKDOWN)
def plain(data: bytes) -> None:
    _read("a.txt", data)


@target(
    "docx",
    seeds=[
        docx(
            paragraph("First", "heading1")
            + paragraph("Words.")
            + item("one", 1)
            + "<w:tbl><w:tr><w:tc/></w:tr></w:tbl>"
        )
    ],
    tokens=[*_XML, *_WORD],
)
def docx_(data: bytes) -> None:
    _read("a.docx", data)


@target(
    "xlsx",
    seeds=[xlsx([Sheet("Hay", '<row r="1"><c r="A1" t="s"><v>0</v></c><c s="1"><v>2</v></c></row>')], texts=["hay"])],
    tokens=[
        *_XML,
        b'<row r="9">',
        b"</row>",
        b'<c r="XFD1">',
        b"<v>45000</v>",
        b'<c t="s"><v>0</v></c>',
        b'<c t="b">',
        b'r="',
    ],
)
def xlsx_(data: bytes) -> None:
    _read("a.xlsx", data)


@target(
    "pptx",
    seeds=[pptx([shape("First", "title") + shape("Words.", "body")], notes={0: "n"})],
    tokens=[*_XML, b"<a:p>", b"<a:t>"],
)
def pptx_(data: bytes) -> None:
    _read("a.pptx", data)


_ODS = (
    "<table:table table:name='Hay'><table:table-row><table:table-cell><text:p>1</text:p></table:table-cell>"
    "<table:table-cell table:number-columns-repeated='3'><text:p>2</text:p></table:table-cell>"
    "</table:table-row></table:table>"
)
_REPEATED = (
    b" table:number-columns-repeated='99999'",
    b" table:number-rows-repeated='99999'",
    b"<text:s text:c='99999'/>",
)


@target(
    "odt",
    seeds=[opendocument(ODT, styles=ODF_STYLES)],
    tokens=[*_XML, *_REPEATED, b"<text:list>", b"<text:p>", b"<text:h>"],
)
def odt(data: bytes) -> None:
    _read("a.odt", data)


@target("ods", seeds=[opendocument(_ODS)], tokens=[*_XML, *_REPEATED, b"<table:table-row>", b"<text:p>"])
def ods(data: bytes) -> None:
    _read("a.ods", data)
    _read("a.odp", data)


@target(
    "epub",
    seeds=[epub({"one.xhtml": "<h1>First</h1><p>Words."}, contents={"one.xhtml": "One"})],
    tokens=[*_XML, *_HTML],
)
def epub_(data: bytes) -> None:
    _read("a.epub", data)


@target(
    "rtf",
    seeds=[RTF],
    tokens=[b"{", b"}", b"\\par ", b"\\u9999 ", b"\\'e4", b"\\bin99999 ", b"\\s1", b"\\cell", b"\\row", b"{\\*"],
)
def rtf(data: bytes) -> None:
    _read("a.rtf", data)


@target(
    "pdf",
    seeds=[pdf([["Hay", "Mow."], ["Rowen"]], outline=[("Hay", 0)])],
    tokens=[b"<<", b">>", b"obj", b"/Kids [", b"/Count 9"],
)
def pdf_(data: bytes) -> None:
    _read("a.pdf", data)


@target("zip", seeds=[packed({"a.txt": "x"})], tokens=[b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06"])
def zipped(data: bytes) -> None:
    _read("a.docx", data)
    _read("a.epub", data)


_CHARSETS = (
    None,
    "utf-8",
    "utf-16",
    "utf-7",
    "shift_jis",
    "iso-2022-jp",
    "gb18030",
    "cp1252",
    "idna",
    "base64",
    "x" * 99,
)


@target(
    "charset",
    seeds=["Grüße".encode("latin-1"), "日本".encode("shift_jis"), "a".encode("utf-16"), b"<meta charset=utf-7>+ADw-"],
    tokens=[b"\x1b$B", b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff", b"charset=", b"\x81", b"+AD", b"coding: hz"],
)
def charset(data: bytes) -> None:
    for label in _CHARSETS:
        for media_type in ("text/html", "application/xml", "text/x-python"):
            try:
                assert len(decode(data, charset=label, media_type=media_type)) <= len(data), "more than was sent"
            except ItemError:
                continue


@target(
    "chunks", seeds=[_MD_SEED, b"| a |\n| --- |\n| b |\n" * 20, b"```\n" + b"x = 1\n" * 300 + b"```"], tokens=_MARKDOWN
)
def chunks(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for most in (100, 1500):
        found = split(text, max_chars=most, min_chars=most // 8)
        assert all(0 < len(chunk.text) <= most for chunk in found), "a passage is too long"


_SHAPES = """
@prefix sh: <http://www.w3.org/ns/shacl#> .
<urn:s> sh:targetClass <http://v.org/T> ; sh:closed true ;
    sh:property [ sh:path <http://v.org/a> ; sh:maxCount 1 ; sh:pattern "^h" ] ;
    sh:property [ sh:path <http://v.org/p> ; sh:minCount 1 ] .
"""


@target(
    "rdfa",
    seeds=[
        _RDFA_SEED,
    ],
    tokens=[
        *(
            b' about="',
            b' resource="_:x"',
            b' property="v:a v:b"',
            b' rel="v:a"',
            b' rev="v:b"',
            b" inlist",
            b" typeof",
        ),
        *(
            b' prefix="v: http://v.org/ "',
            b' vocab=""',
            b' datatype="xsd:dateTime"',
            b" content=",
            b' lang="x_y"',
            b"[v:",
        ),
        *(
            b"<div",
            b"<a href=",
            b"<img src=",
            b"<time",
            b"</div>",
            b"<base href=",
            b" xmlns:v=",
            b">",
            b"'",
            b"2020-1-1",
        ),
    ],
)
def rdfa(data: bytes) -> None:
    judged = StatementProfile(_SHAPES)
    document = read(Raw("https://a.example/p", data, media_type="text/html", statements="all", profile=judged))
    lines = document.record.get("rdfa", {}).get("statements", [])
    text = "".join(f"{line} .\n" for line in lines)
    assert [str(quad.triple) for quad in ox.parse(text, ox.RdfFormat.N_TRIPLES)] == lines
