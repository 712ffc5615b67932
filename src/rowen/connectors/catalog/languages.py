"""Texts in several languages: one is picked as the main one, all are kept."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rowen.connectors.catalog.text import one_line, plain

__all__ = ["Wording", "code_of", "codes_of", "one_of", "word", "wordings"]

_CODE = re.compile(r"([a-z]{2})(?:[-_][a-z0-9]+)*")
_CODES = {
    name: code
    for code, names in {
        "ar": "ara arabic",
        "bg": "bul bulgarian",
        "ca": "cat catalan català",
        "cs": "ces cze czech",
        "cy": "cym wel welsh",
        "da": "dan danish",
        "de": "deu ger german deutsch",
        "el": "ell gre greek",
        "en": "eng english",
        "es": "spa spanish español",
        "et": "est estonian",
        "eu": "eus baq basque",
        "fi": "fin finnish",
        "fr": "fra fre french français",
        "ga": "gle irish",
        "gl": "glg galician",
        "hr": "hrv croatian",
        "hu": "hun hungarian",
        "is": "isl ice icelandic",
        "it": "ita italian italiano",
        "ja": "jpn japanese",
        "ko": "kor korean",
        "lb": "ltz luxembourgish",
        "lt": "lit lithuanian",
        "lv": "lav latvian",
        "mt": "mlt maltese",
        "nb": "nob",
        "nl": "nld dut dutch nederlands",
        "nn": "nno",
        "no": "nor norwegian norsk",
        "pl": "pol polish",
        "pt": "por portuguese português",
        "rm": "roh romansh",
        "ro": "ron rum romanian",
        "ru": "rus russian",
        "sk": "slk slo slovak",
        "sl": "slv slovene slovenian",
        "sr": "srp serbian",
        "sv": "swe swedish",
        "tr": "tur turkish",
        "uk": "ukr ukrainian",
        "zh": "zho chi chinese",
    }.items()
    for name in names.split()
}


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
        return Wording(one_line(titles.get("", "")), plain(descriptions.get("", "")))
    both = {code: (one_line(_of(titles, code)), plain(_of(descriptions, code))) for code in codes}
    main = min(codes, key=lambda code: (code != preferred, -sum(map(bool, both[code])), code))
    others = {code: text for code, text in both.items() if code != main and text != both[main] and any(text)}
    return Wording(*both[main], main, others)


def one_of(value: Any, language: str | None) -> str:
    """One text of what may be a map of languages: in this language, else in the first by alphabet."""
    if not isinstance(value, dict):
        return word(value)
    texts = _by_language(value)
    return texts.get(language or "") or texts.get("") or next((texts[code] for code in sorted(texts)), "")


def code_of(language: str) -> str | None:
    """The two-letter code of a language that is written as a code, a name or an address of either."""
    said = re.split(r"[/#]", language.strip().rstrip("/"))[-1].lower()
    found = _CODE.fullmatch(said)
    return found[1] if found else _CODES.get(said)


def codes_of(languages: Iterable[str]) -> tuple[str, ...]:
    """The codes of several languages, each once; what is none that we know stays as it is written."""
    return tuple(dict.fromkeys(code_of(one) or one for one in languages))


def word(value: Any) -> str:
    """A text, or a number written as one; nothing else is a word."""
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _by_language(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        if "@value" not in value:
            return {str(code): text for code, said in value.items() if (text := word(said))}
        # JSON-LD says the language beside the text.
        language = word(value.get("@language"))
        value, code = value["@value"], code_of(language) or language
        return {code: text} if (text := word(value)) else {}
    text = word(value)
    return {"": text} if text else {}


def _of(texts: Mapping[str, str], code: str) -> str:
    return texts.get(code) or texts.get("", "")
