"""What others may read of the change log and the index: documents with their validators, and what they are made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from rowen.model.run import Change

__all__ = ["EARLIER_CHARS", "CatalogForm", "FeedForm", "LogSpan", "Publication", "PublishedChange"]

FeedForm: TypeAlias = Literal["atom", "json"]
CatalogForm: TypeAlias = Literal["dcat", "datajson"]

EARLIER_CHARS = 65_536
"""Longer texts are not compared for a feed or a message: a reader of feeds looks at the first screen of a change."""


@dataclass(frozen=True, slots=True)
class Publication:
    """One document: its bytes, its media type, and whether it will ever change."""

    body: bytes
    media_type: str
    immutable: bool = False

    @property
    def etag(self) -> str:
        """Its validator: the same bytes have the same."""
        return f'"{sha256(self.body).hexdigest()[:32]}"'


@dataclass(frozen=True, slots=True)
class PublishedChange:
    """A line of the log with what its item says, if the line is still the last word on it.

    `text` is None where the item is gone or has changed since. `before` is the text that this one took the place of, as
    title, text and tags, where it is kept and both are short enough to be compared.
    """

    change: Change
    text: str | None = None
    tags: tuple[str, ...] = ()
    language: str | None = None
    media_type: str | None = None
    record: Mapping[str, Any] | None = None
    revision: int = 0
    before: tuple[str, str, tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True)
class LogSpan:
    """A stretch of the log: its number among those of its length, and from when to when its lines were written."""

    number: int
    first_at: datetime
    last_at: datetime
