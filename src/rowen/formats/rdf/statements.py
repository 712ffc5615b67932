"""RDF statements of a page: read from RDFa, repaired, named, and checked against an application profile.

Broken IRIs, dates and languages are repaired where the meaning is clear, and left out otherwise; both are counted by
reason. Blank nodes become skolem IRIs (RDF 1.1 Concepts, section 3.5), derived from what the page states about them,
also through other blank nodes. A node keeps its IRI wherever it stands on the page. If a statement about it changes, it
is another node.

Statements are checked one by one, then resources by how many values are left of each property. What a page says of
others is all that is known of them: a resource whose type it does not state may be of any class.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
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

__all__ = ["DERIVED", "GENID", "UUID", "Conformance", "Statements", "judge", "kept_statements", "skolemize"]

GENID = "/.well-known/genid/"
"""The path that marks a skolem IRI."""

# Each round includes neighbours one node further away, and costs as much as reading all statements once.
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
    """Return the IRI of each node: a hash of the page, of the statements about it, and of its number among equals."""
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
    """Return all nodes in an order that does not depend on the order of statements, except between identical nodes.

    Nodes are taken layer by layer, those without references from other blank nodes first. In a layer they are sorted by
    their surroundings and by the places of the nodes that refer to them. Nodes in a cycle come last.
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
    """Return a hash for each node that distinguishes it from others with equal content, by its neighbours
    near and far.
    """
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
    """The statements that are kept, the number of dropped ones, and the number of reported violations by rule."""

    lines: set[str]
    dropped: Counter[str] = field(default_factory=Counter)
    reported: Counter[str] = field(default_factory=Counter)


def judge(
    lines: Collection[str], shapes: Sequence[ProfileShape], *, always: Collection[str] = (), drop: bool = True
) -> Conformance:
    """Check statements, as lines of N-Triples without their dot; no shape forbids properties in `always`.

    Unless `drop` is set, violations are only reported.
    """
    return _Judging(lines, shapes, always, drop=drop).judged()


class _Judging:
    """One page under judgement."""

    def __init__(
        self, lines: Collection[str], shapes: Sequence[ProfileShape], always: Collection[str], *, drop: bool
    ) -> None:
        self._drop = drop
        self._made = Conformance(set(lines))
        self._always = {_TYPE, *(f"<{name}>" for name in always)}
        self._about: dict[str, dict[str, list[str]]] = {}
        for line in sorted(lines):
            subject, predicate, _ = line.split(" ", 2)
            self._about.setdefault(subject, {}).setdefault(predicate, []).append(line)
        self._types = {subject: self._classes(properties) for subject, properties in self._about.items()}
        self._of_class: dict[str, list[ProfileShape]] = defaultdict(list)
        for shape in shapes:
            for target in shape.targets:
                self._of_class[f"<{target}>"].append(shape)

    @staticmethod
    def _classes(properties: Mapping[str, list[str]]) -> frozenset[str]:
        return frozenset(line.split(" ", 2)[2] for line in properties.get(_TYPE, ()))

    def judged(self) -> Conformance:
        """Judge every resource by the shapes of its classes."""
        for subject, properties in self._about.items():
            shapes = {
                id(shape): shape for class_name in self._types[subject] for shape in self._of_class.get(class_name, ())
            }
            for shape in shapes.values():
                self._judge(properties, shape)
        return self._made

    def _judge(self, properties: Mapping[str, list[str]], shape: ProfileShape) -> None:
        if shape.allowed is not None:
            allowed = {f"<{name}>" for name in shape.allowed} | self._always
            for predicate in properties.keys() - allowed:
                self._leave_out(properties[predicate], "closed", strict=shape.strict)
        for rule in shape.rules:
            self._judge_values(properties.get(f"<{rule.path}>", ()), rule)
        for rule in shape.rules:
            self._judge_counts(properties, rule)

    def _judge_values(self, lines: Iterable[str], rule: PropertyRule) -> None:
        for line in lines:
            if reason := self._broken(line.split(" ", 2)[2], rule):
                self._leave_out([line], reason, strict=rule.strict)

    def _judge_counts(self, properties: Mapping[str, list[str]], rule: PropertyRule) -> None:
        """Drop all values if there are too many, since none is preferred; a resource without a required value does not
        conform.
        """
        left = [line for line in properties.get(f"<{rule.path}>", ()) if line in self._made.lines]
        if rule.at_most is not None and len(left) > rule.at_most:
            self._leave_out(left, "maxCount", strict=rule.strict)
        elif len(left) < rule.at_least:
            every = [line for lines in properties.values() for line in lines]
            self._leave_out(every, "minCount", strict=rule.strict)

    def _leave_out(self, lines: Iterable[str], reason: str, *, strict: bool) -> None:
        if not (strict and self._drop):
            self._made.reported[reason] += 1
            return
        dropped = self._made.lines.intersection(lines)
        self._made.lines -= dropped
        self._made.dropped[reason] += len(dropped)

    def _broken(self, term: str, rule: PropertyRule) -> str | None:
        """By which constraint a value does not conform; None if it does."""
        is_name = term.startswith("<")
        if rule.kind is not None and _kind(term) not in rule.kind:
            return "nodeKind"
        if rule.datatype is not None and (is_name or _term_datatype(term) != rule.datatype):
            return "datatype"
        if rule.of_class is not None and not self._may_be(term, rule.of_class):
            return "class"
        if rule.values is not None and term not in rule.values:
            return "in"
        if rule.pattern is not None and not rule.pattern(term[1:-1] if is_name else _text(term)):
            return "pattern"
        return None

    def _may_be(self, term: str, of_class: str) -> bool:
        if not term.startswith("<"):
            return False
        known = self._types.get(term)
        return not known or f"<{of_class}>" in known


