"""Words spelt with pairs of bytes that were joined in the order in which the model learnt them (RoBERTa, GPT-2)."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from rowen.enrich.spelling import Spelling

__all__ = ["BytePairs"]

# As GPT-2 cuts texts; what Python calls a word character holds the underscore, which is a mark there.
_WORD = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?[\d]+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
# Longer words are cut: joining costs the square of their length.
_LONGEST_WORD = 256


def _letters() -> dict[int, str]:
    """A visible character for each byte."""
    shown = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {byte: chr(byte) for byte in shown} | {byte: chr(256 + n) for n, byte in enumerate(hidden)}


_LETTERS = _letters()


class BytePairs(Spelling):
    """A vocabulary over bytes, and which pairs are joined first."""

    def __init__(
        self,
        vocabulary: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        *,
        start: Sequence[int],
        end: Sequence[int],
        space_before: bool = False,
    ) -> None:
        super().__init__(start, end)
        self._ids = vocabulary
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._before = " " if space_before else ""

    def words(self, text: str) -> list[str]:
        """Words with the space before them."""
        given = self._before + text if text and not text[0].isspace() else text
        whole = _WORD.findall(given)
        return [word[at : at + _LONGEST_WORD] for word in whole for at in range(0, len(word), _LONGEST_WORD)]

    def spell(self, word: str) -> list[int]:
        """Join pairs, the one that was learnt first before all others, until none is left."""
        letters = [_LETTERS[byte] for byte in word.encode("utf-8", "replace")]
        last = len(self._ranks)
        while len(letters) > 1:
            ranks = [self._ranks.get(pair, last) for pair in pairwise(letters)]
            best = min(ranks)
            if best == last:
                break
            at = ranks.index(best)
            letters[at : at + 2] = [letters[at] + letters[at + 1]]
        return [self._ids[letter] for letter in letters if letter in self._ids]
