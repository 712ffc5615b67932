"""Text that is safe on a terminal, in a log and in JSON."""

import json
import re

__all__ = ["clean", "escaped", "one_line"]

# What could move a cursor or recolour a terminal when a file name or a text has it.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
# These, what only turns the direction of writing, and letters that nobody sees.
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


def clean(text: str) -> str:
    """Text without anything that would command the terminal; tabs and line ends stay."""
    return _CONTROLS.sub("�", text)


def escaped(text: str) -> str:
    """Text with each unseen character written as JSON writes it: whoever parses JSON gets the same value."""
    return _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1].replace("\x7f", "\\u007f"), text)


def one_line(text: str) -> str:
    """Text for a log: unseen characters and line ends as escapes, so that no line can be forged."""
    return escaped(text).replace("\n", "\\n")
