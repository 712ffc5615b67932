"""The one form in which text is stored, hashed and compared."""

import re
import unicodedata

__all__ = ["normalise"]

_LINE_END = re.compile(r"\r\n?|[\u2028\u2029\x85]")
# PostgreSQL stores neither NUL nor a lone surrogate; a form feed or bell is no text either.
_UNSTORABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def normalise(text: str) -> str:
    """NFC, line ends as LF, no trailing white space, nothing that cannot be stored."""
    if "\r" in text or not text.isascii():
        text = unicodedata.normalize("NFC", _LINE_END.sub("\n", text))
    text = _UNSTORABLE.sub("", text)
    return "\n".join([line.rstrip() for line in text.split("\n")]).strip("\n")
