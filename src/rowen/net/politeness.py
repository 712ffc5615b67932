"""Limit the rate of requests to a host: gaps, concurrency, Retry-After; and a bounded cache of data about hosts."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Generic, TypeVar

from rowen.model.dates import http_date

T = TypeVar("T")


class LruCache(Generic[T]):
    """A bounded cache by name, for long-lived processes: it drops the least recently used value first.

    Values for which `may_go` returns False (a host with requests, an open circuit) stay, and move to the end.
    """

    __slots__ = ("_may_go", "_most", "_values")

    def __init__(self, most: int, may_go: Callable[[T], bool] = lambda _: True) -> None:
        self._most = most
        self._may_go = may_go
        self._values: OrderedDict[str, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def items(self) -> Iterator[tuple[str, T]]:
        """Yield all names and values, the least recently used first."""
        yield from list(self._values.items())

    def values(self) -> Iterator[T]:
        """Yield all values, the least recently used first."""
        yield from list(self._values.values())

    def get(self, name: str) -> T | None:
        """Return the value cached under a name; None if there is none."""
        value = self._values.get(name)
        if value is not None:
            self._values.move_to_end(name)
        return value

    def put(self, name: str, value: T) -> T:
        """Cache and return a value; drop others if there are too many."""
        self._values.pop(name, None)
        for _ in range(len(self._values)):
            if len(self._values) < self._most:
                break
            oldest = next(iter(self._values))
            if self._may_go(self._values[oldest]):
                del self._values[oldest]
            else:
                self._values.move_to_end(oldest)
        self._values[name] = value
        return value

    def drop(self, name: str) -> None:
        """Remove a value, if it is cached."""
        self._values.pop(name, None)


# Up to half of a delay is added to it (the setting says so): at 0 two processes stay in step for hours, at 1 a crawl
# takes half again as long as its delay suggests.
_JITTER = 0.5
# The first wait after a failure: restarts of a server take seconds. The waits of three tries are 1 and 2 s.
_BACKOFF_BASE_S = 1.0
# Reached at the sixth try, which needs a raised ROWEN_FETCH_TRIES; longer pauses are made by the circuit.
_BACKOFF_MOST_S = 30.0
# 300 bytes each, so 3 MB. A dropped host has been idle while ten thousand others were requested.
_MOST_HOSTS = 10_000


@dataclass(slots=True)
class Lane:
    """The rate limits of one host; `users` is the number of requests that wait or are in progress."""

    concurrency: int
    gate: asyncio.Semaphore
    delay_s: float
    crawl_delay_s: float = 0.0
    free_at: float = float("-inf")
    users: int = 0

    @property
    def least_gap_s(self) -> float:
        """The minimum time between the starts of two requests."""
        return max(self.delay_s, self.crawl_delay_s)

    def gap_s(self, random: Random) -> float:
        """Return the time from one start to the next, with random jitter."""
        if not self.delay_s:
            return self.crawl_delay_s
        return max(self.delay_s * (1 + _JITTER * random.random()), self.crawl_delay_s)


@dataclass(slots=True)
class Permit:
    """The permission to have one exchange with a host.

    It is returned to the semaphore that issued it, even if the lane has another semaphore by then.
    """

    lane: Lane
    gate: asyncio.Semaphore
    clock: Callable[[], float]

    def sent(self) -> None:
        """Record that the request was sent: the gap before the next request starts now."""
        if gap_s := self.lane.least_gap_s:
            self.lane.free_at = max(self.lane.free_at, self.clock() + gap_s)

    def release(self) -> None:
        """End the exchange, so that the next one may start."""
        self.lane.users -= 1
        self.gate.release()


class Throttle:
    """Limits the requests of one process to each host: their rate, and the number of concurrent requests."""

    def __init__(
        self,
        *,
        delay_s: float = 1.0,
        concurrency: int = 3,
        longest_s: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Random | None = None,
        most_hosts: int = _MOST_HOSTS,
    ) -> None:
        self._delay_s = delay_s
        self._concurrency = concurrency
        self._longest_s = longest_s
        self._clock = clock
        self._sleep = sleep
        self._random = random or Random()  # noqa: S311 - jitter, not a secret
        self._lanes = LruCache[Lane](most_hosts, self._is_idle)

    @property
    def remembered(self) -> int:
        """The number of hosts in memory."""
        return len(self._lanes)

    def pace(
        self,
        host: str,
        *,
        delay_s: float | None = None,
        concurrency: int | None = None,
        crawl_delay_s: float | None = None,
    ) -> None:
        """Set the rate limits of one host; a crawl delay is limited to the longest accepted wait."""
        lane = self._lane(host)
        if delay_s is not None:
            lane.delay_s = delay_s
        if concurrency is not None and concurrency != lane.concurrency:
            lane.concurrency, lane.gate = concurrency, asyncio.Semaphore(concurrency)
        if crawl_delay_s is not None:
            lane.crawl_delay_s = min(crawl_delay_s, self._longest_s)

    async def hold(self, host: str, wait_s: float) -> None:
        """Start no request to a host for `wait_s`, limited to the longest accepted wait."""
        lane = self._lane(host)
        lane.free_at = max(lane.free_at, self._clock() + min(wait_s, self._longest_s))

    async def enter(self, host: str) -> Permit:
        """Wait until a request to the host may start; the caller must release the permit after its exchange."""
        lane = self._lane(host)
        permit = Permit(lane, lane.gate, self._clock)
        lane.users += 1
        try:
            await permit.gate.acquire()
        except BaseException:
            lane.users -= 1
            raise
        try:
            await self._turn(host, lane)
        except BaseException:
            permit.release()
            raise
        return permit

    async def close(self) -> None:
        """Do nothing: no other process shares these limits."""

    async def _turn(self, host: str, lane: Lane) -> None:
        """Wait until an admitted request may start."""
        while (wait_s := lane.free_at - self._clock()) > 0:
            await self._sleep(wait_s)
        self._note_start(lane)

    def _note_start(self, lane: Lane, *, times: int = 1) -> None:
        if gap_s := lane.gap_s(self._random) * times:
            lane.free_at = self._clock() + gap_s

    def _lane(self, host: str) -> Lane:
        return self._lanes.get(host) or self._lanes.put(
            host, Lane(self._concurrency, asyncio.Semaphore(self._concurrency), self._delay_s)
        )

    def _is_idle(self, lane: Lane) -> bool:
        return not lane.users and lane.free_at <= self._clock()


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """Parse a Retry-After header with seconds or a date; None if it is absent or invalid."""
    value = (value or "").strip()
    if value.isdecimal() and value.isascii():
        return float(value[:15])
    when = http_date(value)
    return None if when is None else max(0.0, (when - now).total_seconds())


def backoff_s(tried: int, random: Random) -> float:
    """Return a random wait after a number of tries; its upper bound doubles with each try."""
    most_s: float = min(_BACKOFF_MOST_S, _BACKOFF_BASE_S * 2 ** (tried - 1))
    return most_s * (0.5 + 0.5 * random.random())
