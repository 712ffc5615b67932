"""Determines the character encoding of a text; no other module does.

All functions use the same tables for byte order marks, labels and declarations. Callers differ in what they know and
in the cost of a wrong guess, so there are four rules:

- `decode`, for bodies of documents, guesses an undeclared encoding, and refuses binary data, since a wrong guess would
be stored and searched.

- `declared`, for HTTP, guesses nothing: it only returns what a response declares.

- `XmlDecoder`, for streams of XML, prefers the document's declaration to the header, since the program that wrote the
bytes wrote the declaration. It replaces unreadable bytes, since one wrong byte must not make a catalog fail. Labels
have the meaning that XML gives them (IANA's), so that ISO-8859-1 is not Windows-1252 as in HTML.

- `decode_utf8` and `decode_plain` never fail: RDF and JSON are UTF-8 by their standards, and robots.txt usually is.
"""

import codecs
import re
from contextlib import suppress

from rowen.errors import ItemError

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16le"),
    (codecs.BOM_UTF16_BE, "utf-16be"),
)
_PARAMETER = re.compile(r";\s*charset\s*=\s*[\"']?([^\s\"';,]+)", re.IGNORECASE)
_LABEL = rb"([\w.:+-]+)"
_META = re.compile(rb"<meta[^>]{0,300}?charset\s*+=\s*+(?:[\"']\s*+)?" + _LABEL, re.IGNORECASE)
_XML = re.compile(rb"<\?xml[^>]{1,200}?encoding\s*+=\s*+[\"']" + _LABEL, re.IGNORECASE)
# PEP 263: on one of the first two lines
_PYTHON = re.compile(rb"\A(?:[^\n]*\n)?[ \t\f]*#[^\n]{0,200}?coding[:=][ \t]*([\w.-]+)")
_DECLARED_IN = {"text/html": _META, "application/xml": _XML, "text/x-python": _PYTHON}


def parameter(content_type: str | None) -> str | None:
    """Return the charset parameter of a media type, unchanged; None if there is none."""
    match = _PARAMETER.search(content_type or "")
    return match[1] if match else None


def _marked(body: bytes) -> str | None:
    """Return the encoding of the byte order mark; None if there is none."""
    return next((name for mark, name in _BOMS if body.startswith(mark)), None)


# Bodies of documents

# HTML 4.2.5.4 requires a declaration within 1024 bytes; pages that start with scripts and comments have it later.
_DECLARED_WITHIN = 4096
# The detector took 80 ms for this many bytes, and its time is linear.
_SAMPLE = 1 << 18
# Codecs that catalogs use but no web standard has; Python's other codecs are slow, unsafe or not for text.
_OLD_CODECS = re.compile(r"cp\d{3,4}|utf-?32(?:-?[lb]e)?|mac-?[a-z]+|iso-?8859-\d+|hp-?roman8")
_CONTROLS = bytes({*range(0x20), 0x7F} - set(b"\t\n\x0b\f\r\x1b"))
# Maximum share of control characters: random bytes have 11 %, text has only a few.
_MOST_CONTROLS = 0.02
# Minimum confidence of the detector: two words with an accent had 0.35, a hundred random bytes 0.
_LEAST_CONFIDENCE = 0.3


