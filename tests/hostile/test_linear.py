"""What reads outside text takes linear time: twice as much of the worst costs at most three times as much."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from rowen.connectors.catalog.dates import iso
from rowen.connectors.catalog.text import plain
from rowen.connectors.csw.protocol import read as read_csw
from rowen.connectors.datajson.record import is_record, name_of, names_in
from rowen.connectors.files.gitignore import IgnoreRules, _TooManyError
from rowen.connectors.oai.answer import read as read_oai
from rowen.connectors.web.hints import read_entries
from rowen.content.chunks import split
from rowen.content.readers import read
from rowen.errors import RowenError
from rowen.formats import UnreadableError
from rowen.formats.charset import XmlDecoder
from rowen.formats.json_records import Splitter
from rowen.formats.rdf.syntax import RdfBody, read_graph
from rowen.model.items import Raw
from rowen.model.passages import words_of
from rowen.model.search import Query
from rowen.model.text import normalise
from rowen.model.versions import VersionSpec
from rowen.net.response import Response, next_link
from rowen.net.robots import read_rules
from tests.hostile.clock import grows

SIZES = (10_000, 20_000, 40_000, 80_000)

MARKS = (
    " ", "\n", "\n\n", "a ", "a\n", "[", "](", "[a](", "![a](", "<", "<a ", "<!--", "&", "&#", '"', "'", "`",
    "```", "```\n", "*", "**a ", "_", "__a", "|", "|-", "| a |\n", "- ", "- a\n", "> ", "# ", "# a\n",
    "a\n---\n", "---\n", "1. a\n", "\\", "{", "{#", "$", "~", "~~~\n", ":", "::\n", ".. ", ".. a::\n",
    ".. _a: b\n", ".. |a| ", ":a:`", "=\n", "===\n===\n", "+-", "+-+\n", "+-+\n| |\n", "\t", "  a\n ", "a. ",
    ". ", "。", "x" * 500 + "\n", "é", "\x00", "\ufffd",
)  # fmt: skip
MARKUP = (
    "<", "</", "<a>", "<a ", "<a b='", "<a b=c ", "<!--", "<!", "<![CDATA[", "<?", "&", "&#", "&amp", "<p>",
    "<div>", "<b><i>", "<table>", "<table><tr><td>", "<tr>", "<td>a", "<td colspan=1000>", "<ul><li>", "<li>",
    "<pre>", "<code>", "<h1>", "<h1>a</h1>", "<script>", "<style>", "<title>", "<a href=#a>",
    "<a href='x'>y</a>", "<svg>", "<select>", "<option>", "<form>", "<br>", "<img src=a>", "</p>", "</div>",
    "<template>", "<noscript>", "<font>", "<a><b>", "<meta ", "<dl><dt>a<dd>", "<blockquote>", "\n ",
)  # fmt: skip
BRACKETS = (
    "{", "[", "}", "]", '"', '\\"', ",", ":", '{"a":', '{"a":"b"},', '{"identifier":', '{"identifier":"a",',
    '{"a":1}', "[{", '{"@id":"a"', '{"a" 1},', '{"identifier":"a" "b"},', '"a",', "1,", "{x},",
    '{"title":"a"}', "nul,", "\\",
)  # fmt: skip
STATEMENTS = (
    "<a:b> <a:c> <a:d> .\n", "<a:b> <a:c> ", "<a:b> <a:c> <a:d>\n", '<a:b> <a:c> "d\n', '"', '"""', '\\"',
    ". ", ".\n", ".\n#", "#", "[", "[ a:b ", "(", "@prefix a: <b:> .\n", "@prefix", "<", "a:b ", "_:a ", ";",
    ",", "<a:b> <a:c> \"d\" .\n<a:b> x .\n",
)  # fmt: skip
TAGS = (
    "<url>", "<url><loc>", "<url><loc>a</loc></url>", "<url><loc> ", "<sitemap>", "</url>", "<loc>",
    "<lastmod>", "<x:url>", " ", "\n", "<", "<url ", "<url><loc>" + " " * 500, "http://a\n",
)  # fmt: skip
RULES = (
    "\n", "\r", " ", "user-agent: *\n", "user-agent: rowen/1\n", "disallow: /\n", "disallow: /*a\n",
    "disallow: /" + "*a" * 40 + "$\n", "allow: /%\n", "user-agent", "user-agent: " + "a" * 400 + "\n",
    "sitemap: a\n", "#", ":", "crawl-delay: 1\n",
)  # fmt: skip
RECORDS = (
    "<record>", "<record><header>", "<record><header><identifier>a</identifier></header></record>",
    "<record><header></record>", "</record>", "&x;", "<a>", "<a b='", " ", "<!--", "<identifier>",
    "<resumptionToken>", "x",
)  # fmt: skip

