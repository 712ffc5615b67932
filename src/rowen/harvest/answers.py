"""What a worker process may say: facts of known types, and nothing that runs when it is unpickled."""

import builtins
import importlib
import io
import pickle
from typing import Any

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


def unpickle(answer: bytes, *packages: str) -> Any:
    """The answer of a worker; only classes of these packages and plain values are made.

    Raises `pickle.UnpicklingError` for anything else: a function of a module, or a class from elsewhere, has no
    business in an answer.
    """
    try:
        return _Facts(answer, packages).load()
    except (AttributeError, ImportError, IndexError, KeyError, TypeError, ValueError) as problem:
        raise pickle.UnpicklingError(f"no answer of a worker: {problem}") from None


class _Facts(pickle.Unpickler):
    def __init__(self, answer: bytes, packages: tuple[str, ...]) -> None:
        super().__init__(io.BytesIO(answer))
        self._packages = packages

    def find_class(self, module: str, name: str) -> Any:
        """The class that a worker names, if it is one of facts."""
        if (module, name) in _VALUES or self._is_error(module, name):
            return getattr(importlib.import_module(module), name)
        if module.partition(".")[0] in self._packages and "." not in name:
            found = getattr(importlib.import_module(module), name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in an answer")

    @staticmethod
    def _is_error(module: str, name: str) -> bool:
        found = getattr(builtins, name, None) if module == "builtins" else None
        return isinstance(found, type) and issubclass(found, ValueError)
