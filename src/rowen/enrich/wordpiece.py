"""Words become the numbers that a BERT model was trained with.

The rules are those of the uncased English models: accents and case are dropped, punctuation and ideographs stand alone,
and a word that is not in the vocabulary is put together from the longest pieces that are. Marks such as `[SEP]` in a
text are words like any others: what strangers wrote does not speak to the model.
"""

import unicodedata
from collections.abc import Callable, Sequence

__all__ = ["WordPiece"]

# Longer words are unknown to the model, by the rules of its own tokeniser.
_LONGEST_WORD = 100
# Some 12 MB. Common words come early, so that they are the ones in it; it never grows beyond.
_CACHED_WORDS = 50_000
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


class WordPiece:
    """A vocabulary, and how texts are spelt with it."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids = {piece: number for number, piece in enumerate(vocabulary)}
        self._unknown = [self._ids["[UNK]"]]
        self._start, self._end = self._ids["[CLS]"], self._ids["[SEP]"]
        self._cache: dict[str, list[int]] = {}

    def encode(self, text: str, most: int) -> tuple[list[int], bool]:
        """The numbers of a text, at most so many with the marks at both ends, and whether some were left out."""
        ids = [self._start]
        for word in _words(text):
            ids += self._cache.get(word) or self._spell(word)
            if len(ids) >= most:
                break
        cut = len(ids) > most - 1
        return [*ids[: most - 1], self._end], cut

    def _spell(self, word: str) -> list[int]:
        ids = self._pieces(word) if len(word) <= _LONGEST_WORD else self._unknown
        if len(self._cache) < _CACHED_WORDS:
            self._cache[word] = ids
        return ids

    def _pieces(self, word: str) -> list[int]:
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


def _words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFD", text.translate(_CLEAN)).translate(_WITHOUT_ACCENT)
    # Letter by letter, a capital sigma at the end of a word is small as anywhere else.
    return plain.replace("Σ", "σ").lower().translate(_APART).split()