def _kind(term: str) -> TermKind:
    if not term.startswith("<"):
        return "literal"
    return "blank" if GENID in term else "iri"


def _term_datatype(term: str) -> str:
    """Return the datatype of a literal; neither a language nor an IRI has a quotation mark."""
    behind = term[term.rindex('"') + 1 :]
    if behind.startswith("@"):
        return _LANG_STRING
    return behind[3:-1] if behind else _STRING


def _text(term: str) -> str:
    """Return the text of a literal, as it was before it was written."""
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
    """A term that cannot be kept; its message is the reason that is counted."""


@dataclass(slots=True)
class Statements:
    """The statements of a page, each once and sorted, as lines of N-Triples without their dot."""

    lines: list[str] = field(default_factory=list)
    repaired: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    violations: Counter[str] = field(default_factory=Counter)


def kept_statements(triples: Iterable[RdfaTriple], page: str, profile: StatementProfile | None = None) -> Statements:
    """Return the statements of a page to keep, with a UUID and the page as origin for each resource.

    A UUID is derived from the name of its resource, so that it is equal on all pages and in all runs; a UUID in the
    page takes precedence. Violations of a profile are dropped before, or only counted.
    """
    made = Statements()
    origin = _named(page, made)
    lines: set[str] = set()
    for triple in skolemize([triple for triple in dict.fromkeys(triples) if triple[1] != _USES], page):
        try:
            lines.add(_statement(triple, made))
        except _UnfitError as problem:
            made.dropped[str(problem)] += 1
    if profile is not None:
        lines = _conforming(lines, profile, made)
    parts = [line.split(" ", 2) for line in lines]
    identified = {subject for subject, predicate, _ in parts if predicate == str(UUID)}
    for subject in {subject for subject, *_ in parts}:
        lines.add(f"{subject} {DERIVED} {origin}")
        if subject not in identified:
            lines.add(f"{subject} {UUID} {OxLiteral(str(uuid5(NAMESPACE_URL, subject[1:-1])))}")
    made.lines = sorted(lines)
    return made


