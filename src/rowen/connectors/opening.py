"""Open files without blocking, and only if they are regular.

Whoever created a folder may have put a pipe, a socket or a device where a file is expected: opening such a thing must
not block, and reading it would never end.
"""

import errno
import os
from pathlib import Path
from stat import S_ISREG

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
# Most files are smaller, and read by one call; a larger piece would reserve memory for nothing.
_PIECE_BYTES = 1 << 20


def open_file(path: str, *, follow: bool) -> int | None:
    """Return the descriptor of a regular file, or None for anything else; raise `OSError` as the system does."""
    try:
        descriptor = os.open(path, _FLAGS if follow else _FLAGS | os.O_NOFOLLOW)
    except OSError as problem:
        if problem.errno == errno.ENXIO:  # a socket, or a pipe without a reader
            return None
        raise
    if S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def read_at_most(descriptor: int, limit_bytes: int) -> bytes:
    """Return the content of an open file, up to a limit."""
    pieces = []
    while limit_bytes > 0 and (piece := os.read(descriptor, min(limit_bytes, _PIECE_BYTES))):
        pieces.append(piece)
        limit_bytes -= len(piece)
    return b"".join(pieces)


def read_regular(path: Path, *, limit_bytes: int) -> bytes:
    """Return the content of a file that a user named, up to a limit; raise `ValueError` unless it is a regular file."""
    descriptor = open_file(os.fspath(path), follow=True)
    if descriptor is None:
        raise ValueError("it is no regular file")
    try:
        return read_at_most(descriptor, limit_bytes)
    finally:
        os.close(descriptor)
