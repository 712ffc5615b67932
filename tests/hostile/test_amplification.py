"""What a reader makes is bounded by what it was given: amplifiers of every format, read by a measured process."""

import json
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from zipfile import ZipFile

import pytest

from rowen.formats.rdf.contexts import settled
from rowen.model.text import CONSTANT_CHARS, FACTOR
from tests.content.office_files import (
    Sheet,
    docx,
    epub,
    opendocument,
    packed,
    paragraph,
    pptx,
    relations,
    xlsx,
)

MOST_MEMORY_BYTES = 300 << 20
"""What reading a body of at most 1 MB may take, text and all: a page of a megabyte takes 40 MB."""

MEASURED = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from rowen.content.readers import read
from rowen.content.chunks import split
from rowen.errors import ItemError
from rowen.model.items import Raw
name, url = sys.argv[1:3]
body = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    document = read(Raw(url, body, name=name))
    found = {"chars": len(document.text), "links": sum(map(len, document.links)), "refused": None}
except (ItemError, MemoryError, RecursionError) as problem:
    found = {"chars": 0, "links": 0, "refused": f"{type(problem).__name__}: {problem}"}
found["bytes"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
found["seconds"] = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
print(json.dumps(found))
"""
BASE = "https://example.org/" + "b" * 2_000 + "/"


def rows(count: int, cell: str) -> str:
    return "".join(f'<row r="{n}">{cell}</row>' for n in range(1, count))


def wide_xlsx() -> bytes:
    cells = '<c t="s"><v>0</v></c>' * 16_000
    return xlsx([Sheet("S", f'<row r="1">{cells}</row><row r="2">{cells}</row>')], texts=["hay " * 50_000])


def many_xlsx() -> bytes:
    return xlsx([Sheet("S", rows(20_000, '<c t="s"><v>0</v></c><c><v>1</v></c>'))], texts=["hay " * 5_000])


def linked_docx() -> bytes:
    link = '<w:p><w:hyperlink r:id="l"><w:r><w:t>x</w:t></w:r></w:hyperlink></w:p>'
    return docx(link * 20_000, links={"l": "https://example.org/" + "a" * 100_000})


def with_text(paragraphs: str) -> str:
    return f"<p:sp><p:nvSpPr><p:nvPr/></p:nvSpPr><p:txBody>{paragraphs}</p:txBody></p:sp>"


def linked_pptx() -> bytes:
    run = '<a:p><a:r><a:rPr><a:hlinkClick r:id="l"/></a:rPr><a:t>x</a:t></a:r></a:p>'
    target = relations(("l", "hyperlink", "https://e.org/" + "a" * 100_000))
    return with_member(pptx([with_text(run * 20_000)]), "ppt/slides/_rels/slide0.xml.rels", target)


def repeated_pptx() -> bytes:
    body = pptx([with_text(f"<a:p><a:r><a:t>{'hay ' * 50_000}</a:t></a:r></a:p>")])
    main = ZipFile(BytesIO(body)).read("ppt/presentation.xml").decode()
    start = main.index("<p:sldId ")
    entry = main[start : main.index("/>", start) + 2]
    return with_member(body, "ppt/presentation.xml", main.replace(entry, entry * 1_000))


def repeated_epub() -> bytes:
    body = epub({"one.xhtml": "<p>" + "hay " * 50_000})
    archive = ZipFile(BytesIO(body))
    [path] = [name for name in archive.namelist() if name.endswith(".opf")]
    book = archive.read(path).decode()
    start = book.index("<itemref ")
    entry = book[start : book.index("/>", start) + 2]
    return with_member(body, path, book.replace(entry, entry * 1_000))


def with_member(body: bytes, name: str, content: str) -> bytes:
    archive = ZipFile(BytesIO(body))
    return packed({**{each: archive.read(each) for each in archive.namelist()}, name: content})


def repeated_ods() -> bytes:
    words = f"<text:p>{'hay ' * 2_000}</text:p>"
    cell = f"<table:table-cell table:number-columns-repeated='1000'>{words}</table:table-cell>"
    row = f"<table:table-row table:number-rows-repeated='1000'>{cell}</table:table-row>"
    return opendocument(f"<table:table table:name='S'>{row * 4}</table:table>")


def spaced_odt() -> bytes:
    return opendocument("<text:p>x" + "<text:s text:c='100'/>" * 20_000 + "x</text:p>")


def bomb_docx() -> bytes:
    return docx(paragraph("hay " * 1_000) * 15_000)


def spanned_html() -> bytes:
    head = f"<tr>{('<td rowspan=65000>' + 'h' * 80) * 19}</tr>"
    return f"<main><table>{head}{'<tr><td>x' * 50_000}</table>".encode()


def nested(open_: str, count: int) -> bytes:
    return ("<main>" + open_ * count).encode()


AMPLIFIERS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "links under a long base": (
        "a.html",
        lambda: f"<base href='{BASE}'><main>{''.join(f'<a href=a{n}>x</a> ' for n in range(40_000))}".encode(),
    ),
    "cells that span rows": ("a.html", spanned_html),
    "lists in lists": ("a.html", lambda: nested("<ul><li>x", 40_000)),
    "quotes in quotes": ("a.html", lambda: nested("<blockquote><p>x", 30_000)),
    "a picture's words": ("a.html", lambda: f"<main>{'<img alt=x>' * 50_000}".encode()),
    "replacements": (
        "a.rst",
        lambda: (".. |w| replace:: " + "hay " * 10_000 + "\n\n" + "|w| " * 20_000).encode(),
    ),
    "targets": ("a.rst", lambda: (".. _a: https://e.org/" + "a" * 50_000 + "\n\n" + "a_ " * 20_000).encode()),
    "narrow rows below a wide head": ("a.tsv", lambda: b"\t" * 160 + b"a\n" + b"1\n" * 300_000),
    "values with long names": (
        "a.csv",
        lambda: (",".join("n" * 99 for _ in range(300)) + "\n" + (",".join("1" * 300) + "\n") * 1_000).encode(),
    ),
    "indented JSON": ("a.json", lambda: b"[" * 24 + b"1,1," * 100_000 + b"1" + b"]" * 24),
    "links of Markdown": ("a.md", lambda: b"".join(b"[](a%d) " % n for n in range(80_000))),
    "a shared text in one row": ("a.xlsx", wide_xlsx),
    "a shared text in many rows": ("a.xlsx", many_xlsx),
    "one address in many links of Word": ("a.docx", linked_docx),
    "one address in many links of PowerPoint": ("a.pptx", linked_pptx),
    "one slide many times": ("a.pptx", repeated_pptx),
    "one chapter many times": ("a.epub", repeated_epub),
    "repeated cells": ("a.ods", repeated_ods),
    "spaces": ("a.odt", spaced_odt),
    "words that pack well": ("a.docx", bomb_docx),
    "cells of RTF": ("a.rtf", lambda: b"{\\rtf1 " + b"\\intbl x\\cell" * 40_000 + b"\\row" * 40_000 + b"}"),
}


def measured(name: str, body: bytes, url: str = "", *, script: str = MEASURED) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", script, name, url or f"https://example.org/{name}"],
        input=body,
        capture_output=True,
        check=True,
        timeout=100,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", AMPLIFIERS)
def test_a_reader_makes_no_more_than_its_share_of_what_it_was_given(name):
    file, make = AMPLIFIERS[name]
    body = make()
    assert len(body) < 1 << 20, "the amplifier is small"

    found = measured(file, body, BASE + file if file == "a.md" else "")

    assert found["chars"] <= FACTOR * len(body) + CONSTANT_CHARS
    assert found["bytes"] <= MOST_MEMORY_BYTES, found
    assert "MemoryError" not in str(found["refused"])


MEASURED_RDF = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from rowen.formats.xml import Reader, read_xml
from rowen.formats.rdf.syntax import RdfBody, read_graph
from rowen.errors import SourceError
kind = sys.argv[1]
body = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
chars, failed, refused = 0, 0, None
try:
    if kind == "xml":
        records = read_xml(body, Reader(frozenset({"record"})))
        chars = sum(len(one.tag) for found in records for one in found.tree.iter())
    else:
        graph = read_graph(RdfBody(body, "https://e.org/"), option=kind, most_triples=2_000_000).graph
        for node in graph:
            try:
                chars += len(json.dumps(graph.written(node)))
            except ValueError:
                failed += 1
except (SourceError, MemoryError, RecursionError) as problem:
    refused = f"{type(problem).__name__}: {problem}"
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"chars": chars, "failed": failed, "refused": refused, "seconds": usage.ru_utime,
                  "bytes": (usage.ru_maxrss - before) * 1024}))
"""

PREFIX = f"@prefix a: <https://example.org/{'p' * 50_000}/> .\n"
RDF_XML = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="urn:x:" xml:base="{}">{}</rdf:RDF>'


def shared_turtle() -> bytes:
    publisher = f'<urn:p> <urn:name> "{"hay " * 50_000}" .\n'
    return (publisher + "".join(f"<urn:d{n}> <urn:by> <urn:p> .\n" for n in range(5_000))).encode()


RDF_AMPLIFIERS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "contexts in a row": (
        "jsonld",
        lambda: json.dumps({"@context": ["https://e.org/c"] * 40_000, "title": "A"}).encode(),
    ),
    "contexts in each node": (
        "jsonld",
        lambda: json.dumps({"dataset": [{"@context": "https://e.org/c", "title": "A"}] * 20_000}).encode(),
    ),
    "contexts after others": (
        "jsonld",
        lambda: json.dumps({"dataset": [{"@context": [{"a": "urn:a"}, "https://e.org/c"]}] * 15_000}).encode(),
    ),
    "a prefix of JSON-LD": (
        "jsonld",
        lambda: json.dumps(
            {"@context": {"a": "https://e.org/" + "a" * 50_000 + "#"}, "@graph": [{"@id": "a:b", "a:c": "d"}] * 20_000}
        ).encode(),
    ),
    "a prefix of Turtle": (
        "turtle",
        lambda: (PREFIX + "".join(f"a:b{n} a:c a:d{n} .\n" for n in range(20_000))).encode(),
    ),
    "a base of RDF/XML": (
        "rdfxml",
        lambda: RDF_XML.format(
            "https://example.org/" + "b" * 50_000 + "/",
            "".join(
                f'<rdf:Description rdf:about="a{n}"><x:y rdf:resource="b"/></rdf:Description>' for n in range(9_000)
            ),
        ).encode(),
    ),
    "a node that all speak of": ("turtle", shared_turtle),
    "a namespace": (
        "xml",
        lambda: f"<r xmlns:a='urn:{'n' * 100_000}'><record>{'<a:b/>' * 100_000}</record></r>".encode(),
    ),
}


