"""The stages of a run, side by side: the first failure ends them all."""

import asyncio
from collections.abc import Coroutine

__all__ = ["together"]

# A task that has not ended by then has lost its cancellation; a transaction ends in a fraction of it.
PERSISTENCE_S = 5.0


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
        await _end(tasks)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks until they are over: a cancellation can get lost in code that is not ours."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=PERSISTENCE_S)
    await asyncio.gather(*tasks, return_exceptions=True)
