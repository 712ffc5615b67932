"""The RDF of a page: its quads by node, SHACL property paths over the quads, and the times in literals.

Times are numbers of microseconds; an inexact time is an interval.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from rowen.formats.rdf.syntax import Said, node_of
from rowen.model.dates import iso_moment

Value: TypeAlias = Mapping[str, Any]

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
SH = "http://www.w3.org/ns/shacl#"
MOST_QUADS = 2_000_000
"""Maximum quads of a page: at 300 bytes each they take 600 MB of a worker's 4 GB. A page of 250 members has 2,500."""

_LONGEST_LIST = 1_000  # only paths and shapes use lists; a circular list ends there
_NOTHING: Said = {}

Path: TypeAlias = Any
"""A SHACL property path as JSON: a predicate, or a list of an operator and paths; only a predicate can be inverted."""

_OPERATORS = {"inversePath": "inv", "zeroOrMorePath": "star", "oneOrMorePath": "plus", "zeroOrOnePath": "opt"}
_MOST_REACHED = 1_000  # nodes that a path may reach from one member; a time is one or two steps away
_MOST_STEPS = 20_000  # steps of a path; nested repetitions would multiply; a member has a few hundred RDF statements
_DEEPEST_PATH = 20  # nested paths; each level is a nested call

_EPOCH = datetime(1, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# XML Schema 1.1, part 2, section 3.3.7.2: zones reach from -14:00 to +14:00, so a time without one may be any of these.
_ZONES_US = 14 * 3600 * 1_000_000
_SHORTEST_EXACT = len("2024-01-01T00:00:00Z")
_LAST_YEAR = 9999  # times in the first and last year may be out of range in UTC, and are read by `interval_of`
_ZONE = re.compile(r"[+-]\d\d:?\d\d", re.ASCII)
_PARTIAL = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)(?:T(?P<hour>\d\d)(?::(?P<minute>\d\d))?)?)?)?"
    r"(?P<zone>Z|[+-]\d\d:\d\d)?",
    re.ASCII,
)


class Quads:
    """The RDF statements by node, in the default graph (`said`) and in named graphs (`named`).

    A node is an IRI, or a label after `_:`.
    """

    __slots__ = ("_reverse", "named", "said")

    def __init__(self) -> None:
        self.said: dict[str, Said] = {}
        self.named: dict[str, dict[str, Said]] = {}
        self._reverse: dict[str | None, dict[str, list[tuple[str, str]]]] = {}

    def add(self, nodes: Iterable[dict[str, Any]]) -> None:
        """Add the nodes of a document."""
        said = self.said
        for node in nodes:
            key = node.pop("@id")
            if "@graph" in node:
                inner = self.named.setdefault(key, {})
                for part in node.pop("@graph"):
                    _join(inner, part.pop("@id"), part)
            if key in said:
                _join(said, key, node)
            elif node:
                said[key] = node

    def values(self, node: str, predicate: str) -> Sequence[Value]:
        """Return the values of a property in the default graph."""
        return self.said.get(node, _NOTHING).get(predicate, ())

    def nodes(self, node: str, predicate: str) -> list[str]:
        """Return the values of a property that are nodes."""
        return [key for value in self.values(node, predicate) if (key := node_of(value)) is not None]

    def first(self, node: str, predicate: str) -> str | None:
        """Return the first value of a property that is a node; None if there is none."""
        return next(iter(self.nodes(node, predicate)), None)

    def with_property(self, predicate: str) -> Iterator[tuple[str, Value]]:
        """Yield all pairs of a node and a value of the property."""
        for node, said in self.said.items():
            if predicate in said:
                for value in said[predicate]:
                    yield node, value

    def listed(self, head: str) -> list[str]:
        """Return the nodes in the RDF list that starts at `head`."""
        nodes: list[str] = []
        following: str | None = head
        for _ in range(_LONGEST_LIST):
            if following is None or following == f"{RDF}nil":
                break
            nodes += self.nodes(following, f"{RDF}first")[:1]
            following = self.first(following, f"{RDF}rest")
        return nodes

    def about(self, node: str, graph: str, predicate: str) -> Sequence[Value]:
        """Return the values of a property in the default graph and in the named graph `graph`."""
        default, more = self.values(node, predicate), self.named.get(graph)
        return [*default, *more.get(node, _NOTHING).get(predicate, ())] if more else default

    def pointing(self, node: str, graph: str) -> list[tuple[str, str]]:
        """Return the pairs of property and subject that point to a node, in the default graph and in `graph`."""
        pointing = self._pointing(None, self.said).get(node, [])
        more = self.named.get(graph)
        return [*pointing, *self._pointing(graph, more).get(node, ())] if more else pointing

    def _pointing(self, graph: str | None, nodes: Mapping[str, Said]) -> dict[str, list[tuple[str, str]]]:
        if graph not in self._reverse:
            reverse: dict[str, list[tuple[str, str]]] = {}
            for subject, said in nodes.items():
                for name, values in said.items():
                    for value in values:
                        if (key := node_of(value)) is not None:
                            reverse.setdefault(key, []).append((name, subject))
            self._reverse[graph] = reverse
        return self._reverse[graph]


