"""How often a source is to be looked at, as a file declares it: checked and kept, for the queue that will run it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rowen.errors import UsageError

__all__ = ["schedule_of"]

_EVERY = re.compile(r"auto|[1-9][0-9]*(?:s|min|h|d|w)")
_PART = re.compile(r"(?:\*|([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?)(?:/([0-9]{1,2}))?", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_Field = tuple[str, int, int, Sequence[str]]
_FIELDS: tuple[_Field, ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    # Seven is a Sunday as well.
    ("day of the week", 0, 7, _DAYS),
)


def schedule_of(entry: Mapping[str, Any]) -> str | None:
    """The schedule that an entry declares by `every` or by `cron`, if any; raises `UsageError` for what is none."""
    if "every" in entry:
        every = "".join(entry["every"].split())
        if not _EVERY.fullmatch(every):
            raise UsageError(
                f"every = {entry['every']!r} is no length of time.", hint="Such as 30min, 6h, 1d, 1w or auto."
            )
        return f"every {every}"
    if "cron" in entry:
        cron = " ".join(entry["cron"].split())
        if problem := _problem(cron.split()):
            raise UsageError(f"cron = {cron!r} {problem}", hint="Such as '0 3 * * *'.")
        return f"cron {cron}"
    return None


def _problem(fields: Sequence[str]) -> str | None:
    if len(fields) != len(_FIELDS):
        return "is no schedule of five fields."
    parts = ((part, field) for text, field in zip(fields, _FIELDS, strict=True) for part in text.split(","))
    return next((problem for part, field in parts if (problem := _wrong(part, field))), None)


def _wrong(part: str, field: _Field) -> str | None:
    """What is wrong with one part of a field: a star, a value or a range, with or without a step."""
    name, least, most, names = field
    found = _PART.fullmatch(part)
    values = [_value(word, least, names) for word in found.group(1, 2) if word] if found else []
    if found is None or any(value is None or not least <= value <= most for value in values):
        named = f", or a name such as {names[1]}" if names else ""
        return f"is no schedule: {part!r} is no {name}, which is {least} to {most}{named}."
    if values != sorted(values, key=lambda value: value or 0):
        return f"is no schedule: {part!r} ends before it begins."
    if found[3] and (len(values) == 1 or not 0 < int(found[3]) <= most):
        return f"is no schedule: {part!r} has no good step, as */15 and 8-18/2 have."
    return None


def _value(word: str, least: int, names: Sequence[str]) -> int | None:
    if word.isdecimal():
        return int(word)
    return names.index(word.lower()) + least if word.lower() in names else None
