"""Cancels a coroutine where it waits for the n-th time: what it shares with others must be fit for the next user."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from types import coroutine
from typing import Any

__all__ = ["cancelled_at_each_wait", "cancelled_at_wait"]

# No code under test waits so often; a loop that polls would never end.
MOST_WAITS = 500


async def cancelled_at_wait(work: Coroutine[Any, Any, Any], number: int) -> bool:
    """Cancel `work` as soon as it waits for the n-th time; returns whether it waited so often.

    What it raises but the cancellation is raised. A cancellation that gets lost is seen by the time limit of the test.
    """
    waits = 0

    @coroutine
    def counting() -> Generator[Any, Any, None]:
        nonlocal waits
        task = asyncio.current_task()
        assert task is not None
        send: Callable[[], Any] = lambda: work.send(None)  # noqa: E731
        while True:
            try:
                waited_for = send()
            except StopIteration:
                return
            waits += 1
            if waits == number:
                task.cancel()
            try:
                yield waited_for
            except BaseException as problem:  # noqa: BLE001 (handed on as it came)
                send = lambda problem=problem: work.throw(problem)  # noqa: E731
            else:
                send = lambda: work.send(None)  # noqa: E731

    async def bounded() -> None:
        await counting()

    [result] = await asyncio.gather(asyncio.create_task(bounded()), return_exceptions=True)
    if result is not None and not isinstance(result, asyncio.CancelledError):
        raise result
    return waits >= number


async def cancelled_at_each_wait(work: Callable[[], Coroutine[Any, Any, Any]]) -> AsyncIterator[int]:
    """Do `work` again and again, cancelled at its first wait, its second, and so on.

    Yields the number of the wait after each, and ends when `work` was done without having been cancelled.
    """
    for number in range(1, MOST_WAITS):
        if not await cancelled_at_wait(work(), number):
            return
        yield number
    raise AssertionError(f"it waits more than {MOST_WAITS} times")
