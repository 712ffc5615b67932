"""A bounded cache by name, for processes that live for weeks and meet many hosts."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

__all__ = ["LruCache"]

T = TypeVar("T")


class LruCache(Generic[T]):
    """Values by name, at most so many: the one that was used least recently goes first.

    What `may_go` does not let go (a host that is being asked, an open circuit) stays, and takes its place at the end.
    """

    __slots__ = ("_may_go", "_most", "_values")

    def __init__(self, most: int, may_go: Callable[[T], bool] = lambda _: True) -> None:
        self._most = most
        self._may_go = may_go
        self._values: OrderedDict[str, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def items(self) -> Iterator[tuple[str, T]]:
        """All names and values, the least recently used first."""
        yield from list(self._values.items())

    def values(self) -> Iterator[T]:
        """All values, in the same order."""
        yield from list(self._values.values())

    def get(self, name: str) -> T | None:
        """The value of a name, if it is remembered."""
        value = self._values.get(name)
        if value is not None:
            self._values.move_to_end(name)
        return value

    def put(self, name: str, value: T) -> T:
        """Remember a value, and forget others if there are too many."""
        self._values.pop(name, None)
        self._make_room()
        self._values[name] = value
        return value

    def drop(self, name: str) -> None:
        """Forget a value, if it is remembered."""
        self._values.pop(name, None)

    def _make_room(self) -> None:
        for _ in range(len(self._values)):
            if len(self._values) < self._most:
                return
            name = next(iter(self._values))
            if self._may_go(self._values[name]):
                del self._values[name]
            else:
                self._values.move_to_end(name)
