"""Archives, read in memory without unpacking to disk; paths and sizes in an archive are never trusted.

The directory of a zip archive has a checksum for each member, so that only changed members are unpacked.
"""

import io
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from rowen.connectors.base import Known, Tools
from rowen.connectors.files.options import FilesOptions, Selection
from rowen.connectors.files.reading import Batch, ListedFile, displayed, etag_of, fetched, observe, racy, too_large
from rowen.connectors.opening import open_file
from rowen.errors import ItemError, SourceError
from rowen.model.files import Built
from rowen.model.items import Complete, Failed, Fetched, Observation
from rowen.model.url import file_url

MAX_RATIO = 300
"""Maximum ratio of unpacked to packed size: text seldom exceeds 20:1, zip bombs reach 1000:1."""

_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_DRIVE = re.compile(r"[A-Za-z]:")


def is_zip(name: str) -> bool:
    """Return whether a file name is that of a zip archive."""
    return name.lower().endswith(".zip")


def is_tar(name: str) -> bool:
    """Return whether a file name is that of a tar archive, compressed or not."""
    return name.lower().endswith(_TAR)


def inner_path(name: str) -> str:
    """Return the path of a member inside its archive; raise `ItemError` if the path leads out of the archive."""
    path = name.replace("\\", "/")
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or _DRIVE.match(path):
        raise ItemError("leads out of the archive", hint="It is not read. Make the archive with relative paths.")
    return "/".join(part for part in parts if part not in ("", "."))


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive file and the options for reading it."""

    path: str
    url: str
    options: FilesOptions
    selection: Selection
    tools: Tools

    @contextmanager
    def opened(self) -> Iterator[tuple[BinaryIO, str]]:
        """Open the archive and yield it with its validator; raise `SourceError` if that fails or the file changes."""
        try:
            descriptor = open_file(self.path, follow=True)
        except OSError as problem:
            raise self.broken(problem.strerror) from None
        if descriptor is None:
            raise self.broken("it is no file")
        with os.fdopen(descriptor, "rb") as file:
            before = os.fstat(file.fileno())
            yield file, etag_of(before) + ("-racy" if racy(before, self.tools.now()) else "")
            if etag_of(os.fstat(file.fileno())) != etag_of(before):
                raise self.broken("it changed meanwhile")

    def built(self, paths: Iterable[str]) -> Built:
        """Return a detector of generated documentation folders; it detects nothing if the option `generated` is set."""
        return Built(() if self.options.generated else paths)

    def broken(self, why: object) -> SourceError:
        """Return the error for an archive that cannot be read as a whole."""
        return SourceError(
            f"{displayed(self.path)} could not be read as a whole: {why}.",
            hint="Check that the archive is complete, and that no program is writing to it.",
        )

    def beyond(self, option: str) -> SourceError:
        """Return the error for an archive that exceeds the limit of an option."""
        limit = getattr(self.options, option)
        return SourceError(
            f"{displayed(self.path)} has more in it than {option} allows ({limit:,}).",
            hint=f"If the archive is sound, raise the option {option}.",
        )

    def url_of(self, path: str) -> str:
        """Return the URL of a member."""
        return f"{self.url}!{file_url(b'/' + path.encode('utf-8', 'surrogateescape')).removeprefix('file://')}"

    def too_large(self, name: str) -> Failed:
        """Return the observation of a member that is not read because it is too large."""
        return too_large(self.url_of(name), f"{name} in {self.path}", self.options.max_bytes)

    def failed(self, name: str, problem: ItemError) -> Failed:
        """Return the observation of a member that cannot be read."""
        message = f"{displayed(name)} in {displayed(self.path)} {problem}."
        return Failed(self.url_of(name), message, hint=problem.hint)

    def fetched(self, path: str, body: bytes, etag: str) -> Fetched:
        """Return the observation of a member that was read."""
        self.tools.meter.bytes += len(body)
        return fetched(self.url_of(path), path, body, etag=etag, language=self.options.language)


_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, NotImplementedError)
# `zipfile` can limit the output only for these methods.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
# Below this size the ratio is not checked: a small member of zeros is harmless.
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
    """The directory of a zip; `sound` is false once a member is damaged, `generated` counts omitted generated files."""

    def __init__(self, archive: Archive, file: BinaryIO) -> None:
        self.sound = True
        self.generated = 0
        self._archive = archive
        self._file = file
        self._by_url: dict[str, zipfile.ZipInfo] = {}

    def batches(self) -> Iterator[Batch]:
        """Yield the selected members in the directory; of several members with one path, only the last."""
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
            # Exclude folders and, in archives from Unix systems, links and devices.
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
    """A file that refuses to read more than `limit_bytes` at once; `zipfile` reads the whole directory at once."""

    def __init__(self, file: BinaryIO, limit_bytes: int) -> None:
        super().__init__(io.FileIO(file.fileno(), closefd=False))
        self.limit_bytes: int | None = limit_bytes

    def read(self, size: int | None = -1) -> bytes:
        if self.limit_bytes is not None and size is not None and size > self.limit_bytes:
            raise zipfile.BadZipFile("its directory is larger than max_members allows")
        return super().read(size)
