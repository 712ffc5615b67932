"""Tells when something kept the event loop from its other work."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

LIMIT_S = 0.25
"""What a person feels as a hang of Ctrl-C, and a server as a missed heartbeat."""


@contextmanager
def unblocked_loop(limit_s: float = LIMIT_S) -> Iterator[None]:
    """Fail if a single step of the event loop takes longer.

    Processor time of the loop's own thread is measured, not the clock: other processes may have the machine. Servers
    of the tests have threads of their own, and may take their time.
    """
    blocks: list[str] = []
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        started = time.thread_time()
        run(handle)
        spent_s = time.thread_time() - started
        if spent_s > limit_s and threading.current_thread() is threading.main_thread():
            blocks.append(f"{spent_s:.2f} s in {handle!r}")

    asyncio.Handle._run = timed  # type: ignore[method-assign]
    try:
        yield
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]
    if blocks:
        pytest.fail("The event loop was blocked: " + "; ".join(blocks))
