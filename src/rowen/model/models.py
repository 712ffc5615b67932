"""Embedders and language models: their calls, the cost of calls, and the state of vectors."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

CallResult = Literal["answered", "refused", "denied", "busy", "failed", "unreachable", "unreadable", "cancelled"]


class TokenUsage(NamedTuple):
    """The tokens of one call, sent and received."""

    sent: int = 0
    received: int = 0


class Price(NamedTuple):
    """The price of a million tokens in US dollars: `sent` tokens and `received` tokens."""

    sent_usd: float
    received_usd: float = 0.0

    def of(self, usage: TokenUsage) -> float:
        """Return the cost of a call."""
        return (usage.sent * self.sent_usd + usage.received * self.received_usd) / 1e6


class Charge(NamedTuple):
    """The accounting of a call: its run, its source (None if the call serves several sources), and its subject."""

    run_id: int | None = None
    source_id: int | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One attempt to call a provider; `usd` is None if the price is unknown, `status` if there was no answer."""

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
    """The cost so far: of a run, of a source within `SOURCE_PERIOD`, and of all calls since a moment."""

    by_run: float = 0.0
    for_source: float = 0.0
    by_day: float = 0.0
    tokens_by_run: int = 0
    tokens_for_source: int = 0
    tokens_by_day: int = 0


class CostLine(NamedTuple):
    """The cost of the calls for one subject, and the avoided cost."""

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
    """The cost of paid calls since a moment, and the avoided cost."""

    since: datetime
    lines: tuple[CostLine, ...]

    @property
    def usd(self) -> float:
        """The total of the known costs."""
        return sum(line.usd or 0.0 for line in self.lines)

    @property
    def avoided_usd(self) -> float:
        """An estimate of the avoided cost."""
        return sum(line.avoided_usd for line in self.lines)


# No call has more tokens; the database stores numbers of up to 19 digits.
_MOST_TOKENS = 10**12


def tokens(value: object) -> int:
    """Return a token count reported by a provider; 0 if the value is invalid."""
    return value if type(value) is int and 0 < value < _MOST_TOKENS else 0


@dataclass(frozen=True, slots=True)
class EmbeddingEstimate:
    """The expected cost of embedding; `usd` is None if the price is unknown.

    `again` counts texts that have a vector already.
    """

    model: str
    switches_from: str | None
    texts: int
    tokens: int
    usd: float | None
    again: int = 0


@dataclass(frozen=True, slots=True)
class EmbeddingProgress:
    """The progress of embedding; `waiting` says that the embedder is unavailable or busy."""

    embedded: int
    waiting: bool


@dataclass(frozen=True, slots=True)
class EmbeddingReport:
    """The result of embedding; `again` counts texts whose vector still has to be replaced."""

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
    """A sentence model that was downloaded from a hub, with the SHA-256 of each of its files."""

    name: str
    revision: str
    folder: str
    size_bytes: int
    files: dict[str, str]


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """The state of a model and its vectors.

    `coverage` is the share of passages that are not waiting for a vector. `again` counts texts whose vector still has
    to be replaced (`rowen embed --again`).
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
