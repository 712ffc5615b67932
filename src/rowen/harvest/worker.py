"""A worker process: reads bodies and cuts texts, for a parent that speaks to it through its pipes.

Not `multiprocessing`: its start methods import the caller's main
module again, which breaks scripts without a guard. A frame is a length and a pickle, in both directions; the
process ends with its input, so it never outlives a killed parent.
"""

import pickle
import resource
import signal
import struct
import sys
from typing import BinaryIO, NamedTuple

from rowen.content import chunks as chunker
from rowen.content import read as reader
from rowen.errors import ItemError
from rowen.model.chunk import Chunk
from rowen.model.item import Document, Raw

__all__ = ["LENGTH", "Answer", "Passages", "Prepared", "Refused", "Task", "Text", "Uncut", "main", "prepare_all"]

LENGTH = struct.Struct("<I")
MEMORY_LIMIT_BYTES = 4 << 30


class Prepared(NamedTuple):
    """A document and its passages."""

    document: Document
    chunks: list[Chunk]


class Uncut(NamedTuple):
    """A body whose document is wanted without passages."""

    raw: Raw


class Text(NamedTuple):
    """A text that was read already and is only to be cut."""

    text: str


class Passages(NamedTuple):
    """The passages of a text."""

    chunks: list[Chunk]


Task = Raw | Uncut | Text


class Refused(NamedTuple):
    """Why a body could not be read."""

    error: str
    hint: str | None = None


Answer = Prepared | Passages | Refused


def prepare_all(tasks: list[Task]) -> list[Answer]:
    """Read what is raw, cut what is read."""
    return [_prepare(task) for task in tasks]


def _prepare(task: Task) -> Answer:
    try:
        match task:
            case Text(text):
                return Passages(chunker.split(text))
            case Uncut(raw):
                return Prepared(reader.read(raw), [])
            case Raw():
                document = reader.read(task)
                return Prepared(document, chunker.split(document.text))
    except ItemError as problem:
        return Refused(str(problem), problem.hint)
    except (MemoryError, RecursionError) as problem:
        return Refused(f"It is too large or too deeply nested to be read ({type(problem).__name__}).")


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    while head := requests.read(LENGTH.size):
        tasks = pickle.loads(requests.read(*LENGTH.unpack(head)))  # noqa: S301 (from our own parent)
        answer = pickle.dumps(prepare_all(tasks), protocol=5)
        answers.write(LENGTH.pack(len(answer)) + answer)
        answers.flush()


def main() -> None:
    """Serve until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    _serve(sys.stdin.buffer, sys.stdout.buffer)
