"""RDFa of a page becomes RDF statements that can be stored, compared and published.

Broken IRIs, dates and languages are repaired where the meaning is clear, and left out otherwise; both are counted by
reason. Blank nodes get skolem IRIs, so that consumers of the differences can tell which node is gone.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import lru_cache
from uuid import NAMESPACE_URL, uuid5

from pyoxigraph import Literal as OxLiteral
from pyoxigraph import NamedNode

from rowen.formats.rdf.conformance import judge
from rowen.formats.rdf.graph import Blank, Literal
from rowen.formats.rdf.profile import profile_in
from rowen.formats.rdf.rdfa import XSD, RdfaTriple
from rowen.formats.rdf.skolem import skolemize
from rowen.model.rdf import StatementProfile

__all__ = ["DERIVED", "UUID", "Statements", "kept_statements"]

UUID = NamedNode("http://mu.semte.ch/vocabularies/core/uuid")
DERIVED = NamedNode("http://www.w3.org/ns/prov#wasDerivedFrom")
_USES = "http://www.w3.org/ns/rdfa#usesVocabulary"

_FORBIDDEN = re.compile(r'[\x00-\x20<>"{}|\\^`]')
_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*")
# As people write them in Flanders: year first, or day first.
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
    """What is kept of the statements of a page, with a UUID and the page as origin for each resource.

    A UUID is derived from the name of its resource, so that all pages and all runs give the same one; where a page
    states one itself, that one holds. What does not conform to a profile is left out before, or only counted.
    """
    made = Statements()
    origin = _named(page, made)
    kept: set[str] = set()
    for triple in skolemize([triple for triple in dict.fromkeys(triples) if triple[1] != _USES], page):
        try:
            kept.add(_statement(triple, made))
        except _UnfitError as problem:
            made.dropped[str(problem)] += 1
    if profile is not None:
        kept = _conforming(kept, profile, made)
    parts = [line.split(" ", 2) for line in kept]
    identified = {subject for subject, predicate, _ in parts if predicate == str(UUID)}
    for subject in {subject for subject, *_ in parts}:
        kept.add(f"{subject} {DERIVED} {origin}")
        if subject not in identified:
            kept.add(f"{subject} {UUID} {OxLiteral(str(uuid5(NAMESPACE_URL, subject[1:-1])))}")
    made.lines = sorted(kept)
    return made


def _conforming(lines: set[str], profile: StatementProfile, made: Statements) -> set[str]:
    """What conforms to a profile; where that is only told, everything."""
    found = judge(lines, profile_in(profile.shapes), always=(UUID.value, DERIVED.value), drop=profile.drop)
    made.violations = found.reported
    made.dropped += found.dropped
    return found.lines


def _statement(triple: RdfaTriple, made: Statements) -> str:
    """A statement as a line."""
    subject, predicate, value = triple
    if isinstance(predicate, Blank):
        raise _UnfitError("blank")
    named = _named(subject, made)
    told = str(_literal(value, made)) if isinstance(value, Literal) else _named(value, made)
    return f"{named} {_named(predicate, made)} {told}"


def _named(iri: str, made: Statements) -> str:
    """A name between its brackets."""
    node, is_repaired = _node(iri)
    if node is None:
        raise _UnfitError("iri")
    if is_repaired:
        made.repaired["iri"] += 1
    return node


@lru_cache(maxsize=4096)
def _node(iri: str) -> tuple[str | None, bool]:
    """The node of an IRI as it is written, and whether it had to be repaired; None for what is none."""
    try:
        return str(NamedNode(iri)), False
    except ValueError:
        pass
    try:
        return str(NamedNode(_FORBIDDEN.sub(lambda found: f"%{ord(found[0]):02X}", iri.strip()))), True
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
    """A date as it should be written; that of a moment is its day, in UTC where it tells its zone."""
    if _DATE.fullmatch(text):
        return text if _day(text) is not None else None
    found = _parts(text)
    return found.date().isoformat() if found is not None else None


def _moment(text: str) -> str | None:
    """A moment as it should be written. One that has to be repaired is written in UTC."""
    if _DATE_TIME.fullmatch(text) and _parts(text) is not None:
        return text
    found = _parts(text)
    return found.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0") if found is not None else None


def _day(text: str) -> date | None:
    found = _YEAR_FIRST.match(text)
    try:
        return date(int(found[1]), int(found[2]), int(found[3])) if found else None
    except ValueError:
        return None


def _parts(text: str) -> datetime | None:
    """The moment in a text, in UTC; None where it is no date, or something else stands behind it."""
    found = _YEAR_FIRST.match(text) or _DAY_FIRST.match(text)
    if found is None:
        return None
    first, month, last = map(int, found.groups())
    year, day = (first, last) if len(found[1]) == 4 else (last, first)
    rest = text[found.end() :]
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
    """A zone as it should be written; who tells none is taken at UTC."""
    if not written or written in "Zz":
        return "+00:00"
    digits = written[1:].replace(":", "").rjust(4, "0")
    return f"{written[0]}{digits[:2]}:{digits[2:]}"
