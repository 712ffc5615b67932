"""Reads files on this computer: compares their validators with the stored items, and reads changed files in batches."""

import asyncio
import errno
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import compress
from operator import eq, not_
from typing import Any, NamedTuple

from rowen.connectors.base import Known, Meter, StoredState, Tools
from rowen.connectors.opening import open_file, read_at_most
from rowen.errors import ItemError
from rowen.model.files import media_type_of
from rowen.model.items import Failed, Fetched, Observation, Raw, Unchanged, Validators

MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # for a path that does not exist (any more)

# Files compared by one SQL statement: an unchanged folder of 100,000 files takes 50 statements.
BATCH_ITEMS = 2_000
# Maximum number of files that a thread reads at once; for large files, `GROUP_BYTES` is reached first.
GROUP_ITEMS = 64
# The size of a group of a run, so that at most one group is read ahead.
GROUP_BYTES = 4 * 1024 * 1024
# Validators in the earlier form that one run renews, each by a small row; a large folder takes several runs.
RENEWED_ITEMS = 10_000
_PARTS = 4  # parts of a file's validator

# A file that is saved during reading is complete at the second try; a file that is written continuously never is.
TRIES = 3
# Twice the coarsest clock tick of kernels, 10 ms: a second change within one tick does not change the time stamp.
_TICK_NS = 20_000_000
# FAT stamps files in steps of two seconds.
_COARSE_TICK_NS = 2_000_000_000


class ListedFile(NamedTuple):
    """A file in the listing of a source, with its validator and size."""

    url: str
    etag: str
    size_bytes: int


@dataclass(slots=True)
class Batch:
    """Many listed files as parallel lists; most files are unchanged, and need no object of their own."""

    urls: list[str] = field(default_factory=list)
    etags: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)

    def add(self, url: str, etag: str, size_bytes: int) -> None:
        """Add a file."""
        self.urls.append(url)
        self.etags.append(etag)
        self.sizes.append(size_bytes)

    @property
    def full(self) -> bool:
        """Return whether the batch has reached its maximum size."""
        return len(self.urls) + len(self.failed) >= BATCH_ITEMS


class FileBody(NamedTuple):
    """The bytes of a file and the matching validator."""

    body: bytes
    etag: str


def etag_of(status: os.stat_result) -> str:
    """Return the validator of a file; if it differs from the stored one, the file has to be read.

    The last part is the time of the last status change (ctime). It changes when a file is rewritten in place with the
    same size and the old modification time, and no program can set it. Links, permissions and copies change it as
    well: then the file is read, and one row of `item_check` is written if the bytes are the same.
    """
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}-{status.st_ctime_ns:x}"


def is_earlier_form(stored: str | None, etag: str) -> bool:
    """Return whether `stored` equals `etag` without its last part, which an earlier version did not write."""
    return stored is not None and etag.count("-") == _PARTS - 1 and etag.rpartition("-")[0] == stored


def renewed(stored: StoredState, etag: str) -> Validators:
    """Return the validators of an unchanged item, with `etag` in the current form."""
    return Validators(etag, stored.last_modified, stored.body_hash)


def displayed(path: str) -> str:
    """Return a path for display; bytes that are not UTF-8 are replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def fetched(url: str, path: str, body: bytes, *, etag: str, language: str | None, **facts: Any) -> Fetched:
    """Return the observation of a file that was read; `path` is relative to the source's root."""
    path = displayed(path)
    name = path.rpartition("/")[2]
    record = {"path": path, **facts}
    raw = Raw(url, body, name, media_type_of(name), record=record, language=language, depth=path.count("/"), etag=etag)
    return Fetched(raw)


def too_large(url: str, path: str, limit_bytes: int) -> Failed:
    """Return the observation of a file that is not read because it is too large."""
    why = f"{displayed(path)} is larger than {limit_bytes:,} bytes."
    return Failed(url, why, hint="Raise the option max_bytes, or exclude it.", keeps_copy=False)


def unreadable(url: str, path: str, problem: OSError) -> Failed:
    """Return the observation of a file or folder that cannot be read because of a system error."""
    why = f"{displayed(path)} could not be read: {problem.strerror or problem}."
    return Failed(url, why, hint="Give Rowen permission to read it, or exclude it.")


async def observe(
    batches: Iterator[Batch], known: Known, meter: Meter, *, read: Callable[[ListedFile], Observation | None]
) -> AsyncGenerator[Sequence[Observation], None]:
    """Compare listed files with the stored items, and read the files that differ; blocking calls run in threads."""

    def read_all(group: list[ListedFile]) -> list[Observation]:
        return [observation for file in group if (observation := read(file)) is not None]

    renewable = RENEWED_ITEMS
    while batch := await asyncio.to_thread(next, batches, None):
        stored = await known.look_up(batch.urls)
        etags = {url: item.etag for url, item in stored.items()}
        same = list(map(eq, map(etags.get, batch.urls), batch.etags))
        unchanged = list(map(Unchanged, compress(batch.urls, same)))
        for at, (url, etag) in enumerate(zip(batch.urls, batch.etags, strict=True)):
            if not same[at] and is_earlier_form(etags.get(url), etag):
                same[at] = True
                unchanged.append(Unchanged(url, renewed(stored[url], etag) if renewable > 0 else None))
                renewable -= 1
        meter.not_modified += len(unchanged)
        yield [*batch.failed, *unchanged]
        group: list[ListedFile] = []
        size_bytes = 0
        for stale in compress(zip(batch.urls, batch.etags, batch.sizes, strict=True), map(not_, same)):
            file = ListedFile(*stale)
            if group and (len(group) >= GROUP_ITEMS or size_bytes + file.size_bytes > GROUP_BYTES):
                yield await asyncio.to_thread(read_all, group)
                group, size_bytes = [], 0
            group.append(file)
            size_bytes += file.size_bytes
        if group:
            yield await asyncio.to_thread(read_all, group)


def read_file(path: str, tools: Tools, *, limit_bytes: int, follow: bool) -> FileBody | None:
    """Read a file up to one byte beyond the limit; None if it is no regular file.

    A file that changes during reading is read again, up to `TRIES` times.
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
    """Return whether the file may change again without a change of its time stamps, because one is too recent.

    Kernels stamp files by a clock that advances every 1 to 10 ms; twice that is safe. A stamp of whole seconds may
    come from a file system with a resolution of two seconds (FAT). A validator with such a stamp must never match, so
    that the next run compares the content.
    """
    now_ns = int(looked_at.timestamp() * 1e9)
    # If a program sets the modification time back, the change time is new, and is checked here as well.
    return any(
        abs(now_ns - stamp_ns) < (_TICK_NS if stamp_ns % 1_000_000_000 else _COARSE_TICK_NS)
        for stamp_ns in (status.st_mtime_ns, status.st_ctime_ns)
    )
