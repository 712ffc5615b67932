"""Parse bodies and split texts into passages: inline if all are small, otherwise in worker processes.

Inline work blocks the process and cannot be stopped, so it is limited to bodies that are too small to do harm. All
other work runs in processes with limits of time, memory and rights.
"""

import asyncio
import logging
import os
import pickle
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from rowen.concurrency import together
from rowen.content import readers
from rowen.errors import ItemError
from rowen.harvest.parse_worker import (
    HEAD,
    Answer,
    Call,
    Passages,
    Prepared,
    Raised,
    Refused,
    Result,
    Task,
    Text,
    Uncut,
    check_url,
    prepare_all,
    unpickle,
)
from rowen.model.items import Document, FactsWanted, Raw
from rowen.programs import end, environment, isolated_python, start

# The work of one worker at a time: enough that its transfer (0.1 ms) hardly counts, little enough that two workers
# share a group evenly.
BATCH_TASKS = 16
BATCH_BYTES = 256 * 1024
# Groups up to this size are read inline: starting a process takes 0.17 s, as much as reading 1 MB.
INLINE_BYTES = 96 * 1024
# A single body may hide work that grows with the square of its size; at 8 kB that is still under 250 ms.
INLINE_BODY_BYTES = 8 * 1024
# Splitting a text costs an eighth of parsing a body.
CUTTING_SHARE = 8
# A batch of ordinary bodies takes a second or two; a machine under load may need thirty times as long.
TIME_LIMIT_S = 60.0
# Large bodies may take longer: the slowest reader does 1 MB/s on a busy machine, half of that is granted.
LEAST_BYTES_PER_S = 500_000
# The largest legitimate answer is that of a body of 64 MB in which every byte becomes an object.
MOST_ANSWER_BYTES = 1 << 30
COMMAND = "from rowen.harvest.parse_worker import main; main(places)"

T = TypeVar("T")

log = logging.getLogger(__name__)


