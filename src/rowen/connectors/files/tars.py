"""Tar archives: they have no directory and no checksums, so a changed archive is read from its first byte.

It is read twice: first to check that it is complete and to find the last of several members with one path, then to
read the members. An archive that was read to its end without a failure is recorded in the cursor; while its validator
stays the same, nothing is unpacked.

Headers are limited in size, since `tarfile` trusts them: it recurses for each header that only describes the next
header, searches headers with patterns that take quadratic time (bpo gh-121285, fixed in later releases of Python), and
reads sparse-file maps of any length.
"""

import asyncio
import bz2
import gzip
import lzma
import re
import struct
import tarfile
import zlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, cast

from rowen.connectors.base import Known
from rowen.connectors.files.archives import MAX_RATIO, Archive, inner_path
from rowen.connectors.files.reading import GROUP_BYTES, GROUP_ITEMS, is_earlier_form, renewed
from rowen.errors import ItemError
from rowen.model.files import is_mark
from rowen.model.items import Checkpoint, Complete, Observation, Unchanged

_DAMAGED = (
    tarfile.TarError, zlib.error, lzma.LZMAError, struct.error,
    EOFError, OSError, OverflowError, RecursionError, ValueError,
)  # fmt: skip
_PIECE_BYTES = 1 << 20
# Below this size the ratio is not checked: a small archive of zeros is harmless.
_SUSPICIOUS_BYTES = 16_000_000
_END = bytes(tarfile.BLOCKSIZE)

_DESCRIBING = frozenset(
    {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE}
)
# A real member is preceded by at most a long name, a long link and two headers, each of a few kB.
_MOST_IN_A_ROW = 16
_MOST_HEADER_BYTES = 1 << 16
# Real sizes, times and path segments have fewer digits.
_LONG_NUMBER = re.compile(rb"\d{300}")


async def tar_observations(archive: Archive, known: Known) -> AsyncGenerator[Sequence[Observation], None]:
    """Yield the observations of all selected members; without unpacking if the archive is unchanged."""
    with archive.opened() as (file, etag):
        cursor = {"archive": etag, "options": archive.options.model_dump(mode="json")}
        before = known.cursor.get("archive") if isinstance(known.cursor, dict) else None
        is_earlier = isinstance(before, str) and is_earlier_form(before, etag)
        is_read = known.cursor == ({**cursor, "archive": before} if is_earlier else cursor)
        if is_read and await _has_all(known, before):
            async for batch in known.everything():
                present = [item for item in batch if not item.is_leaving]
                archive.tools.meter.not_modified += len(present)
                yield [Unchanged(item.url, renewed(item, etag) if is_earlier else None) for item in present]
            yield [Checkpoint(cursor), Complete()] if is_earlier else [Complete()]
            return
        members = _TarMembers(archive, file, etag)
        await asyncio.to_thread(members.survey)
        groups = members.groups()
        while group := await asyncio.to_thread(next, groups, None):
            yield group
    done = Complete(generated=members.generated)
    yield [done] if members.failed or etag.endswith("racy") else [Checkpoint(cursor), done]


async def _has_all(known: Known, etag: str | None) -> bool:
    """Return whether all stored items come from this version of the archive and none failed.

    Items whose deletion is pending are ignored.
    """
    if known.failed:
        return False
    has_any = False
    async for batch in known.everything():
        present = [item for item in batch if not item.is_leaving]
        if any(item.etag != etag for item in present):
            return False
        has_any = has_any or bool(present)
    return has_any


class _TarMembers:
    def __init__(self, archive: Archive, file: BinaryIO, etag: str) -> None:
        self.failed = False
        self.generated = 0
        self._archive = archive
        self._file = file
        self._etag = etag
        self._last: dict[str, int] = {}

    def survey(self) -> None:
        """Read the whole archive, and record which members are selected."""
        marks: list[str] = []
        with self._damage_named():
            for number, member, _ in self._walk():
                with suppress(ItemError):
                    path = inner_path(member.name)
                    self._last.pop(path, None)
                    if member.isreg() and self._archive.selection.takes_member(path):
                        self._last[path] = number
                    if is_mark(path.rpartition("/")[2]):
                        marks.append(path)
        built = self._archive.built(marks)
        for path in [path for path in self._last if built.leaves_out(path)]:
            del self._last[path]
            self.generated += 1

    def groups(self) -> Iterator[list[Observation]]:
        """Read the selected members, and yield their observations in groups of limited number and size."""
        group: list[Observation] = []
        meter = self._archive.tools.meter
        start_bytes = meter.bytes
        with self._damage_named():
            for number, member, stream in self._walk():
                try:
                    path = inner_path(member.name)
                    if self._last.get(path) != number:
                        continue
                    if member.size > self._archive.options.max_bytes:
                        self.failed = True
                        group.append(self._archive.too_large(member.name))
                    elif member.issparse():
                        raise ItemError("is a sparse file", hint="Pack the archive without --sparse, or exclude it.")
                    else:
                        group.append(self._archive.fetched(path, stream.take(member), self._etag))
                except ItemError as problem:
                    self.failed = True
                    group.append(self._archive.failed(member.name, problem))
                if len(group) >= GROUP_ITEMS or meter.bytes - start_bytes > GROUP_BYTES:
                    yield group
                    group, start_bytes = [], meter.bytes
        if group:
            yield group

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
                tar.members.clear()  # `tarfile` keeps all members that it read
            stream.end()

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGED as problem:
            raise self._archive.broken(problem) from None


