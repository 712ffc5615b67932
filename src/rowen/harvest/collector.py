"""The garbage collector while a run is on: what flows through is freed by counting, and looked through in vain."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["seldom_collecting"]

OBJECTS_BETWEEN = 50_000
"""About what a group makes; they are freed by counting, so that the usual look at every 700 finds nothing."""

_usual: list[tuple[int, int, int]] = []


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Look for garbage less often until the last of the runs that are on has ended."""
    usual = gc.get_threshold()
    _usual.append(usual)
    if 0 < usual[0] < OBJECTS_BETWEEN:
        gc.set_threshold(OBJECTS_BETWEEN, *usual[1:])
    try:
        yield
    finally:
        first = _usual[0]
        _usual.pop()
        if not _usual:
            gc.set_threshold(*first)
