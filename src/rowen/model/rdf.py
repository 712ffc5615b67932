"""RDF statements of pages, their differences, and the endpoints that receive them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias

RDFA = "rdfa"
"""The field of a record that contains the RDF statements of its page."""

DELTA = "delta-{:012}.json"
"""The name of a delta file, formed from the number of its last change; names sort in the order of the numbers."""

STATEMENTS_VERSION = 2
"""Increased when the same page would yield other RDF statements, so that pages are read again."""

StatementsWanted: TypeAlias = Literal["documents", "all"]
"""The pages whose RDF statements are read: pages that are classified as documents, or all pages."""


class StatementProfile(NamedTuple):
    """An application profile: SHACL shapes in Turtle, and whether violations are dropped or only reported."""

    shapes: str
    drop: bool = True


PageType: TypeAlias = Literal["agenda", "decision list", "minutes", "extract", "item", "overview"]


class StatementDelta(NamedTuple):
    """The added and removed RDF statements of a page, and the number of unchanged RDF statements."""

    added: list[str]
    removed: list[str]
    kept: int

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


class PageStatements(NamedTuple):
    """The RDF statements in the record of a page."""

    page: str
    told: Mapping[str, Any]

    @property
    def lines(self) -> list[str]:
        """The RDF statements as lines."""
        return stated({RDFA: self.told})


@dataclass(frozen=True, slots=True)
class StatementChange:
    """One page whose RDF statements changed, with the number of the line in the change log.

    `elsewhere` lists removed RDF statements that another page of the source still contains. `file` is the number of
    the first change in the same transaction.
    """

    number: int
    page: str
    added: Sequence[str] = ()
    removed: Sequence[str] = ()
    elsewhere: Sequence[str] = ()
    file: int = 0
    at: datetime | None = None

    def gone(self, graph: str | None) -> list[str]:
        """Return the RDF statements to delete from a graph; None means that each page has its own graph.

        In a graph of all pages, a statement is kept while another page contains it.
        """
        elsewhere = set(self.elsewhere) if graph is not None else set()
        return [line for line in self.removed if line not in elsewhere]


@dataclass(frozen=True, slots=True)
class StatementFile:
    """Changes of one transaction, as an immutable file for consumers of deltas."""

    number: int
    last_change: int
    created_at: datetime

    @property
    def name(self) -> str:
        """The file name."""
        return DELTA.format(self.last_change)


StatementTargetState: TypeAlias = Literal["once", "active", "disabled"]


@dataclass(frozen=True, slots=True)
class StatementTarget:
    """A SPARQL endpoint that receives the RDF statements of a source's pages.

    Workers keep an `active` endpoint up to date; an endpoint in state `once` is updated on request only; an endpoint
    whose updates failed for days is `disabled`. `number` is the last change that was sent, `waiting` counts later
    changes. `headers` contain references to its credentials.
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
    """The RDF statements of a source: pages by type, the number of statements, and repaired or dropped ones by reason.

    `unread` counts pages with far too many statements for their size. `violations` counts, by reason, statements that
    break an application profile and were kept.
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
    """The RDF statements that were sent: pages or files, added and removed statements, and the last change number."""

    to: str
    parts: int
    added: int
    removed: int
    last_change: int


def stated(record: Mapping[str, Any]) -> list[str]:
    """Return the RDF statements in a record as lines of N-Triples without the final dot."""
    page = record.get(RDFA)
    lines = page.get("statements") if isinstance(page, Mapping) else None
    return [line for line in lines if isinstance(line, str)] if isinstance(lines, Sequence) else []


def compared(before: Sequence[str], now: Sequence[str]) -> StatementDelta:
    """Return the added and removed RDF statements between two states; a statement in both states is unchanged."""
    earlier, later = set(before), set(now)
    return StatementDelta(sorted(later - earlier), sorted(earlier - later), len(earlier & later))