class _Stream:
    """The file that `tarfile` reads: it seeks only forward, and counts the unpacked bytes."""

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
        while self._at < position and self._read(position - self._at):
            pass

    def read(self, size_bytes: int) -> bytes:
        if size_bytes > _PIECE_BYTES:
            raise tarfile.ReadError(f"a header of {size_bytes:,} bytes")
        self._latest = self._read(size_bytes)
        return self._latest

    def take(self, member: tarfile.TarInfo) -> bytes:
        """Return a member's body."""
        self.seek(member.offset_data)
        pieces: list[bytes] = []
        left = member.size
        while left > 0:
            pieces.append(self._read(left))
            left -= len(pieces[-1])
            if not pieces[-1]:
                raise tarfile.ReadError("unexpected end of data")
        return b"".join(pieces)

    def end(self) -> None:
        """Check that the archive has an end mark, and that the checksum of the compression is correct."""
        if self._latest != _END:
            raise tarfile.ReadError("it stops without an end mark, or has a damaged header")
        while self._unpacked is not self._file and self._read(_PIECE_BYTES):
            pass

    def _read(self, size_bytes: int) -> bytes:
        data = self._unpacked.read(min(size_bytes, _PIECE_BYTES))
        self._at += len(data)
        self._read_bytes += len(data)
        if self._read_bytes > self._archive.options.max_total_bytes:
            raise self._archive.beyond("max_total_bytes")
        if self._read_bytes > max(_SUSPICIOUS_BYTES, self._file.tell() * MAX_RATIO):
            raise tarfile.ReadError(f"it unpacks to more than {MAX_RATIO} times its size, and may be a bomb")
        return data


def _unpacked(file: BinaryIO) -> BinaryIO:
    """Return the decompressed file; the first bytes identify the compression."""
    file.seek(0)
    magic = file.read(6)
    file.seek(0)
    for mark, unpack in ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open)):
        if magic.startswith(mark):
            return cast("BinaryIO", unpack(file))
    return file


class MemberHeader(tarfile.TarInfo):
    """A `tarinfo` class for `tarfile.open` that raises `ReadError` if a header exceeds the limits."""

    def _proc_member(self, archive: Any) -> tarfile.TarInfo:
        in_a_row = getattr(archive, "headers_in_a_row", 0) + 1 if self.type in _DESCRIBING else 0
        archive.headers_in_a_row = in_a_row
        if in_a_row > _MOST_IN_A_ROW:
            raise tarfile.ReadError(f"more than {_MOST_IN_A_ROW} headers are chained before one member")
        if in_a_row and self.size > _MOST_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]  # not in the type stubs
        return member

    def _proc_pax(self, archive: Any) -> tarfile.TarInfo:
        header = archive.fileobj.read(self._block(self.size))  # type: ignore[attr-defined]
        if _LONG_NUMBER.search(header):
            raise tarfile.ReadError("a header with a number of hundreds of digits")
        archive.fileobj = _Again(archive, header)
        member: tarfile.TarInfo = super()._proc_pax(archive)  # type: ignore[misc]
        return member

    def _proc_gnusparse_10(self, following: tarfile.TarInfo, _pax: Any, _archive: Any) -> None:
        following.sparse = [(0, 0)]  # type: ignore[assignment]  # sparse files are recognised, and not read


class _Again:
    """A file that returns bytes once more that were already read."""

    def __init__(self, archive: Any, data: bytes) -> None:
        self._archive, self._file, self._data = archive, archive.fileobj, data

    def read(self, _size: int) -> bytes:
        self._archive.fileobj = self._file
        return self._data
