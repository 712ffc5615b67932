"""How often a host may be asked: pace, concurrency, and the waits that it asks for itself."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from random import Random

from rowen.model.dates import http_date

__all__ = ["Throttle", "backoff_s", "retry_after_s"]

_JITTER = 0.5
_BACKOFF_BASE_S = 1.0
_BACKOFF_MOST_S = 30.0


@dataclass(slots=True)
class _Lane:
    gate: asyncio.Semaphore
    delay_s: float
    crawl_delay_s: float = 0.0
    free_at: float = float("-inf")

    def gap_s(self, random: Random) -> float:
        if not self.delay_s:
            return self.crawl_delay_s
        return max(self.delay_s * (1 + _JITTER * random.random()), self.crawl_delay_s)


class Throttle:
    """Spaces out the requests to each host, and bounds how many run at the same time."""

    def __init__(
        self,
        *,
        delay_s: float = 1.0,
        concurrency: int = 3,
        longest_s: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Random | None = None,
    ) -> None:
        self._delay_s = delay_s
        self._concurrency = concurrency
        self._longest_s = longest_s
        self._clock = clock
        self._sleep = sleep
        self._random = random or Random(0)  # noqa: S311 - jitter, not a secret
        self._lanes: dict[str, _Lane] = {}

    def pace(
        self,
        host: str,
        *,
        delay_s: float | None = None,
        concurrency: int | None = None,
        crawl_delay_s: float | None = None,
    ) -> None:
        """Set the pace of one host; a crawl delay is kept up to the longest wait that a host may ask for."""
        lane = self._lane(host)
        if delay_s is not None:
            lane.delay_s = delay_s
        if concurrency is not None:
            lane.gate = asyncio.Semaphore(concurrency)
        if crawl_delay_s is not None:
            lane.crawl_delay_s = min(crawl_delay_s, self._longest_s)

    def hold(self, host: str, wait_s: float) -> None:
        """Start no request to a host for so long, within the longest wait that it may ask for."""
        lane = self._lane(host)
        lane.free_at = max(lane.free_at, self._clock() + min(wait_s, self._longest_s))

    async def enter(self, host: str) -> asyncio.Semaphore:
        """Wait for the host's turn; the caller releases what it gets when its exchange is over."""
        lane = self._lanes.get(host) or self._lane(host)
        gate = lane.gate
        await gate.acquire()
        try:
            while (wait_s := lane.free_at - self._clock()) > 0:
                await self._sleep(wait_s)
        except BaseException:
            gate.release()
            raise
        if gap_s := lane.gap_s(self._random):
            lane.free_at = self._clock() + gap_s
        return gate

    def _lane(self, host: str) -> _Lane:
        lane = self._lanes.get(host)
        if lane is None:
            lane = self._lanes[host] = _Lane(asyncio.Semaphore(self._concurrency), self._delay_s)
        return lane


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """The wait that a Retry-After header asks for, given as seconds or as a date; None if it says nothing."""
    value = (value or "").strip()
    if value.isdecimal() and value.isascii():
        return float(value[:15])
    when = http_date(value)
    return None if when is None else max(0.0, (when - now).total_seconds())


def backoff_s(tried: int, random: Random) -> float:
    """The wait after so many tries: twice as long each time, and never the same for two callers."""
    most_s: float = min(_BACKOFF_MOST_S, _BACKOFF_BASE_S * 2 ** (tried - 1))
    return most_s * (0.5 + 0.5 * random.random())
