"""Reads a file whole, and makes sure that it was one file all the while."""

import os
from datetime import datetime
from typing import NamedTuple

from rowen.connectors.base import Tools
from rowen.connectors.files.found import etag_of
from rowen.connectors.opening import open_file, read_at_most
from rowen.errors import ItemError

__all__ = ["FileBody", "racy", "read_file"]

# A file that is saved while it is read is whole at the second try; one that is written all the time never is.
TRIES = 3
# Twice the coarsest tick by which kernels stamp files, 10 ms: a change within it leaves the stamp as it was.
_TICK_NS = 20_000_000
# FAT stamps files in steps of two seconds.
_COARSE_TICK_NS = 2_000_000_000


class FileBody(NamedTuple):
    """A file's bytes, with the validator that belongs to them."""

    body: bytes
    etag: str


def read_file(path: str, tools: Tools, *, limit_bytes: int, follow: bool) -> FileBody | None:
    """The file's bytes, at most one more than the limit; None if it is no regular file any more.

    Raises `OSError` as the system does, and `ItemError` if the file changed each time that it was read.
    """
    for _ in range(TRIES):
        started_at = tools.now()
        descriptor = open_file(path, follow=follow)
        if descriptor is None:
            return None
        try:
            before = os.fstat(descriptor)
            body = read_at_most(descriptor, limit_bytes + 1)
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        tools.meter.bytes += len(body)
        if etag_of(before) == etag_of(after):
            return FileBody(body, etag_of(after) + ("-racy" if racy(after, started_at) else ""))
    raise ItemError("changed while it was read", hint="The next sync tries again.")


def racy(status: os.stat_result, looked_at: datetime) -> bool:
    """Whether the file might change once more without another time stamp: one of them is not older than a clock tick.

    Kernels stamp files by a clock that advances every 1 to 10 ms; twice that is safe. A stamp of whole seconds comes
    from a file system that may know nothing finer than two (FAT). Such a validator must match nothing, so that the
    next run compares the content.
    """
    now_ns = int(looked_at.timestamp() * 1e9)
    # Who sets the time of modification back moves the time of change, which then is the one that counts.
    return _is_fresh(status.st_mtime_ns, now_ns) or _is_fresh(status.st_ctime_ns, now_ns)


def _is_fresh(stamp_ns: int, now_ns: int) -> bool:
    tick_ns = _TICK_NS if stamp_ns % 1_000_000_000 else _COARSE_TICK_NS
    return abs(now_ns - stamp_ns) < tick_ns
