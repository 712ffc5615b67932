"""Every stored hash has a version: its function cannot change without it, nor the version without a migration.

A digest of what the functions give for fixed examples stands beside each version. Where a test fails here, raise the
version that its entry names, add the new digest behind the old one, and see that what is stored is renewed: by the
program where the version is part of a recipe or of `CHUNKER_VERSION`, else by a migration.
"""

import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from rowen import Document
from rowen.connectors.base import unread_url
from rowen.connectors.catalog.options import DocumentOptions
from rowen.connectors.catalog.records import mark_of_bytes, unparsed_json
from rowen.connectors.catalog.state import Unidentified
from rowen.connectors.datajson.record import item_url, traits_of
from rowen.connectors.git.listing import _digest as git_digest
from rowen.connectors.ldes.members import StreamMember
from rowen.connectors.ldes.walk import _place
from rowen.connectors.web import visit
from rowen.connectors.web.boilerplate import Edge
from rowen.content import chunks, readers
from rowen.enrich.extract import prompt
from rowen.enrich.llm.base import ModelSpec
from rowen.formats.rdf.rdfa import read_rdfa
from rowen.formats.rdf.statements import kept_statements
from rowen.harvest import agreements, sieve
from rowen.jobs.push import callback_hash
from rowen.model import datasets, hashes, languages
from rowen.model.hashes import body_hash, data_hash, text_hash
from rowen.model.rdf import STATEMENTS_VERSION
from rowen.model.schemas import Schema
from rowen.model.text import name_within
from rowen.model.url import canonical, key
from rowen.net.response import Response
from rowen.operations.access import _digest as token_digest
from rowen.publish.vocabulary import unnamed
from rowen.store import sources
from rowen.store.items import passages as store_passages
from rowen.store.items.passages import PASSAGE_HASHES
from tests.conftest import ScratchDatabase

URLS = (
    "http://Example.org:80/A/../b?utm_source=x&q=1#top",
    "https://example.org/%7euser/%C3%A4?",
    "https://example.org/app#/route",
    "https://example.org:8443/a;b=1//c",
    "https://xn--bcher-kva.example/ü ?q=a b",
    "file:///data/a%FFb.md",
    "no url",
    "https://example.org/\x00\ud800",
)
TEXTS = (
    "# Cats\n\nSee [the **guide**](https://example.org/1.0/guide.html?a=1 'Title') and\n`run()`.",
    "Plain words, ünïcode and 日本語.\n\n> quoted\n\n- one\n- *two*\n\n| a | b |\n|---|---|\n| 1 | `2` |",
    "```python\nx = [1](2)\n```\n\nTitle {#anchor}\n-----\n\n<b>bold</b> <!-- gone --> &amp; \\* __under__ a_b_c",
    "\n\n".join(f"## Part {n}\n\n" + f"Some *marked* words of {n}. " * 40 for n in range(6)),
    "word " * 900,
)
MIXED = (
    "# Zählung\n\n" + "Die Stadt hat alle Häuser gezählt, und das Ergebnis ist für jeden zugänglich. " * 14,
    "# Zählung\n\n"
    + "Die Stadt hat alle Häuser gezählt, und das Ergebnis ist für jeden zugänglich. " * 14
    + "\n\n# Census\n\n"
    + "The city has counted all of its houses, and the results are for everyone. " * 14,
    "Город публикует сведения о качестве воздуха.",
    "市は毎日大気の質を公表する。",
)
DATASET = {
    "title": "Trees",
    "identifier": "doi:10.1234/abc",
    "landing_page": "https://example.org/trees",
    "source": {"id": "6f8bd1c0-1f2a-4c5e-9a52-000000000001", "name": "trees", "n": 1.0},
}
DOCUMENTS = (
    Document("https://example.org/1", " A\ttitle ", "Text \r\nwith  lines\n\n\n", ("b", "a", "b"), {"x": [1, 2.0]}),
    Document(
        "https://example.org/2", "e\u0301", "e\u0301 \x00", record=DATASET, language="de", media_type=datasets.DATASET
    ),
    Document("https://example.org/3", "t" * 5_000, "", links=("https://example.org/1",), depth=2),
)
PAGE = prompt.PageText("https://example.org/p", "Hay", prompt.cleaned("It costs 19\\.5 EUR."), {"price": 19.5})
STATED = (
    '<div about="/m" typeof="schema:Event"><ul><li rel="schema:attendee" typeof="schema:Person">'
    '<b property="schema:name">Ada</b><i property="schema:height" datatype="xsd:decimal">1.70</i></li>'
    '<li rel="schema:attendee"><i rel="schema:knows"><b property="schema:name" lang="de">Bo</b></i></li></ul>'
    '<p property="schema:name" inlist="">A</p></div>'
)
SCHEMA = Schema("offer", "1.0.0", {"type": "object", "properties": {"price": {"type": "number"}}})