def decode(body: bytes, *, charset: str | None = None, media_type: str = "", name: str = "the body") -> str:
    """Return the text of a body; raise `ItemError` if the body is binary or its encoding is unknown."""
    for label in (charset, _marked(body)):
        if label and (text := _strictly(body, label)) is not None:
            return text
    # UTF-16 without a byte order mark: in western text every other byte is NUL.
    sample = body[:4096]
    if sample and len(body) % 2 == 0 and sample.count(0) * 3 >= len(sample):
        encoding = "utf-16le" if sample[1::2].count(0) > sample[::2].count(0) else "utf-16be"
        text = _strictly(body, encoding)
        if text is not None and "\x00" not in text and text.isascii():
            return text
    controls = len(body) - len(body.translate(None, _CONTROLS))
    if (b"\x00" in body and media_type != "text/html") or controls > _MOST_CONTROLS * len(body):
        raise ItemError(
            f"{name} is binary, although its media type is {media_type or 'text'}",
            hint="Exclude it from the source, or correct its name or media type.",
        )
    pattern = _DECLARED_IN.get(media_type)
    if pattern and (match := pattern.search(body, 0, _DECLARED_WITHIN)):
        label = match[1].decode("ascii", "replace").lower()
        # HTML 13.2.3.2: text whose declaration is readable as ASCII is not UTF-16.
        if (text := _strictly(body, "utf-8" if label.startswith("utf-16") else label)) is not None:
            return text
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        damaged = body.decode("utf-8", "replace")
    # UTF-8 with a few broken characters, such as at the end of a truncated body.
    lost = damaged.count("\ufffd")
    if len(damaged) - len(damaged.encode("ascii", "ignore")) > 11 * lost:
        return damaged
    from turbohtml.detect import detect

    detected = detect(body[:_SAMPLE])
    text = body.decode(detected.codec) if detected.codec else damaged
    if detected.confidence >= _LEAST_CONFIDENCE or not re.search("[\x80-\x9f\ufffd]", text):
        return text
    raise ItemError(
        f"{name} has an unknown character encoding",
        hint="Serve it with a charset, or save it as UTF-8.",
    )


def _strictly(body: bytes, label: str) -> str | None:
    """Return the text without its byte order mark; None unless every byte is valid in the encoding `label`."""
    import turbohtml.detect  # noqa: F401 (it registers the codecs of the web; 0.2 s that fetching need not wait for)

    label = label.strip().strip("\"'").lower().replace("_", "-")
    try:
        if label in ("utf-8", "utf8"):
            text = body.decode("utf-8")
        elif _OLD_CODECS.fullmatch(label) and not label.startswith("iso"):
            text = body.decode(label)
        else:
            text = body.decode("whatwg-" + label)
    except (LookupError, UnicodeError, ValueError):
        return None
    return None if "\ufffd" in text and b"\xef\xbf\xbd" not in body else text.removeprefix("\ufeff")


# HTTP

_HEAD_BYTES = 1024  # HTML 13.2.3.2: the part that is searched for a declaration
_CODECS = ("ascii", "big5", "cp", "euc", "gb", "iso", "johab", "koi8", "kz", "mac", "ptcp", "shift", "tis", "utf-")


def declared(content_type: str | None, body: bytes) -> str | None:
    """Return Python's name of the declared charset, or None.

    A byte order mark takes precedence, then the header, then the document.
    """
    if marked := _marked(body):
        # Omit the byte order, which the decoder takes from the mark.
        return marked[:6] if marked != "utf-8" else marked
    declared_charset = parameter(content_type)
    if declared_charset and (known := _codec(declared_charset)):
        return known
    head = body[:_HEAD_BYTES]
    inside = _XML.match(head.lstrip()) or _META.search(head)
    known = _codec(inside[1].decode("ascii")) if inside else None
    # Text that could be read as ASCII up to here cannot be UTF-16.
    return "utf-8" if known and known.startswith(("utf-16", "utf-32")) else known


def _codec(label: str) -> str | None:
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    if not name.startswith(_CODECS):
        return None
    # Browsers treat these labels as the Windows code page, and authors of such pages rely on that.
    return "cp1252" if name in ("ascii", "iso8859-1") else name


# Formats with a single encoding


