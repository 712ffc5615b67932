"""What pages state, as others take it: N-Quads, delta files of the mu-semtech stack, updates of a SPARQL endpoint."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from pyoxigraph import Literal, NamedNode, RdfFormat, Triple, parse

from rowen.errors import ExportError, UsageError
from rowen.model.rdf import DELTA, StatementChange

__all__ = ["SparqlUpdate", "checked_graph", "delta_file", "last_delta", "quad_lines", "updates", "whole_file"]

# What endpoints take without a thought: Virtuoso refuses queries of more than some 10,000 lines, others those of 1 MB.
MOST_STATEMENTS = 500
MOST_CHARS = 250_000


def checked_graph(graph: str | None) -> str | None:
    """Return a graph's name; raise where it is none."""
    if graph is None:
        return None
    try:
        return str(NamedNode(graph).value)
    except ValueError:
        raise UsageError(
            f"{graph!r} is no name of a graph.", hint="It is an IRI, such as http://example.org/g."
        ) from None


def quad_lines(page: str, lines: Iterable[str], graph: str | None) -> Iterator[str]:
    """Statements as lines of N-Quads, in the graph that is named or in that of their page."""
    named = _graph(graph or page)
    return (f"{line} {named} .\n" for line in lines)


def delta_file(changes: Iterable[StatementChange], graph: str | None) -> bytes:
    """Return a whole file of changes."""
    lines = ",\n".join(json.dumps(change_set(change, graph), ensure_ascii=False) for change in changes)
    return f"[\n{lines}\n]\n".encode()


def change_set(change: StatementChange, graph: str | None) -> dict[str, Any]:
    """Return how a page changed, in the shape of delta consumers."""
    named = {"type": "uri", "value": _name(graph or change.page)}
    return {
        "deletes": [_quad(triple, named) for triple in _triples(change.gone(graph))],
        "inserts": [_quad(triple, named) for triple in _triples(change.added)],
    }


def _quad(triple: Triple, graph: dict[str, str]) -> dict[str, Any]:
    parts = {"subject": triple.subject, "predicate": triple.predicate, "object": triple.object}
    return {**{name: _term(part) for name, part in parts.items()}, "graph": graph}


def _term(term: object) -> dict[str, str]:
    """SPARQL 1.1 Query Results JSON, section 3.2.2."""
    if not isinstance(term, Literal):
        return {"type": "uri", "value": str(getattr(term, "value", term))}
    told = {"type": "literal", "value": term.value}
    if term.language:
        return {**told, "xml:lang": term.language}
    is_plain = term.datatype.value == "http://www.w3.org/2001/XMLSchema#string"
    return told if is_plain else {**told, "datatype": term.datatype.value}


def _triples(lines: Sequence[str]) -> Iterator[Triple]:
    text = "".join(f"{line} .\n" for line in lines)
    return (quad.triple for quad in parse(text, RdfFormat.N_TRIPLES, lenient=True))


class SparqlUpdate(NamedTuple):
    """One request: what it does, the number of the last change that is whole with it, and how much that is."""

    text: str
    number: int | None
    pages: int
    added: int
    removed: int


class _FillingUpdate:
    """A request that is being filled."""

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
    """SPARQL updates that repeat how pages changed, in order: of each first what is gone, then what is new.

    Many small changes are one request, a large one is several.
    """
    request = _FillingUpdate()
    for change in changes:
        named = _graph(graph or change.page)
        told = [("DELETE", piece) for piece in _pieces(change.gone(graph))]
        for verb, piece in (*told, *(("INSERT", piece) for piece in _pieces(change.added))):
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
    """Return the name of a page's graph: its address, as an IRI can be written."""
    try:
        return str(NamedNode(page).value)
    except ValueError:
        forbidden = ' <>"{}|\\^`'
        return "".join(f"%{ord(letter):02X}" if letter in forbidden else letter for letter in page)


def _graph(page: str) -> str:
    return f"<{_name(page)}>"


def last_delta(folder: Path) -> int:
    """Return the number up to which delta files are there; 0 where there are none."""
    start, end = DELTA.partition("{")[0], DELTA.rpartition("}")[2]
    numbers = (path.name.removeprefix(start).removesuffix(end) for path in folder.glob(f"{start}*{end}"))
    return max((int(number) for number in numbers if number.isdigit()), default=0)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[str]]:
    """Return a file that is there whole or not at all."""
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
