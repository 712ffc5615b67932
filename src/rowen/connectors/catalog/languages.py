"""Texts in several languages: one is picked as the main one, all are kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rowen.connectors.catalog.text import plain

__all__ = ["Wording", "one_of", "word", "wordings"]


@dataclass(frozen=True, slots=True)
class Wording:
    """Title and description in the main language, and in the others where they say something else."""

    title: str
    description: str
    language: str | None = None
    others: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def wordings(title: Any, description: Any, *, preferred: str | None = None) -> Wording:
    """What a record says, whether each is a text or a map of languages.

    The main language is the preferred one, or the first by alphabet among those with the most to say of title and
    description: the order in which a portal sends them may differ from one answer to the next.
    """
    titles, descriptions = _by_language(title), _by_language(description)
    codes = sorted((titles | descriptions).keys() - {""})
    if not codes:
        return Wording(word(titles.get("")), plain(descriptions.get("", "")))
    both = {code: (_of(titles, code), plain(_of(descriptions, code))) for code in codes}
    main = min(codes, key=lambda code: (code != preferred, -sum(map(bool, both[code])), code))
    others = {code: text for code, text in both.items() if code != main and text != both[main] and any(text)}
    return Wording(*both[main], main, others)


def one_of(value: Any, language: str | None) -> str:
    """One text of what may be a map of languages: in this language, else in the first by alphabet."""
    texts = _by_language(value)
    return texts.get(language or "") or texts.get("") or next((texts[code] for code in sorted(texts)), "")


def word(value: Any) -> str:
    """A text, or a number written as one; nothing else is a word."""
    match value:
        case bool() | None:
            return ""
        case str():
            return value.strip()
        case int() | float():
            return str(value)
    return ""


def _by_language(value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(code): text for code, said in value.items() if (text := word(said))}
    text = word(value)
    return {"": text} if text else {}


def _of(texts: Mapping[str, str], code: str) -> str:
    return texts.get(code) or texts.get("", "")
