"""Read responses: their headers, media types and content codings.

Bodies are decoded here rather than by aiohttp, which accepts a truncated gzip stream as a complete one.
"""

import codecs
import importlib
import re
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from multidict import CIMultiDictProxy

from rowen.errors import BadAnswerError, TruncatedError
from rowen.formats import charset
from rowen.model.dates import http_date
from rowen.model.text import header
from rowen.net.politeness import retry_after_s

# The size of decoded pieces, and so the most that a small encoded body can unpack to before its limit is checked.
PIECE_BYTES = 1 << 16
# An encoded body may consist of several streams. A thousand empty streams in 20 kB are an attack.
_MOST_MEMBERS = 1000
# RFC 9659: a content coding of zstd needs no larger window than 8 MB.
_ZSTD_WINDOW_LOG = 23


def _module(*names: str) -> Any:
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


_brotli = _module("brotli", "brotlicffi")
if _brotli is not None and not hasattr(_brotli.Decompressor, "can_accept_more_data"):
    _brotli = None  # older versions cannot bound the size of a decoded piece
_zstd = _module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")

# An ETag may belong to one coding only: this must be the same for every request, for ever.
ACCEPT_ENCODING = ", ".join(["gzip", *(["br"] if _brotli else []), *(["zstd"] if _zstd else [])])


class _Zlib:
    """gzip with any number of members, and deflate with or without its header."""

    def __init__(self, coding: str) -> None:
        self._wbits = 31 if coding == "gzip" else 0
        self._stream: Any = None
        self._members = 0
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        data, self._rest = self._rest + data, b""
        more = False
        while data or more:
            if (self._stream is None or self._stream.eof) and not self._begin(data):
                return
            try:
                piece = self._stream.decompress(data, PIECE_BYTES)
            except zlib.error:
                raise BadAnswerError("The body does not match its Content-Encoding.") from None
            if piece:
                yield piece
            more = len(piece) == PIECE_BYTES and not self._stream.eof
            data = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail

    def _begin(self, data: bytes) -> bool:
        """Prepare to decode the next member; return False for other bytes after the last member, which are ignored."""
        if self._stream is None:
            self._wbits = self._wbits or (15 if data[0] & 15 == 8 else -15)
        elif self._wbits != 31 or not b"\x1f\x8b".startswith(data[:2]):
            return False
        elif len(data) < 2:
            self._rest = data
            return False
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise BadAnswerError(f"The encoded body has more than {_MOST_MEMBERS} parts.")
        self._stream = zlib.decompressobj(self._wbits)
        return True

    def finish(self) -> None:
        if self._stream is not None and not self._stream.eof:
            raise TruncatedError("The encoded body ended early.")


class _Brotli:
    def __init__(self) -> None:
        self._stream = _brotli.Decompressor()
        self._fed = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._fed = self._fed or bool(data)
        try:
            while not self._stream.is_finished():
                piece = self._stream.process(data, output_buffer_limit=PIECE_BYTES)
                if not piece:
                    return
                yield piece
                data = b""
        except _brotli.error:
            raise BadAnswerError("The body does not match its Content-Encoding.") from None

    def finish(self) -> None:
        if self._fed and not self._stream.is_finished():
            raise TruncatedError("The encoded body ended early.")


