"""Tokenizers of sentence models: WordPiece, Unigram and byte pairs, read from `tokenizer.json` or `vocab.txt`.

The three ways in which sentence models spell are read here without the library that wrote the file, which would bring
an HTTP stack of its own. What a file asks for beyond them is refused: a model that is spelt otherwise than it learnt
gives vectors that look right and are not.
"""

import re
import unicodedata
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from rowen.errors import ConfigurationError

_WORDPIECE_STEPS = {"BertNormalizer", "BertPreTokenizer"}
# `Precompiled` is SentencePiece's own table, which is the compatible form of Unicode but for rare characters.
_UNIGRAM_STEPS = {"Precompiled", "NFKC", "Nmt", "Strip", "Replace", "WhitespaceSplit", "Metaspace"}
_BYTE_STEPS = {"ByteLevel", "NFC"}
# Some 12 MB. Common words come early, so that they are the ones in it; it never grows beyond.
_CACHED_WORDS = 50_000
# Longer words are unknown to the model, by the rules of its own tokeniser.
_LONGEST_WORD = 100
_IDEOGRAPHS = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)
# Stands in front of each word in place of the space before it.
_SPACE = "\u2581"
# How much less likely than the rarest piece a character is that no piece has; the library's own figure.
_UNKNOWN_PENALTY = 10.0
# Longer words are cut, so that one costs no more than it says: the likeliest way is looked for among all.
_LONGEST_UNIGRAM = 256
# As GPT-2 cuts texts; what Python calls a word character holds the underscore, which is a mark there.
_WORD = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?[\d]+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
# Longer words are cut: joining costs the square of their length.
_LONGEST_PAIRED = 256


class Spelling(ABC):
    """A vocabulary, and how words are spelt with it; `start` and `end` are the marks around each part of a text.

    Marks in a text are words like any others: what strangers wrote does not speak to the model.
    """

    def __init__(self, start: Sequence[int], end: Sequence[int]) -> None:
        self._start, self._end = list(start), list(end)
        self._cache: dict[str, list[int]] = {}

    @abstractmethod
    def words(self, text: str) -> Iterable[str]:
        """Return the words of a text, none of which a part will cut."""

    @abstractmethod
    def spell(self, word: str) -> list[int]:
        """Return the numbers of one word."""

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


def spelling_of(told: Mapping[str, Any], name: str) -> Spelling:
    """The spelling that a `tokenizer.json` describes; raises where it asks for something that is not known here."""
    try:
        return _spelling(told, name)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as problem:
        raise ConfigurationError(
            f"{name} is no tokenizer that can be read: {type(problem).__name__}: {problem}", hint=_HINT
        ) from problem


def spelling_of_vocabulary(text: str, *, lowercase: bool) -> Spelling:
    """Return the spelling of a `vocab.txt`: one piece a line."""
    pieces = text.rstrip("\n").split("\n")
    if missing := {"[CLS]", "[SEP]", "[UNK]"} - set(pieces):
        raise ConfigurationError(f"vocab.txt has no {', '.join(sorted(missing))}.", hint=_HINT)
    return WordPiece(pieces, lowercase=lowercase)


_HINT = "A folder of another model, or one that a server behind the embedder `openai` reads."


def _spelling(told: Mapping[str, Any], name: str) -> Spelling:
    model = told["model"]
    start, end = _marks(told.get("post_processor"))
    match model.get("type"):
        case "WordPiece":
            return _wordpiece(told, model, name)
        case "Unigram" if not model.get("byte_fallback"):
            _only(told, _UNIGRAM_STEPS, name)
            pieces = [(str(piece), float(score)) for piece, score in model["vocab"]]
            reserved = {one["id"] for one in told.get("added_tokens") or () if one.get("special")}
            return Unigram(pieces, int(model["unk_id"]), start=start, end=end, reserved=reserved)
        case "BPE" if not model.get("byte_fallback"):
            steps = _only(told, _BYTE_STEPS, name)
            before = any(step.get("add_prefix_space") for step in steps)
            pairs = [tuple(one.split(" ") if isinstance(one, str) else one) for one in model["merges"]]
            return BytePairs(model["vocab"], pairs, start=start, end=end, space_before=before)
    raise _unknown(name, f"a model of type {model.get('type')}")


def _wordpiece(told: Mapping[str, Any], model: Mapping[str, Any], name: str) -> Spelling:
    for step in _only(told, _WORDPIECE_STEPS, name):
        if step["type"] == "BertNormalizer":
            if not (step.get("clean_text", True) and step.get("handle_chinese_chars", True)):
                raise _unknown(name, "texts that are not cleaned")
            return WordPiece(model["vocab"], lowercase=bool(step["lowercase"]), strip_accents=step.get("strip_accents"))
    raise _unknown(name, "no BertNormalizer")


def _only(told: Mapping[str, Any], known: set[str], name: str) -> list[Mapping[str, Any]]:
    """Return the steps before the spelling itself, all of them known."""
    steps = [*_steps(told.get("normalizer")), *_steps(told.get("pre_tokenizer"))]
    for step in steps:
        if step["type"] not in known:
            raise _unknown(name, str(step["type"]))
    return steps


def _steps(told: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    if told is None:
        return
    nested = told.get("normalizers") or told.get("pretokenizers")
    if told["type"] == "Sequence" and nested is not None:
        for one in nested:
            yield from _steps(one)
    else:
        yield told


def _marks(told: Mapping[str, Any] | None) -> tuple[list[int], list[int]]:
    """Return the numbers that stand before and after each text."""
    if told is None:
        return [], []
    if told["type"] in ("RobertaProcessing", "BertProcessing"):
        return [told["cls"][1]], [told["sep"][1]]
    if told["type"] == "Sequence":
        return next((_marks(one) for one in told["processors"] if one["type"] != "ByteLevel"), ([], []))
    if told["type"] != "TemplateProcessing":
        return [], []
    sides: tuple[list[int], list[int]] = ([], [])
    after = False
    for part in told["single"]:
        after = after or "Sequence" in part
        if special := part.get("SpecialToken"):
            sides[after].extend(told["special_tokens"][special["id"]]["ids"])
    return sides


def _unknown(name: str, what: str) -> ConfigurationError:
    return ConfigurationError(f"{name} asks for {what}, which is not known here.", hint=_HINT)


def _cuts(starts: Sequence[int], count: int, room: int) -> list[int]:
    """Return where to part so many numbers: at the starts of words, in as few parts as there is room for."""
    cuts: list[int] = []
    start = 0
    while count - start > room:
        aim = start - (start - count) // -(-(count - start) // room)
        at_word = starts[bisect_right(starts, aim) - 1]
        start = at_word if at_word > start else aim
        cuts.append(start)
    return cuts


class _Map(dict[int, str]):
    """A translation table, computed character by character at first use."""

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
        """Return the longest pieces from the left."""
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
        return [word[at : at + _LONGEST_UNIGRAM] for word in whole for at in range(0, len(word), _LONGEST_UNIGRAM)]

    def spell(self, word: str) -> list[int]:
        """Return the likeliest row of pieces; what no piece has is one unknown, however long."""
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


def _letters() -> dict[int, str]:
    """Return a visible character for each byte."""
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
        return [word[at : at + _LONGEST_PAIRED] for word in whole for at in range(0, len(word), _LONGEST_PAIRED)]

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