def _join(nodes: dict[str, Said], key: str, said: Said) -> None:
    before = nodes.setdefault(key, said)
    if before is not said:
        for predicate, values in said.items():
            before.setdefault(predicate, []).extend(values)


class TrailStep(NamedTuple):
    """One RDF statement that a path follows, forwards or `backwards`."""

    subject: str
    predicate: str
    value: Value
    backwards: bool


Trail: TypeAlias = tuple[TrailStep, "Trail"] | None
"""The RDF statements from a node to the end of a path, the last statement first."""


class Reached(NamedTuple):
    """A value at the end of a path, and the statements that lead there."""

    value: Value
    trail: Trail


def path_of(quads: Quads, node: str | None, depth: int = 0) -> Path:
    """Return the property path that a node describes (SHACL, section 2.3.1)."""
    if node is None or depth > _DEEPEST_PATH:
        return None
    if not node.startswith("_:"):
        return node
    for name, operator in _OPERATORS.items():
        if inner := quads.first(node, SH + name):
            way = path_of(quads, inner, depth + 1)
            return _inverted(way) if operator == "inv" else [operator, way]
    if several := quads.first(node, f"{SH}alternativePath"):
        return ["alt", *(path_of(quads, way, depth + 1) for way in quads.listed(several))]
    return ["seq", *(path_of(quads, step, depth + 1) for step in quads.listed(node))]


def _inverted(path: Path) -> Path:
    match path:
        case ["inv", inner]:
            return inner
        case ["seq", *steps]:
            return ["seq", *map(_inverted, reversed(steps))]
        case [operator, *ways]:
            return [operator, *map(_inverted, ways)]
    return None if path is None else ["inv", path]


def follow(quads: Quads, start: str, graph: str, path: Path) -> Sequence[Value]:
    """Return the values at the end of a path from `start`, in the default graph and in the named graph `graph`."""
    if type(path) is str and graph not in quads.named:
        return quads.values(start, path)
    return [end.value for end in reach(quads, start, graph, path)]


def reach(quads: Quads, start: str, graph: str, path: Path) -> list[Reached]:
    """Return the values at the end of a path, each with the statements that lead there."""
    return _Walker(quads, graph).go([Reached({"@id": start}, None)], path, 0)


