"""What pages state, as others take it: N-Quads, delta files of the mu-semtech stack, updates of a SPARQL endpoint."""

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pyoxigraph import Literal, NamedNode, RdfFormat, Triple, parse

from rowen.errors import ExportError, UsageError
from rowen.model.statements import StatementChange

__all__ = ["DELTA", "change_set", "checked_graph", "json_array", "last_delta", "quad_lines", "updates", "whole_file"]

DELTA = "delta-{:012}.json"
"""The name of a delta file, by the number of its last change: names sort as numbers do."""

# What endpoints take without a thought: Virtuoso refuses queries of more than some 10,000 lines, others those of 1 MB.
MOST_STATEMENTS = 500
MOST_CHARS = 250_000


def checked_graph(graph: str | None) -> str | None:
    """A graph's name; raises where it is none."""
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


def change_set(change: StatementChange, graph: str | None, kept: Collection[str] = ()) -> dict[str, Any]:
    """How a page changed, in the shape of delta consumers; what is `kept` elsewhere is not deleted."""
    named = {"type": "uri", "value": _name(graph or change.page)}
    gone = [line for line in change.removed if line not in kept]
    return {
        "deletes": [_quad(triple, named) for triple in _triples(gone)],
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


def updates(change: StatementChange, graph: str | None, kept: Collection[str] = ()) -> Iterator[str]:
    """SPARQL updates that repeat how a page changed: first what is gone, then what is new, a few hundred at a time."""
    named = _graph(graph or change.page)
    gone = [line for line in change.removed if line not in kept]
    pieces = [("DELETE", piece) for piece in _pieces(gone)] + [("INSERT", piece) for piece in _pieces(change.added)]
    for verb, piece in pieces:
        body = " .\n".join(piece)
        yield f"{verb} DATA {{ GRAPH {named} {{\n{body} .\n}} }}"


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
    """The name of a page's graph: its address, as an IRI can be written."""
    try:
        return str(NamedNode(page).value)
    except ValueError:
        forbidden = ' <>"{}|\\^`'
        return "".join(f"%{ord(letter):02X}" if letter in forbidden else letter for letter in page)


def _graph(page: str) -> str:
    return f"<{_name(page)}>"


def last_delta(folder: Path) -> int:
    """The number up to which delta files are there; 0 where there are none."""
    start, end = DELTA.partition("{")[0], DELTA.rpartition("}")[2]
    numbers = (path.name.removeprefix(start).removesuffix(end) for path in folder.glob(f"{start}*{end}"))
    return max((int(number) for number in numbers if number.isdigit()), default=0)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[str]]:
    """A file that is there whole or not at all."""
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


def json_array(file: IO[str]) -> Callable[[Any], None]:
    """Writes values into an array, one a line; the array is closed by who opened it."""
    begun = False

    def write(value: Any) -> None:
        nonlocal begun
        file.write(",\n" if begun else "[\n")
        begun = True
        file.write(json.dumps(value, ensure_ascii=False))

    return write
