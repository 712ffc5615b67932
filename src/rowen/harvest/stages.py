"""The stages of a run, side by side: the first failure ends them all."""

import asyncio
from collections.abc import Coroutine

from rowen.concurrency import end

__all__ = ["together"]


async def together(*stages: Coroutine[None, None, None], watch: asyncio.Task[None] | None = None) -> None:
    """Run the stages side by side; the first failure, also of the watched task, ends them all."""
    tasks = [asyncio.create_task(stage) for stage in stages]
    waiting: set[asyncio.Task[None]] = {*tasks, *([watch] if watch else [])}
    try:
        while not all(task.done() for task in tasks):
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        await end(tasks)
