"""Words become the numbers that a BERT model was trained with.

The rules are those of the uncased English models: accents and case are dropped, punctuation and ideographs stand alone,
and a word that is not in the vocabulary is put together from the longest pieces that are.
"""

import unicodedata
from collections.abc import Callable, Mapping, Sequence

from rowen.enrich.spelling import Spelling

__all__ = ["WordPiece"]

# Longer words are unknown to the model, by the rules of its own tokeniser.
_LONGEST_WORD = 100
_IDEOGRAPHS = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)


class _Map(dict[int, str]):
    """What becomes of each character, found out when it is first met."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        super().__init__()
        self._rule = rule

    def __missing__(self, code: int) -> str:
        self[code] = self._rule(chr(code))
        return self[code]


def _clean(char: str) -> str:
    if char in "\t\n\r":
        return " "
    if char == "\ufffd" or unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs"):
        return ""
    if char.isspace():
        return " "
    return f" {char} " if any(low <= ord(char) <= high for low, high in _IDEOGRAPHS) else char


def _without_accent(char: str) -> str:
    return "" if unicodedata.category(char) == "Mn" else char


def _apart(char: str) -> str:
    symbol = char.isascii() and char.isprintable() and not char.isalnum() and char != " "
    return f" {char} " if symbol or unicodedata.category(char)[0] == "P" else char


_CLEAN, _WITHOUT_ACCENT, _APART = _Map(_clean), _Map(_without_accent), _Map(_apart)


class WordPiece(Spelling):
    """A vocabulary of pieces; by default one without capitals and accents."""

    def __init__(
        self,
        vocabulary: Sequence[str] | Mapping[str, int],
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
    ) -> None:
        numbered = vocabulary if isinstance(vocabulary, Mapping) else {piece: n for n, piece in enumerate(vocabulary)}
        super().__init__([numbered["[CLS]"]], [numbered["[SEP]"]])
        self._ids = numbered
        self._unknown = [numbered["[UNK]"]]
        self._lowercase = lowercase
        self._strip_accents = lowercase if strip_accents is None else strip_accents

    def words(self, text: str) -> list[str]:
        """Words and single marks, as far as the vocabulary tells them apart."""
        plain = text.translate(_CLEAN)
        if self._strip_accents:
            plain = unicodedata.normalize("NFD", plain).translate(_WITHOUT_ACCENT)
        if self._lowercase:
            # Letter by letter, a capital sigma at the end of a word is small as anywhere else.
            plain = plain.replace("Σ", "σ").lower()
        return plain.translate(_APART).split()

    def spell(self, word: str) -> list[int]:
        """The longest pieces from the left."""
        if len(word) > _LONGEST_WORD:
            return self._unknown
        ids = []
        at = 0
        while at < len(word):
            mark = "##" if at else ""
            end = next((end for end in range(len(word), at, -1) if mark + word[at:end] in self._ids), at)
            if end == at:
                return self._unknown
            ids.append(self._ids[mark + word[at:end]])
            at = end
        return ids
