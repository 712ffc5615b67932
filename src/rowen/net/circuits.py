"""Circuit breakers: a service that fails too often in a row gets no requests for a while.

Circuits are independent of HTTP: the caller of a service requests admission, and reports the result with its ticket.
Reports of calls that were admitted before the last change of state are stale and change nothing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from rowen.errors import CircuitOpenError
from rowen.net.politeness import LruCache
from rowen.settings import Settings

# 320 bytes each, so 3 MB. A forgotten circuit counts failures from zero again, like a closed circuit after a success.
_MOST_CIRCUITS = 10_000


class State(StrEnum):
    """The state of a circuit, which decides whether calls are admitted."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True)
class CircuitLimits:
    """The thresholds and pauses of a circuit.

    `failure_threshold` counts tries, and a request has three: at 5, one failing request does not open the circuit, but
    two requests do. `recovery_s` is enough to restart a service. `success_threshold` is 2 because a host that recovers
    under load may answer once and fail again. `rate_limit_multiplier` lengthens the pause each time a host that
    answers 429 opens the circuit, once per opening: otherwise five concurrent requests would multiply it by 32.
    `max_recovery_s` limits every pause, including the first; after a longer pause, a run would have ended before the
    next try.
    """

    failure_threshold: int = 5
    recovery_s: float = 30.0
    success_threshold: int = 2
    rate_limit_multiplier: float = 2.0
    max_recovery_s: float = 300.0

    @property
    def first_pause_s(self) -> float:
        """The pause after the first opening."""
        return min(self.recovery_s, self.max_recovery_s)

    @classmethod
    def of(cls, settings: Settings) -> "CircuitLimits":
        """Return the limits that the settings define."""
        return cls(
            failure_threshold=settings.cb_failure_threshold,
            recovery_s=settings.cb_recovery_timeout_secs,
            success_threshold=settings.cb_success_threshold,
            rate_limit_multiplier=settings.cb_rate_limit_backoff_multiplier,
            max_recovery_s=settings.cb_max_recovery_timeout_secs,
        )


@dataclass(frozen=True, slots=True)
class Stats:
    """The counts of a circuit."""

    state: State
    failures_in_a_row: int
    successes: int
    failures: int
    refused: int
    times_opened: int
    recovery_s: float
    retry_in_s: float
    open_for_s: float
    """The time since the circuit opened; 0 if it is closed."""


class Breaker:
    """The circuit of one service; `changed` is called when it opens, opens again or closes."""

    def __init__(
        self,
        name: str,
        limits: CircuitLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        changed: "Changed | None" = None,
    ) -> None:
        self.name = name
        self._limits = limits or CircuitLimits()
        self._clock = clock
        self._changed = changed
        self._successes = self._failures = self._refused = self._times_opened = 0
        self._generation = self._in_a_row = self._recovered = 0
        self._recovery_s = self._open_until = self._opened_at = 0.0
        self._rate_limited = False
        self._state = State.CLOSED
        self._close()

    def state(self) -> State:
        """Return the present state; an open circuit becomes half-open after its pause."""
        if self._state is State.OPEN and self._clock() >= self._open_until:
            self._become(State.HALF_OPEN)
        return self._state

    def admit(self) -> int:
        """Return a ticket for one call; raise `CircuitOpenError` while the circuit is open."""
        if self._state is not State.CLOSED and self.state() is State.OPEN:
            self._refused += 1
            wait_s = self._open_until - self._clock()
            raise CircuitOpenError(
                f"{self.name} was not tried: it failed {self._limits.failure_threshold} times in a row or more.",
                retry_in_s=wait_s,
                hint=f"It may be tried again in {wait_s:.0f} s; the next run does.",
            )
        return self._generation

    def succeed(self, ticket: int) -> None:
        """Report a successful call."""
        self._successes += 1
        if ticket != self._generation:
            return
        self._recovered += 1
        if self._in_a_row and (self._state is State.CLOSED or self._recovered >= self._limits.success_threshold):
            self._close()

    def fail(self, ticket: int, *, rate_limited: bool = False) -> None:
        """Report a failed call; `rate_limited` lengthens the pause that may follow, once per opening."""
        self._failures += 1
        if ticket != self._generation:
            return
        self._rate_limited |= rate_limited
        self._in_a_row += 1
        if self._state is State.HALF_OPEN or self._in_a_row >= self._limits.failure_threshold:
            now = self._clock()
            if self._state is State.CLOSED:
                self._opened_at = now
            if self._rate_limited:
                longer_s = self._recovery_s * self._limits.rate_limit_multiplier
                self._recovery_s = min(longer_s, self._limits.max_recovery_s)
            self._rate_limited = False
            self._times_opened += 1
            self._open_until = now + self._recovery_s
            self._become(State.OPEN)

    def stats(self) -> Stats:
        """Return the counts so far, and the present state."""
        state = self.state()
        return Stats(
            state=state,
            failures_in_a_row=self._in_a_row,
            successes=self._successes,
            failures=self._failures,
            refused=self._refused,
            times_opened=self._times_opened,
            recovery_s=self._recovery_s,
            retry_in_s=self._open_until - self._clock() if state is State.OPEN else 0.0,
            open_for_s=0.0 if state is State.CLOSED else self._clock() - self._opened_at,
        )

    def reset(self) -> None:
        """Close the circuit in any state; calls in progress no longer count."""
        self._generation += 1
        self._close()

    def _close(self) -> None:
        self._in_a_row = 0
        self._rate_limited = False
        self._recovery_s = self._limits.first_pause_s
        self._open_until = self._opened_at = 0.0
        self._become(State.CLOSED)

    def _become(self, state: State) -> None:
        is_new = state is not self._state
        self._generation += is_new
        self._state = state
        self._recovered = 0
        # A circuit becomes half-open by time alone: readers derive it from when it opened.
        if is_new and state is not State.HALF_OPEN and self._changed is not None:
            self._changed(self)


Changed = Callable[[Breaker], None]
"""Called when a circuit opens, opens again or closes; it runs between two requests and must not block."""


class Breakers:
    """The circuits of all services, by name; the least recently used circuits are forgotten, unless open."""

    def __init__(
        self,
        limits: CircuitLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        most: int = _MOST_CIRCUITS,
        changed: Changed | None = None,
    ) -> None:
        self._limits = limits or CircuitLimits()
        self._clock = clock
        self._changed = changed
        self._breakers = LruCache[Breaker](most, lambda breaker: breaker.state() is not State.OPEN)

    @property
    def remembered(self) -> int:
        """The number of circuits in memory."""
        return len(self._breakers)

    def of(self, name: str) -> Breaker:
        """Return the circuit of a service; create it on first use."""
        breaker = self._breakers.get(name)
        return breaker or self._breakers.put(
            name, Breaker(name, self._limits, clock=self._clock, changed=self._changed)
        )

    def stats(self) -> dict[str, Stats]:
        """Return the counts of every circuit."""
        return {name: breaker.stats() for name, breaker in self._breakers.items()}

    def reset(self, name: str | None = None) -> None:
        """Close the circuit `name`, or all circuits if it is None."""
        for breaker in self._breakers.values() if name is None else (self._breakers.get(name),):
            if breaker is not None:
                breaker.reset()
