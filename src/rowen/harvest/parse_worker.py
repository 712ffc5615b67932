"""What a worker process may say: facts of known types. To unpickle them runs nothing, and changes nothing of ours.

A worker process: reads bodies and cuts texts, for a parent that speaks to it through its pipes.

Not `multiprocessing`: its start methods import the caller's main
module again, which breaks scripts without a guard. A frame is the number of a question, a length and a pickle, in both
directions: an answer repeats the number of its question. The process ends with its input, so it never outlives a killed
parent. The parent unpickles nothing but facts: a worker that was taken over by what it read must
not get out through its answer.
"""

from __future__ import annotations

import builtins
import importlib
import io
import pickle
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from rowen.content import readers
from rowen.errors import ItemError, RowenError
from rowen.harvest.sandbox import lock_in
from rowen.model.items import Document, Raw
from rowen.model.text import one_item

if TYPE_CHECKING:
    from rowen.model.passages import Chunk

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
    "unpickle",
]

# Values that facts are made of. Numbers, strings, lists and sets have opcodes of their own and are not looked up.
_VALUES = frozenset(
    {
        ("datetime", "date"),
        ("datetime", "datetime"),
        ("datetime", "timedelta"),
        ("datetime", "timezone"),
        ("collections", "Counter"),
        ("collections", "OrderedDict"),
    }
)


_PLAIN = (tuple, str, int, float, bytes, list, dict, set, frozenset)


def unpickle(answer: bytes, *packages: str) -> Any:
    """The answer of a worker; only classes of these packages and plain values are made.

    Raises `pickle.UnpicklingError` for anything else: a function of a module, or a class from elsewhere, has no
    business in an answer.
    """
    facts = _Facts(answer, packages)
    try:
        found = facts.load()
        facts.check_unchanged()
        return found
    except (AttributeError, ImportError, IndexError, KeyError, TypeError, ValueError) as problem:
        raise pickle.UnpicklingError(f"no answer of a worker: {problem}") from None
    finally:
        facts.restore()


def _is_fact(found: type) -> bool:
    """Whether instances of a class hold values and do nothing when they are made."""
    return is_dataclass(found) or issubclass(found, (*_PLAIN, Enum, RowenError))


class _Facts(pickle.Unpickler):
    def __init__(self, answer: bytes, packages: tuple[str, ...]) -> None:
        super().__init__(io.BytesIO(answer))
        self._packages = packages
        # A pickle can set attributes of what it names, and the whole process shares classes and members of enums.
        self._shared: dict[int, tuple[Any, dict[str, Any]]] = {}

    def find_class(self, module: str, name: str) -> Any:
        """The class that a worker names, if it is one of facts."""
        if (module, name) in _VALUES or self._is_error(module, name):
            return self._remembered(getattr(importlib.import_module(module), name))
        package = module.partition(".")[0]
        if package in self._packages and "." not in name:
            found = getattr(importlib.import_module(module), name)
            if isinstance(found, type) and found.__module__ == module and (package != "rowen" or _is_fact(found)):
                return self._remembered(found)
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in an answer")

    def check_unchanged(self) -> None:
        """Raise `UnpicklingError` if the pickle changed a class or a member of an enum."""
        for shared, before in self._shared.values():
            now = vars(shared)
            if len(now) != len(before) or any(now.get(name) is not value for name, value in before.items()):
                raise pickle.UnpicklingError(f"an answer that changes {shared!r}")

    def restore(self) -> None:
        """Take back what the pickle changed."""
        for shared, before in self._shared.values():
            set_name, delete = (type.__setattr__, type.__delattr__) if isinstance(shared, type) else (setattr, delattr)
            for name in vars(shared).keys() - before.keys():
                delete(shared, name)
            for name, value in before.items():
                if vars(shared).get(name) is not value:
                    set_name(shared, name, value)

    def _remembered(self, found: type) -> type:
        for shared in (found, *(found if issubclass(found, Enum) else ())):
            self._shared.setdefault(id(shared), (shared, dict(vars(shared))))
        return found

    @staticmethod
    def _is_error(module: str, name: str) -> bool:
        found = getattr(builtins, name, None) if module == "builtins" else None
        return isinstance(found, type) and issubclass(found, ValueError)


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