class Workers:
    """A pool of parse workers, which start when first needed and are replaced when they die.

    A body that hangs, crashes or exhausts a worker affects that item alone: the tasks of its batch are retried one by
    one. All sources of an engine share the processes. A process whose answer was not read completely, as after a
    cancellation, is replaced before it is used again.
    """

    def __init__(self, count: int | None = None, *, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._count = min(4, os.cpu_count() or 1) if count is None else count
        self._time_limit_s = time_limit_s
        self._idle: asyncio.Queue[_Worker] | None = None
        self._all: list[_Worker] = []

    async def prepare(self, tasks: Sequence[Task]) -> list[Answer]:
        """Return the answers to the tasks, in order; tasks that cannot block the process for long run inline."""
        if not tasks:
            # A run without changes loads no reader.
            return []
        weights = list(map(_weight, tasks))
        is_harmless = sum(weights) <= INLINE_BYTES and max(weights, default=0) <= INLINE_BODY_BYTES
        if not self._count or is_harmless:
            return prepare_all(list(tasks))
        answered = await together(*map(self._ask, _batches(tasks)))
        return [answer for answers in answered for answer in answers]

    async def read(self, raw: Raw) -> Document:
        """Return the document of one body, for a connector that needs its links."""
        [answer] = await self.prepare([Uncut(raw)])
        match answer:
            case Prepared(document, _):
                check_url(document.url, raw.url)
                return document
            case Refused(error, hint):
                raise ItemError(error, hint=hint)
        raise TypeError(answer)

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a module-level function on untrusted input.

        Raises the function's own `RowenError` or `ValueError`, and `ItemError` if it takes too long, crashes or needs
        too much memory.
        """
        [answer] = await self.prepare([Call(function, arguments)])
        match answer:
            case Result(value):
                result: T = value
                return result
            case Raised(error):
                raise error
            case Refused(error, hint):
                raise ItemError(error, hint=hint)
        raise TypeError(answer)

    async def close(self) -> None:
        """End the processes; pending requests raise an error."""
        workers, self._all, self._idle = self._all, [], None
        for worker in workers:
            worker.close()
        for worker in workers:
            await worker.ended()

    async def _ask(self, batch: list[Task]) -> list[Answer]:
        limit_s = self._time_limit_s + sum(map(_weight, batch)) / LEAST_BYTES_PER_S
        if self._idle is None:
            self._idle = asyncio.Queue()
            self._all = [_Worker() for _ in range(self._count)]
            for worker in self._all:
                self._idle.put_nowait(worker)
        idle = self._idle
        worker = await idle.get()
        try:
            async with asyncio.timeout(limit_s):
                return await worker.ask(batch)
        except (TimeoutError, OSError, EOFError, pickle.UnpicklingError) as problem:
            if worker.closed:
                raise _closed() from problem
            if len(batch) == 1:
                is_slow = isinstance(problem, TimeoutError)
                result = f"took longer than {limit_s:.0f} s" if is_slow else "crashed the worker process"
                return [Refused(f"Reading it {result}.", "Exclude it, or report the file as a bug.")]
        finally:
            # There is no await between the end of the request and this line, so the pool never loses a worker.
            idle.put_nowait(worker)
        return [answer for task in batch for answer in await self._ask([task])]


class FactWorkers(Workers):
    """The parse workers of another pool, for a source whose pages are also parsed for facts."""

    def __init__(self, workers: Workers, facts: FactsWanted) -> None:
        self._workers = workers
        self._facts = facts

    async def prepare(self, tasks: Sequence[Task]) -> list[Answer]:
        """Return the answers to the tasks; the records of documents contain the wanted facts."""

        def with_facts(task: Task) -> Task:
            match task:
                case Uncut(raw):
                    return Uncut(replace(raw, facts=self._facts))
                case Raw():
                    return replace(task, facts=self._facts)
            return task

        return await self._workers.prepare([with_facts(task) for task in tasks])

    async def close(self) -> None:
        """Do nothing: the processes belong to the other pool."""


class _Worker:
    """One worker process, restarted after its death.

    A request has a number, which its answer repeats. If an exchange fails for any reason, the process is killed: an
    unread answer would be taken for the answer to the next request. Killing awaits nothing, so that no second
    cancellation can interrupt it.
    """

    def __init__(self) -> None:
        self.closed = False
        self._process: Process | None = None
        self._number = 0
        self._endings: set[asyncio.Task[None]] = set()
        self._silent = asyncio.Event()
        self._silent.set()

    async def ask(self, batch: list[Task]) -> list[Answer]:
        """Return the answers to a batch; kill the process if they are incomplete or belong to another request."""
        if self.closed:
            raise _closed()
        self._silent.clear()
        try:
            return await self._exchange(batch)
        except BaseException:
            self._kill()
            raise
        finally:
            self._silent.set()

    def close(self) -> None:
        """Kill the process for good; a pending read gets end of file."""
        self.closed = True
        if self._silent.is_set():
            self._kill()
        elif self._process is not None:
            _kill(self._process)

    async def ended(self) -> None:
        """Wait until no process of this worker is left."""
        await self._silent.wait()
        if self._endings:
            await asyncio.wait(self._endings)

    async def _exchange(self, batch: list[Task]) -> list[Answer]:
        process = await self._running()
        requests, answers = process.stdin, process.stdout
        assert requests is not None and answers is not None  # noqa: S101, PT018 (both are pipes)
        self._number += 1
        question = pickle.dumps(batch, protocol=5)
        requests.write(HEAD.pack(self._number, len(question)) + question)
        await requests.drain()
        number, size = HEAD.unpack(await answers.readexactly(HEAD.size))
        if number != self._number:
            log.error("a parse worker answered request %d instead of request %d", number, self._number)
            raise pickle.UnpicklingError("an answer to another request")
        if size > MOST_ANSWER_BYTES:
            raise pickle.UnpicklingError(f"an answer of {size:,} bytes")
        result = unpickle(await answers.readexactly(size), "rowen", *map(_package, batch))
        if not isinstance(result, list) or len(result) != len(batch) or not all(map(_belongs, result, batch)):
            raise pickle.UnpicklingError("the answers do not match their tasks")
        return result

    async def _running(self) -> Process:
        """Return the process; if it died since its last answer, replace it without blaming an item."""
        if self._process is not None and self._process.returncode is not None:
            self._kill()
        if self._process is None:
            code = f"places = {readers.places()!r}\n{COMMAND}"
            command = isolated_python(code)
            # A process with a terminal open could read what is typed there, so output of bugs goes to a log or nowhere.
            errors = DEVNULL if os.isatty(2) else None
            self._process = await start(command, environment=environment(), stdin=PIPE, stdout=PIPE, stderr=errors)
            if self.closed:
                raise _closed()
        return self._process

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        _kill(process)
        ending = end(process)
        try:
            task = asyncio.get_running_loop().create_task(ending)
        except RuntimeError:
            # The loop and its pipes were closed in the middle of a request.
            ending.close()
            return
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)


def _kill(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()


def _closed() -> RuntimeError:
    return RuntimeError("The parse workers were closed while they read a body.")


def _belongs(answer: Any, task: Task) -> bool:
    """Return whether an answer has the type and the page URL of its task."""
    match task, answer:
        case _, Refused():
            return True
        case Uncut(raw), Prepared(Document(url=url), _):
            return bool(url == raw.url)
        case (Raw(url=wanted), Prepared(Document(url=url), _)) | (Text(wanted, _), Passages(url, _)):
            return bool(url == wanted)
        case Call(), Result() | Raised():
            return True
    return False


def _package(task: Task) -> str:
    """Return the package whose classes the answer may contain."""
    return task.function.__module__.partition(".")[0] if isinstance(task, Call) else "rowen"


def _weight(task: Task) -> int:
    """Return the cost of a task, in bytes to parse.

    Documents of binary formats, and pages with rules, selectors or shapes of more than linear cost, get their own
    batch and never run inline. Sending a text costs as much as splitting it, so only long texts go to a worker.
    """
    match task:
        case Uncut(raw):
            return _weight(raw)
        case Raw():
            is_nested = any("(" in selector for selector in (task.select, task.ignore) if selector)
            is_linear = task.facts is None or task.facts.is_linear
            if readers.is_document(task) or task.profile is not None or is_nested or not is_linear:
                return max(len(task.body), BATCH_BYTES)
            return len(task.body)
        case Text(_, text):
            return len(text) // CUTTING_SHARE
        case Call(_, arguments):
            return _size(arguments)


def _size(values: Iterable[Any]) -> int:
    """Return the number of characters and bytes in the arguments of a function."""
    return sum(
        len(value) if isinstance(value, str | bytes) else _size(value) if isinstance(value, list | tuple) else 0
        for value in values
    )


def _batches(tasks: Sequence[Task]) -> list[list[Task]]:
    batches: list[list[Task]] = []
    room_bytes = 0
    for task in tasks:
        weight = _weight(task)
        if not batches or len(batches[-1]) == BATCH_TASKS or weight > room_bytes:
            batches.append([])
            room_bytes = BATCH_BYTES
        batches[-1].append(task)
        room_bytes -= weight
    return batches