@pytest.mark.parametrize("name", RDF_AMPLIFIERS)
def test_a_catalog_makes_no_more_than_its_share_of_what_it_sent(name):
    kind, make = RDF_AMPLIFIERS[name]
    body = make()
    assert len(body) < 2 << 20, "the amplifier is small"

    found = measured(kind, body, script=MEASURED_RDF)

    assert found["chars"] <= 2 * (FACTOR * len(body) + CONSTANT_CHARS)
    assert found["bytes"] <= MOST_MEMORY_BYTES, found
    assert found["seconds"] < 20, found
    assert "MemoryError" not in str(found["refused"])


def test_contexts_of_honest_documents_mean_what_they_meant():
    nested = {"@context": "https://e.org/c", "title": "A", "dataset": [{"@context": "https://e.org/c", "title": "B"}]}
    mixed = {"@context": ["https://e.org/c", {"title": "urn:t"}], "title": "A", "publisher": {"name": "P"}}

    settled_nested, settled_mixed = (json.loads(settled(json.dumps(one).encode(), "it")) for one in (nested, mixed))

    assert "dcat:Dataset" in json.dumps(settled_nested["@context"])
    assert settled_nested["dataset"] == [{"title": "B"}]
    assert settled_mixed["@context"][1] == {"title": "urn:t"}
    assert settled_mixed["publisher"] == {"name": "P"}
