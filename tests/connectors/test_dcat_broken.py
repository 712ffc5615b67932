"""RDF with broken statements: each costs what it is about, and only what cannot be placed leaves a doubt."""

from collections.abc import Iterator
from typing import Any

import pytest

from rowen.formats.rdf.syntax import RdfBody, read_graph
from tests.conftest import ScratchDatabase
from tests.portals.catalogs import keep
from tests.portals.dcat import DcatPortal

HEAD = "@prefix dcat: <http://www.w3.org/ns/dcat#> . @prefix dct: <http://purl.org/dc/terms/> .\n"
TITLE = "<http://purl.org/dc/terms/title>"


class Spoiled(DcatPortal):
    """Something is added to what it sends."""

    def __init__(self) -> None:
        super().__init__()
        self.syntax = "nt"
        self.validator = "none"
        self.added = b""

    def document(self, query: dict[str, str] | None = None) -> bytes:
        whole = super().document(query)
        middle = whole.index(b"\n", len(whole) // 2) + 1
        return whole[:middle] + self.added + whole[middle:]


@pytest.fixture
def portal() -> Iterator[Spoiled]:
    portal = Spoiled()
    yield portal
    portal.close()


def parsed(body: str, name: str = "turtle") -> Any:
    return read_graph(RdfBody(body.encode(), "http://x.example/c"), option=name, most_triples=10_000)


def paragraph(number: int, more: str = "") -> str:
    return f'<http://x.example/{number}> a dcat:Dataset ;\n    {more}dct:title "Number {number}" .\n\n'


@pytest.mark.parametrize("about", ["http://portal.example/dataset/d00003", "https://files.example/d00003"])
async def test_a_broken_statement_about_a_dataset_or_its_file_holds_no_deletion_back(
    database: ScratchDatabase, portal: Spoiled, about: str
) -> None:
    portal.fill(30)
    async with database.open() as r:
        await keep(r, portal)
        portal.added = f'<{about}> {TITLE} "x" y .\n'.encode()
        del portal.records["d00010"]
        portal.make("d00003", "Edited")
        runs = [await r.sync("portal") for _ in range(2)]
        cases = database.query("select url, tries, payload from quarantine")
        portal.added = b""
        healed = await r.sync("portal")

    assert [(run.status, run.stats.deleted, run.stats.failed) for run in runs] == [
        ("completed", 1, 1),
        ("completed", 0, 1),
    ]
    [(url, tries, payload)] = cases
    assert url.endswith("/d00003")
    assert tries == 2
    assert bytes(payload).strip() == f'<{about}> {TITLE} "x" y .'.encode()
    assert (healed.stats.updated, healed.stats.failed) == (1, 0)


@pytest.mark.parametrize(
    "added",
    [
        b'"nobody" <http://purl.org/dc/terms/title> "x" .\n',
        b'<http://portal.example/dataset/unknown> <http://purl.org/dc/terms/title> "x" y .\n',
        b'<http://portal.example/> <http://www.w3.org/ns/hydra/core#next> "x" y .\n',
    ],
)
async def test_a_broken_statement_that_cannot_be_placed_deletes_nothing_and_is_one_case(
    database: ScratchDatabase, portal: Spoiled, added: bytes
) -> None:
    portal.fill(30)
    async with database.open() as r:
        await keep(r, portal)
        portal.added = added
        del portal.records["d00010"]
        runs = []
        for number in range(3):
            portal.make(f"new{number}")
            runs.append(await r.sync("portal", accept_deletions=True))

    assert [(run.status, run.stats.deleted) for run in runs] == [("partial", 0)] * 3
    assert database.query("select tries, payload from quarantine") == [(3, added)]


async def test_a_dataset_of_which_nothing_can_be_read_keeps_its_last_good_copy(
    database: ScratchDatabase, portal: Spoiled
) -> None:
    portal.fill(20)
    async with database.open() as r:
        await keep(r, portal)
        lines = portal.document().splitlines(keepends=True)
        about = b"<http://portal.example/dataset/d00003> "
        kept = [line for line in lines if not line.startswith(about)]
        portal.body = b"".join(kept) + about + b"oops .\n"
        run = await r.sync("portal", accept_deletions=True)

    assert (run.status, run.stats.deleted, run.stats.failed) == ("completed", 0, 1)
    assert database.query("select title from item where url like '%%d00003'") == [("Dataset d00003",)]


@pytest.mark.parametrize(
    "broken",
    [
        "dct:issued oops ;\n    ",
        "nope:x <http://x.example/> ;\n    ",
        'dct:description "never closed ;\n    ',
        'dct:description """never closed. It goes on ;\n    ',
        "oops <http://x.example/> ;\n    ",
    ],
)
def test_a_broken_paragraph_of_turtle_costs_no_other(broken: str) -> None:
    body = HEAD + "".join(paragraph(number, broken if number == 5 else "") for number in range(10))

    graph, unread = parsed(body)

    whole = {int(node.rpartition("/")[2]) for node in graph if graph.values(node, "dct:title")}
    assert whole >= set(range(10)) - {5}
    assert [one.node for one in unread] == ["http://x.example/5"] or "never closed." in broken
    assert graph.broken <= {"http://x.example/5"}


def test_words_of_many_lines_are_not_taken_for_statements() -> None:
    words = 'dct:description """One.\n<p>Two.\n\nhttps://x.example/ three.\nContact: four.\n    Five.""" ;\n    '
    body = HEAD + "".join(paragraph(n, words if n != 5 else "dct:issued oops ; ") for n in range(10))

    graph, unread = parsed(body)

    assert [one.node for one in unread] == ["http://x.example/5"]
    assert sum(bool(graph.values(node, "dct:description")) for node in graph) == 9


def test_a_missing_quotation_mark_swallows_no_other_line() -> None:
    lines = [f'<http://x.example/{number}> {TITLE} "{number}" .\n' for number in range(10)]
    lines[3] = f'<http://x.example/3> {TITLE} "3 .\n'
    lines[6] = f'<http://x.example/6> {TITLE} 6" .\n'

    graph, unread = parsed("".join(lines), "ntriples")

    assert {one.node for one in unread} == {"http://x.example/3", "http://x.example/6"}
    assert len([node for node in graph if graph.values(node, "dct:title")]) == 8


def test_turtle_on_one_line_is_read_on_behind_the_error_and_nothing_is_claimed() -> None:
    body = HEAD + " ".join(paragraph(n, "dct:issued oops ; " if n == 5 else "").replace("\n", " ") for n in range(10))

    graph, [unread] = parsed(body)

    assert unread.node is None
    assert len([node for node in graph if graph.values(node, "dct:title")]) == 9


def test_prefixes_that_change_on_the_way_are_not_mixed_up() -> None:
    other = "@prefix dct: <http://other.example/> .\n"
    body = HEAD + paragraph(1, "dct:issued oops ; ") + paragraph(2) + other + paragraph(3)

    graph, [unread] = parsed(body)

    assert unread.node is None
    said = {str(node)[-1]: set(graph.said(node)) for node in graph}
    assert "dct:title" in said["2"]
    assert "http://other.example/title" in said["3"]
