"""Models and the vectors that they made, as interfaces show them."""

from dataclasses import dataclass
from typing import Any

__all__ = ["EmbeddingEstimate", "EmbeddingProgress", "EmbeddingReport", "FetchedModel", "ModelStatus"]


@dataclass(frozen=True, slots=True)
class EmbeddingEstimate:
    """What embedding would take; `usd` is None where nobody knows the price, `again` counts texts with a vector."""

    model: str
    switches_from: str | None
    texts: int
    tokens: int
    usd: float | None
    again: int = 0


@dataclass(frozen=True, slots=True)
class EmbeddingProgress:
    """How far embedding is; `waiting` says that the embedder is down or busy."""

    embedded: int
    waiting: bool


@dataclass(frozen=True, slots=True)
class EmbeddingReport:
    """What embedding did; `again` counts texts that are still to be embedded again."""

    model: str
    state: str
    switched: bool
    embedded: int
    pending: int
    truncated: int
    refused: int
    tokens: int
    usd: float | None
    seconds: float
    error: str | None = None
    hint: str | None = None
    again: int = 0


@dataclass(frozen=True, slots=True)
class FetchedModel:
    """A sentence model that was fetched from a hub, with the SHA-256 of each of its files."""

    name: str
    revision: str
    folder: str
    size_bytes: int
    files: dict[str, str]


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """How a model and its vectors are doing; `coverage` is the share of all passages that wait for no vector of it.

    `again` counts texts whose vector is still to be replaced (`rowen embed --again`).
    """

    name: str
    state: str
    dimensions: int | None
    vectors: int
    pending: int
    refused: int
    indexed: bool
    trouble: Any
    coverage: float = 1.0
    again: int = 0
