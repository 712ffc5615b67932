"""Wait for concurrent tasks until all have ended, and protect work from cancellation."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

# A task that is still running then has lost its cancellation (python/cpython#86296); transactions end much earlier.
PERSISTENCE_S = 5.0

T = TypeVar("T")


async def together(*works: Awaitable[T]) -> list[T]:
    """Run awaitables concurrently and return their results in order; on the first failure, cancel the rest and raise.

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
    """Cancel tasks and wait until they have ended; then raise the caller's own cancellation, if there was one.

    A library can swallow a cancellation, so each task is cancelled repeatedly.
    """
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
    """Wait for work that must not be interrupted; then raise a cancellation that arrived meanwhile."""
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
