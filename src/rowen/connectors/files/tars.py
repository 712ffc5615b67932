"""Tar archives: they have no directory and no checksums, so one that changed is read from its first byte.

It is gone through twice: once to see that it is whole and which of several members with one path is the last, then
to read. An archive that was read to its end without a failure is remembered in the cursor; while its validator
stays the same, nothing of it is unpacked.
"""

import asyncio
import bz2
import gzip
import lzma
import struct
import tarfile
import zlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, cast

from rowen.connectors.base import Known
from rowen.connectors.files.archives import MAX_RATIO, Archive, inner_path
from rowen.connectors.files.found import is_earlier_form, renewed, shown
from rowen.connectors.files.headers import MemberHeader
from rowen.errors import ItemError
from rowen.model.generated import is_mark
from rowen.model.item import Checkpoint, Complete, Failed, Observation, Unchanged

__all__ = ["tar_observations"]

# As for folders.
GROUP_ITEMS = 64
GROUP_BYTES = 4 * 1024 * 1024
_DAMAGED = (
    tarfile.TarError, zlib.error, lzma.LZMAError, struct.error,
    EOFError, OSError, OverflowError, RecursionError, ValueError,
)  # fmt: skip
_PIECE_BYTES = 1 << 20
# Below that the ratio of packed and unpacked says nothing: an archive of few kB may be all zeros, and do no harm.
_SUSPICIOUS_BYTES = 16_000_000
_END = bytes(tarfile.BLOCKSIZE)


async def tar_observations(archive: Archive, known: Known) -> AsyncGenerator[Sequence[Observation], None]:
    """All members that are wanted; those of an archive that was read before and not touched are unchanged."""
    with archive.opened() as (file, etag):
        cursor = {"archive": etag, "options": archive.options.model_dump(mode="json")}
        before = known.cursor.get("archive") if isinstance(known.cursor, dict) else None
        is_earlier = isinstance(before, str) and is_earlier_form(before, etag)
        if known.cursor == ({**cursor, "archive": before} if is_earlier else cursor) and await _all_held(known, before):
            async for batch in known.everything():
                archive.tools.meter.not_modified += len(batch)
                yield [Unchanged(held.url, renewed(held, etag) if is_earlier else None) for held in batch]
            yield [Checkpoint(cursor), Complete()] if is_earlier else [Complete()]
            return
        members = _TarMembers(archive, file, etag)
        await asyncio.to_thread(members.survey)
        groups = members.groups()
        while group := await asyncio.to_thread(next, groups, None):
            yield group
    done = Complete(generated=members.generated)
    yield [done] if members.failed or etag.endswith("racy") else [Checkpoint(cursor), done]


async def _all_held(known: Known, etag: str | None) -> bool:
    """Whether all that we hold came from the archive as it is: one that is held back or half read did not.

    What failed behind us is not held, and nothing but the archive can tell of it.
    """
    if known.failed:
        return False
    async for batch in known.everything():
        if any(held.etag != etag for held in batch):
            return False
    return known.count > 0


