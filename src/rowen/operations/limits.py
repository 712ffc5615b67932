"""Limits of expensive requests (exports and dumps), for each caller and for the process."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rowen.errors import OverloadedError, TooManyRequestsError
from rowen.model.access import Scope
from rowen.operations.operation import ResourceGroup, operation

# A small export ends within this time.
_RETRY_S = 5.0
# Some hundred kB of memory; a client that is forgotten starts with a full bucket, like a new client.
_MOST_CLIENTS = 10_000
_MINUTE_S = 60.0


class CallerLimits(ResourceGroup):
    """Counters of expensive requests in this process."""

    def _prepare(self) -> None:
        self._at_once = self._settings.exports_at_once
        self._per_caller = self._settings.exports_per_caller
        self._rates = Buckets(per_minute=self._settings.requests_per_minute)
        self._begun: Counter[str] = Counter()

    @operation(scope=Scope.READ)
    def count(self, caller: str) -> None:
        """Count a request of a caller that costs much; raise `TooManyRequestsError` if there were too many."""
        self._rates.take(caller)

    @operation(scope=None)
    @contextmanager
    def export(self, caller: str) -> Iterator[None]:
        """Count an export until its last byte is sent."""
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


class Buckets:
    """A token bucket for each client: the quota of a minute may be used at once, then at a steady rate."""

    def __init__(self, *, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._rate = per_minute / _MINUTE_S
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> None:
        """Count a request; raise `TooManyRequestsError` if there were too many."""
        self.check(client)
        self.count(client)

    def check(self, client: str) -> None:
        """Raise `TooManyRequestsError` if there were too many requests; do not count this one."""
        left = self._level(client)
        if left < 1:
            wait_s = (1 - left) / self._rate
            raise TooManyRequestsError(
                f"More than {self._most:g} requests in a minute. Nothing was done.",
                retry_in_s=wait_s,
                hint="Retry-After says when to go on.",
            )

    def count(self, client: str) -> None:
        """Count one request."""
        self._left[client] = (self._level(client) - 1, self._clock())
        self._left.move_to_end(client)
        if len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)

    def _level(self, client: str) -> float:
        left, at = self._left.get(client, (self._most, self._clock()))
        return min(self._most, left + (self._clock() - at) * self._rate)
