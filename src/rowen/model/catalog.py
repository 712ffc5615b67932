"""A dataset as it is handed on to others, whichever kind of catalog it came from."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["CatalogPage", "ListedDataset"]


@dataclass(frozen=True, slots=True)
class ListedDataset:
    """One dataset; `facts` is the shape that all catalogs share, without the portal's own record."""

    key: bytes
    source: str
    url: str
    title: str
    text: str
    tags: tuple[str, ...]
    language: str | None
    updated_at: datetime
    facts: Mapping[str, Any]

    def said(self, name: str) -> str | None:
        """A fact that is a text, if it is given."""
        value = self.facts.get(name)
        return value if isinstance(value, str) and value else None

    def listed(self, name: str) -> list[Any]:
        """A fact that is a list; empty if it is not given."""
        value = self.facts.get(name)
        return value if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class CatalogPage:
    """Some datasets in the order of their keys, and the key to go on after, if there are more."""

    datasets: tuple[ListedDataset, ...]
    next: bytes | None
