"""What pages state for programs, and how that differs from one look to the next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = [
    "RDFA",
    "STATEMENTS_VERSION",
    "PageStatements",
    "PageType",
    "StatementChange",
    "StatementDelta",
    "StatementReport",
    "StatementSummary",
    "StatementsWanted",
    "compared",
    "stated",
]

RDFA = "rdfa"
"""Under this name a record has what its page states."""

STATEMENTS_VERSION = 1
"""Raised when the same page would be read into other statements: such pages are then read again."""

StatementsWanted: TypeAlias = Literal["documents", "all"]
"""Of which pages statements are read: of those that are classified as documents, or of all."""

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
    """One page whose statements changed, under the number of the change log."""

    number: int
    run: int | None
    page: str
    at: Any
    added: Sequence[str]
    removed: Sequence[str]


@dataclass(frozen=True, slots=True)
class StatementSummary:
    """What the pages of a source state: pages by type, statements, what was repaired or left out, by reason.

    `unread` are pages whose statements would be out of all proportion to them.
    """

    source: str
    pages: Mapping[str, int]
    statements: int
    repaired: Mapping[str, int]
    dropped: Mapping[str, int]
    unread: int


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
