"""Doing something at the moment at which a run sends some statement."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

OF_THE_POOL = ("set search_path to", "set timezone to")


@contextlib.contextmanager
def failing_at(statement: int | str) -> Iterator[None]:
    """The connection breaks at the n-th statement, or at the first that contains some words."""

    def fail() -> None:
        raise psycopg.OperationalError("the network went away")

    with at_statement(statement, before=fail):
        yield


@contextlib.contextmanager
def at_statement(
    statement: int | str, *, before: Callable[[], None] | None = None, after: Callable[[], None] | None = None
) -> Iterator[None]:
    """Do something when the n-th statement from now on, or the first that contains some words, is sent.

    What the pool sends to make a connection, and to see whether it is alive, does not count: it puts up with a failure.
    """
    original = psycopg.AsyncCursor.execute
    sent = 0
    done = False

    async def counting(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal sent, done
        counts = query != "" and not str(query).startswith(OF_THE_POOL)
        sent += counts
        now = not done and counts and (sent == statement if isinstance(statement, int) else statement in str(query))
        done = done or now
        if now and before:
            before()
        result = await original(self, query, *args, **kwargs)
        if now and after:
            after()
        return result

    psycopg.AsyncCursor.execute = counting  # type: ignore[method-assign]
    try:
        yield
    finally:
        psycopg.AsyncCursor.execute = original  # type: ignore[method-assign]