def decode_utf8(body: bytes, charset: str | None = None) -> str:
    """Return the text of a body that should be UTF-8; use `charset` only if the body is not valid UTF-8."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return body.decode(charset or "utf-8-sig", "replace")


def decode_plain(body: bytes) -> str:
    """Return the text of a short file without a declared encoding; never fail.

    The encoding follows from the byte order mark, or from the bytes.
    """
    if marked := _marked(body):
        return body.decode(marked, "replace").removeprefix("\ufeff") if marked != "utf-8" else _utf8_or_latin(body)
    if b"\0" in body[:2]:
        return body.decode("utf-16-be" if body[:1] == b"\0" else "utf-16-le", "replace")
    return _utf8_or_latin(body)


def _utf8_or_latin(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return body.decode("latin-1").removeprefix("ï»¿")


# Streams of XML

_XML_HEAD_BYTES = 256  # a declaration has up to 65 characters; the rest is for white space
_UNMARKED = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
_XML_CODECS = re.compile(
    r"utf[-_]?8|(us-)?ascii|(iso[-_]?)?8859[-_]\d{1,2}|latin[-_]?\d{1,2}|(windows-|cp-?)\d{3,4}"
    r"|gb\w{1,6}|big5|shift[-_]jis|euc[-_]\w\w|koi8[-_]\w|iso-2022-jp",
    re.IGNORECASE,
)
_BEFORE = " \t\r\n\ufeff"
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_REFERENCE = re.compile(r"&#(?:[xX]([0-9a-fA-F]{1,8})|([0-9]{1,9}));")
_BEGUN = re.compile(r"&(?:#\w{0,9})?\Z")
_REPLACEMENT = "\ufffd"


class XmlDecoder:
    """Decodes bytes to text without characters that XML forbids.

    `charset` is used if the document declares none. A byte order mark and blanks before the document, which XML
    forbids as well, are removed.
    """

    def __init__(self, charset: str | None = None) -> None:
        self._charset = charset
        self._decode: codecs.IncrementalDecoder | None = None
        self._head = b""
        self._pending = ""
        self._begun = False

    def feed(self, piece: bytes) -> str:
        """Return the text of a piece, except for an incomplete character or reference at its end."""
        if self._decode is not None:
            return self._clean(self._decode.decode(piece))
        self._head = (self._head + piece).lstrip(b" \t\r\n")
        return self._begin() if len(self._head) >= _XML_HEAD_BYTES else ""

    def close(self) -> str:
        """Return the rest of the text."""
        text = self._begin() if self._decode is None else ""
        rest = self._decode.decode(b"", final=True) if self._decode else ""
        return text + self._clean(rest, final=True)

    def _begin(self) -> str:
        self._decode = codecs.getincrementaldecoder(_xml_charset(self._head, self._charset))("replace")
        return self._clean(self._decode.decode(self._head))

    def _clean(self, text: str, *, final: bool = False) -> str:
        text = self._pending + text
        if not self._begun:
            text = text.lstrip(_BEFORE)
            self._begun = bool(text)
        self._pending = ""
        if not final and (match := _BEGUN.search(text, max(0, len(text) - 11))):
            text, self._pending = text[: match.start()], match[0]
        return _REFERENCE.sub(_allowed, _FORBIDDEN.sub(_REPLACEMENT, text))


def _xml_charset(head: bytes, declared_charset: str | None) -> str:
    if known := _marked(head) or next((name for mark, name in _UNMARKED if head.startswith(mark)), None):
        return known
    inside = _XML.match(head.lstrip())
    for label in (inside[1].decode("ascii", "replace") if inside else None, declared_charset):
        if label and _XML_CODECS.fullmatch(label):
            with suppress(LookupError):
                codecs.lookup(label)
                return label
    return "utf-8"


def _allowed(reference: re.Match[str]) -> str:
    """Return a character reference if XML allows its character; otherwise the replacement character."""
    code = int(reference[1], 16) if reference[1] else int(reference[2])
    is_text = code in (9, 10, 13) or 0x20 <= code < 0xD800 or 0xDFFF < code < 0xFFFE or 0xFFFF < code <= 0x10FFFF
    return reference[0] if is_text else _REPLACEMENT