def _pages() -> list[bytes]:
    nothing = CIMultiDictProxy(CIMultiDict[str]())
    plain = Response(URLS[0], 200, nothing, b"<p>a</p>", media_type="text/html", charset="utf-8")
    odd = Response(URLS[0], 200, nothing, b"<p>a</p>", media_type="text/plain", charset="latin-1")
    directives = frozenset({"noindex"})
    return [visit._hash_of(one, robots) for one in (plain, odd) for robots in (frozenset[str](), directives)]


def _edges() -> list[Any]:
    return [edge for text in TEXTS for edge in Edge.of(Document(URLS[0], "Hay", text))]


def _places() -> list[Any]:
    """Places of members of a stream, also without a time or sequence."""
    first = StreamMember("urn:a:1", "urn:a", 7, 1, 8, 2, False, None, False, "", "", (), {})
    members = (
        first,
        first._replace(version_time=None, version_sequence=0),
        first._replace(time=None, version_time=None),
    )
    return [_place(member) for member in members]


def _looks() -> list[str] | None:
    unidentified = Unidentified()
    for url in URLS:
        unidentified.add(url)
    return unidentified.stored()


def _marks() -> list[Any]:
    options = {"headers": {"X-Key": "env:KEY"}, "api_url": "https://api.example"}
    return [mark("ckan", URLS[0], options) for mark in (agreements._mark, agreements._mark_of_addresses)]


def _records() -> list[Any]:
    def never(_: Any) -> Any:
        raise AssertionError

    record = {"b": 1, "a": [None, "ü"]}
    row = unparsed_json(
        record, never, url=URLS[0], steady=lambda value: value, options=DocumentOptions(), beside="x", mark=b"\x01"
    )
    named = {"title": "Hay", "landingPage": "https://example.org/hay"}
    names = [item_url(named, URLS[0]), item_url({**named, "identifier": "urn:a b"}, URLS[0]), *traits_of(named)]
    return [row.digest, mark_of_bytes(b'{"a": 1}'), unread_url(URLS[0], b"what", 1), _looks(), names]  # type: ignore[union-attr]


def _names(url: str) -> list[Any]:
    return [key(url), canonical(url) if url.startswith(("http", "file")) else "", name_within(url * 99)]


def _document(d: Document) -> list[Any]:
    return [d.title, d.text, d.tags, d.content_hash, d.record_hash, d.written.facts(), d.written.apart()]


def _passages(text: str) -> list[Any]:
    language = languages.item_language(None, "", text)
    parts = [
        (part.text, part.heading, part.anchor, part.text_hash, languages.passage_language(part.text, language))
        for part in chunks.split(text)
    ]
    return [language, *parts]


def _recipes() -> list[Any]:
    records = sieve.recipes("ckan", {"language": None, "records": 4})
    return [sieve._hash(["web", 2, {"select": None}]), records.records, records.old]


def _answer() -> list[Any]:
    model = ModelSpec("openai", "m", "https://m.example")
    # The marks around the page are no part of the question.
    words = [re.sub(r"page-[0-9a-f]+", "page-", message.text) for message in prompt.page_question(PAGE, "Be brief.")]
    return [words, prompt.answer_key(PAGE, SCHEMA, model, context_tokens=8000)]


class Stored(NamedTuple):
    """A stored hash: its version, its values for the examples, and their digests by version."""

    version: Callable[[], int | str]
    examples: Callable[[], Any]
    digests: dict[int | str, str]


def _of(name: str) -> Callable[[], int]:
    return lambda: hashes.VERSIONS[name]


