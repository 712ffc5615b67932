"""Files that were found: which of them have to be read, asked and read in batches."""

import asyncio
import errno
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import eq, not_
from typing import NamedTuple

from rowen.connectors.base import Held, Known, Meter
from rowen.model.item import Failed, Fetched, Observation, Raw, Unchanged, Validators
from rowen.model.media import media_type_of

__all__ = [
    "NOWHERE",
    "Batch",
    "FoundFile",
    "etag_of",
    "fetched",
    "is_earlier_form",
    "observe",
    "renewed",
    "shown",
    "too_large",
    "unreadable",
]

NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""What the system says of a path where there is nothing (any more)."""

# Files compared with what we hold in one statement: a folder without changes takes 50 of them for 100,000 files.
BATCH_ITEMS = 2_000
# Bodies that a thread reads in one go; where they are large, the limit of bytes counts first.
GROUP_ITEMS = 64
# Validators of an earlier version that a run brings up to date, each by one narrow row: a large folder takes some runs.
RENEWED_ITEMS = 10_000
_PARTS = 4  # of the validator of a file
# As much as a group of the flow holds, so that reading ahead never outruns it by more than one.
GROUP_BYTES = 4 * 1024 * 1024


class FoundFile(NamedTuple):
    """A file that is part of the source, as its listing shows it."""

    url: str
    etag: str
    size_bytes: int


@dataclass(slots=True)
class Batch:
    """Many files that were found, column by column: most of them turn out to be unchanged, and cost no object."""

    urls: list[str] = field(default_factory=list)
    etags: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)

    def add(self, url: str, etag: str, size_bytes: int) -> None:
        """Take a file in."""
        self.urls.append(url)
        self.etags.append(etag)
        self.sizes.append(size_bytes)

    @property
    def full(self) -> bool:
        """Whether the batch should go on its way."""
        return len(self.urls) + len(self.failed) >= BATCH_ITEMS


def etag_of(status: os.stat_result) -> str:
    """The validator of a file: another one means that it has to be read.

    The time of the last change of its status stands last: a file that is rewritten in place, with its size and its old
    time of modification, has another one, and nobody can set it. Links, permissions and copies move it as well. That
    costs a reading, and one row of `item_check` where the bytes are the same.
    """
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}-{status.st_ctime_ns:x}"


def is_earlier_form(held: str | None, etag: str) -> bool:
    """Whether a validator is the one that an earlier version, which left the last part out, would have made now."""
    return held is not None and etag.count("-") == _PARTS - 1 and etag.rpartition("-")[0] == held


def renewed(held: Held, etag: str) -> Validators:
    """The validators of an item that is what we hold, with its etag in the present form."""
    return Validators(etag, held.last_modified, held.body_hash)


def shown(path: str) -> str:
    """A path for people: what is not UTF-8 in it is replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def fetched(url: str, path: str, body: bytes, *, etag: str, language: str | None) -> Fetched:
    """The observation of a file that was read; `path` is relative to the source's root."""
    path = shown(path)
    name = path.rpartition("/")[2]
    return Fetched(
        Raw(
            url,
            body,
            name,
            media_type_of(name),
            record={"path": path},
            language=language,
            depth=path.count("/"),
            etag=etag,
        )
    )


def too_large(url: str, path: str, limit_bytes: int) -> Failed:
    """The observation of a file that is not read because of its size."""
    return Failed(
        url,
        f"{shown(path)} is larger than {limit_bytes:,} bytes.",
        hint="Raise the option max_bytes, or exclude it.",
        keeps_copy=False,
    )


def unreadable(url: str, path: str, problem: OSError) -> Failed:
    """The observation of a file or folder that the system does not let us read."""
    return Failed(
        url,
        f"{shown(path)} could not be read: {problem.strerror or problem}.",
        hint="Give Rowen leave to read it, or exclude it.",
    )


async def observe(
    batches: Iterator[Batch], known: Known, meter: Meter, *, read: Callable[[FoundFile], Observation | None]
) -> AsyncGenerator[Sequence[Observation], None]:
    """Compare what was found with what we hold, and read what differs; blocking calls are made in threads."""
    renewable = RENEWED_ITEMS
    while batch := await asyncio.to_thread(next, batches, None):
        held = await known.look_up(batch.urls)
        etags = {url: item.etag for url, item in held.items()}
        same = list(map(eq, map(etags.get, batch.urls), batch.etags))
        unchanged = list(map(Unchanged, compress(batch.urls, same)))
        for at, (url, etag) in enumerate(zip(batch.urls, batch.etags, strict=True)):
            if not same[at] and is_earlier_form(etags.get(url), etag):
                same[at] = True
                unchanged.append(Unchanged(url, renewed(held[url], etag) if renewable > 0 else None))
                renewable -= 1
        meter.not_modified += len(unchanged)
        yield [*batch.failed, *unchanged]
        stale = compress(zip(batch.urls, batch.etags, batch.sizes, strict=True), map(not_, same))
        for group in _groups(map(FoundFile._make, stale)):
            yield await asyncio.to_thread(_read, group, read)


def _read(group: Iterable[FoundFile], read: Callable[[FoundFile], Observation | None]) -> list[Observation]:
    return [observation for found in group if (observation := read(found)) is not None]


def _groups(stale: Iterable[FoundFile]) -> Iterator[list[FoundFile]]:
    group: list[FoundFile] = []
    size_bytes = 0
    for found in stale:
        if group and (len(group) >= GROUP_ITEMS or size_bytes + found.size_bytes > GROUP_BYTES):
            yield group
            group, size_bytes = [], 0
        group.append(found)
        size_bytes += found.size_bytes
    if group:
        yield group
