"""Saved searches: a query that somebody follows, and what newly matches it or no longer does."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

__all__ = ["MatchKind", "SavedNews", "SavedSearch"]

MatchKind: TypeAlias = Literal["matches", "no longer matches"]


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """A query under a name; an item matches if one of its passages has all the words."""

    id: int
    name: str
    query: str
    sources: tuple[str, ...]
    matches: int
    after: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SavedNews:
    """An item that newly matches, or no longer does, since the change with this number; `id` counts such lines."""

    id: int
    kind: MatchKind
    number: int
    source: str
    url: str
    title: str
    at: datetime
