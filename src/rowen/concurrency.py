"""Tasks that end together, and tasks that a cancellation does not interrupt."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

# A task that has not ended by then has lost its cancellation (python/cpython#86296); a transaction ends much earlier.
PERSISTENCE_S = 5.0

T = TypeVar("T")


async def together(*works: Awaitable[T]) -> list[T]:
    """Run awaitables concurrently and return their results in order; the first failure ends all, and is raised.

    `asyncio.gather` would leave the others running; `asyncio.TaskGroup` wraps the failure, and in Python 3.11 leaves
    the task marked as being cancelled.
    """
    if not works:
        return []
    tasks = [asyncio.create_task(_result(work)) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        failed = [task for task in tasks if task.done() and not task.cancelled() and task.exception() is not None]
    finally:
        await end(tasks)
    return [task.result() for task in failed or tasks]


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they have ended, since libraries can swallow a cancellation; then pass on the caller's own."""
    tasks = list(tasks)
    left = {task for task in tasks if not task.done()}
    cancelled: asyncio.CancelledError | None = None
    for task in left:
        task.cancel()
    while left:
        try:
            _, left = await asyncio.wait(left, timeout=PERSISTENCE_S)
        except asyncio.CancelledError as problem:
            cancelled, left = problem, {task for task in left if not task.done()}
            continue
        for task in left:
            task.cancel()
    for task in tasks:
        # asyncio logs an exception that is never retrieved.
        _ = task.cancelled() or task.exception()
    if cancelled is not None:
        raise cancelled


async def finish(work: Awaitable[T]) -> T:
    """Finish work that must not be interrupted, then raise a cancellation that arrived meanwhile."""
    task = asyncio.create_task(_result(work))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as problem:
            cancelled = problem
    if cancelled is not None:
        _ = task.cancelled() or task.exception()
        raise cancelled
    return task.result()


async def _result(work: Awaitable[T]) -> T:
    return await work
