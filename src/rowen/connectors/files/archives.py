"""Archives, read without unpacking them to the disk; no path, size or promise in them is trusted."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from rowen.connectors.base import Tools
from rowen.connectors.files.options import FilesOptions, Selection
from rowen.connectors.files.reading import displayed, etag_of, fetched, racy, too_large
from rowen.connectors.opening import open_file
from rowen.errors import ItemError, SourceError
from rowen.model.files import Built
from rowen.model.items import Failed, Fetched
from rowen.model.url import file_url

MAX_RATIO = 300
"""Largest ratio of unpacked and packed size: text seldom packs better than 1:20, bombs are at 1:1000."""

_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_DRIVE = re.compile(r"[A-Za-z]:")


def is_zip(name: str) -> bool:
    """Return whether a file name stands for a zip archive."""
    return name.lower().endswith(".zip")


def is_tar(name: str) -> bool:
    """Return whether a file name stands for a tar archive, packed or not."""
    return name.lower().endswith(_TAR)


def inner_path(name: str) -> str:
    """Return the path of a member inside its archive; raise `ItemError` for one that would lead out of it."""
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
        """Open the file with its validator; raise `SourceError` if it cannot be opened, or changes while it is open."""
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
        """Return the folders that a documentation generator has written, unless its own files are wanted."""
        return Built(() if self.options.generated else paths)

    def broken(self, why: object) -> SourceError:
        """Return the error for an archive that cannot be trusted as a whole."""
        return SourceError(
            f"{displayed(self.path)} could not be read as a whole: {why}.",
            hint="Check that the archive is complete, and that no program is writing to it.",
        )

    def beyond(self, option: str) -> SourceError:
        """Return the error for an archive with more in it than an option allows."""
        limit = getattr(self.options, option)
        return SourceError(
            f"{displayed(self.path)} has more in it than {option} allows ({limit:,}).",
            hint=f"If the archive is sound, raise the option {option}.",
        )

    def url_of(self, path: str) -> str:
        """Return the URL of a member."""
        return f"{self.url}!{file_url(b'/' + path.encode('utf-8', 'surrogateescape')).removeprefix('file://')}"

    def too_large(self, name: str) -> Failed:
        """Return the observation of a member that is not read because of its size."""
        return too_large(self.url_of(name), f"{name} in {self.path}", self.options.max_bytes)

    def failed(self, name: str, problem: ItemError) -> Failed:
        """Return the observation of a member that cannot be read."""
        message = f"{displayed(name)} in {displayed(self.path)} {problem}."
        return Failed(self.url_of(name), message, hint=problem.hint)

    def fetched(self, path: str, body: bytes, etag: str) -> Fetched:
        """Return the observation of a member that was read."""
        self.tools.meter.bytes += len(body)
        return fetched(self.url_of(path), path, body, etag=etag, language=self.options.language)
