"""Reads the README and the changelog from the archive of a release."""

import gzip
import io
import re
import tarfile
import zlib
from collections.abc import Callable
from typing import BinaryIO, NamedTuple

from rowen.connectors.base import Parse
from rowen.connectors.files.tars import MemberHeader
from rowen.errors import BodyTooLargeError, FetchError, ItemError, SourceError
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.target import redact

# An archive is read completely to find its README and changelog; an archive that unpacks to more is skipped.
MOST_UNPACKED_BYTES = 256 << 20
_ENDING = r"(?:\.(?:md|markdown|rst|txt))?"
_README = re.compile(rf"[^/]+/readme{_ENDING}", re.IGNORECASE).fullmatch
_CHANGELOG = re.compile(
    rf"[^/]+/(?:docs?/)?(?:changelog|changes|history|news|release[-_]?notes|what'?s[-_]?new){_ENDING}", re.IGNORECASE
).fullmatch
_DAMAGED = (tarfile.TarError, zlib.error, EOFError, OSError, RecursionError, ValueError)


class File(NamedTuple):
    """A file of a release."""

    name: str
    body: bytes


class PackageFiles(NamedTuple):
    """The README and the changelog of a release; None for a missing file."""

    readme: File | None = None
    changelog: File | None = None


async def download(
    client: Client, url: str, *, max_bytes: int, credentials: Credentials | None, parse: Parse
) -> PackageFiles:
    """Download an archive and return its files; no files if it is missing, too large, damaged or of another format."""
    try:
        response = await client.get(url, max_bytes=max_bytes, credentials=credentials)
    except BodyTooLargeError:
        return PackageFiles()
    except FetchError as problem:
        if problem.retryable:
            raise
        return PackageFiles()
    if response.status >= 500 or response.status in (408, 425, 429):
        raise SourceError(f"{redact(url)} answered with status {response.status}.")
    try:
        return await parse(unpacked, response.body, max_bytes) if response.ok else PackageFiles()
    except ItemError as problem:
        raise SourceError(f"{redact(url)} cannot be read: {problem}") from None


def unpacked(body: bytes, max_bytes: int) -> PackageFiles:
    """Return the files in the bytes of an archive; no files if it is damaged or unpacks to too much."""
    files: list[File] = []
    try:
        with (
            gzip.GzipFile(fileobj=io.BytesIO(body)) as packed,
            tarfile.open(fileobj=_BoundedStream(packed), mode="r|", tarinfo=MemberHeader) as archive,  # type: ignore[call-overload]  # it only reads
        ):
            for member in archive:
                is_wanted = _README(member.name) or _CHANGELOG(member.name)
                if is_wanted and member.isreg() and not member.issparse() and member.size <= max_bytes:
                    reader = archive.extractfile(member)
                    files.append(File(member.name, reader.read() if reader else b""))
    except _DAMAGED:
        return PackageFiles()
    return PackageFiles(_topmost(files, _README), _topmost(files, _CHANGELOG))


def _topmost(files: list[File], matches: Callable[[str], object]) -> File | None:
    """Return the matching file nearest to the top of the archive; of several there, the first by name."""
    fit = [file for file in files if matches(file.name)]
    best = min(fit, key=lambda file: (file.name.count("/"), file.name.lower()), default=None)
    return best and File(best.name.rpartition("/")[2], best.body)


class _BoundedStream:
    """A file that raises an error when more than `MOST_UNPACKED_BYTES` are read."""

    def __init__(self, file: BinaryIO | gzip.GzipFile) -> None:
        self._file = file
        self._left_bytes = MOST_UNPACKED_BYTES

    def read(self, size: int) -> bytes:
        piece = self._file.read(min(size, self._left_bytes))
        self._left_bytes -= len(piece)
        if not self._left_bytes:
            raise tarfile.ReadError("unpacks to too much")
        return piece
