"""Numbers, sizes and times as people read them."""

import json
import re
from datetime import datetime

__all__ = ["age", "clean", "count", "escaped", "moment", "one_line", "seconds", "size"]

# What could move a cursor or recolour a terminal when a file name or a text has it.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
# These, what only turns the direction of writing, and letters that nobody sees.
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))


def clean(text: str) -> str:
    """Text without anything that would command the terminal; tabs and line ends stay."""
    return _CONTROLS.sub("�", text)


def escaped(text: str) -> str:
    """Text with each unseen character written as JSON writes it: whoever parses JSON gets the same value."""
    return _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1].replace("\x7f", "\\u007f"), text)


def one_line(text: str) -> str:
    """Text for a log: unseen characters and line ends as escapes, so that no line can be forged."""
    return escaped(text).replace("\n", "\\n")


def count(number: int, noun: str) -> str:
    """A number with its noun: 1 file, 1,200 files."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(size_bytes: float) -> str:
    """Bytes in the unit that fits."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 999.5:
            return f"{size_bytes:.0f} {unit}" if size_bytes >= 9.95 or unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:,.1f} TB"


def seconds(time_s: float) -> str:
    """A length of time."""
    if time_s < 60:
        return f"{time_s:.2f} s" if time_s < 0.095 else f"{time_s:.1f} s"
    minutes, rest = divmod(round(time_s), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def moment(at: datetime | None) -> str:
    """A point in time, to the second, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z" if at else "never"


def age(at: datetime | None, now: datetime) -> str:
    """How long ago something was."""
    if at is None:
        return "never"
    passed_s = (now - at).total_seconds()
    for unit_s, unit in _AGES:
        if passed_s >= unit_s:
            return f"{passed_s // unit_s:.0f} {unit} ago"
    return "just now"
