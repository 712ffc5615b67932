"""Find extracted values in the text: literally, as a number or a date, or word by word.

The model is not asked for evidence: a model that invents a price invents the quote as well, and both cost tokens.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from rowen.model.changes import leaves
from rowen.model.extraction import Evidence
from rowen.model.text import finite

_NUMBER = re.compile(r"\d[\d.,'’\u00a0\u202f ]*\d|\d")
_WORD = re.compile(r"\w+")
# Shorter words occur in almost every text.
_LEAST_WORD_CHARS = 4
# The end of a longer quote is not useful.
_QUOTE_CHARS = 200
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_TOKEN = re.compile(r"\d+|[^\W\d_]+")
_BETWEEN = frozenset({"st", "nd", "rd", "th", "of"})
# Matches "Wednesday, the 5th of September 2026", with or without a time.
_DATE_CHARS = 40
_ISO = re.compile(r"(\d{4})-(\d{2})(?:-(\d{2}))?(?:[T ].*)?")


class GroundingText:
    """A text in which values are located."""

    def __init__(self, text: str) -> None:
        self.text = text

    def find(self, path: str, value: Any) -> Evidence:
        """Find a value in the text, and return its evidence; None if the value does not occur."""
        if isinstance(value, bool) or value is None:
            return Evidence(path, "exact")
        if isinstance(value, int | float):
            number = finite(value)
            place = None if number is None else self._numbers.get(number) or self._numbers.get(-number)
            return Evidence(path, "number", place[1], place[0]) if place else Evidence(path, "none")
        if not isinstance(value, str) or not value.strip():
            return Evidence(path, "exact")
        if exact := self._exact(path, value):
            return exact
        iso = _ISO.fullmatch(value.strip()[:_DATE_CHARS])
        if iso and (span := self._dates.get((int(iso[1]), int(iso[2]), int(iso[3] or 0)))):
            _, places = self._folded
            begin, end = places[span[0]], places[span[1] - 1] + 1
            return Evidence(path, "date", self.text[begin:end], begin)
        # A number may be text in the schema.
        readings = _readings(value) if _NUMBER.fullmatch(value.strip()) else ()
        if place := next((self._numbers[number] for number in readings if number in self._numbers), None):
            return Evidence(path, "number", place[1], place[0])
        words = [word for word in _WORD.findall("".join(map(_folded, value))) if len(word) >= _LEAST_WORD_CHARS]
        has_words = words and not _ISO.fullmatch(value.strip()) and self._vocabulary.issuperset(words)
        return Evidence(path, "words" if has_words else "none")

    @cached_property
    def _folded(self) -> tuple[str, list[int]]:
        """Return the text without differences of case, white space and marks, and the offset of each character."""
        letters: list[str] = []
        places: list[int] = []
        for place, letter in enumerate(self.text):
            for folded in _folded(letter):
                if folded != " " or not letters or letters[-1] != " ":
                    letters.append(folded)
                    places.append(place)
        return "".join(letters), places

    @cached_property
    def _numbers(self) -> dict[float, tuple[int, str]]:
        numbers: dict[float, tuple[int, str]] = {}
        for match in _NUMBER.finditer(self.text):
            for number in _readings(match[0]):
                numbers.setdefault(number, (match.start(), match[0]))
        return numbers

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self._folded[0]))

    def _exact(self, path: str, value: str) -> Evidence | None:
        if (at := self.text.find(value)) >= 0:
            return Evidence(path, "exact", value[:_QUOTE_CHARS], at)
        letters, places = self._folded
        wanted = " ".join("".join(map(_folded, value)).split())
        at = letters.find(wanted) if wanted else -1
        if at < 0:
            return None
        begin, end = places[at], places[at + len(wanted) - 1] + 1
        return Evidence(path, "exact", self.text[begin:end][:_QUOTE_CHARS], begin)

    @cached_property
    def _dates(self) -> dict[tuple[int, int, int], tuple[int, int]]:
        """The offsets of the dates that the text contains in any notation; day 0 stands for a whole month."""
        letters, _ = self._folded
        tokens = [token for token in _TOKEN.finditer(letters) if token[0] not in _BETWEEN]
        dates: dict[tuple[int, int, int], tuple[int, int]] = {}
        for number in range(len(tokens)):
            for size in (3, 2):
                part = tokens[number : number + size]
                span = part[0].start(), part[-1].end()
                if len(part) == size and span[1] - span[0] <= _DATE_CHARS:
                    for date in _date_of([token[0] for token in part]):
                        dates.setdefault(date, span)
        return dates


def _date_of(words: list[str]) -> Iterator[tuple[int, int, int]]:
    """Yield the dates (day, month, year) that two or three words may mean, in any usual order."""
    orders = ((2, 1, 0), (2, 0, 1), (0, 1, 2)) if len(words) == 3 else ((1, 0), (0, 1))
    for order in orders:
        year, month, *rest = (words[place] for place in order)
        day = rest[0] if rest else "0"
        number = _month(month)
        if len(year) == 4 and year.isdecimal() and number and day.isdecimal() and len(day) <= 2 and int(day) <= 31:
            yield int(year), number, int(day)


def _month(word: str) -> int | None:
    if word.isdecimal():
        return int(word) if len(word) <= 2 and 1 <= int(word) <= 12 else None
    if len(word) < 3:
        return None
    return next((number for number, name in enumerate(_MONTHS, start=1) if name.startswith(word)), None)


def evidence(definition: Mapping[str, Any], data: Any, text: str) -> tuple[Evidence, ...]:
    """Return the place of each value in the text; fields with free wording are left out."""
    grounding = GroundingText(text)
    return tuple(
        grounding.find(path, value)
        for path, value in leaves(data)
        if value is not None and not isinstance(value, bool) and not _is_free(definition, path)
    )


def without_ungrounded(data: Any, found: tuple[Evidence, ...]) -> Any:
    """Replace each value without evidence in the text by null."""
    missing = {item.path for item in found if item.found == "none"}

    def supported(value: Any, path: str) -> Any:
        if isinstance(value, dict):
            steps = {name: str(name).replace("~", "~0").replace("/", "~1") for name in value}
            return {name: supported(inner, f"{path}/{steps[name]}") for name, inner in value.items()}
        if isinstance(value, list):
            entries = [supported(inner, f"{path}/{number}") for number, inner in enumerate(value)]
            return [entry for entry in entries if entry is not None]
        return None if path in missing else value

    return supported(data, "")


def _is_free(definition: Mapping[str, Any], path: str) -> bool:
    """Return whether the schema has `"x-grounding": "off"` for a field."""
    node: Any = definition
    for step in path.split("/")[1:]:
        if not isinstance(node, Mapping):
            return False
        name = step.replace("~1", "/").replace("~0", "~")
        node = node.get("items") if step.isdigit() and "items" in node else (node.get("properties") or {}).get(name)
        if isinstance(node, Mapping) and node.get("x-grounding") == "off":
            return True
    return False


def _folded(letter: str) -> str:
    if letter.isspace():
        return " "
    if letter in "*_`\\":
        return ""
    return unicodedata.normalize("NFKC", letter).casefold() if not letter.isascii() else letter.lower()


def _readings(written: str) -> Iterator[float]:
    """Yield the possible values of a written number: 1.234,56 and 1,234.56 are both 1234.56; 1,234 has two values."""
    digits = re.sub(r"[\s'’\u00a0\u202f]", "", written)
    last = max(digits.rfind("."), digits.rfind(","))
    forms = {re.sub(r"[.,]", "", digits)}
    if last >= 0:
        whole, fraction = re.sub(r"[.,]", "", digits[:last]), digits[last + 1 :]
        forms.add(f"{whole}.{fraction}")
        if digits.count(digits[last]) == 1 and len(fraction) != 3:
            forms.discard(re.sub(r"[.,]", "", digits))
    for form in forms:
        if len(form) <= 30:  # longer numbers are not amounts, and exceed the precision of floats
            yield float(form)
    # These are separate numbers on one line.
    if re.search(r"[\s\u00a0\u202f]", written):
        for part in re.split(r"[\s\u00a0\u202f]+", written):
            yield from _readings(part) if part and part[0].isdigit() else ()
