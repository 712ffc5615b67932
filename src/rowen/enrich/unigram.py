"""Words spelt with the likeliest pieces, as the models of many languages do (SentencePiece)."""

import unicodedata
from collections.abc import Collection, Sequence

from rowen.enrich.spelling import Spelling

__all__ = ["Unigram"]

# Stands in front of each word in place of the space before it.
_SPACE = "\u2581"
# How much less likely than the rarest piece a character is that no piece has; the library's own figure.
_UNKNOWN_PENALTY = 10.0
# Longer words are cut, so that one costs no more than it says: the likeliest way is looked for among all.
_LONGEST_WORD = 256


class Unigram(Spelling):
    """Pieces with the logarithms of how likely they are; some numbers are reserved for marks."""

    def __init__(
        self,
        pieces: Sequence[tuple[str, float]],
        unknown: int,
        *,
        start: Sequence[int],
        end: Sequence[int],
        reserved: Collection[int] = (),
    ) -> None:
        super().__init__(start, end)
        marks = {unknown, *start, *end, *reserved}
        self._pieces = {piece: (n, score) for n, (piece, score) in enumerate(pieces) if n not in marks}
        self._longest = max(len(piece) for piece in self._pieces)
        self._unknown = unknown
        self._unlikely = min(score for _, score in pieces) - _UNKNOWN_PENALTY

    def words(self, text: str) -> list[str]:
        """Words between spaces, in the compatible form of Unicode."""
        plain = unicodedata.normalize("NFKC", text)
        whole = [_SPACE + word for word in "".join(c for c in plain if c.isspace() or c.isprintable()).split()]
        return [word[at : at + _LONGEST_WORD] for word in whole for at in range(0, len(word), _LONGEST_WORD)]

    def spell(self, word: str) -> list[int]:
        """The likeliest row of pieces; what no piece has is one unknown, however long."""
        ids: list[int] = []
        for number in self._likeliest(word):
            if number != self._unknown or not ids or ids[-1] != self._unknown:
                ids.append(number)
        return ids

    def _likeliest(self, word: str) -> list[int]:
        scores = [0.0] + [float("-inf")] * len(word)
        steps: list[tuple[int, int]] = [(0, 0)] * (len(word) + 1)
        for start in range(len(word)):
            known = False
            for end in range(start + 1, min(start + self._longest, len(word)) + 1):
                if found := self._pieces.get(word[start:end]):
                    known = known or end == start + 1
                    if scores[start] + found[1] > scores[end]:
                        scores[end], steps[end] = scores[start] + found[1], (start, found[0])
            if not known and scores[start] + self._unlikely > scores[start + 1]:
                scores[start + 1], steps[start + 1] = scores[start] + self._unlikely, (start, self._unknown)
        ids = []
        at = len(word)
        while at:
            at, number = steps[at]
            ids.append(number)
        return ids[::-1]
