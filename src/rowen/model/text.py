"""The one form in which text is stored, hashed and compared."""

import re
import unicodedata

__all__ = ["normalise"]

_UNICODE_LINE_ENDS = ("\u2028", "\u2029", "\x85")
# PostgreSQL stores neither NUL nor a lone surrogate; a form feed or bell is no text either.
_UNSTORABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def normalise(text: str) -> str:
    """NFC, line ends as LF, no trailing white space, nothing that cannot be stored."""
    if not text.isascii():
        for end in _UNICODE_LINE_ENDS:
            text = text.replace(end, "\n")
        text = unicodedata.normalize("NFC", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.replace("\n", "").isprintable() and " \n" not in text and not text.endswith(" "):
        # Of all white space only the space is printable: no line has any at its end.
        return text.strip("\n")
    lines = text.split("\n")
    if not all(map(str.isprintable, lines)):
        lines = _UNSTORABLE.sub("", text).split("\n")
    return "\n".join([line.rstrip() for line in lines]).strip("\n")
