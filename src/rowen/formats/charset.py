"""Bytes become text: the origin's word first, then marks and declarations, then strict UTF-8, then a detector."""

import codecs
import re

from turbohtml.detect import detect

from rowen.errors import ItemError

__all__ = ["decode"]

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16le"),
    (codecs.BOM_UTF16_BE, "utf-16be"),
)
_DECLARED = {
    "text/html": re.compile(rb"<meta[^>]{1,300}?charset\s*+=\s*+(?:[\"']\s*+)?([\w.:-]+)", re.IGNORECASE),
    "application/xml": re.compile(rb"<\?xml[^>]{1,200}?encoding\s*=\s*[\"']([\w.:-]+)"),
    # PEP 263: on one of the first two lines
    "text/x-python": re.compile(rb"\A(?:[^\n]*\n)?[ \t\f]*#[^\n]{0,200}?coding[:=][ \t]*([\w.-]+)"),
}
_DECLARED_WITHIN = 4096
_SAMPLE = 1 << 18
# Codecs that no web standard knows, but catalogs do; all others of Python's are slow, unsafe or no text encodings.
_OLD_CODECS = re.compile(r"cp\d{3,4}|utf-?32(?:-?[lb]e)?|mac-?[a-z]+|iso-?8859-\d+|hp-?roman8")

_CONTROLS = bytes({*range(0x20), 0x7F} - set(b"\t\n\x0b\f\r\x1b"))
_MOST_CONTROLS = 0.02
_LEAST_CONFIDENCE = 0.3


def decode(body: bytes, *, charset: str | None = None, media_type: str = "", name: str = "the body") -> str:
    """The text of a body; raises `ItemError` if it is binary or in no known encoding."""
    if charset and (text := _strictly(body, charset)) is not None:
        return text
    for bom, encoding in _BOMS:
        if body.startswith(bom) and (text := _strictly(body, encoding)) is not None:
            return text
    if (text := _wide(body)) is not None:
        return text
    _refuse_binary(body, media_type, name)
    if (label := _declared(body, media_type)) and (text := _strictly(body, label)) is not None:
        return text
    return _guessed(body, name)


def _strictly(body: bytes, label: str) -> str | None:
    """The text, without its mark, if every byte has a meaning in that encoding."""
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


def _wide(body: bytes) -> str | None:
    """UTF-16 without a mark: in western text every other byte is NUL."""
    sample = body[:4096]
    if len(body) % 2 or sample.count(0) * 3 < len(sample) or not sample:
        return None
    encoding = "utf-16le" if sample[1::2].count(0) > sample[::2].count(0) else "utf-16be"
    text = _strictly(body, encoding)
    return text if text is not None and "\x00" not in text and text.isascii() else None


def _refuse_binary(body: bytes, media_type: str, name: str) -> None:
    controls = len(body) - len(body.translate(None, _CONTROLS))
    has_nul = b"\x00" in body and media_type != "text/html"
    if has_nul or controls > _MOST_CONTROLS * len(body):
        raise ItemError(
            f"{name} is binary, although it is called {media_type or 'text'}",
            hint="Leave it out of the source, or let its name or media type tell what it is.",
        )


def _declared(body: bytes, media_type: str) -> str | None:
    pattern = _DECLARED.get(media_type)
    found = pattern.search(body, 0, _DECLARED_WITHIN) if pattern else None
    if found is None:
        return None
    label = found[1].decode("ascii", "replace").lower()
    # HTML 13.2.3.2: what could be read byte by byte so far is not UTF-16.
    return "utf-8" if label.startswith("utf-16") else label


def _guessed(body: bytes, name: str) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        pass
    damaged = body.decode("utf-8", "replace")
    if _hardly_damaged(damaged):
        return damaged
    match = detect(body[:_SAMPLE])
    text = body.decode(match.codec) if match.codec else damaged
    if match.confidence >= _LEAST_CONFIDENCE or not re.search("[\x80-\x9f\ufffd]", text):
        return text
    raise ItemError(
        f"{name} is in no character encoding that could be recognised",
        hint="Have it served with a charset, or saved as UTF-8.",
    )


def _hardly_damaged(text: str) -> bool:
    """Whether this is UTF-8 but for a few broken characters, such as at the cut end of a body."""
    lost = text.count("\ufffd")
    others = len(text) - len(text.encode("ascii", "ignore")) - lost
    return others > 10 * lost