STORED = {
    "key": Stored(_of("key"), lambda: [_names(url) for url in URLS], {1: "bbc8df36c9e64aa2"}),
    "document": Stored(
        lambda: hashes.DOCUMENT_VERSION, lambda: list(map(_document, DOCUMENTS)), {1: "2bd86303e95d33c6"}
    ),
    "passages": Stored(
        lambda: readers.CHUNKER_VERSION, lambda: list(map(_passages, [*TEXTS, *MIXED])), {4: "9230693e75058545"}
    ),
    "body": Stored(_of("body"), lambda: [body_hash(b"a"), *_pages(), *_edges(), *_places()], {1: "acd7589d7e052b37"}),
    "record": Stored(_of("record"), _records, {1: "da9438ff3430138f"}),
    "twins": Stored(
        _of("twins"), lambda: [datasets.marks(DOCUMENTS[1]), datasets.page_mark(URLS[0])], {1: "765b002ad721f445"}
    ),
    "question": Stored(_of("question"), lambda: text_hash("What is hay?"), {1: "a0b32040db784cdd"}),
    "schema": Stored(_of("schema"), lambda: SCHEMA.hash, {1: "725776d38cdd83ba"}),
    "facts": Stored(
        _of("facts"), lambda: [data_hash({"b": 5.0, "a": [1, None, "ü"]}), data_hash([])], {1: "0c5ce1b3a9924206"}
    ),
    "statements": Stored(
        _of("statements"), lambda: [str(unnamed("a", "b")), str(unnamed("ab"))], {1: "ac52b2776906511d"}
    ),
    "note": Stored(_of("note"), lambda: [sources._note_key("a"), sources._note_key("\ud800")], {1: "a922e1a602da83e5"}),
    "rdfa": Stored(
        lambda: STATEMENTS_VERSION,
        lambda: list(kept_statements(read_rdfa(STATED, URLS[0]), URLS[0]).lines),
        {2: "6e97ad17bdd1af5e"},
    ),
    # The first of the two marks has no version, and is only compared with what earlier programs wrote.
    "agreement": Stored(lambda: 2, _marks, {2: "46bce32d2ae8a954"}),
    "git": Stored(_of("git"), lambda: git_digest([("b", "2"), ("a", None)]), {1: "6dfb29e5231cde71"}),
    "token": Stored(_of("token"), lambda: [token_digest("secret"), callback_hash("token")], {1: "cd4773fa0ee84ee5"}),
    "recipe": Stored(lambda: readers.VERSION, _recipes, {2: "5a31638689ab5266"}),
    "answer": Stored(lambda: f"{prompt.PROMPT_VERSION}/{prompt.CLEANER_VERSION}", _answer, {"1/1": "d4e901ea3fde4105"}),
}


def digest(value: Any) -> str:
    """Return a digest of values that is the same on every machine."""
    return sha256(repr(_plain(value)).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.hex() if isinstance(value, bytes) else value


@pytest.mark.parametrize("name", STORED)
def test_a_stored_hash_changes_with_its_version_and_never_without_it(name: str) -> None:
    stored = STORED[name]
    version = stored.version()

    assert version in stored.digests, f"add the digest of version {version} of {name}: {digest(stored.examples())}"
    assert digest(stored.examples()) == stored.digests[version], f"{name} changed: raise its version"
    assert len(set(stored.digests.values())) == len(stored.digests), f"{name} has a version that changed nothing"


def test_each_version_has_examples() -> None:
    assert set(hashes.VERSIONS) - set(STORED) == {"title"}


async def test_a_title_is_hashed_by_the_database_as_its_version_says(database: ScratchDatabase) -> None:
    facts = """('{"publisher": "Us"}'::jsonb)"""
    rows = database.query(
        f"select title_words('Hay', {facts}, type), title_words('', {facts}, type)"
        f" from unnest(array['{datasets.DATASET}', 'text/html', null]) as type"
    )

    assert {1: "8d6a8a390ea21b44", 2: "5b9ecb9df3849fef"}[hashes.VERSIONS["title"]] == digest(rows)


async def test_a_database_has_the_versions_of_the_program_once_it_is_migrated(database: ScratchDatabase) -> None:
    stored = dict(database.query("select name, version from hash_version"))

    assert stored == hashes.VERSIONS


async def test_the_version_of_passages_is_noted_with_the_first_run(database: ScratchDatabase, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Hay.")
    async with database.open() as r:
        await r.sync(str(tmp_path))
        async with r._engine.database.connection() as c:
            assert await store_passages.hash_version(c, PASSAGE_HASHES) == readers.CHUNKER_VERSION
