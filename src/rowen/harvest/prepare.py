"""Bodies become documents, documents become passages: inline where that is cheaper, else in worker processes."""

import asyncio
import os
import pickle
import sys
from collections.abc import Iterator, Sequence

from rowen.content.read import is_document
from rowen.errors import ItemError
from rowen.harvest.worker import LENGTH, Answer, Prepared, Refused, Task, Text, Uncut, prepare_all
from rowen.model.item import Document, Raw

__all__ = ["Workers"]

BATCH_TASKS = 16
BATCH_BYTES = 256 * 1024
INLINE_BYTES = 96 * 1024
CUTTING_SHARE = 8
TIME_LIMIT_S = 60.0
COMMAND = "from rowen.harvest.worker import main; main()"


class Workers:
    """A few processes that prepare items. They start when first needed and are replaced when they die.

    A body that hangs, crashes or exhausts a worker costs that item alone: the batch it came with is tried again
    one by one.
    """

    def __init__(self, count: int | None = None, *, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._count = min(4, os.cpu_count() or 1) if count is None else count
        self._time_limit_s = time_limit_s
        self._idle: asyncio.Queue[_Worker] | None = None
        self._all: list[_Worker] = []

    async def prepare(self, tasks: Sequence[Task]) -> list[Answer]:
        """Each task's document and passages, in order."""
        if not self._count or sum(map(_weight, tasks)) <= INLINE_BYTES:
            return prepare_all(list(tasks))
        async with asyncio.TaskGroup() as asking:
            asked = [asking.create_task(self._ask(batch)) for batch in _batches(tasks)]
        return [answer for task in asked for answer in task.result()]

    async def read(self, raw: Raw) -> Document:
        """One body's document, for a connector that needs its links."""
        [answer] = await self.prepare([Uncut(raw)])
        match answer:
            case Prepared(document, _):
                return document
            case Refused(error, hint):
                raise ItemError(error, hint=hint)
        raise TypeError(answer)

    async def close(self) -> None:
        """End the processes."""
        await asyncio.gather(*(worker.stop() for worker in self._all))
        self._all.clear()
        self._idle = None

    async def _ask(self, batch: list[Task]) -> list[Answer]:
        worker = await self._free_worker()
        try:
            async with asyncio.timeout(self._time_limit_s):
                return await worker.ask(batch)
        except (TimeoutError, OSError, EOFError, pickle.UnpicklingError) as problem:
            await worker.stop()
            if len(batch) == 1:
                return [_blame(problem, self._time_limit_s)]
        finally:
            self._idle_workers().put_nowait(worker)
        return [answer for task in batch for answer in await self._ask([task])]

    async def _free_worker(self) -> "_Worker":
        return await self._idle_workers().get()

    def _idle_workers(self) -> "asyncio.Queue[_Worker]":
        if self._idle is None:
            self._idle = asyncio.Queue()
            self._all = [_Worker() for _ in range(self._count)]
            for worker in self._all:
                self._idle.put_nowait(worker)
        return self._idle


class _Worker:
    """One process, started again after its death."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def ask(self, batch: list[Task]) -> list[Answer]:
        if self._process is None:
            await self._start()
        assert self._process is not None  # noqa: S101 (it was just started)
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None and answers is not None  # noqa: S101, PT018 (both are pipes)
        question = pickle.dumps(batch, protocol=5)
        requests.write(LENGTH.pack(len(question)) + question)
        await requests.drain()
        (size,) = LENGTH.unpack(await answers.readexactly(LENGTH.size))
        result: list[Answer] = pickle.loads(await answers.readexactly(size))  # noqa: S301 (our own child)
        return result

    async def _start(self) -> None:
        """Start the process; a cancellation in the middle must not lose sight of it."""
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *(sys.executable, "-c", COMMAND),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        )
        try:
            self._process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            self._process = await starting
            raise

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        if process.stdin is not None:
            process.stdin.close()
        # Not wait(), which never ends while a pipe is full of what nobody reads (python/cpython#119710).
        await process.communicate()


def _blame(problem: Exception, time_limit_s: float) -> Refused:
    if isinstance(problem, TimeoutError):
        return Refused(f"Reading it took longer than {time_limit_s:g} s.", "Exclude it, or report the file as a bug.")
    return Refused("Reading it crashed the worker process.", "Exclude it, or report the file as a bug.")


def _weight(task: Task) -> int:
    """How much work a task is. A document of a binary format is a batch of its own, and never read inline.

    A text that is only to be cut is worth a worker's while when it is long: sending it costs as much as cutting it.
    """
    match task:
        case Uncut(raw):
            return _weight(raw)
        case Raw():
            return max(len(task.body), BATCH_BYTES) if is_document(task) else len(task.body)
        case Text(text):
            return len(text) // CUTTING_SHARE


def _batches(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    batch: list[Task] = []
    size = 0
    for task in tasks:
        weight = _weight(task)
        if batch and (len(batch) == BATCH_TASKS or size + weight > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(task)
        size += weight
    if batch:
        yield batch
