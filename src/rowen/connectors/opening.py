"""Open files without blocking, and only regular files.

A folder may contain a pipe, a socket or a device where a file is expected. Opening such an entry must not block, and
reading it might never end.
"""

import errno
import os
from pathlib import Path
from stat import S_ISREG

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
# Most files are smaller and need one call; a larger piece would waste memory.
_PIECE_BYTES = 1 << 20


def open_file(path: str, *, follow: bool) -> int | None:
    """Return the descriptor of a regular file; None for any other file; raise `OSError` if opening fails."""
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
    """Return the content of an open file, up to `limit_bytes`."""
    pieces = []
    while limit_bytes > 0 and (piece := os.read(descriptor, min(limit_bytes, _PIECE_BYTES))):
        pieces.append(piece)
        limit_bytes -= len(piece)
    return b"".join(pieces)


def read_regular(path: Path, *, limit_bytes: int) -> bytes:
    """Return the content of a file up to `limit_bytes`; raise `ValueError` unless it is a regular file."""
    descriptor = open_file(os.fspath(path), follow=True)
    if descriptor is None:
        raise ValueError("it is no regular file")
    try:
        return read_at_most(descriptor, limit_bytes)
    finally:
        os.close(descriptor)
