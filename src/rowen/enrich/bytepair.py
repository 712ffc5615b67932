"""Words become the numbers that a Llama model was trained with: pairs of pieces are joined, the most usual first.

No piece of the vocabulary spans a space, so each word with the spaces before it is spelt by itself, and remembered.
"""

import re
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

__all__ = ["BytePairs"]

_SPACE = "▁"
_WORD = re.compile(f"{_SPACE}*[^{_SPACE}]+|{_SPACE}+")
_CACHED_WORDS = 100_000


class BytePairs:
    """A vocabulary, and the pairs that make it up in the order of their use."""

    def __init__(self, vocabulary: Mapping[str, int], pairs: Sequence[str]) -> None:
        self._ids = dict(vocabulary)
        self._ranks = {pair: rank for rank, pair in enumerate(pairs)}
        self._cache: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """The numbers of a text."""
        ids: list[int] = []
        for word in _WORD.findall(_SPACE + text.replace(" ", _SPACE)):
            ids += self._cache.get(word) or self._spell(word)
        return ids

    def _spell(self, word: str) -> list[int]:
        pieces = self._joined([piece for char in word for piece in self._first_pieces(char)])
        ids = [self._ids[piece] for piece in pieces]
        if len(self._cache) < _CACHED_WORDS:
            self._cache[word] = ids
        return ids

    def _joined(self, pieces: list[str]) -> list[str]:
        """Join pairs in the order of their ranks, the first of equal ones first; a joined piece leaves "" behind."""
        after = list(range(1, len(pieces) + 1))
        before = list(range(-1, len(pieces) - 1))
        heap: list[tuple[int, int, str]] = []

        def consider(at: int) -> None:
            if at >= 0 and after[at] < len(pieces):
                pair = f"{pieces[at]} {pieces[after[at]]}"
                if (rank := self._ranks.get(pair)) is not None:
                    heappush(heap, (rank, at, pair))

        for at in range(len(pieces)):
            consider(at)
        while heap:
            _, at, pair = heappop(heap)
            follower = after[at]
            if follower >= len(pieces) or not pieces[at] or f"{pieces[at]} {pieces[follower]}" != pair:
                continue
            pieces[at] += pieces[follower]
            pieces[follower] = ""
            after[at] = after[follower]
            if after[at] < len(pieces):
                before[after[at]] = at
            consider(before[at])
            consider(at)
        return [piece for piece in pieces if piece]

    def _first_pieces(self, char: str) -> list[str]:
        """A character, or its bytes where the vocabulary does not have it."""
        return [char] if char in self._ids else [f"<0x{byte:02X}>" for byte in char.encode("utf-8", "surrogatepass")]
