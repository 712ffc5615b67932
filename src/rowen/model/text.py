"""The one form in which text is stored, hashed and compared."""

import re
import unicodedata

__all__ = ["normalise"]

_LINE_END = re.compile(r"\r\n?|[\u2028\u2029\x85]")
_TRAILING = re.compile(r"[^\S\n]+$", re.MULTILINE)
# PostgreSQL stores neither NUL nor a lone surrogate; a form feed or bell is no text either.
_UNSTORABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def normalise(text: str) -> str:
    """NFC, line ends as LF, no trailing white space, nothing that cannot be stored."""
    text = _LINE_END.sub("\n", text)
    text = _UNSTORABLE.sub("", text)
    text = unicodedata.normalize("NFC", text)
    return _TRAILING.sub("", text).strip("\n")
