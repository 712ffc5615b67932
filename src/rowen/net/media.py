"""What a body is: its media type, by what is declared and by its first bytes."""

import codecs
import re

__all__ = ["media_type", "sniff"]

# HTML, 4.2.5.4: a charset is declared within the first 1,024 bytes.
_HEAD_BYTES = 1024
_SIGNATURES = (
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (b"{\\rtf", "application/rtf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)
_ZIP_ENTRIES = (
    (b"word/document.xml", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    (b"xl/workbook.xml", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    (b"ppt/presentation.xml", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
)
# OpenDocument and EPUB name themselves in a first, stored entry.
_ZIP_MIMETYPE = re.compile(rb"PK\x03\x04.{26}mimetype(application/[a-z0-9.+-]+?)PK", re.DOTALL)
# Possessive: a page that opens with many comments must not make the search explode.
_HTML = re.compile(
    rb"(?:(?><!--.*?-->)|\s)*+<(?:!doctype\s+html|html|head|body|title|script|meta)\b", re.DOTALL | re.IGNORECASE
)
_JSON = re.compile(rb"\s*+(?:\{\s*+[\"}]|\[\s*+[\[\]{\"])")
_VAGUE = frozenset(
    {
        "application/binary",
        "application/download",
        "application/force-download",
        "application/octet-stream",
        "application/unknown",
        "application/x-download",
        "binary/octet-stream",
        "text/plain",
    }
)


def media_type(content_type: str | None, body: bytes) -> str | None:
    """The media type, lower case and without parameters: the declared one unless it is missing, vague or a lie."""
    declared = _essence(content_type)
    found = sniff(body) if body else None
    if found is None:
        return declared
    if declared is None or declared in _VAGUE or _contradicts(declared, found):
        return found
    return declared


def sniff(body: bytes) -> str | None:
    """The media type that the first bytes give away, if they do."""
    for signature, name in _SIGNATURES:
        if body.startswith(signature):
            return _packed(body) if name == "application/zip" else name
    head = _text_head(body)
    if _HTML.match(head):
        return "text/html"
    if head.lstrip()[:5].lower() == b"<?xml":
        return "text/html" if b"<html" in head.lower() else "application/xml"
    is_json = _JSON.match(head) and body[-64:].rstrip().endswith((b"}", b"]"))
    return "application/json" if is_json else None


def _essence(content_type: str | None) -> str | None:
    if content_type is None:
        return None
    essence = content_type.partition(";")[0].partition(",")[0].strip().lower()
    return essence if re.fullmatch(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+", essence) else None


def _contradicts(declared: str, found: str) -> bool:
    """Whether the bytes rule the declared type out. Text that looks like something else may be an example of it."""
    binary = found not in ("text/html", "application/xml", "application/json")
    if binary:
        return declared.startswith("text/") or declared in ("application/json", "application/xml")
    return found == "text/html" and not declared.startswith("text/") and not _may_hold_html(declared)


def _may_hold_html(declared: str) -> bool:
    return declared.endswith(("xml", "html")) or declared.startswith("application/x-")


def _packed(body: bytes) -> str:
    if named := _ZIP_MIMETYPE.match(body[:_HEAD_BYTES]):
        return named[1].decode("ascii")
    # The names of all entries stand at the end once more.
    ends = body[:4096] + body[-65536:]
    return next((name for entry, name in _ZIP_ENTRIES if entry in ends), "application/zip")


def _text_head(body: bytes) -> bytes:
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return body[: 2 * _HEAD_BYTES].decode("utf-16", "ignore").encode("utf-8", "ignore")
    return body[:_HEAD_BYTES].removeprefix(codecs.BOM_UTF8)
