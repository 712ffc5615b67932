"""How many requests a client may send in a minute."""

import time
from collections import OrderedDict
from collections.abc import Callable

from rowen.errors import TooManyRequestsError

__all__ = ["Buckets"]

# Some hundred kB of memory; whoever is forgotten begins with a full bucket, as a new client does.
_MOST_CLIENTS = 10_000
_MINUTE_S = 60.0


class Buckets:
    """A bucket of tokens for each client: a minute's worth at once, and then as many as flow in."""

    def __init__(self, *, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._rate = per_minute / _MINUTE_S
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> None:
        """Count a request; raises `TooManyRequestsError` if there were too many."""
        self.check(client)
        self.count(client)

    def check(self, client: str) -> None:
        """Raise if there were too many, and count nothing."""
        left = self._level(client)
        if left < 1:
            wait_s = (1 - left) / self._rate
            raise TooManyRequestsError(
                f"More than {self._most:g} requests in a minute. Nothing was done.",
                retry_in_s=wait_s,
                hint="Retry-After says when to go on.",
            )

    def count(self, client: str) -> None:
        """Count one."""
        self._left[client] = (self._level(client) - 1, self._clock())
        self._left.move_to_end(client)
        if len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)

    def _level(self, client: str) -> float:
        left, at = self._left.get(client, (self._most, self._clock()))
        return min(self._most, left + (self._clock() - at) * self._rate)
