"""Tells when something kept the event loop from its other work."""

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import pytest

from tests.hostile.clock import slowness

__all__ = ["LIMIT_S", "Steps", "beats", "steps", "unblocked_loop"]

LIMIT_S = 0.25
"""What a person feels as a hang of Ctrl-C, and a server as a missed heartbeat."""
_BEAT_S = 0.005
# A wait counts the time of all threads, and grows with what else runs: 90 ms alone became 240 ms at a load of 16 on two
# cores, and 670 ms in a process that 10,000 tests had used. A thread that holds the interpreter for seconds is seen.
_WAITS = 4


class Steps:
    """The steps of the event loop that took long; `during` names what is done at the moment."""

    def __init__(self, limit_s: float) -> None:
        self.during = ""
        self.longest_s = 0.0
        self.longest_wait_s = 0.0
        self.blocks: list[str] = []
        self._limit_s = limit_s * slowness()

    def took(self, spent_s: float, handle: asyncio.Handle) -> None:
        """Note how long a step took."""
        self.longest_s = max(self.longest_s, spent_s)
        if spent_s > self._limit_s:
            self.blocks.append(f"{spent_s:.2f} s in {self.during or repr(handle)}")

    def waited(self, spent_s: float) -> None:
        """Note how much processor time this process spent while the loop wanted to go on."""
        self.longest_wait_s = max(self.longest_wait_s, spent_s)
        if spent_s > _WAITS * self._limit_s:
            self.blocks.append(f"kept waiting {spent_s:.2f} s in {self.during}")


@contextmanager
def steps(limit_s: float = LIMIT_S) -> Iterator[Steps]:
    """Watch the steps of the event loop.

    Processor time of the loop's own thread is measured, not the clock: other processes may have the machine. Servers
    of the tests have threads of their own, and may take their time. Nor does collecting garbage count, which takes
    up to 0.3 s in a process that thousands of tests have left something in.
    """
    watched = Steps(limit_s)
    run = asyncio.Handle._run
    collecting_s = began_s = 0.0

    def collected(phase: str, _facts: dict[str, int]) -> None:
        nonlocal collecting_s, began_s
        if threading.current_thread() is not threading.main_thread():
            return
        if phase == "start":
            began_s = time.thread_time()
        else:
            collecting_s += time.thread_time() - began_s

    def timed(handle: asyncio.Handle) -> None:
        started = time.thread_time() - collecting_s
        run(handle)
        if threading.current_thread() is threading.main_thread():
            watched.took(time.thread_time() - collecting_s - started, handle)

    gc.callbacks.append(collected)
    asyncio.Handle._run = timed  # type: ignore[method-assign]
    try:
        yield watched
    finally:
        gc.callbacks.remove(collected)
        asyncio.Handle._run = run  # type: ignore[method-assign]


@asynccontextmanager
async def beats(watched: Steps) -> AsyncIterator[None]:
    """Watch how long the loop is kept waiting by the threads beside it, which may hold the lock of the interpreter.

    Processor time of the whole process is measured, less that of collecting garbage.
    """
    collecting_s = began_s = 0.0

    def collected(phase: str, _facts: dict[str, int]) -> None:
        nonlocal collecting_s, began_s
        if phase == "start":
            began_s = time.process_time()
        else:
            collecting_s += time.process_time() - began_s

    async def beat() -> None:
        while True:
            before_s = time.process_time() - collecting_s
            await asyncio.sleep(_BEAT_S)
            watched.waited(time.process_time() - collecting_s - before_s)

    gc.callbacks.append(collected)
    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        gc.callbacks.remove(collected)


@contextmanager
def unblocked_loop(limit_s: float = LIMIT_S) -> Iterator[None]:
    """Fail if a single step of the event loop takes longer."""
    with steps(limit_s) as watched:
        yield
    if watched.blocks:
        pytest.fail("The event loop was blocked: " + "; ".join(watched.blocks))
