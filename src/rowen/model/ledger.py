"""One attempt to call a paid service, and what it cost. No key, no input and no answer is part of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

__all__ = ["CallResult", "Charge", "LedgerEntry", "Price", "SpentUsd", "TokenUsage"]

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
