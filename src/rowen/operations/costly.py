"""Work that holds much for as long as it lasts: exports and dumps. It is limited for each caller and for all."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from rowen.errors import OverloadedError, TooManyRequestsError
from rowen.harvest.engine import Engine
from rowen.operations.rates import Buckets

__all__ = ["CostlyWork"]

# A small export is done by then.
_RETRY_S = 5.0


class CostlyWork:
    """The costly work of this process: who has begun how much, and how often."""

    def __init__(self, engine: Engine) -> None:
        self._at_once = engine.settings.exports_at_once
        self._per_caller = engine.settings.exports_per_caller
        self._rates = Buckets(per_minute=engine.settings.requests_per_minute)
        self._begun: Counter[str] = Counter()

    def count(self, caller: str) -> None:
        """Count a request of a caller that costs much; raise `TooManyRequestsError` if there were too many."""
        self._rates.take(caller)

    @contextmanager
    def export(self, caller: str) -> Iterator[None]:
        """Count an export for as long as it lasts, until its last byte is sent."""
        self.count(caller)
        if self._begun[caller] >= self._per_caller:
            raise TooManyRequestsError(
                f"{self._per_caller} exports of this caller are under way. Nothing was done.",
                retry_in_s=_RETRY_S,
                hint="Wait for one of them. ROWEN_EXPORTS_PER_CALLER sets the limit.",
            )
        if self._begun.total() >= self._at_once:
            raise OverloadedError(
                f"{self._at_once} exports are under way. Nothing was done.",
                retry_in_s=_RETRY_S,
                hint="ROWEN_EXPORTS_AT_ONCE sets the limit.",
            )
        self._begun[caller] += 1
        try:
            yield
        finally:
            self._begun[caller] -= 1
            if not self._begun[caller]:
                del self._begun[caller]