READ = {
    "text/markdown": MARKS,
    "text/plain": MARKS,
    "text/x-rst": MARKS,
    "text/html": MARKUP,
    "text/csv": (",", '"', "\n", 'a,"', "a\n", ";", "\t", '""', ",\n"),
    "application/json": (*BRACKETS, "[1],", "[[],"),
    "application/x-ndjson": (*BRACKETS, "{}\n"),
    "application/x-ipynb+json": BRACKETS,
    "application/xml": MARKUP,
    "application/yaml": MARKS,
    "text/x-python": (
        '"', "'", '"""', "'''", '\\"', "#", "(", "def a():\n", " ", "\n", " a\n", "\"'", 'a"""b', "if a:\n ",
    ),
    "application/rtf": (
        "{", "}", "\\", "\\par ", "{\\b ", "\\'", "\\u1 ", "{\\field{\\*\\fldinst HYPERLINK \"",
        "\\trowd\\cell\\row ", "{\\fonttbl{\\f0 a;}", "{\\stylesheet{\\s1 heading 1;}", "\\pard\\s1 a\\par ",
        "\\ls1 a\\par ", "a", "\\bin9 ", "\\intbl a\\cell ",
    ),
}  # fmt: skip


def _read(media_type: str, text: str) -> None:
    prefix = "{\\rtf1 " if media_type == "application/rtf" else ""
    body = (prefix + text).encode("utf-8", "replace")
    document = read(Raw("https://example.org/a", body, media_type=f"{media_type}; charset=utf-8"))
    split(document.text)


def _answer(text: str, media_type: str = "text/xml") -> Response:
    body = text.encode("utf-8", "replace")
    return Response("https://example.org/", 200, CIMultiDictProxy(CIMultiDict()), body, media_type=media_type)


def _oai(text: str) -> None:
    head = '<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><ListRecords>'
    asyncio.run(read_oai(_answer(f"{head}{text}<resumptionToken/></ListRecords></OAI-PMH>"), "https://example.org/"))


def _csw(text: str) -> None:
    asyncio.run(read_csw(_answer(f"<GetRecordsResponse>{text}</GetRecordsResponse>"), "here"))


