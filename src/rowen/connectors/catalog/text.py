"""Convert descriptions to plain text in one main language; a field may contain HTML, Markdown or plain text."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turbohtml import Node

_TAG = re.compile(r"</?[a-zA-Z][^<>]*>|<!--")
_ENTITY = re.compile(r"&(?:#\d+|#x[0-9a-fA-F]+|[a-zA-Z]\w{1,30});")
# HTML 13.2.4.3: a parser reopens all unclosed formatting elements in each new paragraph, which takes 30 µs a byte for a
# hostile text. They have no meaning in plain text.
_FORMATTING = re.compile(
    r"</?(?:a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)(?=[\s/>])(?:[^<>\"']++|\"[^\"]*+\"|'[^']*+')*+>",
    re.IGNORECASE,
)
# Characters. Parsing blocks other work for 0.3 µs each; no description is so long.
LONGEST_MARKUP = 1_000_000
_DROPPED = frozenset({"script", "style", "template", "noscript", "head", "title"})
_BLOCKS = frozenset(
    {"address", "article", "blockquote", "dd", "div", "dl", "dt", "fieldset", "figure", "footer", "form"}
    | {"header", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "main", "nav", "ol", "p", "pre", "section", "table"}
    | {"tr", "ul"}
)
_AROUND = {"br": ("\n", ""), "li": ("\n- ", ""), "td": ("", " "), "th": ("", " ")}
_SPACE = re.compile(r"[ \t\r\n\xa0]+")
_GAP = re.compile(r"\n{3,}")


def plain(text: str) -> str:
    """Return a description without tags and entities; each paragraph and list item begins a new line.

    A text without markup is only stripped: it may be Markdown, in which line ends matter.
    """
    if len(text) > LONGEST_MARKUP:
        return text.strip()
    if "<" in text and _TAG.search(text):
        return _rendered(text)
    if "&" in text and _ENTITY.search(text):
        return _rendered(text.replace("<", "&lt;").replace("\n", "<br>"))
    return text.strip()


def one_line(text: str) -> str:
    """Return a text without markup, in one line."""
    return " ".join(plain(text).split())


def has_markup(text: str) -> bool:
    """Return whether a text contains tags."""
    return "<" in text and _TAG.search(text) is not None


def _rendered(html: str) -> str:
    # Imported here because the import takes 50 ms, and most runs meet no markup, since nothing changed.
    from turbohtml import Element, Text, parse_fragment

    parts: list[str] = []
    waiting: list[Node | str] = [parse_fragment(_FORMATTING.sub("", html))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            parts.append(node)
        elif isinstance(node, Text):
            parts.append(_SPACE.sub(" ", node.data))
        elif not isinstance(node, Element):
            waiting.extend(reversed(list(node.children)))
        elif node.tag not in _DROPPED:
            before, after = ("\n\n", "\n\n") if node.tag in _BLOCKS else _AROUND.get(node.tag, ("", ""))
            waiting.append(after)
            waiting.extend(reversed(list(node.children)))
            parts.append(before)
    lines = [line.strip(" ") for line in "".join(parts).split("\n")]
    return _GAP.sub("\n\n", "\n".join(lines)).strip()


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
    """A title and description in the main language; `others` contains differing texts in other languages."""

    title: str
    description: str
    language: str | None = None
    others: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def wordings(title: Any, description: Any, *, preferred: str | None = None) -> Wording:
    """Return the title and description of a record, given as texts or as maps of languages.

    The main language is `preferred`, else the language that has both title and description; among several, the first
    in alphabetical order. The order of the record is not used, because a portal may change it from one answer to the
    next.
    """
    titles, descriptions = _by_language(title), _by_language(description)
    codes = sorted((titles | descriptions).keys() - {""})
    if not codes:
        return Wording(one_line(titles.get("", "")), plain(descriptions.get("", "")))
    both = {
        code: (
            one_line(titles.get(code) or titles.get("", "")),
            plain(descriptions.get(code) or descriptions.get("", "")),
        )
        for code in codes
    }
    main = min(codes, key=lambda code: (code != preferred, -sum(map(bool, both[code])), code))
    others = {code: text for code, text in both.items() if code != main and text != both[main] and any(text)}
    return Wording(*both[main], main, others)


def one_of(value: Any, language: str | None) -> str:
    """Return one text from a map of languages: in `language`, else the first in alphabetical order."""
    if not isinstance(value, dict):
        return word(value)
    texts = _by_language(value)
    return texts.get(language or "") or texts.get("") or next((texts[code] for code in sorted(texts)), "")


def code_of(language: str) -> str | None:
    """Return the two-letter code of a language, given as a code, a name or a URL; None for an unknown name."""
    said = re.split(r"[/#]", language.strip().rstrip("/"))[-1].lower()
    match = _CODE.fullmatch(said)
    return match[1] if match else _CODES.get(said)


def codes_of(languages: Iterable[str]) -> tuple[str, ...]:
    """Return the codes of several languages without duplicates; unknown names stay unchanged."""
    return tuple(dict.fromkeys(code_of(language) or language for language in languages))


def word(value: Any) -> str:
    """Return a text, or a number as text; empty for any other value."""
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _by_language(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        if "@value" not in value:
            return {str(code): text for code, said in value.items() if (text := word(said))}
        # JSON-LD states the language in a separate field.
        language = word(value.get("@language"))
        value, code = value["@value"], code_of(language) or language
        return {code: text} if (text := word(value)) else {}
    text = word(value)
    return {"": text} if text else {}
