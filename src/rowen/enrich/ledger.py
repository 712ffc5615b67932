"""The ledger of paid calls as providers see it, and the budgets that are checked before the next call."""

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
"""What a source may cost is counted over so long: a monthly bill is what providers write."""

_NOBODY = Charge()
_charge: ContextVar[Charge] = ContextVar("rowen_charge", default=_NOBODY)


@contextmanager
def charged_to(
    *, run_id: int | None = None, source_id: int | None = None, subject: str | None = None
) -> Iterator[None]:
    """Put the calls that are made inside on the account of a run and a source, also those of tasks started inside."""
    token = _charge.set(Charge(run_id, source_id, subject))
    try:
        yield
    finally:
        _charge.reset(token)


def current_charge() -> Charge:
    """Return the account that current calls are charged to."""
    return _charge.get()


class Ledger(Protocol):
    """Keeps the entries, for as long as budgets are counted at least."""

    async def record(self, entry: LedgerEntry) -> None:
        """Keep an entry."""
        ...

    async def spent(self, charge: Charge, *, day: datetime, source_since: datetime) -> SpentUsd:
        """Return the spending of the charge's run, of its source since a time, and of all since the day began."""
        ...


class NoLedger:
    """Keeps nothing, so that no budget ever binds."""

    async def record(self, entry: LedgerEntry) -> None:
        """Forget the entry."""

    async def spent(self, charge: Charge, *, day: datetime, source_since: datetime) -> SpentUsd:
        """Return nothing spent."""
        return SpentUsd()


@dataclass(frozen=True, slots=True)
class Budgets:
    """Budgets in US dollars and in tokens; None is no limit."""

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
        """Return the budgets that the settings name."""
        return cls(**{field.name: getattr(settings, f"budget_{field.name}") for field in fields(cls)})

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) is not None for field in fields(self))

    @property
    def needs_price(self) -> bool:
        """Return whether a budget is in money."""
        return any(limit is not None for limit in (self.run_usd, self.source_usd, self.day_usd, self.call_usd))

    def check_call(self, provider: str, usd: float, tokens: int) -> None:
        """Raise if one call alone would cost more than a call may."""
        _refuse_beyond(provider, "call", "one call", (self.call_usd, 0.0, usd), (self.call_tokens, 0, tokens))

    def check(self, provider: str, spent: SpentUsd, charge: Charge, more_usd: float, more_tokens: int = 0) -> None:
        """Raise if what is in flight, together with a call that is about to be made, would exceed a budget."""
        checked = (
            ("run", "this run", charge.run_id, (self.run_usd, spent.by_run), (self.run_tokens, spent.tokens_by_run)),
            (
                *("source", "this source in 30 days", charge.source_id),
                *((self.source_usd, spent.for_source), (self.source_tokens, spent.tokens_for_source)),
            ),
            ("day", "one day", 0, (self.day_usd, spent.by_day), (self.day_tokens, spent.tokens_by_day)),
        )
        for scope, what, applies, usd, tokens in checked:
            if applies is not None:
                _refuse_beyond(provider, scope, what, (*usd, more_usd), (*tokens, more_tokens))


class Purse:
    """The budget of one piece of work. Calls in flight count as spent.

    A purse `within` another one spends from both, so that parts of a piece of work can be told apart.
    """

    def __init__(self, *, usd: float | None = None, tokens: int | None = None, within: "Purse | None" = None) -> None:
        self.usd, self.tokens = usd, tokens
        self.within = within
        self.spent_usd, self.spent_tokens, self.calls, self.seconds = 0.0, 0, 0, 0.0

    @property
    def needs_price(self) -> bool:
        """Return whether it has a limit in money."""
        return self.usd is not None or (self.within is not None and self.within.needs_price)

    def reserve(self, provider: str, usd: float, tokens: int) -> None:
        """Count a call before it is made; raises if it would exceed the purse."""
        limits = (self.usd, self.spent_usd, usd), (self.tokens, self.spent_tokens, tokens)
        _refuse_beyond(provider, "run", "this run", *limits)
        if self.within is not None:
            self.within.reserve(provider, usd, tokens)
        self.spent_usd += usd
        self.spent_tokens += tokens

    def settle(self, usd: float, tokens: int) -> None:
        """Correct what was reserved by what it really was."""
        self.spent_usd += usd
        self.spent_tokens += tokens
        if self.within is not None:
            self.within.settle(usd, tokens)

    def count(self, seconds: float) -> None:
        """Count an attempt, and the time that it took."""
        self.calls += 1
        self.seconds += seconds
        if self.within is not None:
            self.within.count(seconds)


_purse: ContextVar[Purse | None] = ContextVar("rowen_purse", default=None)


@contextmanager
def paid_from(purse: Purse) -> Iterator[None]:
    """Let the calls that are made inside be paid from a purse, also those of tasks started inside."""
    token = _purse.set(purse)
    try:
        yield
    finally:
        _purse.reset(token)


def current_purse() -> Purse | None:
    """Return the purse that current calls are paid from."""
    return _purse.get()


Limit = tuple[float | None, float, float]
"""What may be spent, what is spent, and what is about to be."""


def _refuse_beyond(provider: str, scope: str, what: str, usd: Limit, tokens: Limit) -> None:
    for (limit, spent, more), unit, form in ((usd, "USD", ".4f"), (tokens, "tokens", ",.0f")):
        if limit is not None and spent + more > limit:
            budget = f"{limit:g} {unit} for {what}, of which {spent:{form}} are spent"
            raise BudgetExceededError(f"{provider} was not called: the budget is {budget}.", scope=scope)
