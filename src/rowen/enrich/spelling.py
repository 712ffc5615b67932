"""How texts become the numbers that a model was trained with: word by word, and in parts that it can read at once."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

__all__ = ["Spelling"]

# Some 12 MB. Common words come early, so that they are the ones in it; it never grows beyond.
_CACHED_WORDS = 50_000


class Spelling(ABC):
    """A vocabulary, and how words are spelt with it; `start` and `end` are the marks around each part of a text.

    Marks in a text are words like any others: what strangers wrote does not speak to the model.
    """

    def __init__(self, start: Sequence[int], end: Sequence[int]) -> None:
        self._start, self._end = list(start), list(end)
        self._cache: dict[str, list[int]] = {}

    @abstractmethod
    def words(self, text: str) -> Iterable[str]:
        """The words of a text, none of which a part will cut."""

    @abstractmethod
    def spell(self, word: str) -> list[int]:
        """The numbers of one word."""

    def windows(self, text: str, most: int) -> list[list[int]]:
        """The numbers of a text in parts of about the same size, each at most so many with the marks at its ends.

        No part ends within a word, unless a word is longer than a part.
        """
        ids: list[int] = []
        starts: list[int] = []
        for word in self.words(text):
            starts.append(len(ids))
            ids += self._cache.get(word) or self._learn(word)
        edges = [0, *_cuts(starts, len(ids), most - len(self._start) - len(self._end)), len(ids)]
        return [[*self._start, *ids[low:high], *self._end] for low, high in pairwise(edges)]

    def _learn(self, word: str) -> list[int]:
        ids = self.spell(word)
        if len(self._cache) < _CACHED_WORDS:
            self._cache[word] = ids
        return ids


def _cuts(starts: Sequence[int], count: int, room: int) -> list[int]:
    """Where to part so many numbers: at the starts of words, in as few parts as there is room for."""
    cuts: list[int] = []
    start = 0
    while count - start > room:
        aim = start - (start - count) // -(-(count - start) // room)
        at_word = starts[bisect_right(starts, aim) - 1]
        start = at_word if at_word > start else aim
        cuts.append(start)
    return cuts
