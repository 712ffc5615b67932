"""The characters of an XML document: decoded as it says of itself, and none among them that XML forbids."""

import codecs
import re

__all__ = ["Decoder"]

_HEAD_BYTES = 256
_DECLARED = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w.-]{2,40})["']""")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)
_CHARSETS = re.compile(
    r"utf[-_]?8|(us-)?ascii|(iso[-_]?)?8859[-_]\d{1,2}|latin[-_]?\d{1,2}|(windows-|cp-?)\d{3,4}"
    r"|gb\w{1,6}|big5|shift[-_]jis|euc[-_]\w\w|koi8[-_]\w|iso-2022-jp",
    re.IGNORECASE,
)
_BEFORE = " \t\r\n\ufeff"
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_REFERENCE = re.compile(r"&#(?:[xX]([0-9a-fA-F]{1,8})|([0-9]{1,9}));")
_BEGUN = re.compile(r"&(?:#\w{0,9})?\Z")
_REPLACEMENT = "\ufffd"


class Decoder:
    """Bytes in, text out. `charset` counts where the document does not name its own.

    A mark or blanks before the document, which XML forbids as well, are left out.
    """

    def __init__(self, charset: str | None = None) -> None:
        self._charset = charset
        self._decode: codecs.IncrementalDecoder | None = None
        self._head = b""
        self._held = ""
        self._begun = False

    def feed(self, piece: bytes) -> str:
        """The text of a piece, but for what may go on in the next one."""
        if self._decode is not None:
            return self._clean(self._decode.decode(piece))
        self._head = (self._head + piece).lstrip(b" \t\r\n")
        return self._begin() if len(self._head) >= _HEAD_BYTES else ""

    def close(self) -> str:
        """The text that was still held."""
        text = self._begin() if self._decode is None else ""
        rest = self._decode.decode(b"", final=True) if self._decode else ""
        return text + self._clean(rest, final=True)

    def _begin(self) -> str:
        self._decode = codecs.getincrementaldecoder(_charset_of(self._head, self._charset))("replace")
        return self._clean(self._decode.decode(self._head))

    def _clean(self, text: str, *, final: bool = False) -> str:
        text = self._held + text
        if not self._begun:
            text = text.lstrip(_BEFORE)
            self._begun = bool(text)
        self._held = ""
        if not final and (found := _BEGUN.search(text, max(0, len(text) - 11))):
            text, self._held = text[: found.start()], found[0]
        return _REFERENCE.sub(_allowed, _FORBIDDEN.sub(_REPLACEMENT, text))


def _charset_of(head: bytes, told: str | None) -> str:
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    declared = _DECLARED.match(head)
    for named in (declared[1].decode("ascii", "replace") if declared else None, told):
        if named and _CHARSETS.fullmatch(named) and _is_known(named):
            return named
    return "utf-8"


def _is_known(name: str) -> bool:
    try:
        codecs.lookup(name)
    except LookupError:
        return False
    return True


def _allowed(reference: re.Match[str]) -> str:
    """A reference to a character, unless XML has no such character."""
    code = int(reference[1], 16) if reference[1] else int(reference[2])
    is_text = code in (9, 10, 13) or 0x20 <= code < 0xD800 or 0xDFFF < code < 0xFFFE or 0xFFFF < code <= 0x10FFFF
    return reference[0] if is_text else _REPLACEMENT
