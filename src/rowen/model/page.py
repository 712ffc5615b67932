"""A part of a list, and where the next part begins."""

from collections.abc import Iterable
from typing import TypeVar

__all__ = ["Page"]

T = TypeVar("T")


class Page(list[T]):
    """A list whose `next` is what to ask with for the part that follows; None after the last."""

    def __init__(self, values: Iterable[T] = (), next: str | None = None) -> None:  # noqa: A002 (as it is called)
        super().__init__(values)
        self.next = next
