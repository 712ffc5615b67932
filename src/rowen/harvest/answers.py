"""What a worker process may say: facts of known types. To unpickle them runs nothing, and changes nothing of ours."""

import builtins
import importlib
import io
import pickle
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

from rowen.errors import RowenError

__all__ = ["unpickle"]

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
