"""Reads `tokenizer.json` and `vocab.txt`, as models are given out with them.

The three ways in which sentence models spell are read here without the library that wrote the file, which would bring
an HTTP stack of its own. What a file asks for beyond them is refused: a model that is spelt otherwise than it learnt
gives vectors that look right and are not.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rowen.enrich.byte_pairs import BytePairs
from rowen.enrich.spelling import Spelling
from rowen.enrich.unigram import Unigram
from rowen.enrich.wordpiece import WordPiece
from rowen.errors import ConfigurationError

__all__ = ["spelling_of", "spelling_of_vocabulary"]

_WORDPIECE_STEPS = {"BertNormalizer", "BertPreTokenizer"}
# `Precompiled` is SentencePiece's own table, which is the compatible form of Unicode but for rare characters.
_UNIGRAM_STEPS = {"Precompiled", "NFKC", "Nmt", "Strip", "Replace", "WhitespaceSplit", "Metaspace"}
_BYTE_STEPS = {"ByteLevel", "NFC"}


def spelling_of(told: Mapping[str, Any], name: str) -> Spelling:
    """The spelling that a `tokenizer.json` describes; raises where it asks for something that is not known here."""
    try:
        return _spelling(told, name)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as problem:
        raise ConfigurationError(
            f"{name} is no tokenizer that can be read: {type(problem).__name__}: {problem}", hint=_HINT
        ) from problem


def spelling_of_vocabulary(text: str, *, lowercase: bool) -> Spelling:
    """The spelling of a `vocab.txt`: one piece a line."""
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
    """The steps before the spelling itself, all of them known."""
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
    """The numbers that stand before and after each text."""
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
