"""Embedders and language models: calls, their cost, and the vectors that they made."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

__all__ = [
    "CallResult",
    "Charge",
    "CostLine",
    "Costs",
    "EmbeddingEstimate",
    "EmbeddingProgress",
    "EmbeddingReport",
    "FetchedModel",
    "LedgerEntry",
    "ModelStatus",
    "Price",
    "SpentUsd",
    "TokenUsage",
    "tokens",
]

CallResult = Literal["answered", "refused", "denied", "busy", "failed", "unreachable", "unreadable", "cancelled"]


class TokenUsage(NamedTuple):
    """The tokens of one call, sent and received."""

    sent: int = 0
    received: int = 0


class Price(NamedTuple):
    """What a million tokens cost in US dollars, sent and received."""

    sent_usd: float
    received_usd: float = 0.0

    def of(self, usage: TokenUsage) -> float:
        """What a call costs."""
        return (usage.sent * self.sent_usd + usage.received * self.received_usd) / 1e6


class Charge(NamedTuple):
    """On whose account a call goes: the run and the source that need it, if one alone does; what it is about."""

    run_id: int | None = None
    source_id: int | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One attempt to call a provider. `usd` is None where nobody knows the price, `status` where nobody answered."""

    at: datetime
    purpose: str
    provider: str
    model: str
    inputs: int
    usage: TokenUsage
    usd: float | None
    latency_s: float
    result: CallResult
    status: int | None
    charge: Charge


class SpentUsd(NamedTuple):
    """What was spent so far: by a run, for a source within `SOURCE_PERIOD`, and by all since a moment."""

    by_run: float = 0.0
    for_source: float = 0.0
    by_day: float = 0.0
    tokens_by_run: int = 0
    tokens_for_source: int = 0
    tokens_by_day: int = 0


class CostLine(NamedTuple):
    """What calls for one thing cost, and what was not spent beside."""

    source: str | None
    purpose: str
    subject: str | None
    model: str | None
    calls: int
    failed: int
    tokens_sent: int
    tokens_received: int
    usd: float | None
    avoided: int = 0
    avoided_tokens: int = 0
    avoided_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Costs:
    """What paid calls cost since a moment, and what was avoided."""

    since: datetime
    lines: tuple[CostLine, ...]

    @property
    def usd(self) -> float:
        """All that is known to have been paid."""
        return sum(line.usd or 0.0 for line in self.lines)

    @property
    def avoided_usd(self) -> float:
        """About what would have been paid without."""
        return sum(line.avoided_usd for line in self.lines)


# No call has so many; the database holds numbers of 19 digits.
_MOST_TOKENS = 10**12


def tokens(value: object) -> int:
    """Return a count of tokens as a provider tells it; 0 for what is none."""
    return value if type(value) is int and 0 < value < _MOST_TOKENS else 0


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
