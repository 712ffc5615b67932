"""RDF statements of a page: repaired, with names for blank nodes, and checked against an application profile.

Broken IRIs, dates and languages are repaired if the meaning is clear, and dropped otherwise; both are counted by
reason. Blank nodes are replaced by skolem IRIs (RDF 1.1 Concepts, section 3.5). A skolem IRI is derived from the
page's statements about the node and about the blank nodes that it links to. A node keeps its IRI wherever it stands on
the page. If a statement about it changes, it becomes another node.

First each statement is checked, then the number of remaining values of each property of a resource. The page is the
only source about other resources: a resource without a stated type may be of any class.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import lru_cache
from hashlib import sha256
from typing import TypeAlias
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

from pyoxigraph import Literal as OxLiteral
from pyoxigraph import NamedNode

from rowen.formats.rdf.graph import Blank, Iri, Literal, Node, Term
from rowen.formats.rdf.profile import ProfileShape, PropertyRule, TermKind, profile_in
from rowen.formats.rdf.rdfa import XSD, RdfaTriple
from rowen.model.rdf import StatementProfile

GENID = "/.well-known/genid/"
"""The path by which a skolem IRI is recognised."""

# Each round includes neighbours one node further away, and costs as much as reading all statements once.
_MOST_ROUNDS = 16

_Statements: TypeAlias = Mapping[Blank, list[tuple[Node, Term]]]
_References: TypeAlias = defaultdict[Blank, list[tuple[Node, Node]]]


def skolemize(triples: Sequence[RdfaTriple], page: str) -> list[RdfaTriple]:
    """Return the triples of a page with each blank node replaced by a skolem IRI; predicates stay unchanged.

    The IRI is a hash of the page's URL, of the statements about the node, and of its number among nodes with equal
    statements.
    """
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
    contents = _contents(outgoing)
    numbers: Counter[str] = Counter()
    place = urlsplit(page)
    names = {}
    for node in _ordered(outgoing, incoming, contents):
        content = contents[node]
        text = f"{page}\n{content}\n{numbers[content]}"
        names[node] = Iri(f"{place.scheme}://{place.netloc}{GENID}{_digest(text)[:32]}")
        numbers[content] += 1

    def named(term: Term) -> Term:
        return names.get(term, term) if isinstance(term, Blank) else term

    return [(named(subject), predicate, named(value)) for subject, predicate, value in triples]  # type: ignore[misc]


def _ordered(outgoing: _Statements, incoming: _References, contents: Mapping[Blank, str]) -> list[Blank]:
    """Return all nodes in an order that does not depend on the order of statements, except for identical nodes.

    Nodes are taken in layers, starting with nodes that no blank node refers to. In a layer they are sorted by their
    surroundings and by the positions of the nodes that refer to them. Nodes in a cycle come last.
    """
    around = _surroundings(outgoing, incoming, contents)
    places: dict[Blank, str] = {}
    missing = {node: sum(isinstance(neighbour, Blank) for _, neighbour in incoming.get(node, ())) for node in outgoing}
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
    """Return a hash for each node that distinguishes nodes with equal content by their neighbours."""
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
    """Return a hash of the statements about each node, computed from the leaves up; a cycle ends where it closes."""
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


_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_STRING = "http://www.w3.org/2001/XMLSchema#string"
_LANG_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
_ESCAPED = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


@dataclass(slots=True)
class Conformance:
    """The remaining statements, and the numbers of dropped statements and of reported violations by constraint."""

    lines: set[str]
    dropped: Counter[str] = field(default_factory=Counter)
    reported: Counter[str] = field(default_factory=Counter)


def judge(
    lines: Collection[str], shapes: Sequence[ProfileShape], *, always: Collection[str] = (), drop: bool = True
) -> Conformance:
    """Check RDF statements in N-Triples without the final dot; properties in `always` are never forbidden.

    Unless `drop` is set, violations are only reported.
    """
    about: dict[str, dict[str, list[str]]] = {}
    for line in sorted(lines):
        subject, predicate, _ = line.split(" ", 2)
        about.setdefault(subject, {}).setdefault(predicate, []).append(line)
    types = {
        subject: frozenset(line.split(" ", 2)[2] for line in properties.get(_TYPE, ()))
        for subject, properties in about.items()
    }
    of_class: defaultdict[str, list[ProfileShape]] = defaultdict(list)
    for shape in shapes:
        for target in shape.targets:
            of_class[f"<{target}>"].append(shape)
    check = _Check(Conformance(set(lines)), {_TYPE, *(f"<{name}>" for name in always)}, types, drop=drop)
    for subject, properties in about.items():
        # A resource may belong to several classes of one shape.
        for shape in {id(shape): shape for name in types[subject] for shape in of_class.get(name, ())}.values():
            check.resource(properties, shape)
    return check.result


class _Check:
    """Checks the resources of one page."""

    def __init__(
        self, result: Conformance, always: set[str], types: Mapping[str, frozenset[str]], *, drop: bool
    ) -> None:
        self.result = result
        self._always = always
        self._types = types
        self._drop = drop

    def resource(self, properties: Mapping[str, list[str]], shape: ProfileShape) -> None:
        if shape.allowed is not None:
            allowed = {f"<{name}>" for name in shape.allowed} | self._always
            for predicate in properties.keys() - allowed:
                self._leave_out(properties[predicate], "closed", strict=shape.strict)
        for rule in shape.rules:
            for line in properties.get(f"<{rule.path}>", ()):
                if reason := self._violation(line.split(" ", 2)[2], rule):
                    self._leave_out([line], reason, strict=rule.strict)
        for rule in shape.rules:
            left = [line for line in properties.get(f"<{rule.path}>", ()) if line in self.result.lines]
            if rule.at_most is not None and len(left) > rule.at_most:
                # All values are dropped, since none is preferred.
                self._leave_out(left, "maxCount", strict=rule.strict)
            elif len(left) < rule.at_least:
                # A resource without a required value does not conform.
                every = [line for lines in properties.values() for line in lines]
                self._leave_out(every, "minCount", strict=rule.strict)

    def _leave_out(self, lines: Iterable[str], reason: str, *, strict: bool) -> None:
        if not (strict and self._drop):
            self.result.reported[reason] += 1
            return
        dropped = self.result.lines.intersection(lines)
        self.result.lines -= dropped
        self.result.dropped[reason] += len(dropped)

    def _violation(self, term: str, rule: PropertyRule) -> str | None:
        """Return the constraint that a value violates; None if the value conforms."""
        is_name = term.startswith("<")
        kind: TermKind = ("blank" if GENID in term else "iri") if is_name else "literal"
        if rule.kind is not None and kind not in rule.kind:
            return "nodeKind"
        if rule.datatype is not None and (is_name or _term_datatype(term) != rule.datatype):
            return "datatype"
        # A resource without a known type may be of any class.
        types = self._types.get(term)
        if rule.of_class is not None and (not is_name or (types and f"<{rule.of_class}>" not in types)):
            return "class"
        if rule.values is not None and term not in rule.values:
            return "in"
        if rule.pattern is not None and not rule.pattern(term[1:-1] if is_name else _text(term)):
            return "pattern"
        return None


def _term_datatype(term: str) -> str:
    """Return the datatype of a literal; neither a language nor an IRI contains a quotation mark."""
    behind = term[term.rindex('"') + 1 :]
    if behind.startswith("@"):
        return _LANG_STRING
    return behind[3:-1] if behind else _STRING


def _text(term: str) -> str:
    """Return the text of a literal with its escapes resolved."""
    return _ESCAPED.sub(_letter, term[1 : term.rindex('"')])


def _letter(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _LETTERS.get(match[3], match[3])


UUID = NamedNode("http://mu.semte.ch/vocabularies/core/uuid")
DERIVED = NamedNode("http://www.w3.org/ns/prov#wasDerivedFrom")
_USES = "http://www.w3.org/ns/rdfa#usesVocabulary"

_FORBIDDEN = re.compile(r'[\x00-\x20<>"{}|\\^`]')
_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*")
# Date formats used in Flanders: year first, or day first.
_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_DAY_FIRST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})(?!\d)")
_CLOCK = re.compile(
    r"[T\s,]*(\d{1,2})[:.h](\d{1,2})(?:[:.](\d{1,2})(?:[.,]\d+)?)?\s*(Z|[+-]\d{1,2}:?\d{2})?", re.IGNORECASE
)
_DATE = re.compile(r"-?\d{4,}-\d\d-\d\d(?:Z|[+-]\d\d:\d\d)?")
_DATE_TIME = re.compile(r"-?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?")
_BOOLEANS = {"true": "true", "false": "false", "1": "1", "0": "0"}
_INTEGER = re.compile(r"[+-]?\d+")


class _UnfitError(ValueError):
    """A term cannot be repaired; the message is the reason that is counted."""


@dataclass(slots=True)
class Statements:
    """The RDF statements of a page in N-Triples without the final dot, sorted, each once."""

    lines: list[str] = field(default_factory=list)
    repaired: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    violations: Counter[str] = field(default_factory=Counter)


def kept_statements(triples: Iterable[RdfaTriple], page: str, profile: StatementProfile | None = None) -> Statements:
    """Return the RDF statements of a page to store, with a UUID and the page as origin for each resource.

    A UUID is derived from the IRI of its resource, so that it is equal on all pages and in all runs; a UUID in the
    page takes precedence. Before that, statements that violate the profile are dropped or only counted.
    """
    result = Statements()
    origin = _named(page, result)
    lines: set[str] = set()
    for subject, predicate, value in skolemize([t for t in dict.fromkeys(triples) if t[1] != _USES], page):
        try:
            if isinstance(predicate, Blank):
                raise _UnfitError("blank")
            name = _named(subject, result)
            term = str(_literal(value, result)) if isinstance(value, Literal) else _named(value, result)
            lines.add(f"{name} {_named(predicate, result)} {term}")
        except _UnfitError as problem:
            result.dropped[str(problem)] += 1
    if profile is not None:
        conformance = judge(lines, profile_in(profile.shapes), always=(UUID.value, DERIVED.value), drop=profile.drop)
        lines = conformance.lines
        result.violations = conformance.reported
        result.dropped += conformance.dropped
    parts = [line.split(" ", 2) for line in lines]
    identified = {subject for subject, predicate, _ in parts if predicate == str(UUID)}
    for resource in {subject for subject, *_ in parts}:
        lines.add(f"{resource} {DERIVED} {origin}")
        if resource not in identified:
            lines.add(f"{resource} {UUID} {OxLiteral(str(uuid5(NAMESPACE_URL, resource[1:-1])))}")
    result.lines = sorted(lines)
    return result


def _named(iri: str, result: Statements) -> str:
    """Return an IRI in angle brackets, repaired if necessary; raise `_UnfitError` if that is impossible."""
    node, is_repaired = _node(iri)
    if node is None:
        raise _UnfitError("iri")
    if is_repaired:
        result.repaired["iri"] += 1
    return node


@lru_cache(maxsize=4096)
def _node(iri: str) -> tuple[str | None, bool]:
    """Return an IRI in angle brackets and whether it was repaired; None if it cannot be repaired."""
    try:
        return str(NamedNode(iri)), False
    except ValueError:
        pass
    try:
        return str(NamedNode(_FORBIDDEN.sub(lambda match: f"%{ord(match[0]):02X}", iri.strip()))), True
    except ValueError:
        return None, False


def _literal(value: Literal, result: Statements) -> OxLiteral:
    if not value.text.strip():
        raise _UnfitError("empty")
    if value.datatype is not None:
        return _typed(value.text, value.datatype, result)
    if value.language is None:
        return OxLiteral(value.text)
    language = value.language.strip().replace("_", "-")
    if _LANGUAGE.fullmatch(language):
        result.repaired["language"] += language != value.language
        with suppress(ValueError):
            return OxLiteral(value.text, language=language)
    result.repaired["language"] += 1
    return OxLiteral(value.text)


def _typed(text: str, datatype: str, result: Statements) -> OxLiteral:
    plain = text.strip()
    match datatype.removeprefix(XSD) if datatype.startswith(XSD) else "":
        case "date":
            fit, reason = _date(plain), "date"
        case "dateTime":
            fit, reason = _moment(plain), "date"
        case "boolean":
            fit, reason = _BOOLEANS.get(plain.lower()), "value"
        case "integer":
            fit, reason = plain if _INTEGER.fullmatch(plain) else None, "value"
        case _:
            return OxLiteral(text, datatype=_datatype(_named(datatype, result)[1:-1]))
    if fit is None:
        raise _UnfitError(reason)
    result.repaired[reason] += fit != plain
    return OxLiteral(fit, datatype=_datatype(_named(datatype, result)[1:-1]))


@lru_cache(maxsize=256)
def _datatype(iri: str) -> NamedNode:
    return NamedNode(iri)


def _date(text: str) -> str | None:
    """Return a date in normal form; a date with time becomes its day in UTC. None for any other text."""
    if not _DATE.fullmatch(text):
        moment = _parts(text)
        return moment.date().isoformat() if moment is not None else None
    match = _YEAR_FIRST.match(text)
    try:
        return text if match and date(*map(int, match.groups())) else None
    except ValueError:
        return None


def _moment(text: str) -> str | None:
    """Return a date with time in normal form; if it must be repaired, in UTC. None for any other text."""
    moment = _parts(text)
    if moment is None:
        return None
    return text if _DATE_TIME.fullmatch(text) else moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def _parts(text: str) -> datetime | None:
    """Return the date and time in a text, in UTC; None if the text is no date, or has other text after it."""
    match = _YEAR_FIRST.match(text) or _DAY_FIRST.match(text)
    if match is None:
        return None
    first, month, last = map(int, match.groups())
    year, day = (first, last) if len(match[1]) == 4 else (last, first)
    rest = text[match.end() :]
    clock = _CLOCK.fullmatch(rest)
    if rest.strip() and clock is None and rest not in ("Z", "z"):
        return None
    hour, minute, second = (int(part or 0) for part in clock.groups()[:3]) if clock else (0, 0, 0)
    # A missing time zone means UTC.
    zone = "+00:00"
    if clock and clock[4] and clock[4] not in "Zz":
        digits = clock[4][1:].replace(":", "").rjust(4, "0")
        zone = f"{clock[4][0]}{digits[:2]}:{digits[2:]}"
    try:
        return datetime.fromisoformat(
            f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{zone}"
        ).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