def _conforming(lines: set[str], profile: StatementProfile, made: Statements) -> set[str]:
    """Return the conforming statements; all of them if violations are only reported."""
    conformance = judge(lines, profile_in(profile.shapes), always=(UUID.value, DERIVED.value), drop=profile.drop)
    made.violations = conformance.reported
    made.dropped += conformance.dropped
    return conformance.lines


def _statement(triple: RdfaTriple, made: Statements) -> str:
    """Return a statement as a line."""
    subject, predicate, value = triple
    if isinstance(predicate, Blank):
        raise _UnfitError("blank")
    named = _named(subject, made)
    object_text = str(_literal(value, made)) if isinstance(value, Literal) else _named(value, made)
    return f"{named} {_named(predicate, made)} {object_text}"


def _named(iri: str, made: Statements) -> str:
    """Return a name between its brackets."""
    node, is_repaired = _node(iri)
    if node is None:
        raise _UnfitError("iri")
    if is_repaired:
        made.repaired["iri"] += 1
    return node


@lru_cache(maxsize=4096)
def _node(iri: str) -> tuple[str | None, bool]:
    """Return the normal form of an IRI, and whether it had to be repaired; None if it is not one."""
    try:
        return str(NamedNode(iri)), False
    except ValueError:
        pass
    try:
        return str(NamedNode(_FORBIDDEN.sub(lambda match: f"%{ord(match[0]):02X}", iri.strip()))), True
    except ValueError:
        return None, False


def _literal(value: Literal, made: Statements) -> OxLiteral:
    if not value.text.strip():
        raise _UnfitError("empty")
    if value.datatype is not None:
        return _typed(value.text, value.datatype, made)
    if value.language is None:
        return OxLiteral(value.text)
    language = value.language.strip().replace("_", "-")
    if not _LANGUAGE.fullmatch(language):
        made.repaired["language"] += 1
        return OxLiteral(value.text)
    made.repaired["language"] += language != value.language
    try:
        return OxLiteral(value.text, language=language)
    except ValueError:
        made.repaired["language"] += 1
        return OxLiteral(value.text)


def _typed(text: str, datatype: str, made: Statements) -> OxLiteral:
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
            return OxLiteral(text, datatype=_datatype(datatype, made))
    if fit is None:
        raise _UnfitError(reason)
    made.repaired[reason] += fit != plain
    return OxLiteral(fit, datatype=_datatype(datatype, made))


def _datatype(iri: str, made: Statements) -> NamedNode:
    return _known_datatype(_named(iri, made)[1:-1])


@lru_cache(maxsize=256)
def _known_datatype(iri: str) -> NamedNode:
    return NamedNode(iri)


def _date(text: str) -> str | None:
    """Return a date in its normal form; a moment becomes its day, in UTC if it has a zone."""
    if _DATE.fullmatch(text):
        return text if _day(text) is not None else None
    parts = _parts(text)
    return parts.date().isoformat() if parts is not None else None


def _moment(text: str) -> str | None:
    """Return a moment as it should be written. One that has to be repaired is written in UTC."""
    if _DATE_TIME.fullmatch(text) and _parts(text) is not None:
        return text
    parts = _parts(text)
    return parts.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0") if parts is not None else None


def _day(text: str) -> date | None:
    match = _YEAR_FIRST.match(text)
    try:
        return date(int(match[1]), int(match[2]), int(match[3])) if match else None
    except ValueError:
        return None


def _parts(text: str) -> datetime | None:
    """Return the moment in a text, in UTC; None if it is not a date, or has other text after it."""
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
    zone = _zone(clock[4] if clock else None)
    try:
        return datetime.fromisoformat(
            f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{zone}"
        ).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _zone(written: str | None) -> str:
    """Return the normal form of a time zone; a missing one means UTC."""
    if not written or written in "Zz":
        return "+00:00"
    digits = written[1:].replace(":", "").rjust(4, "0")
    return f"{written[0]}{digits[:2]}:{digits[2:]}"
