"""Content codings: which ones we ask for, and how a body is unpacked without growing beyond bounds.

Decoding is ours rather than aiohttp's, which takes a gzip stream that ends early for a whole one.
"""

import importlib
import sys
import zlib
from collections.abc import Iterator
from typing import Any, Protocol

from rowen.errors import BadAnswerError, TruncatedError

__all__ = ["ACCEPT_ENCODING", "BodyDecoder", "decoder"]

# What is unpacked at once, and so what a small packed body can cost before its limit is looked at.
PIECE_BYTES = 1 << 16
# A packed body may be several streams one after the other. A thousand empty ones in 20 kB are no body.
_MOST_MEMBERS = 1000
# RFC 9659: a content coding of zstd needs no larger window than 8 MB.
_ZSTD_WINDOW_LOG = 23


class BodyDecoder(Protocol):
    """Unpacks one body."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What these bytes give, in pieces of bounded size."""
        ...

    def finish(self) -> None:
        """Raise `TruncatedError` if the body is not whole."""
        ...


def _module(*names: str) -> Any:
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


_brotli = _module("brotli", "brotlicffi")
if _brotli is not None and not hasattr(_brotli.Decompressor, "can_accept_more_data"):
    _brotli = None  # older ones cannot bound what a piece unpacks to
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
                raise BadAnswerError("The body is not packed as its Content-Encoding says.") from None
            if piece:
                yield piece
            more = len(piece) == PIECE_BYTES and not self._stream.eof
            data = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail

    def _begin(self, data: bytes) -> bool:
        """Make ready for the next member. What follows the last one is padding, and ignored."""
        if self._stream is None:
            self._wbits = self._wbits or (15 if data[0] & 15 == 8 else -15)
        elif self._wbits != 31 or not b"\x1f\x8b".startswith(data[:2]):
            return False
        elif len(data) < 2:
            self._rest = data
            return False
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise BadAnswerError(f"The body is packed in more than {_MOST_MEMBERS} parts.")
        self._stream = zlib.decompressobj(self._wbits)
        return True

    def finish(self) -> None:
        if self._stream is not None and not self._stream.eof:
            raise TruncatedError("The packed body ended early.")


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
            raise BadAnswerError("The body is not packed as its Content-Encoding says.") from None

    def finish(self) -> None:
        if self._fed and not self._stream.is_finished():
            raise TruncatedError("The packed body ended early.")


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
                raise BadAnswerError("The body is not packed as its Content-Encoding says.") from None
            if piece:
                yield piece
            data = self._stream.unused_data if self._stream.eof else b""

    def _begin(self) -> None:
        self._frames += 1
        if self._frames > _MOST_MEMBERS:
            raise BadAnswerError(f"The body is packed in more than {_MOST_MEMBERS} parts.")
        options = {_zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
        self._stream = _zstd.ZstdDecompressor(options=options)

    def finish(self) -> None:
        if self._stream is not None and not self._stream.eof:
            raise TruncatedError("The packed body ended early.")


def decoder(content_encoding: str) -> BodyDecoder | None:
    """The decoder for a Content-Encoding header; None where there is nothing to unpack."""
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
    raise BadAnswerError(f"The body is packed as {content_encoding[:40]!r}, which was not asked for.")
