"""Work side by side whose parts end together: no task outlives the failure of its sibling."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["together"]

T = TypeVar("T")


async def together(*works: Coroutine[Any, Any, T]) -> list[T]:
    """Run coroutines side by side and return their results in order.

    The first failure cancels the others, waits until they have ended, and is raised as it came: unlike
    `asyncio.gather`, which leaves them running, and `asyncio.TaskGroup`, which wraps it.
    """
    failure: BaseException | None = None
    tasks: list[asyncio.Task[T]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as failures:
        failure = failures.exceptions[0]
    if failure is not None:
        raise failure
    return [task.result() for task in tasks]
