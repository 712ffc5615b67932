"""A snapshot of the index in files, as interfaces show it."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Export"]


@dataclass(frozen=True, slots=True)
class Export:
    """A snapshot that was written; `changes` counts what differs from an earlier one, where one was given.

    `withdrawn` counts the last copies of deleted items, where they were asked for.
    """

    to: Path
    form: str
    items: int
    copies: int
    sources: int
    bytes: int
    last_change: int
    changes: dict[str, int] | None = None
    withdrawn: int | None = None
