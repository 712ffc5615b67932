"""The event loop round a question, and what Ctrl-C does to it.

The first signal asks for a clean end, the second ends the process where it stands: what was not committed was never
written, so nothing needs to be tidied up.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from rowen.operations import Rowen
    from rowen.settings import Settings
    from rowen.store.database import Patience

__all__ = ["ask", "run"]

T = TypeVar("T")

# 128 and the number of SIGINT, as shells have it.
_INTERRUPTED = 130
_SHOW_CURSOR = "\x1b[?25h"


class _Interrupts:
    """What the next signal does."""

    def __init__(self, first: Callable[[], object]) -> None:
        self.first = first
        self._seen = False

    def __call__(self) -> None:
        if self._seen:
            _end_at_once()
        self._seen = True
        self.first()

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Listen to Ctrl-C and to a request to terminate."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


def ask(
    settings: Settings,
    question: Callable[[Rowen], Awaitable[T]],
    *,
    stop: Callable[[Rowen], None] | None = None,
    patience: Patience | None = None,
) -> T:
    """Open Rowen, ask, and close it; with `stop` the first signal does that instead of breaking off.

    With `patience` an outage of the database is waited out, when it is opened.
    """
    from rowen.operations import Rowen

    async def asked(interrupts: _Interrupts) -> T:
        rowen = Rowen(settings)
        await rowen.start(patience=patience)
        try:
            if stop is not None:
                interrupts.first = lambda: stop(rowen)
            return await question(rowen)
        finally:
            await rowen.close()

    return _run(asked)


def run(question: Callable[[], Awaitable[T]]) -> T:
    """Wait for something that needs no database, with the same signals."""

    async def asked(_: _Interrupts) -> T:
        return await question()

    return _run(asked)


def _run(question: Callable[[_Interrupts], Awaitable[T]]) -> T:
    async def bounded() -> T:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 (we are in one)
        interrupts = _Interrupts(task.cancel)
        with interrupts.caught():
            return await question(interrupts)

    try:
        return asyncio.run(bounded())
    except asyncio.CancelledError:
        raise click.Abort from None


def _end_at_once() -> None:
    if sys.stderr.isatty():
        sys.stderr.write(_SHOW_CURSOR)
        sys.stderr.flush()
    os._exit(_INTERRUPTED)
