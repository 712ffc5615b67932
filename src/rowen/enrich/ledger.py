"""The ledger of paid calls as providers see it, and the budgets that are checked before the next call."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from rowen.errors import BudgetExceededError
from rowen.model.ledger import Charge, LedgerEntry, SpentUsd
from rowen.settings import Settings

__all__ = ["SOURCE_PERIOD", "Budgets", "Ledger", "NoLedger", "charged_to", "current_charge"]

SOURCE_PERIOD = timedelta(days=30)
"""What a source may cost is counted over so long: a monthly bill is what providers write."""

_NOBODY = Charge()
_charge: ContextVar[Charge] = ContextVar("rowen_charge", default=_NOBODY)


@contextmanager
def charged_to(*, run_id: int | None = None, source_id: int | None = None) -> Iterator[None]:
    """Put the calls that are made inside on the account of a run and a source, also those of tasks started inside."""
    token = _charge.set(Charge(run_id, source_id))
    try:
        yield
    finally:
        _charge.reset(token)


def current_charge() -> Charge:
    """The account of a call that is made now."""
    return _charge.get()


class Ledger(Protocol):
    """Keeps the entries, for as long as budgets are counted at least."""

    async def record(self, entry: LedgerEntry) -> None:
        """Keep an entry."""
        ...

    async def spent(self, charge: Charge, *, day: datetime, source_since: datetime) -> SpentUsd:
        """What was spent: by the charge's run, for its source since a moment, and by all since the day began."""
        ...


class NoLedger:
    """Keeps nothing, so that no budget ever binds."""

    async def record(self, entry: LedgerEntry) -> None:
        """Forget the entry."""

    async def spent(self, charge: Charge, *, day: datetime, source_since: datetime) -> SpentUsd:
        """Nothing, as far as anybody remembers."""
        return SpentUsd()


@dataclass(frozen=True, slots=True)
class Budgets:
    """What may be spent in US dollars; None is no limit."""

    run_usd: float | None = None
    source_usd: float | None = None
    day_usd: float | None = None

    @classmethod
    def of(cls, settings: Settings) -> "Budgets":
        """The budgets that the settings name."""
        return cls(settings.budget_run_usd, settings.budget_source_usd, settings.budget_day_usd)

    def __bool__(self) -> bool:
        return any(limit is not None for limit in (self.run_usd, self.source_usd, self.day_usd))

    def check(self, provider: str, spent: SpentUsd, charge: Charge, more_usd: float) -> None:
        """Raise `BudgetExceededError` if a further call would exceed a budget."""
        checked = (
            ("run", self.run_usd, spent.by_run, "this run", charge.run_id is not None),
            ("source", self.source_usd, spent.for_source, "this source in 30 days", charge.source_id is not None),
            ("day", self.day_usd, spent.by_day, "one day", True),
        )
        for scope, limit, so_far, what, applies in checked:
            if applies and limit is not None and so_far + more_usd > limit:
                budget = f"{limit:g} USD for {what}, of which {so_far:.4f} are spent"
                raise BudgetExceededError(f"{provider} was not called: the budget is {budget}.", scope=scope)
