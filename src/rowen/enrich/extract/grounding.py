"""Find extracted values in the text: literally, as a number or a date, or word by word.

It is looked for here, not asked for: a model that invents a price invents its quote as well, and both cost tokens.
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
# Shorter words stand in every text.
_TELLING = 4
# Of a longer quote nobody reads more.
_QUOTE_CHARS = 200
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_TOKEN = re.compile(r"\d+|[^\W\d_]+")
_BETWEEN = frozenset({"st", "nd", "rd", "th", "of"})
# "Wednesday, the 5th of September 2026", and a time behind it.
_DATE_CHARS = 40
_ISO = re.compile(r"(\d{4})-(\d{2})(?:-(\d{2}))?(?:[T ].*)?")


class GroundingText:
    """A text in which values are located."""

    def __init__(self, text: str) -> None:
        self.text = text

    def find(self, path: str, value: Any) -> Evidence:
        """Locate a value."""
        if isinstance(value, bool) or value is None:
            return Evidence(path, "exact")
        if isinstance(value, int | float):
            number = finite(value)
            return Evidence(path, "none") if number is None else self._number(path, number)
        if not isinstance(value, str) or not value.strip():
            return Evidence(path, "exact")
        return (
            self._exact(path, value)
            or self._date(path, value)
            or self._text_number(path, value)
            or self._words(path, value)
        )

    @cached_property
    def _folded(self) -> tuple[str, list[int]]:
        """Return the text without differences of case, white space and marks, and where each of its characters was."""
        letters: list[str] = []
        places: list[int] = []
        for place, letter in enumerate(self.text):
            for one in _folded(letter):
                if one == " " and letters and letters[-1] == " ":
                    continue
                letters.append(one)
                places.append(place)
        return "".join(letters), places

    @cached_property
    def _numbers(self) -> dict[float, tuple[int, str]]:
        found: dict[float, tuple[int, str]] = {}
        for one in _NUMBER.finditer(self.text):
            for number in _readings(one[0]):
                found.setdefault(number, (one.start(), one[0]))
        return found

    @cached_property
    def _words_held(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self._folded[0]))

    def _exact(self, path: str, value: str) -> Evidence | None:
        if (plainly := self.text.find(value)) >= 0:
            return Evidence(path, "exact", value[:_QUOTE_CHARS], plainly)
        letters, places = self._folded
        wanted = " ".join("".join(map(_folded, value)).split())
        at = letters.find(wanted) if wanted else -1
        if at < 0:
            return None
        begin, end = places[at], places[at + len(wanted) - 1] + 1
        return Evidence(path, "exact", self.text[begin:end][:_QUOTE_CHARS], begin)

    def _number(self, path: str, value: float) -> Evidence:
        found = self._numbers.get(value) or self._numbers.get(-value)
        return Evidence(path, "number", found[1], found[0]) if found else Evidence(path, "none")

    def _text_number(self, path: str, value: str) -> Evidence | None:
        """Return a number that a schema has as text."""
        if not _NUMBER.fullmatch(value.strip()):
            return None
        found = next((self._numbers[number] for number in _readings(value) if number in self._numbers), None)
        return Evidence(path, "number", found[1], found[0]) if found else None

    @cached_property
    def _dates(self) -> dict[tuple[int, int, int], tuple[int, int]]:
        """Days and months that the text names in any form, with where they stand; day 0 is a whole month."""
        letters, _ = self._folded
        tokens = [one for one in _TOKEN.finditer(letters) if one[0] not in _BETWEEN]
        found: dict[tuple[int, int, int], tuple[int, int]] = {}
        for number in range(len(tokens)):
            for size in (3, 2):
                part = tokens[number : number + size]
                span = part[0].start(), part[-1].end()
                if len(part) == size and span[1] - span[0] <= _DATE_CHARS:
                    for date in _date_of([one[0] for one in part]):
                        found.setdefault(date, span)
        return found

    def _date(self, path: str, value: str) -> Evidence | None:
        """Return a date that the text writes in another form."""
        told = _ISO.fullmatch(value.strip()[:_DATE_CHARS])
        found = self._dates.get((int(told[1]), int(told[2]), int(told[3] or 0))) if told else None
        if found is None:
            return None
        _, places = self._folded
        begin, end = places[found[0]], places[found[1] - 1] + 1
        return Evidence(path, "date", self.text[begin:end], begin)

    def _words(self, path: str, value: str) -> Evidence:
        words = [word for word in _WORD.findall("".join(map(_folded, value))) if len(word) >= _TELLING]
        told = words and not _ISO.fullmatch(value.strip()) and self._words_held.issuperset(words)
        return Evidence(path, "words" if told else "none")


def _date_of(words: list[str]) -> Iterator[tuple[int, int, int]]:
    """Yield the dates that two or three words may mean: day, month and year in any usual order."""
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
    """Return where each value stands in the text; fields that are said in the model's own words are left out."""
    ground = GroundingText(text)
    return tuple(
        ground.find(path, value)
        for path, value in leaves(data)
        if value is not None and not isinstance(value, bool) and not _is_free(definition, path)
    )


def without_ungrounded(data: Any, found: tuple[Evidence, ...]) -> Any:
    """Replace values that the text does not support by null."""
    missing = {one.path for one in found if one.found == "none"}

    def kept(value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return {
                name: kept(one, f"{path}/{str(name).replace('~', '~0').replace('/', '~1')}")
                for name, one in value.items()
            }
        if isinstance(value, list):
            made = [kept(one, f"{path}/{number}") for number, one in enumerate(value)]
            return [one for one in made if one is not None]
        return None if path in missing else value

    return kept(data, "")


def _is_free(definition: Mapping[str, Any], path: str) -> bool:
    """Return whether the schema lets a field be worded freely: `"x-grounding": "off"`."""
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
    """Yield the numbers that digits may stand for: 1.234,56 and 1,234.56 are both 1234.56, 1,234 may be two."""
    digits = re.sub(r"[\s'’\u00a0\u202f]", "", written)
    last = max(digits.rfind("."), digits.rfind(","))
    forms = {re.sub(r"[.,]", "", digits)}
    if last >= 0:
        whole, fraction = re.sub(r"[.,]", "", digits[:last]), digits[last + 1 :]
        forms.add(f"{whole}.{fraction}")
        if digits.count(digits[last]) == 1 and len(fraction) != 3:
            forms.discard(re.sub(r"[.,]", "", digits))
    for form in forms:
        if len(form) <= 30:  # longer ones are no amounts, and floats have no room for them
            yield float(form)
    # Numbers that only stand in one line: each for itself.
    if re.search(r"[\s\u00a0\u202f]", written):
        for part in re.split(r"[\s\u00a0\u202f]+", written):
            yield from _readings(part) if part and part[0].isdigit() else ()
