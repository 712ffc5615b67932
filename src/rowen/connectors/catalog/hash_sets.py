"""Which records of a listing came already: a few bytes each, where a set of numbers takes a hundred."""

from array import array

from rowen.model.url import key

__all__ = ["HashSet", "UrlSet"]

_FIRST_SIZE = 1 << 10  # 8 kB, and a power of two as the mask needs it
_ALL_BITS = (1 << 64) - 1


class HashSet:
    """A set of texts by their hashes, in a table that is never more than two thirds full."""

    def __init__(self) -> None:
        self._table = _empty(_FIRST_SIZE)
        self._count = 0

    def add(self, text: str) -> bool:
        """Whether the text is new here."""
        mark = _mark(text)
        place = self._place(mark)
        if self._table[place]:
            return False
        self._table[place] = mark
        self._count += 1
        if 3 * self._count > 2 * len(self._table):
            self._grow()
        return True

    def __contains__(self, text: str) -> bool:
        return self._table[self._place(_mark(text))] != 0

    def __len__(self) -> int:
        return self._count

    def _place(self, mark: int) -> int:
        """Where a mark stands, or would stand."""
        table, mask = self._table, len(self._table) - 1
        place = mark & mask
        while (found := table[place]) and found != mark:
            place = (place + 1) & mask
        return place

    def _grow(self) -> None:
        marks, self._table = self._table, _empty(2 * len(self._table))
        for mark in marks:
            if mark:
                self._table[self._place(mark)] = mark


def _mark(text: str) -> int:
    return hash(text) & _ALL_BITS or 1


def _empty(size: int) -> "array[int]":
    return array("Q", bytes(8 * size))


class UrlSet:
    """The same for items, by their URLs, however these are spelled."""

    def __init__(self) -> None:
        self._marks = HashSet()

    def add(self, url: str) -> bool:
        """Whether the item is new here."""
        return self._marks.add(key(url).hex())

    def __contains__(self, url: str) -> bool:
        return key(url).hex() in self._marks

    def __len__(self) -> int:
        return len(self._marks)