def _oai_with_long_head(text: str) -> None:
    """Much before the first record, and something broken in it."""
    half = len(text) // 2
    records = "<record><header/></record>" * (half // 26)
    _oai(f"<!--{'x' * half}-->&broken;{records}")


def _robots_of_many(text: str) -> None:
    """Many names, and many rules that apply to each of them."""
    names = "".join(f"user-agent: agent{number}\n" for number in range(len(text) // 50))
    read_rules((names + "".join(f"disallow: /{number}\n" for number in range(len(text) // 50))).encode())


def _split(text: str) -> None:
    splitter = Splitter(frozenset({"dataset"}), is_record=is_record, most_bytes=1 << 20)
    body = f'{{"dataset":[{text}]}}'.encode("utf-8", "replace")
    for cut in [*splitter.feed(body), *splitter.finish()]:
        name_of(cut.body, cut.value, "https://example.org/data.json")
        names_in(cut.body, "https://example.org/data.json")


def _graph(syntax: str, text: str) -> None:
    read_graph(
        RdfBody(text.encode("utf-8", "replace"), "https://example.org/", "text/turtle"),
        option=syntax,
        most_triples=1_000_000,
    )


def _decoded(text: str) -> None:
    decoder = XmlDecoder(None)
    body = text.encode("utf-8", "replace")
    for at in range(0, len(body), 1000):
        decoder.feed(body[at : at + 1000])
    decoder.close()


def _git(text: str) -> None:
    rules = IgnoreRules(text)
    for _ in range(10):
        rules.verdict("a" * 200 + "/" + "a" * 200, folder=False)


PARSERS: dict[str, tuple[Callable[[str], object], tuple[str, ...]]] = {
    "sitemap": (lambda text: read_entries(("<urlset>" + text).encode()), TAGS),
    "robots": (lambda text: read_rules(text.encode()).allows("https://example.org/" + "a" * 2000), RULES),
    "robots of many": (_robots_of_many, ("x",)),
    "links": (next_link, ("<", ">", "<a>", "<a>;", ";", ",", ' rel="next"', "<a>; rel=a,", " ", "rel=")),
    "oai": (_oai, RECORDS),
    "oai with a long head": (_oai_with_long_head, ("x",)),
    "csw": (_csw, RECORDS),
    "data.json": (_split, BRACKETS),
    "turtle": (partial(_graph, "turtle"), STATEMENTS),
    "ntriples": (partial(_graph, "ntriples"), STATEMENTS),
    "trig": (partial(_graph, "trig"), STATEMENTS),
    "rdfxml": (partial(_graph, "rdfxml"), MARKUP),
    "jsonld": (partial(_graph, "jsonld"), BRACKETS),
    "plain": (plain, MARKUP),
    "decoder": (_decoded, ("&", "&#", "&#1;", "&#x", "a", "\x01", "<?xml ", "é")),
    "date": (iso, ("0", "0-", " ", "a", "a ", "1/", "T", ":")),
    "version": (VersionSpec.parse, ("1", "1.", ".", "-", " - ", "a", "<", "< ", ",", "|| ", "*", "1.x", "!")),
    "normalise": (normalise, (" ", "\n", " \n", "\r", "\r\n", "e\u0301", "\u0301", "\x00", "\u1100\u1161")),
    "words": (words_of, (*MARKS, *MARKUP, "](a ", "](a \"b", "](<", "](a(", "[a][", "[a]: b/", "`a``b", "-->")),
    "query": (Query.parse, ('"', '"a', '"a" ', "-", "a ", "a* ", "*", "(", "漢", "a:b ")),
    "gitignore": (_git, ("a\n", "!a\n", "*a\n", "a/\n", "\n", " ", "\\", "#", "/a/b\n", "a b\\ \n")),
}  # fmt: skip


# The RDF library's own: 80 kB take it 0.07 s, and it runs in a worker with a time limit.
APART = {("turtle", "<"), ("trig", "<")}


@pytest.mark.parametrize(
    ("media_type", "unit"),
    [(media_type, unit) for media_type, units in READ.items() for unit in units],
    ids=lambda value: repr(value)[:30],
)
def test_a_reader_takes_linear_time_however_its_marks_are_repeated(media_type: str, unit: str) -> None:
    assert _growth(partial(_read, media_type), unit) is None


@pytest.mark.parametrize(
    ("name", "unit"),
    [(name, unit) for name, (_, units) in PARSERS.items() for unit in units if (name, unit) not in APART],
    ids=lambda value: repr(value)[:30],
)
def test_a_parser_takes_linear_time_however_its_marks_are_repeated(name: str, unit: str) -> None:
    assert _growth(PARSERS[name][0], unit) is None


def _growth(parse: Callable[[str], object], unit: str) -> str | None:
    def prepared(size: int) -> Callable[[], None]:
        text = unit * (size // len(unit))

        def work() -> None:
            with suppress(RowenError, UnreadableError, _TooManyError, ValueError, RecursionError):
                parse(text)

        return work

    return grows(prepared, SIZES, limit_s=10)
