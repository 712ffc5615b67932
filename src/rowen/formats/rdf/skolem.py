"""Blank nodes become skolem IRIs (RDF 1.1 Concepts, section 3.5) that are the same in every reading of a page.

The IRI of a node is derived from what the page states about it, also through other blank nodes. A node keeps its IRI
wherever it stands on the page. Where a statement about it changes, it is another node.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TypeAlias
from urllib.parse import urlsplit

from rowen.formats.rdf.graph import Blank, Iri, Literal, Node, Term
from rowen.formats.rdf.rdfa import RdfaTriple

__all__ = ["GENID", "skolemize"]

GENID = "/.well-known/genid/"
"""The path that marks a skolem IRI."""

# Each round looks one node further, and costs as much as reading all statements once.
_MOST_ROUNDS = 16

_Statements: TypeAlias = Mapping[Blank, list[tuple[Node, Term]]]
_References: TypeAlias = defaultdict[Blank, list[tuple[Node, Node]]]


def skolemize(triples: Sequence[RdfaTriple], page: str) -> list[RdfaTriple]:
    """Return the triples of a page with a skolem IRI for each blank node; a predicate stays as it is."""
    outgoing: dict[Blank, list[tuple[Node, Term]]] = {}
    incoming: _References = defaultdict(list)
    for subject, predicate, value in triples:
        if isinstance(subject, Blank):
            outgoing.setdefault(subject, []).append((predicate, value))
        if isinstance(value, Blank):
            outgoing.setdefault(value, [])
            incoming[value].append((predicate, subject))
    if not outgoing:
        return list(triples)
    names = _names(outgoing, incoming, page)

    def named(term: Term) -> Term:
        return names.get(term, term) if isinstance(term, Blank) else term

    return [(named(subject), predicate, named(value)) for subject, predicate, value in triples]  # type: ignore[misc]


def _names(outgoing: _Statements, incoming: _References, page: str) -> dict[Blank, Iri]:
    """Return the IRI of each node: a hash of the page, of what is stated about it, and of its number among equals."""
    contents = _contents(outgoing)
    numbers: Counter[str] = Counter()
    place = urlsplit(page)
    names = {}
    for node in _ordered(outgoing, incoming, contents):
        content = contents[node]
        text = f"{page}\n{content}\n{numbers[content]}"
        names[node] = Iri(f"{place.scheme}://{place.netloc}{GENID}{_digest(text)[:32]}")
        numbers[content] += 1
    return names


def _ordered(outgoing: _Statements, incoming: _References, contents: Mapping[Blank, str]) -> list[Blank]:
    """Return all nodes in an order that does not depend on the order of the statements, except between true twins.

    Nodes are taken layer by layer, those that no other blank node refers to first. In a layer they are sorted by their
    surroundings and by the places of the nodes that refer to them. Nodes in a cycle come last.
    """
    around = _surroundings(outgoing, incoming, contents)
    places: dict[Blank, str] = {}
    missing = {node: sum(isinstance(one, Blank) for _, one in incoming.get(node, ())) for node in outgoing}
    layer = [node for node, count in missing.items() if not count]
    while len(places) < len(outgoing):
        layer = layer or [node for node in outgoing if node not in places]
        hashes = {
            node: _digest("\n".join([around[node], *sorted(f"{p} {_term(of, places)}" for p, of in incoming[node])]))
            for node in layer
        }
        layer.sort(key=hashes.__getitem__)
        places |= {node: f"{len(places) + number}" for number, node in enumerate(layer)}
        following = []
        for node in layer:
            for _, value in outgoing[node]:
                if isinstance(value, Blank) and value not in places:
                    missing[value] -= 1
                    following += [] if missing[value] else [value]
        layer = following
    return list(places)


def _surroundings(outgoing: _Statements, incoming: _References, contents: Mapping[Blank, str]) -> Mapping[Blank, str]:
    """Return a hash for each node that tells it from others with the same content, by its neighbours near and far."""
    colours, count = contents, len(set(contents.values()))
    for _ in range(_MOST_ROUNDS):
        if count == len(outgoing):
            break
        finer = {
            node: _digest(
                "\n".join(
                    [
                        colours[node],
                        *sorted(f"> {name} {_term(value, colours)}" for name, value in outgoing[node]),
                        *sorted(f"< {name} {_term(of, colours)}" for name, of in incoming[node]),
                    ]
                )
            )
            for node in outgoing
        }
        if (number := len(set(finer.values()))) == count:
            break
        colours, count = finer, number
    return colours


def _contents(outgoing: _Statements) -> dict[Blank, str]:
    """Return a hash of what is stated about each node, computed from the leaves up; a cycle ends where it closes."""
    done: dict[Blank, str] = {}
    for start in outgoing:
        opened: set[Blank] = set()
        waiting = [(start, False)]
        while waiting:
            node, is_complete = waiting.pop()
            if is_complete:
                lines = sorted(f"{predicate} {_term(value, done)}" for predicate, value in outgoing[node])
                done[node] = _digest("\n".join(lines))
            elif node not in done and node not in opened:
                opened.add(node)
                waiting.append((node, True))
                waiting += [(value, False) for _, value in outgoing[node] if isinstance(value, Blank)]
    return done


def _term(term: Term, contents: Mapping[Blank, str]) -> str:
    if isinstance(term, Blank):
        return f"_:{contents.get(term, '')}"
    return repr(term) if isinstance(term, Literal) else f"<{term}>"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
