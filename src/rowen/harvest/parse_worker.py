"""A parse worker: a process that reads bodies, splits texts, and communicates with its parent through pipes.

It does not use `multiprocessing`, whose start methods import the caller's main module again, which breaks scripts
without a guard. In both directions a frame consists of the number of a request, a length and a pickle; an answer
repeats the number of its request. The process ends with its input, so it never outlives a killed parent. The parent
unpickles data of known types only (`unpickle`): a worker that was compromised by its input must not escape through its
answer.
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
from typing import TYPE_CHECKING, Any, NamedTuple

from rowen.content import readers
from rowen.errors import ItemError, RowenError
from rowen.harvest.sandbox import lock_in
from rowen.model.items import Document, Raw
from rowen.model.text import one_item

if TYPE_CHECKING:
    from rowen.model.passages import Chunk

# Value types. Numbers, strings, lists and sets have opcodes of their own and are not looked up.
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
    """Return a worker's answer; raise `UnpicklingError` for anything but plain values and classes of these packages."""
    unpickler = _DataUnpickler(answer, packages)
    try:
        value = unpickler.load()
        unpickler.check_unchanged()
        return value
    except (AttributeError, ImportError, IndexError, KeyError, TypeError, ValueError) as problem:
        raise pickle.UnpicklingError(f"no answer of a worker: {problem}") from None
    finally:
        unpickler.restore()


class _DataUnpickler(pickle.Unpickler):
    def __init__(self, answer: bytes, packages: tuple[str, ...]) -> None:
        super().__init__(io.BytesIO(answer))
        self._packages = packages
        # A pickle can set attributes of classes and enum members that it names, which the whole process shares.
        self._shared: dict[int, tuple[Any, dict[str, Any]]] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Return the class of this name if it is allowed in an answer."""
        package = module.partition(".")[0]
        if (module, name) in _VALUES:
            return self._remember(getattr(importlib.import_module(module), name))
        if module == "builtins":
            error = getattr(builtins, name, None)
            if isinstance(error, type) and issubclass(error, ValueError):
                return self._remember(error)
        elif package in self._packages and "." not in name:
            known = getattr(importlib.import_module(module), name)
            if isinstance(known, type) and known.__module__ == module:
                # Instances of these hold values and run nothing when they are created.
                is_data = is_dataclass(known) or issubclass(known, (*_PLAIN, Enum, RowenError))
                if package != "rowen" or is_data:
                    return self._remember(known)
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in an answer")

    def check_unchanged(self) -> None:
        """Raise `UnpicklingError` if the pickle changed a class or a member of an enum."""
        for shared, before in self._shared.values():
            now = vars(shared)
            if len(now) != len(before) or any(now.get(name) is not value for name, value in before.items()):
                raise pickle.UnpicklingError(f"an answer that changes {shared!r}")

    def restore(self) -> None:
        """Undo the changes that the pickle made."""
        for shared, before in self._shared.values():
            set_name, delete = (type.__setattr__, type.__delattr__) if isinstance(shared, type) else (setattr, delattr)
            for name in vars(shared).keys() - before.keys():
                delete(shared, name)
            for name, value in before.items():
                if vars(shared).get(name) is not value:
                    set_name(shared, name, value)

    def _remember(self, named: type) -> type:
        for shared in (named, *(named if issubclass(named, Enum) else ())):
            self._shared.setdefault(id(shared), (shared, dict(vars(shared))))
        return named


HEAD = struct.Struct("<QI")
"""The number of a request and the length of the following pickle."""


class Prepared(NamedTuple):
    """A document and its passages."""

    document: Document
    chunks: list[Chunk]


class Uncut(NamedTuple):
    """A body to parse without splitting its text into passages."""

    raw: Raw


class Text(NamedTuple):
    """The text of a parsed page, to be split into passages."""

    url: str
    text: str


class Passages(NamedTuple):
    """The passages of a page's text."""

    url: str
    chunks: list[Chunk]


class Call(NamedTuple):
    """A module-level function to call with untrusted arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Result(NamedTuple):
    """The return value of a function."""

    value: Any


class Raised(NamedTuple):
    """An expected error that a function raised."""

    error: RowenError | ValueError


Task = Raw | Uncut | Text | Call


class Refused(NamedTuple):
    """The reason why a body could not be read."""

    error: str
    hint: str | None = None


Answer = Prepared | Passages | Result | Raised | Refused


def check_url(answered: str, expected: str) -> None:
    """Raise `RuntimeError` if an answer is about another page than its request."""
    if answered != expected:
        raise RuntimeError(
            f"The answer to {expected} is about {answered}. Nothing of it was stored; this is a bug, please report it."
        )


def prepare_all(tasks: list[Task]) -> list[Answer]:
    """Parse bodies, split texts and call functions; return the answers in order."""
    if not tasks:
        return []
    # A parent process that only starts workers, or has no tasks, needs no readers.
    from rowen.content import chunks

    return [_prepare(task, chunks.split) for task in tasks]


def _prepare(task: Task, split: Callable[[str], list[Chunk]]) -> Answer:
    try:
        match task:
            case Uncut(raw):
                subject = raw.url
            case Call(function, _):
                subject = f"The argument of {function.__name__}"
            case _:
                subject = task.url
        with one_item(subject, MemoryError, RecursionError):
            match task:
                case Text(url, text):
                    return Passages(url, split(text))
                case Uncut(raw):
                    return Prepared(readers.read(raw), [])
                case Raw():
                    document = readers.read(task)
                    return Prepared(document, split(document.text))
                case Call(function, arguments):
                    try:
                        return Result(function(*arguments))
                    except (RowenError, ValueError) as problem:
                        return Raised(problem)
    except ItemError as problem:
        return Refused(str(problem), problem.hint)
    except (MemoryError, RecursionError) as problem:
        return Refused(f"It is too large or too deeply nested to be read ({type(problem).__name__}).")


def _pickled(answers: list[Answer]) -> bytes:
    try:
        return pickle.dumps(answers, protocol=5)
    except (MemoryError, RecursionError) as problem:
        refused = Refused(f"The result is too large or too deeply nested ({type(problem).__name__}).")
        return pickle.dumps([refused] * len(answers), protocol=5)


def main(places: Sequence[str] = ()) -> None:
    """Serve requests until the parent closes the pipe; `places` are the import paths of plug-in readers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A sandboxed process cannot import anything any more, so this loads what the tasks need.
    prepare_all([])
    readers.join(places)
    lock_in()
    requests, output = sys.stdin.buffer, sys.stdout.buffer
    while head := requests.read(HEAD.size):
        number, size = HEAD.unpack(head)
        answer = _pickled(prepare_all(pickle.loads(requests.read(size))))  # noqa: S301 (from our own parent)
        output.write(HEAD.pack(number, len(answer)) + answer)
        output.flush()
