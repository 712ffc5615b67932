"""RDF statements of pages, their differences, and the endpoints that receive them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = [
    "DELTA",
    "RDFA",
    "STATEMENTS_VERSION",
    "PageStatements",
    "PageType",
    "StatementChange",
    "StatementDelta",
    "StatementFile",
    "StatementProfile",
    "StatementReport",
    "StatementSummary",
    "StatementTarget",
    "StatementTargetState",
    "StatementsWanted",
    "compared",
    "stated",
]

RDFA = "rdfa"
"""Under this name a record has what its page states."""

DELTA = "delta-{:012}.json"
"""The name of a delta file, by the number of its last change: names sort as numbers do."""

STATEMENTS_VERSION = 2
"""Raised when the same page would be read into other statements: such pages are then read again."""

StatementsWanted: TypeAlias = Literal["documents", "all"]
"""Of which pages statements are read: of those that are classified as documents, or of all."""


class StatementProfile(NamedTuple):
    """An application profile: SHACL shapes in Turtle, and whether what does not conform is left out or only told."""

    shapes: str
    drop: bool = True


PageType: TypeAlias = Literal["agenda", "decision list", "minutes", "extract", "item", "overview"]


class StatementDelta(NamedTuple):
    """How the statements of a page differ from those before: what is new, what is gone, and how many stayed."""

    added: list[str]
    removed: list[str]
    kept: int

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


class PageStatements(NamedTuple):
    """What the record of a page tells of its statements."""

    page: str
    told: Mapping[str, Any]

    @property
    def lines(self) -> list[str]:
        """The statements."""
        return stated({RDFA: self.told})


@dataclass(frozen=True, slots=True)
class StatementChange:
    """One page whose statements changed, under the number of the change log.

    `elsewhere` are those among the removed that another page of the source still stated; `file` is the number of the
    first change that was stored together with this one.
    """

    number: int
    page: str
    added: Sequence[str] = ()
    removed: Sequence[str] = ()
    elsewhere: Sequence[str] = ()
    file: int = 0
    at: datetime | None = None

    def gone(self, graph: str | None) -> list[str]:
        """What is to be deleted: from a graph of all pages only what no page states any more."""
        kept = set(self.elsewhere) if graph is not None else set()
        return [line for line in self.removed if line not in kept]


@dataclass(frozen=True, slots=True)
class StatementFile:
    """Changes that were stored together: a file for consumers of deltas, which never changes."""

    number: int
    last_change: int
    created_at: datetime

    @property
    def name(self) -> str:
        """What it is called in a folder."""
        return DELTA.format(self.last_change)


StatementTargetState: TypeAlias = Literal["once", "active", "disabled"]


@dataclass(frozen=True, slots=True)
class StatementTarget:
    """A SPARQL endpoint that is told what the pages of a source state.

    One that is `active` is kept up to date by workers; one that was told `once` when somebody asks; one that failed for
    days is `disabled`. `number` is the change up to which it was told, `waiting` counts the changes since. `headers`
    say where its keys are found.
    """

    id: int
    source_id: int
    source: str
    endpoint: str
    graph: str | None
    headers: Mapping[str, str]
    state: StatementTargetState
    number: int
    told_at: datetime | None
    waiting: int
    failures: int
    failing_since: datetime | None
    next_try_at: datetime | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class StatementSummary:
    """What the pages of a source state: pages by type, statements, what was repaired or left out, by reason.

    `unread` are pages whose statements would be out of all proportion to them; `violations` counts by reason what
    breaks an application profile, and was kept.
    """

    source: str
    pages: Mapping[str, int]
    statements: int
    repaired: Mapping[str, int]
    dropped: Mapping[str, int]
    unread: int
    violations: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatementReport:
    """What was handed on: pages or files, statements that came and went, and up to which number of the change log."""

    to: str
    parts: int
    added: int
    removed: int
    last_change: int


def stated(record: Mapping[str, Any]) -> list[str]:
    """The statements in a record, as lines of N-Triples without their dot."""
    found = record.get(RDFA)
    lines = found.get("statements") if isinstance(found, Mapping) else None
    return [line for line in lines if isinstance(line, str)] if isinstance(lines, Sequence) else []


def compared(before: Sequence[str], now: Sequence[str]) -> StatementDelta:
    """What came and what went: of two states, so that a statement which left and came back is there again."""
    earlier, later = set(before), set(now)
    return StatementDelta(sorted(later - earlier), sorted(earlier - later), len(earlier & later))
