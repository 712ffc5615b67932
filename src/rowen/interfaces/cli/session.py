"""The environment of a command: settings, logs, an open client on an event loop, and signals.

The first signal requests a clean end, the second ends the process at once. Nothing is lost, since only committed work
was ever written.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import click

from rowen.interfaces.cli.output import escaped
from rowen.operations import Rowen
from rowen.settings import Settings, load, misspelt
from rowen.store.database import Patience

if TYPE_CHECKING:
    from rowen.interfaces.cli.invocation import Invocation

T = TypeVar("T")

# 128 and the number of SIGINT, as in shells.
_INTERRUPTED = 130
_SHOW_CURSOR = "\x1b[?25h"
_LEVELS = (logging.ERROR, logging.INFO, logging.DEBUG)


def ask(
    settings: Settings,
    question: Callable[[Rowen], Awaitable[T]],
    *,
    stop: Callable[[Rowen], None] | None = None,
    patience: Patience | None = None,
) -> T:
    """Open a client, await the result of `question`, and close the client; the first signal calls `stop`.

    With `patience`, wait while the database is unavailable.
    """

    async def answer(interrupts: _Interrupts) -> T:
        rowen = Rowen(settings)
        await rowen.start(patience=patience)
        try:
            if stop is not None:
                interrupts.first = lambda: stop(rowen)
            return await question(rowen)
        finally:
            await rowen.close()

    return _run(answer)


def run(question: Callable[[], Awaitable[T]]) -> T:
    """Await the result of `question`, which needs no client, with the same signal handling."""
    return _run(lambda _: question())


def _run(question: Callable[[_Interrupts], Awaitable[T]]) -> T:
    async def interruptible() -> T:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 (this runs in one)
        interrupts = _Interrupts(task.cancel)
        with interrupts.caught():
            return await question(interrupts)

    try:
        return asyncio.run(interruptible())
    except asyncio.CancelledError:
        raise click.Abort from None


class _Interrupts:
    """The signal handler: the first signal calls an action, the second ends the process."""

    def __init__(self, first: Callable[[], object]) -> None:
        self.first = first
        self._seen = False

    def __call__(self) -> None:
        if self._seen:
            if sys.stderr.isatty():
                sys.stderr.write(_SHOW_CURSOR)
                sys.stderr.flush()
            os._exit(_INTERRUPTED)
        self._seen = True
        self.first()

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


def patience(call: Invocation) -> Patience:
    """Return an object that waits for an unavailable database, and prints a message at each try."""

    def say(problem: Exception, wait_s: float) -> None:
        call.out.say(f"{str(problem).rstrip('.')}. Trying again in {wait_s:.1f} s.")

    return Patience(say)


def settings_of(call: Invocation) -> Settings:
    """Load the settings, warn about misspelt variables, and start the log."""
    for variable, meant in misspelt().items():
        call.out.say(f"{variable} sets nothing; {meant} is a setting.")
    settings = load(home=call.home, database_url=call.database_url)
    start_logging(call.verbose, as_json=settings.log == "json")
    return settings


def start_logging(verbose: int, *, as_json: bool = False) -> None:
    """Write logs to stderr: errors only, all events (-v), or every detail (-vv)."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLine() if as_json else _Line("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=_LEVELS[min(verbose, 2)], handlers=[handler])


class _Line(logging.Formatter):
    """Formats an event and its fields as one line; a traceback is indented below the line."""

    def format(self, record: logging.LogRecord) -> str:
        return escaped(super().format(record)).replace("\n", "\n    ")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the name is logging's)
        fields = getattr(record, "fields", None) or {}
        pairs = (f"{name}={value}" for name, value in fields.items() if value not in (None, 0, ""))
        # Line ends are escaped, so that foreign text cannot forge a line.
        return escaped(" ".join([super().formatMessage(record), *pairs])).replace("\n", "\\n")


class _JsonLine(logging.Formatter):
    """Formats an event as one JSON object: the event's name under `event`, the time, the logger, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"at": at, "level": record.levelname.lower(), "logger": record.name, "event": record.getMessage()}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        fields = {name: value for name, value in (getattr(record, "fields", None) or {}).items() if name not in line}
        # ASCII only, so that foreign text cannot end a line or control a terminal.
        return json.dumps({**line, **fields}, default=str)