class _TarMembers:
    def __init__(self, archive: Archive, file: BinaryIO, etag: str) -> None:
        self.failed = False
        self.generated = 0
        self._archive = archive
        self._file = file
        self._etag = etag
        self._last: dict[str, int] = {}

    def survey(self) -> None:
        """Go through the whole archive, and note which members are wanted."""
        takes = self._archive.selection.takes_member
        marks: list[str] = []
        with self._damage_named():
            for number, member, _ in self._walk():
                with suppress(ItemError):
                    path = inner_path(member.name)
                    self._last.pop(path, None)
                    if member.isreg() and takes(path):
                        self._last[path] = number
                    if is_mark(path.rpartition("/")[2]):
                        marks.append(path)
        built = self._archive.built(marks)
        for path in [path for path in self._last if built.leaves_out(path)]:
            del self._last[path]
            self.generated += 1

    def groups(self) -> Iterator[list[Observation]]:
        """Read what is wanted, many small members or a few large ones at a time."""
        group: list[Observation] = []
        start_bytes = self._archive.tools.meter.bytes
        with self._damage_named():
            for observation in self._observations():
                group.append(observation)
                if len(group) >= GROUP_ITEMS or self._archive.tools.meter.bytes - start_bytes > GROUP_BYTES:
                    yield group
                    group, start_bytes = [], self._archive.tools.meter.bytes
        if group:
            yield group

    def _observations(self) -> Iterator[Observation]:
        for number, member, stream in self._walk():
            try:
                path = inner_path(member.name)
                if self._last.get(path) != number:
                    continue
                if member.size > self._archive.options.max_bytes:
                    self.failed = True
                    yield self._archive.too_large(member.name)
                    continue
                if member.issparse():
                    raise ItemError("is a sparse file", hint="Pack the archive without --sparse, or exclude it.")
                yield self._archive.fetched(path, stream.take(member), self._etag)
            except ItemError as problem:
                self.failed = True
                yield self._failed(member, problem)

    def _failed(self, member: tarfile.TarInfo, problem: ItemError) -> Failed:
        message = f"{shown(member.name)} in {shown(self._archive.path)} {problem}."
        return Failed(self._archive.url_of(member.name), message, hint=problem.hint)

    def _walk(self) -> Iterator[tuple[int, tarfile.TarInfo, "_Stream"]]:
        stream = _Stream(self._archive, self._file)
        tar: Any
        with tarfile.open(fileobj=cast("Any", stream), mode="r:", tarinfo=MemberHeader) as tar:
            number = 0
            while (member := tar.next()) is not None:
                number += 1
                if number > self._archive.options.max_members:
                    raise self._archive.beyond("max_members")
                yield number, member, stream
                tar.members.clear()  # `tarfile` keeps all that it saw
            stream.end()

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGED as problem:
            raise self._archive.broken(problem) from None


class _Stream:
    """What `tarfile` reads from: goes forward only, and counts what comes out of the packing."""

    def __init__(self, archive: Archive, file: BinaryIO) -> None:
        self._archive = archive
        self._file = file
        self._unpacked = _unpacked(file)
        self._at = 0
        self._read_bytes = 0
        self._latest = b""

    def tell(self) -> int:
        return self._at

    def seek(self, position: int) -> None:
        if self._unpacked is self._file:
            self._at = self._file.seek(position)
        while self._at < position and self._some(position - self._at):
            pass

    def read(self, size_bytes: int) -> bytes:
        if size_bytes > _PIECE_BYTES:
            raise tarfile.ReadError(f"a header of {size_bytes:,} bytes")
        self._latest = self._some(size_bytes)
        return self._latest

    def take(self, member: tarfile.TarInfo) -> bytes:
        """A member's body."""
        self.seek(member.offset_data)
        pieces: list[bytes] = []
        left = member.size
        while left > 0:
            pieces.append(self._some(left))
            left -= len(pieces[-1])
            if not pieces[-1]:
                raise tarfile.ReadError("unexpected end of data")
        return b"".join(pieces)

    def end(self) -> None:
        """Make sure that the archive does not just stop, and that the packing's own checksum is right."""
        if self._latest != _END:
            raise tarfile.ReadError("it stops without an end mark, or has a damaged header")
        while self._unpacked is not self._file and self._some(_PIECE_BYTES):
            pass

    def _some(self, size_bytes: int) -> bytes:
        data = self._unpacked.read(min(size_bytes, _PIECE_BYTES))
        self._at += len(data)
        self._read_bytes += len(data)
        if self._read_bytes > self._archive.options.max_total_bytes:
            raise self._archive.beyond("max_total_bytes")
        if self._read_bytes > max(_SUSPICIOUS_BYTES, self._file.tell() * MAX_RATIO):
            raise tarfile.ReadError(f"it unpacks to more than {MAX_RATIO} times its size, and may be a bomb")
        return data


def _unpacked(file: BinaryIO) -> BinaryIO:
    """The file without its packing, which its first bytes tell."""
    file.seek(0)
    magic = file.read(6)
    file.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    if magic.startswith(b"BZh"):
        return cast("BinaryIO", bz2.BZ2File(file))
    if magic == b"\xfd7zXZ\x00":
        return cast("BinaryIO", lzma.LZMAFile(file))
    return file
