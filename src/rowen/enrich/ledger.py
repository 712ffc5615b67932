"""The ledger of paid calls, and the budgets that are checked before each call."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Protocol

from rowen.errors import BudgetExceededError
from rowen.model.models import Charge, LedgerEntry, SpentUsd
from rowen.settings import Settings

SOURCE_PERIOD = timedelta(days=30)
"""The period of the budget of a source; providers bill monthly."""

_NOBODY = Charge()
_charge: ContextVar[Charge] = ContextVar("rowen_charge", default=_NOBODY)


@contextmanager
def charged_to(
    *, run_id: int | None = None, source_id: int | None = None, subject: str | None = None
) -> Iterator[None]:
    """Charge the calls made inside the context, and in tasks started there, to a run and a source."""
    token = _charge.set(Charge(run_id, source_id, subject))
    try:
        yield
    finally:
        _charge.reset(token)


def current_charge() -> Charge:
    """Return the charge of the current context: its run, source and subject."""
    return _charge.get()


class Ledger(Protocol):
    """Stores entries at least as long as the budgets need them."""

    async def record(self, entry: LedgerEntry) -> None:
        """Store an entry."""
        ...

    async def spent(self, charge: Charge, *, day: datetime, source_since: datetime) -> SpentUsd:
        """Return the spending of the run, of its source since `source_since`, and of all sources since `day`."""
        ...


class NoLedger:
    """A ledger that stores nothing, so that no budget is ever exceeded."""

    async def record(self, entry: LedgerEntry) -> None:
        """Ignore the entry."""

    async def spent(self, charge: Charge, *, day: datetime, source_since: datetime) -> SpentUsd:
        """Return zeros."""
        return SpentUsd()


@dataclass(frozen=True, slots=True)
class Budgets:
    """Budgets in US dollars and in tokens; None means no limit."""

    run_usd: float | None = None
    source_usd: float | None = None
    day_usd: float | None = None
    call_usd: float | None = None
    run_tokens: int | None = None
    source_tokens: int | None = None
    day_tokens: int | None = None
    call_tokens: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> "Budgets":
        """Return the budgets in the settings."""
        return cls(**{field.name: getattr(settings, f"budget_{field.name}") for field in fields(cls)})

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) is not None for field in fields(self))

    @property
    def needs_price(self) -> bool:
        """Whether a budget is in US dollars, so that prices must be known."""
        return any(limit is not None for limit in (self.run_usd, self.source_usd, self.day_usd, self.call_usd))

    def check_call(self, provider: str, usd: float, tokens: int) -> None:
        """Raise `BudgetExceededError` if a single call exceeds the budget per call."""
        _refuse_beyond(provider, "call", "one call", (self.call_usd, 0.0, usd), (self.call_tokens, 0, tokens))

    def check(self, provider: str, spent: SpentUsd, charge: Charge, more_usd: float, more_tokens: int = 0) -> None:
        """Raise `BudgetExceededError` if the next call, together with the calls in flight, exceeds a budget."""
        if charge.run_id is not None:
            usd, tokens = (self.run_usd, spent.by_run, more_usd), (self.run_tokens, spent.tokens_by_run, more_tokens)
            _refuse_beyond(provider, "run", "this run", usd, tokens)
        if charge.source_id is not None:
            usd = self.source_usd, spent.for_source, more_usd
            tokens = self.source_tokens, spent.tokens_for_source, more_tokens
            _refuse_beyond(provider, "source", "this source in 30 days", usd, tokens)
        usd, tokens = (self.day_usd, spent.by_day, more_usd), (self.day_tokens, spent.tokens_by_day, more_tokens)
        _refuse_beyond(provider, "day", "one day", usd, tokens)


class Purse:
    """The budget of one task; calls in flight count as spent.

    A purse `within` another one spends from both, so that the parts of a task are accounted separately.
    """

    def __init__(self, *, usd: float | None = None, tokens: int | None = None, within: "Purse | None" = None) -> None:
        self.usd, self.tokens = usd, tokens
        self.within = within
        self.spent_usd, self.spent_tokens, self.calls, self.seconds = 0.0, 0, 0, 0.0

    @property
    def needs_price(self) -> bool:
        """Whether it has a limit in US dollars, so that prices must be known."""
        return self.usd is not None or (self.within is not None and self.within.needs_price)

    def reserve(self, provider: str, usd: float, tokens: int) -> None:
        """Reserve the cost of a call before the call; raise `BudgetExceededError` if it exceeds the purse."""
        limits = (self.usd, self.spent_usd, usd), (self.tokens, self.spent_tokens, tokens)
        _refuse_beyond(provider, "run", "this run", *limits)
        if self.within is not None:
            self.within.reserve(provider, usd, tokens)
        self.spent_usd += usd
        self.spent_tokens += tokens

    def settle(self, usd: float, tokens: int) -> None:
        """Add the difference between the actual cost and the reserved cost."""
        self.spent_usd += usd
        self.spent_tokens += tokens
        if self.within is not None:
            self.within.settle(usd, tokens)

    def count(self, seconds: float) -> None:
        """Count one attempt and add its duration."""
        self.calls += 1
        self.seconds += seconds
        if self.within is not None:
            self.within.count(seconds)


_purse: ContextVar[Purse | None] = ContextVar("rowen_purse", default=None)


@contextmanager
def paid_from(purse: Purse) -> Iterator[None]:
    """Pay the calls made inside the context, and in tasks started there, from a purse."""
    token = _purse.set(purse)
    try:
        yield
    finally:
        _purse.reset(token)


def current_purse() -> Purse | None:
    """Return the purse of the current context; None if there is none."""
    return _purse.get()


Limit = tuple[float | None, float, float]
"""The limit, the amount that is spent, and the amount of the next call."""


def _refuse_beyond(provider: str, scope: str, what: str, usd: Limit, tokens: Limit) -> None:
    for (limit, spent, more), unit, form in ((usd, "USD", ".4f"), (tokens, "tokens", ",.0f")):
        if limit is not None and spent + more > limit:
            budget = f"{limit:g} {unit} for {what}, of which {spent:{form}} are spent"
            raise BudgetExceededError(f"{provider} was not called: the budget is {budget}.", scope=scope)
