"""A dataset as it is handed on to others, whichever kind of catalog it came from."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from rowen.model.url import is_link

__all__ = ["CatalogPage", "CatalogPlace", "ListedDataset"]


class CatalogPlace(NamedTuple):
    """Where a page of the catalog ends: the number of the last dataset's source, and its key."""

    source_id: int
    key: bytes

    def __str__(self) -> str:
        return f"{self.source_id}x{self.key.hex()}"

    @classmethod
    def parse(cls, text: str) -> "CatalogPlace":
        """A place as it stands in an address; `ValueError` for anything else."""
        source_id, _, key = text.partition("x")
        # Numbers of sources are of 64 bits.
        if not (source_id.isascii() and source_id.isdigit() and len(source_id) <= 18):
            raise ValueError(text)
        return cls(int(source_id), bytes.fromhex(key))


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

    def link(self, name: str) -> str | None:
        """A fact that is an address, if it may be published as a link."""
        value = self.said(name)
        return value if value is not None and is_link(value) else None

    def listed(self, name: str) -> list[Any]:
        """A fact that is a list; empty if it is not given."""
        value = self.facts.get(name)
        return value if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class CatalogPage:
    """Some datasets by source and key, and the place to go on after, if there are more."""

    datasets: tuple[ListedDataset, ...]
    next: CatalogPlace | None
