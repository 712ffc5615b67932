"""How the price of some work grows with the size of its input, measured so that other processes do not matter much."""

import gc
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from types import FrameType

__all__ = ["TooSlowError", "at_most", "cheapest_s", "costs_at_most", "grows", "slowness"]

REFERENCE_S = 0.06
"""What `_reference` takes on the machine on which limits were set; a slower one is given more time in proportion."""

FLOOR_S = 0.08
"""Below this a measurement is mostly noise: beside other work, 10 ms became 54 ms with twice the size.

What grows with the square and stays below it at 80 kB takes a second for 300 kB, which other limits hold.
"""

MOST_GROWTH = 3.0
"""Per doubling; linear work has 2, quadratic work 4."""


SECONDS = "takes seconds"


class TooSlowError(AssertionError):
    """The work was stopped."""


@contextmanager
def _uncollected() -> Iterator[None]:
    """Collecting garbage costs what the whole process holds, and other tests hold much: it would be measured along."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def at_most(limit_s: float, *, error: type[BaseException] = TooSlowError) -> Iterator[None]:
    """Stop what takes more seconds of the processor, with an error."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise error

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@cache
def slowness() -> float:
    """How many times slower than usual this machine is; at least 1."""
    tries = []
    for _ in range(3):
        began = time.process_time()
        _reference()
        tries.append(time.process_time() - began)
    return max(1.0, min(tries) / REFERENCE_S)


def _reference() -> int:
    return sum(len(f"{number:x}") for number in range(300_000))


@contextmanager
def costs_at_most(limit_s: float) -> Iterator[None]:
    """Fail where work takes more seconds of the processor than it may, on a machine of usual speed."""
    began = time.process_time()
    with _uncollected():
        yield
    spent_s = time.process_time() - began
    assert spent_s < limit_s * slowness(), f"it took {spent_s:.1f} s of the processor"


def cheapest_s(work: Callable[[], object], *, tries: int = 1, limit_s: float = 10.0) -> float:
    """The price of the cheapest of a few tries, in seconds of the processor; raises where one takes too long.

    Only this thread counts: others of the process, such as servers of tests, may work at the same time.
    """
    cheapest = float("inf")
    for _ in range(tries):
        began = time.thread_time()
        with _uncollected(), at_most(limit_s * slowness()):
            work()
        cheapest = min(cheapest, time.thread_time() - began)
    return cheapest


LOOKS = 5
"""What looks wrong is measured so often in all: a neighbour that shares caches and cores slows a few, never each."""


def grows(work: Callable[[int], Callable[[], object]], sizes: tuple[int, ...], *, limit_s: float = 1.0) -> str | None:
    """What is wrong with how the price grows from each size to the next, which is twice as large; None if nothing is.

    `work` gets a size and prepares what is measured. What looks wrong is measured again before it is told: all sizes
    one after the other, over and over, so that what slows the machine for a moment slows each of them.
    """
    prepared = [work(size) for size in sizes]
    prices_s = [float("inf")] * len(sizes)
    wrong = None
    for _ in range(LOOKS):
        try:
            prices_s[-1] = min(prices_s[-1], cheapest_s(prepared[-1], limit_s=limit_s))
            if prices_s[-1] < FLOOR_S:
                return None
            prices_s[:-1] = map(min, prices_s, (cheapest_s(work) for work in prepared[:-1]))
        except TooSlowError:
            if wrong == SECONDS:
                return wrong
            wrong = SECONDS
            continue
        wrong = _jump(prices_s)
        if wrong is None:
            return None
    return wrong


def _jump(prices_s: Sequence[float]) -> str | None:
    for smaller_s, larger_s in pairwise(prices_s):
        if larger_s >= FLOOR_S and larger_s >= MOST_GROWTH * smaller_s:
            return f"{smaller_s:.3f} s became {larger_s:.3f} s with twice the size"
    return None
