"""Formats of pages' RDF statements: N-Quads, delta files of the mu-semtech stack, SPARQL updates."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from pyoxigraph import Literal, NamedNode, RdfFormat, parse

from rowen.errors import ExportError, UsageError
from rowen.model.rdf import DELTA, StatementChange

# The maximum size that endpoints accept: Virtuoso rejects updates of more than about 10,000 lines, others 1 MB.
MOST_STATEMENTS = 500
MOST_CHARS = 250_000


def checked_graph(graph: str | None) -> str | None:
    """Return the name of a graph; raise `UsageError` if it is invalid."""
    if graph is None:
        return None
    try:
        return str(NamedNode(graph).value)
    except ValueError:
        raise UsageError(
            f"{graph!r} is not a valid name of a graph.", hint="Use an IRI, such as http://example.org/g."
        ) from None


def quad_lines(page: str, lines: Iterable[str], graph: str | None) -> Iterator[str]:
    """Yield RDF statements as lines of N-Quads, in the graph `graph`, or in a graph with the name of the page."""
    named = _graph(graph or page)
    return (f"{line} {named} .\n" for line in lines)


def delta_file(changes: Iterable[StatementChange], graph: str | None) -> bytes:
    """Return a file of changes in the format of delta consumers."""
    lines = ",\n".join(json.dumps(_change_set(change, graph), ensure_ascii=False) for change in changes)
    return f"[\n{lines}\n]\n".encode()


def _change_set(change: StatementChange, graph: str | None) -> dict[str, Any]:
    named = {"type": "uri", "value": _name(graph or change.page)}

    def quads(lines: Sequence[str]) -> list[dict[str, Any]]:
        text = "".join(f"{line} .\n" for line in lines)
        return [
            {"subject": _term(quad.subject), "predicate": _term(quad.predicate), "object": _term(quad.object)}
            | {"graph": named}
            for quad in parse(text, RdfFormat.N_TRIPLES, lenient=True)
        ]

    return {"deletes": quads(change.gone(graph)), "inserts": quads(change.added)}


def _term(term: object) -> dict[str, str]:
    """Return a term in the form of SPARQL 1.1 Query Results JSON, section 3.2.2."""
    if not isinstance(term, Literal):
        return {"type": "uri", "value": str(getattr(term, "value", term))}
    literal = {"type": "literal", "value": term.value}
    if term.language:
        return {**literal, "xml:lang": term.language}
    is_plain = term.datatype.value == "http://www.w3.org/2001/XMLSchema#string"
    return literal if is_plain else {**literal, "datatype": term.datatype.value}


class SparqlUpdate(NamedTuple):
    """One request: its text, the number of the last change that it completes, and the numbers of its statements."""

    text: str
    number: int | None
    pages: int
    added: int
    removed: int


class _FillingUpdate:
    """A request under construction."""

    def __init__(self) -> None:
        self.operations: list[str] = []
        self.statements = self.chars = self.pages = self.added = self.removed = 0
        self.number: int | None = None

    def has_room(self, lines: Sequence[str]) -> bool:
        size = sum(map(len, lines))
        return self.statements + len(lines) <= MOST_STATEMENTS and self.chars + size <= MOST_CHARS

    def add(self, verb: str, named: str, lines: Sequence[str]) -> None:
        body = " .\n".join(lines)
        self.operations.append(f"{verb} DATA {{ GRAPH {named} {{\n{body} .\n}} }}")
        self.statements += len(lines)
        self.chars += sum(map(len, lines))
        if verb == "INSERT":
            self.added += len(lines)
        else:
            self.removed += len(lines)

    def written(self) -> SparqlUpdate:
        return SparqlUpdate(" ;\n".join(self.operations), self.number, self.pages, self.added, self.removed)


def updates(changes: Iterable[StatementChange], graph: str | None) -> Iterator[SparqlUpdate]:
    """Yield SPARQL updates that apply the changes of pages in order: each removes statements before it adds new ones.

    Many small changes are one request; a large change is divided into several requests.
    """
    request = _FillingUpdate()
    for change in changes:
        named = _graph(graph or change.page)
        pieces = [("DELETE", piece) for piece in _pieces(change.gone(graph))]
        for verb, piece in (*pieces, *(("INSERT", piece) for piece in _pieces(change.added))):
            if request.operations and not request.has_room(piece):
                yield request.written()
                request = _FillingUpdate()
            request.add(verb, named, piece)
        request.number = change.number
        request.pages += 1
    if request.number is not None:
        yield request.written()


def _pieces(lines: Iterable[str]) -> Iterator[list[str]]:
    piece: list[str] = []
    size = 0
    for line in lines:
        if piece and (len(piece) == MOST_STATEMENTS or size + len(line) > MOST_CHARS):
            yield piece
            piece, size = [], 0
        piece.append(line)
        size += len(line)
    if piece:
        yield piece


def _name(page: str) -> str:
    """Return the name of a page's graph: the page's address as a valid IRI."""
    try:
        return str(NamedNode(page).value)
    except ValueError:
        forbidden = ' <>"{}|\\^`'
        return "".join(f"%{ord(letter):02X}" if letter in forbidden else letter for letter in page)


def _graph(page: str) -> str:
    return f"<{_name(page)}>"


def last_delta(folder: Path) -> int:
    """Return the highest change number in the delta files of a folder; 0 if there are none."""
    start, end = DELTA.partition("{")[0], DELTA.rpartition("}")[2]
    numbers = (path.name.removeprefix(start).removesuffix(end) for path in folder.glob(f"{start}*{end}"))
    return max((int(number) for number in numbers if number.isdigit()), default=0)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[str]]:
    """Yield a file that appears completely or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as problem:
        raise ExportError(f"{path} could not be written: {problem.strerror}. Nothing of it was kept.") from problem
    finally:
        partial.unlink(missing_ok=True)
