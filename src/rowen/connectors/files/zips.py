"""Zip archives: their directory has a checksum for each member, so that only members that differ are unpacked."""

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import BinaryIO

from rowen.connectors.base import Known
from rowen.connectors.files.archives import MAX_RATIO, Archive, inner_path
from rowen.connectors.files.reading import Batch, ListedFile, displayed, observe
from rowen.errors import ItemError
from rowen.model.items import Complete, Failed, Observation

_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, NotImplementedError)
# Of the methods that `zipfile` knows only these let the output be bounded.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
# Below that the ratio means nothing: a member of few kB may be all zeros, and do no harm.
_SUSPICIOUS_BYTES = 1_000_000
# Average size of a directory entry: 46 bytes and its name.
_ENTRY_BYTES = 256


async def zip_observations(archive: Archive, known: Known) -> AsyncGenerator[Sequence[Observation], None]:
    """Yield the observations of all selected members, and `Complete` unless one of them is damaged."""
    with archive.opened() as (file, _):
        members = _ZipMembers(archive, file)
        async for observations in observe(members.batches(), known, archive.tools.meter, read=members.read):
            yield observations
    if members.sound:
        yield [Complete(generated=members.generated)]


class _ZipMembers:
    """The directory of a zip; `sound` turns false when a member proves to be damaged.

    `generated` counts members that a documentation generator wrote for itself, and that are left out.
    """

    def __init__(self, archive: Archive, file: BinaryIO) -> None:
        self.sound = True
        self.generated = 0
        self._archive = archive
        self._file = file
        self._by_url: dict[str, zipfile.ZipInfo] = {}

    def batches(self) -> Iterator[Batch]:
        """Yield the members in the directory; of members with one path the last one counts."""
        archive = self._archive
        options = archive.options
        bounded = _BoundedFile(self._file, options.max_members * _ENTRY_BYTES)
        try:
            self._zip = zipfile.ZipFile(bounded)
        except _DAMAGED as problem:
            raise archive.broken(problem) from None
        bounded.limit_bytes = None
        members = self._zip.infolist()
        if len(members) > options.max_members:
            raise archive.beyond("max_members")
        batch = Batch()
        selected = self._select(members, batch)
        if sum(i.file_size for i in selected.values() if i.file_size <= options.max_bytes) > options.max_total_bytes:
            raise archive.beyond("max_total_bytes")
        for url, info in selected.items():
            if info.file_size > options.max_bytes:
                batch.failed.append(archive.too_large(info.filename))
                continue
            try:
                if info.flag_bits & _ENCRYPTED:
                    raise ItemError("is encrypted", hint="Rowen has no password: unpack the archive, or exclude it.")
                if info.compress_type not in _METHODS:
                    raise ItemError(
                        "is packed by an unsupported method", hint="Pack the archive with the method deflate."
                    )
                if info.file_size > max(_SUSPICIOUS_BYTES, info.compress_size * MAX_RATIO):
                    message = f"unpacks to more than {MAX_RATIO} times its size"
                    raise ItemError(message, hint="It may be a bomb; exclude it.")
                batch.add(url, f"{info.CRC:08x}-{info.file_size:x}", info.file_size)
                self._by_url[url] = info
            except ItemError as problem:
                batch.failed.append(self._failed(url, info, problem))
            if batch.full:
                yield batch
                batch = Batch()
        yield batch

    def _select(self, members: Sequence[zipfile.ZipInfo], batch: Batch) -> dict[str, zipfile.ZipInfo]:
        selected: dict[str, zipfile.ZipInfo] = {}
        built = self._archive.built(info.filename for info in members)
        for info in members:
            try:
                path = inner_path(info.filename)
            except ItemError as problem:
                batch.failed.append(self._failed(self._archive.url_of(info.filename), info, problem))
                continue
            url = self._archive.url_of(path)
            # Neither a folder nor, if a Unix system packed it, a link or a device.
            mode = stat.S_IFMT(info.external_attr >> 16)
            is_file = not info.filename.endswith(("/", "\\")) and mode in (0, stat.S_IFREG)
            if not (is_file and self._archive.selection.takes_member(path)):
                selected.pop(url, None)
            elif built.leaves_out(path):
                self.generated += 1
            else:
                selected[url] = info
        return selected

    def read(self, file: ListedFile) -> Observation:
        """Unpack one member."""
        info = self._by_url[file.url]
        try:
            with self._zip.open(info) as member:
                body = member.read(info.file_size + 1)
            if len(body) != info.file_size:
                raise zipfile.BadZipFile("its size is not the one in the directory")
        except _DAMAGED as problem:
            self.sound = False
            return self._failed(file.url, info, ItemError(f"is damaged: {problem}"))
        return self._archive.fetched(inner_path(info.filename), body, file.etag)

    def _failed(self, url: str, info: zipfile.ZipInfo, problem: ItemError) -> Failed:
        return Failed(url, f"{info.filename} in {displayed(self._archive.path)} {problem}.", hint=problem.hint)


class _BoundedFile(io.BufferedReader):
    """A file that is not read in larger pieces than allowed: the directory of a zip is read in one."""

    def __init__(self, file: BinaryIO, limit_bytes: int) -> None:
        super().__init__(io.FileIO(file.fileno(), closefd=False))
        self.limit_bytes: int | None = limit_bytes

    def read(self, size: int | None = -1) -> bytes:
        if self.limit_bytes is not None and size is not None and size > self.limit_bytes:
            raise zipfile.BadZipFile("its directory is larger than max_members allows")
        return super().read(size)