class _Zstd:
    def __init__(self) -> None:
        self._stream: Any = None
        self._frames = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data or not (self._stream is None or self._stream.eof or self._stream.needs_input):
            if self._stream is None or self._stream.eof:
                self._begin()
            try:
                piece = self._stream.decompress(data, PIECE_BYTES)
            except _zstd.ZstdError:
                raise BadAnswerError("The body does not match its Content-Encoding.") from None
            if piece:
                yield piece
            data = self._stream.unused_data if self._stream.eof else b""

    def _begin(self) -> None:
        self._frames += 1
        if self._frames > _MOST_MEMBERS:
            raise BadAnswerError(f"The encoded body has more than {_MOST_MEMBERS} parts.")
        options = {_zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
        self._stream = _zstd.ZstdDecompressor(options=options)

    def finish(self) -> None:
        if self._stream is not None and not self._stream.eof:
            raise TruncatedError("The encoded body ended early.")


def decoder(content_encoding: str) -> _Zlib | _Brotli | _Zstd | None:
    """Return the decoder for a Content-Encoding header; None if the body is not encoded."""
    match content_encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return _Zlib("gzip")
        case "deflate":
            return _Zlib("deflate")
        case "br" if _brotli:
            return _Brotli()
        case "zstd" if _zstd:
            return _Zstd()
    raise BadAnswerError(f"The body is encoded as {content_encoding[:40]!r}, which was not requested.")


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
# OpenDocument and EPUB files declare their media type in a first, uncompressed entry.
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
    """Return the media type in lower case, without parameters; the declared one unless missing, vague or wrong."""
    declared = (content_type or "").partition(";")[0].partition(",")[0].strip().lower()
    if not re.fullmatch(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+", declared):
        declared = ""
    sniffed = sniff(body) if body else None
    if sniffed is None:
        return declared or None
    if not declared or declared in _VAGUE:
        return sniffed
    # The declared type counts unless the bytes exclude it. Text that looks like another type may be an example of it.
    if sniffed not in ("text/html", "application/xml", "application/json"):
        is_wrong = declared.startswith("text/") or declared in ("application/json", "application/xml")
    else:
        may_hold_html = declared.endswith(("xml", "html")) or declared.startswith(("text/", "application/x-"))
        is_wrong = sniffed == "text/html" and not may_hold_html
    return sniffed if is_wrong else declared


def sniff(body: bytes) -> str | None:
    """Return the media type that the first bytes show; None if they show none."""
    for signature, name in _SIGNATURES:
        if body.startswith(signature) and name == "application/zip":
            if mimetype := _ZIP_MIMETYPE.match(body[:_HEAD_BYTES]):
                return mimetype[1].decode("ascii")
            # The directory at the end repeats the names of all entries.
            ends = body[:4096] + body[-65536:]
            return next((packed for entry, packed in _ZIP_ENTRIES if entry in ends), name)
        if body.startswith(signature):
            return name
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        head = body[: 2 * _HEAD_BYTES].decode("utf-16", "ignore").encode("utf-8", "ignore")
    else:
        head = body[:_HEAD_BYTES].removeprefix(codecs.BOM_UTF8)
    if _HTML.match(head):
        return "text/html"
    if head.lstrip()[:5].lower() == b"<?xml":
        return "text/html" if b"<html" in head.lower() else "application/xml"
    is_json = _JSON.match(head) and body[-64:].rstrip().endswith((b"}", b"]"))
    return "application/json" if is_json else None


_NEXT = re.compile(r'\brel="?next"?', re.IGNORECASE)

_PERMANENT = frozenset({301, 308})


class RequestMeter(Protocol):
    """Counts requests and bytes; `bytes` are the bytes of bodies as transferred."""

    requests: int
    not_modified: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Hop:
    """One redirect that was followed; `headers` are kept, since some servers describe the target in them."""

    url: str
    status: int
    to: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def permanent(self) -> bool:
        """Whether the redirect is permanent."""
        return self.status in _PERMANENT


@dataclass(frozen=True, slots=True)
class Response:
    """An answer with any status; `url` is the final URL, to which the validators belong."""

    url: str
    status: int
    headers: CIMultiDictProxy[str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    redirects: tuple[Hop, ...] = ()
    etag: str | None = None
    last_modified: str | None = None
    media_type: str | None = None
    charset: str | None = None
    not_modified: bool = False
    retry_after_s: float | None = None
    elapsed_s: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the status is a success."""
        return 200 <= self.status < 300

    @property
    def moved_to(self) -> str | None:
        """The URL after the permanent redirects at the start of the chain; None if there are none."""
        moved = None
        for hop in self.redirects:
            if not hop.permanent:
                break
            moved = hop.to
        return moved


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer whose body is read piece by piece; `head` is the answer without its body."""

    head: Response
    pieces: AsyncIterator[bytes] = field(repr=False)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.pieces


def respond(
    url: str,
    status: int,
    headers: CIMultiDictProxy[str],
    *,
    body: bytes,
    redirects: tuple[Hop, ...],
    elapsed_s: float,
    now: Callable[[], datetime],
) -> Response:
    """Return a response with the data from its headers and first bytes."""
    etag, modified = header(headers.get("ETag")), header(headers.get("Last-Modified"))
    if status == 304:
        return Response(url, 304, headers, b"", redirects, etag, modified, not_modified=True, elapsed_s=elapsed_s)
    kind = headers.get("Content-Type")
    retry_in_s = None
    if retry_after := headers.get("Retry-After"):
        # Dates refer to the origin's own clock, if it sends one.
        retry_in_s = retry_after_s(retry_after, http_date(headers.get("Date")) or now())
    return Response(
        url,
        status,
        headers,
        body,
        redirects,
        etag,
        modified,
        media_type=media_type(kind, body),
        charset=charset.declared(kind, body) if body or kind else None,
        retry_after_s=retry_in_s,
        elapsed_s=elapsed_s,
    )


def next_link(header: str) -> str | None:
    """Return the target of the first link in a `Link` header (RFC 8288) whose relation is `next`; None without one."""
    at = 0
    while (begin := header.find("<", at)) >= 0 and (end := header.find(">", begin)) >= 0:
        at = header.find(",", end)
        parameters = header[end + 1 : at if at >= 0 else None]
        if parameters.lstrip().startswith(";") and _NEXT.search(parameters):
            return header[begin + 1 : end] or None
        if at < 0:
            return None
    return None
