"""Tokenizers of sentence models: WordPiece, Unigram and byte pairs, read from `tokenizer.json` or `vocab.txt`.

The library that writes these files is not used, since it would add an HTTP stack. A tokenizer with an unsupported
feature is an error: with other tokens than in training, a model returns wrong vectors without any error.
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
# `Precompiled` is SentencePiece's own table, which equals the Unicode form NFKC except for rare characters.
_UNIGRAM_STEPS = {"Precompiled", "NFKC", "Nmt", "Strip", "Replace", "WhitespaceSplit", "Metaspace"}
_BYTE_STEPS = {"ByteLevel", "NFC"}
# About 12 MB. Common words occur early, so they fill the cache.
_CACHED_WORDS = 50_000
# The model's own tokenizer treats longer words as unknown.
_LONGEST_WORD = 100
_IDEOGRAPHS = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)
# Replaces the space before a word.
_SPACE = "\u2581"
# The penalty for a character that is not in the vocabulary, relative to the rarest token, as in the library.
_UNKNOWN_PENALTY = 10.0
# Longer words are divided, since the search for the likeliest tokens takes more than linear time.
_LONGEST_UNIGRAM = 256
# The pattern of words in GPT-2; the underscore is not a letter there.
_WORD = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?[\d]+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
# Longer words are divided, since the time for merging grows with the square of the length.
_LONGEST_PAIRED = 256


class Spelling(ABC):
    """A tokenizer with its vocabulary; `start` and `end` are the special tokens around each part of a text.

    Special tokens inside a text are treated as ordinary words, so that foreign text cannot control the model.
    """

    def __init__(self, start: Sequence[int], end: Sequence[int]) -> None:
        self._start, self._end = list(start), list(end)
        self._cache: dict[str, list[int]] = {}

    @abstractmethod
    def words(self, text: str) -> Iterable[str]:
        """Return the words of a text; a word is not divided between two parts."""

    @abstractmethod
    def spell(self, word: str) -> list[int]:
        """Return the token ids of one word."""

    def windows(self, text: str, most: int) -> list[list[int]]:
        """Return the token ids of a text in parts of similar size.

        Each part has at most `most` ids, special tokens included. No part ends within a word, unless the word is
        longer than a part.
        """
        ids: list[int] = []
        starts: list[int] = []
        for word in self.words(text):
            starts.append(len(ids))
            spelt = self._cache.get(word) or self.spell(word)
            if len(self._cache) < _CACHED_WORDS:
                self._cache[word] = spelt
            ids += spelt
        room = most - len(self._start) - len(self._end)
        edges = [0]
        while len(ids) - edges[-1] > room:
            start, left = edges[-1], len(ids) - edges[-1]
            parts = -(-left // room)
            aim = start - (-left // parts)
            at_word = starts[bisect_right(starts, aim) - 1]
            edges.append(at_word if at_word > start else aim)
        return [[*self._start, *ids[low:high], *self._end] for low, high in pairwise([*edges, len(ids)])]


def spelling_of(declared: Mapping[str, Any], name: str) -> Spelling:
    """Return the tokenizer declared by a `tokenizer.json`; raise `ConfigurationError` for an unsupported feature."""
    try:
        model = declared["model"]
        start, end = _marks(declared.get("post_processor"))
        match model.get("type"):
            case "WordPiece":
                for step in _only(declared, _WORDPIECE_STEPS, name):
                    if step["type"] == "BertNormalizer":
                        if not (step.get("clean_text", True) and step.get("handle_chinese_chars", True)):
                            raise _unsupported(name, "texts that are not cleaned")
                        lowercase, strip_accents = bool(step["lowercase"]), step.get("strip_accents")
                        return WordPiece(model["vocab"], lowercase=lowercase, strip_accents=strip_accents)
                raise _unsupported(name, "a WordPiece model without BertNormalizer")
            case "Unigram" if not model.get("byte_fallback"):
                _only(declared, _UNIGRAM_STEPS, name)
                pieces = [(str(piece), float(score)) for piece, score in model["vocab"]]
                reserved = {token["id"] for token in declared.get("added_tokens") or () if token.get("special")}
                return Unigram(pieces, int(model["unk_id"]), start=start, end=end, reserved=reserved)
            case "BPE" if not model.get("byte_fallback"):
                steps = _only(declared, _BYTE_STEPS, name)
                before = any(step.get("add_prefix_space") for step in steps)
                pairs = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in model["merges"]]
                return BytePairs(model["vocab"], pairs, start=start, end=end, space_before=before)
        raise _unsupported(name, f"a model of type {model.get('type')}")
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as problem:
        raise ConfigurationError(
            f"{name} is no tokenizer that can be read: {type(problem).__name__}: {problem}", hint=_HINT
        ) from problem


def spelling_of_vocabulary(text: str, *, lowercase: bool) -> Spelling:
    """Return the tokenizer of a `vocab.txt`, which has one token per line."""
    pieces = text.rstrip("\n").split("\n")
    if missing := {"[CLS]", "[SEP]", "[UNK]"} - set(pieces):
        raise ConfigurationError(f"vocab.txt has no {', '.join(sorted(missing))}.", hint=_HINT)
    return WordPiece(pieces, lowercase=lowercase)


_HINT = "Use another model, or run this one on a server for the embedder `openai`."


def _only(declared: Mapping[str, Any], known: set[str], name: str) -> list[Mapping[str, Any]]:
    """Return the declared steps if all their types are in `known`; raise `ConfigurationError` otherwise."""
    steps = [*_steps(declared.get("normalizer")), *_steps(declared.get("pre_tokenizer"))]
    for step in steps:
        if step["type"] not in known:
            raise _unsupported(name, str(step["type"]))
    return steps


def _steps(step: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    if step is None:
        return
    nested = step.get("normalizers") or step.get("pretokenizers")
    if step["type"] == "Sequence" and nested is not None:
        for inner in nested:
            yield from _steps(inner)
    else:
        yield step


def _marks(processor: Mapping[str, Any] | None) -> tuple[list[int], list[int]]:
    """Return the ids of the special tokens before and after each text."""
    if processor is None:
        return [], []
    match processor["type"]:
        case "RobertaProcessing" | "BertProcessing":
            return [processor["cls"][1]], [processor["sep"][1]]
        case "Sequence":
            return next((_marks(inner) for inner in processor["processors"] if inner["type"] != "ByteLevel"), ([], []))
        case "TemplateProcessing":
            sides: tuple[list[int], list[int]] = ([], [])
            after = False
            for part in processor["single"]:
                after = after or "Sequence" in part
                if special := part.get("SpecialToken"):
                    sides[after].extend(processor["special_tokens"][special["id"]]["ids"])
            return sides
    return [], []


def _unsupported(name: str, what: str) -> ConfigurationError:
    return ConfigurationError(f"{name} requires {what}, which is not supported.", hint=_HINT)


class _Map(dict[int, str]):
    """A translation table whose entries are computed at first use."""

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
    """A WordPiece tokenizer, which by default ignores case and accents."""

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
        """Return words and single punctuation marks, normalised for the vocabulary."""
        plain = text.translate(_CLEAN)
        if self._strip_accents:
            plain = unicodedata.normalize("NFD", plain).translate(_WITHOUT_ACCENT)
        if self._lowercase:
            # The vocabulary does not contain the small final sigma.
            plain = plain.replace("Σ", "σ").lower()
        return plain.translate(_APART).split()

    def spell(self, word: str) -> list[int]:
        """Return the token ids of a word; each token is the longest that matches, from left to right."""
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
    """A Unigram tokenizer: tokens with the logarithms of their probabilities; `reserved` ids are special tokens."""

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
        """Return the words between spaces, in the Unicode form NFKC."""
        plain = unicodedata.normalize("NFKC", text)
        whole = [_SPACE + word for word in "".join(c for c in plain if c.isspace() or c.isprintable()).split()]
        return [word[at : at + _LONGEST_UNIGRAM] for word in whole for at in range(0, len(word), _LONGEST_UNIGRAM)]

    def spell(self, word: str) -> list[int]:
        """Return the token ids of the likeliest sequence; adjacent unknown characters have one id together."""
        scores = [0.0] + [float("-inf")] * len(word)
        steps: list[tuple[int, int]] = [(0, 0)] * (len(word) + 1)
        for start in range(len(word)):
            known = False
            for end in range(start + 1, min(start + self._longest, len(word)) + 1):
                if piece := self._pieces.get(word[start:end]):
                    known = known or end == start + 1
                    if scores[start] + piece[1] > scores[end]:
                        scores[end], steps[end] = scores[start] + piece[1], (start, piece[0])
            if not known and scores[start] + self._unlikely > scores[start + 1]:
                scores[start + 1], steps[start + 1] = scores[start] + self._unlikely, (start, self._unknown)
        ids: list[int] = []
        at = len(word)
        while at:
            at, number = steps[at]
            if number != self._unknown or not ids or ids[-1] != self._unknown:
                ids.append(number)
        return ids[::-1]


_VISIBLE = frozenset({*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)})
_INVISIBLE = (byte for byte in range(256) if byte not in _VISIBLE)
# A visible character for each byte.
_LETTERS = {byte: chr(byte) for byte in _VISIBLE} | {byte: chr(256 + n) for n, byte in enumerate(_INVISIBLE)}


class BytePairs(Spelling):
    """A byte-pair tokenizer: a vocabulary over bytes, and the order in which pairs are merged."""

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
        """Return the words of a text, each with the space before it."""
        whole = _WORD.findall(self._before + text if text and not text[0].isspace() else text)
        return [word[at : at + _LONGEST_PAIRED] for word in whole for at in range(0, len(word), _LONGEST_PAIRED)]

    def spell(self, word: str) -> list[int]:
        """Return the token ids of a word; pairs are merged in the order of the vocabulary."""
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
