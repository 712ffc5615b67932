"""How much may be made of what was given.

Formats let a few bytes stand for many: a text that cells share, a base that links are joined to, a prefix, a span, a
context. Who writes such a thing out spends from a budget first, so that memory never holds what nobody sent.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["CONSTANT_CHARS", "FACTOR", "MOST_CHARS", "Budget", "OverspentError", "left_chars", "reading", "spend"]

FACTOR = 50
"""So many characters for each byte. The most that an honest body comes to is 49: a wide table of one-digit answers,
each written with the name of its column, which is a whole question. Of the recorded catalogs none reaches 3."""

CONSTANT_CHARS = 2_000_000
"""For small bodies: office files of a few kB are well packed."""

MOST_CHARS = 200_000_000
"""However much was given: as text, as passages and on the way to the store it is held several times."""


class OverspentError(Exception):
    """More would be made of a body than its share."""

    def __init__(self) -> None:
        super().__init__(f"would become more than {FACTOR} times as long as it is")


class Budget:
    """What may still be made of a body of so many bytes."""

    def __init__(self, given_bytes: int, *, most_chars: int | None = None) -> None:
        share = FACTOR * given_bytes + CONSTANT_CHARS
        self.left_chars = share if most_chars is None else min(most_chars, share)

    def spend(self, chars: int) -> None:
        """Take so many characters, before they are made; raises `OverspentError` when there are none left."""
        self.left_chars -= chars
        if self.left_chars < 0:
            raise OverspentError


_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def reading(given_bytes: int) -> Iterator[None]:
    """Whatever is read inside of this shares one budget."""
    token = _current.set(Budget(given_bytes, most_chars=MOST_CHARS))
    try:
        yield
    finally:
        _current.reset(token)


def spend(chars: int) -> None:
    """Spend from the budget of what is being read; a reader that is called for itself has none."""
    if (budget := _current.get()) is not None:
        budget.spend(chars)


def left_chars() -> int:
    """What is left of that budget, for readers that rather leave out the rest than fail."""
    budget = _current.get()
    return MOST_CHARS if budget is None else max(0, budget.left_chars)