class _Walker:
    """Follows paths in the default graph and in one named graph."""

    def __init__(self, quads: Quads, graph: str) -> None:
        self._quads = quads
        self._graph = graph
        self._steps_left = _MOST_STEPS

    def go(self, starts: Sequence[Reached], path: Path, depth: int) -> list[Reached]:
        self._steps_left -= 1 + len(starts)
        if depth > _DEEPEST_PATH or self._steps_left < 0:
            return []
        match path:
            case str():
                return [
                    Reached(value, (TrailStep(node, path, value, False), trail))
                    for node, trail in _nodes(starts)
                    for value in self._quads.about(node, self._graph, path)
                ][:_MOST_REACHED]
            case ["inv", str() as predicate]:
                return [
                    Reached({"@id": by}, (TrailStep(by, predicate, {"@id": node}, True), trail))
                    for node, trail in _nodes(starts)
                    for name, by in self._quads.pointing(node, self._graph)
                    if name == predicate
                ][:_MOST_REACHED]
            case ["seq", first, *others]:
                ends = self.go(starts, first, depth + 1)
                for step in others:
                    ends = self.go(ends, step, depth + 1)
                return ends
            case ["alt", *ways]:
                return [end for way in ways for end in self.go(starts, way, depth + 1)][:_MOST_REACHED]
            case ["opt", way]:
                return [*starts, *self.go(starts, way, depth + 1)]
            case ["star", way]:
                return [*starts, *self._repeat(starts, way, depth)]
            case ["plus", way]:
                return self._repeat(starts, way, depth)
        return []

    def _repeat(self, starts: Sequence[Reached], way: Path, depth: int) -> list[Reached]:
        ends: list[Reached] = []
        visited = {node for node, _ in _nodes(starts)}
        waiting = list(starts)
        while waiting and len(ends) < _MOST_REACHED:
            further = self.go(waiting, way, depth + 1)
            ends += further
            waiting = []
            for end in further:
                if (key := node_of(end.value)) is not None and key not in visited:
                    visited.add(key)
                    waiting.append(end)
        return ends


def _nodes(starts: Iterable[Reached]) -> list[tuple[str, Trail]]:
    return [(key, start.trail) for start in starts if (key := node_of(start.value)) is not None]


class Interval(NamedTuple):
    """The first and last moment that a time may mean; both are equal if the time is exact."""

    low: int
    high: int


def microseconds(at: datetime) -> int:
    """Return a moment as the number of microseconds since the year 1."""
    return (at - _EPOCH) // _MICROSECOND


def moment_of(number: int) -> str:
    """Return the moment for a number of microseconds, in ISO 8601."""
    return (_EPOCH + number * _MICROSECOND).isoformat().replace("+00:00", "Z")


def moment_within(text: str) -> int | None:
    """Return the middle of the interval that a text may mean; None if it is no time."""
    if len(text) >= _SHORTEST_EXACT:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            return None
        if at.tzinfo is not None and 1 < at.year < _LAST_YEAR:
            return (at - _EPOCH) // _MICROSECOND
    interval = interval_of(text)
    return None if interval is None else (interval.low + interval.high) // 2


def interval_of(text: str) -> Interval | None:
    """Return the interval of a `dateTime`, a date, a month, a year or a truncated time; None for any other text."""
    if partial := _PARTIAL.fullmatch(text):
        return _span(partial)
    at = iso_moment(text)
    if at is None:
        return None
    number = microseconds(at)
    has_zone = "T" in text and _ZONE.fullmatch(text[-6:].lstrip("0123456789.")) is not None
    slack = 0 if has_zone or text.endswith(("Z", "z")) else _ZONES_US
    return Interval(number - slack, number + slack)


def _span(partial: re.Match[str]) -> Interval | None:
    year, month, day, hour, minute = (int(part) if part else None for part in partial.groups()[:5])
    try:
        low = datetime(year if year is not None else 1, month or 1, day or 1, hour or 0, minute or 0, tzinfo=UTC)
        if minute is not None:
            high = low + timedelta(minutes=1)
        elif hour is not None:
            high = low + timedelta(hours=1)
        elif day is not None:
            high = low + timedelta(days=1)
        elif month is not None:
            high = (low.replace(day=28) + timedelta(days=4)).replace(day=1)
        else:
            high = low.replace(year=low.year + 1)
    except (ValueError, OverflowError):
        return None
    zone = partial["zone"]
    slack, shift = (0 if zone else _ZONES_US), 0
    if zone and zone != "Z":
        minutes = int(zone[1:3]) * 60 + int(zone[4:])
        shift = (minutes if zone[0] == "+" else -minutes) * 60_000_000
    return Interval(microseconds(low) - shift - slack, microseconds(high) - shift + slack - 1)
