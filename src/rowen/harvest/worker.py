"""A worker process: reads bodies and cuts texts, for a parent that speaks to it through its pipes.

Not `multiprocessing`: its start methods import the caller's main
module again, which breaks scripts without a guard. A frame is the number of a question, a length and a pickle, in both
directions: an answer repeats the number of its question. The process ends with its input, so it never outlives a killed
parent. The parent unpickles nothing but facts (`harvest/answers.py`): a worker that was taken over by what it read must
not get out through its answer.
"""

from __future__ import annotations

import pickle
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from rowen.content import readers
from rowen.errors import ItemError, RowenError
from rowen.harvest.sandbox import lock_in
from rowen.model.item import Document, Raw
from rowen.model.outside import one_item

if TYPE_CHECKING:
    from rowen.model.chunk import Chunk

__all__ = [
    "HEAD",
    "Answer",
    "Call",
    "Passages",
    "Prepared",
    "Raised",
    "Refused",
    "Result",
    "Task",
    "Text",
    "Uncut",
    "check_url",
    "main",
    "prepare_all",
]

HEAD = struct.Struct("<QI")
"""The number of a question, and the length of the pickle that follows."""


class Prepared(NamedTuple):
    """A document and its passages."""

    document: Document
    chunks: list[Chunk]


class Uncut(NamedTuple):
    """A body whose document is wanted without passages."""

    raw: Raw


class Text(NamedTuple):
    """The text of a page that was read already and is only to be cut."""

    url: str
    text: str


class Passages(NamedTuple):
    """The passages of the text of a page."""

    url: str
    chunks: list[Chunk]


class Call(NamedTuple):
    """A function of a module that is to be called with what came from outside."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Result(NamedTuple):
    """What a function returned."""

    value: Any


class Raised(NamedTuple):
    """What a function raised on purpose."""

    error: RowenError | ValueError


Task = Raw | Uncut | Text | Call


class Refused(NamedTuple):
    """Why a body could not be read."""

    error: str
    hint: str | None = None


Answer = Prepared | Passages | Result | Raised | Refused


def check_url(answered: str, asked: str) -> None:
    """Raise `RuntimeError` where an answer is about another page than the one that was asked for."""
    if answered != asked:
        raise RuntimeError(
            f"The answer to {asked} is about {answered}. Nothing of it was stored; this is a bug, please report it."
        )


def prepare_all(tasks: list[Task]) -> list[Answer]:
    """Read what is raw, cut what is read."""
    return [_prepare(task) for task in tasks]


def _prepare(task: Task) -> Answer:
    # Whoever starts a worker, or finds that nothing changed, reads nothing itself.
    from rowen.content import chunks as chunker
    from rowen.content import read as reader

    try:
        with one_item(_named(task), MemoryError, RecursionError):
            match task:
                case Text(url, text):
                    return Passages(url, chunker.split(text))
                case Uncut(raw):
                    return Prepared(reader.read(raw), [])
                case Raw():
                    document = reader.read(task)
                    return Prepared(document, chunker.split(document.text))
                case Call(function, arguments):
                    return _called(function, arguments)
    except ItemError as problem:
        return Refused(str(problem), problem.hint)
    except (MemoryError, RecursionError) as problem:
        return Refused(f"It is too large or too deeply nested to be read ({type(problem).__name__}).")


def _named(task: Task) -> str:
    """What a task is about, for an error."""
    match task:
        case Uncut(raw):
            return raw.url
        case Call(function, _):
            return f"What was given to {function.__name__}"
    return task.url


def _called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Answer:
    try:
        return Result(function(*arguments))
    except (RowenError, ValueError) as problem:
        return Raised(problem)


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    while head := requests.read(HEAD.size):
        number, size = HEAD.unpack(head)
        tasks = pickle.loads(requests.read(size))  # noqa: S301 (from our own parent)
        answer = _written(prepare_all(tasks))
        answers.write(HEAD.pack(number, len(answer)) + answer)
        answers.flush()


def _written(answers: list[Answer]) -> bytes:
    try:
        return pickle.dumps(answers, protocol=5)
    except (MemoryError, RecursionError) as problem:
        refused = Refused(f"What was read from it is too large or too deeply nested ({type(problem).__name__}).")
        return pickle.dumps([refused] * len(answers), protocol=5)


def main(places: Sequence[str] = ()) -> None:
    """Serve until the parent closes the pipe. `places` are those of the readers that other packages bring."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Once locked in, a process can import nothing any more.
    from rowen.content import chunks, read  # noqa: F401

    readers.join(places)
    lock_in()
    _serve(sys.stdin.buffer, sys.stdout.buffer)
